"""Write a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analytics import open_archive
from analytics.query.mistakes import among
from analytics.report import style
from analytics.report.page import report
from analytics.store.archive import Archive, chosen_runs
from quarto.errors import FailureError
from runners.terminal import console


def write_report(root: Path, where: str | None, run_ids: Sequence[str], output: Path, title: str | None) -> None:
    """Write the page about the games of these runs (none: all runs) that meet a condition.

    Raises ``RequestError`` for an unknown run, for an invalid condition or one that no game meets, and without the
    extra ``plots``; ``FailureError`` when the file cannot be written.
    """
    style.altair()  # this and the next line fail early, before any file is read
    check_place(output)
    condition = where
    if run_ids:
        runs = among(chosen_runs(Archive.open(root), run_ids))
        condition = runs if where is None else f"{runs} AND (\n{where}\n)"
    with open_archive(root) as opened:
        page = report(opened, condition, title)
    content = page.encode()
    write_file(output, content)
    console.out().print(f"{output}: {len(content):,} bytes, open it in any browser.", markup=False, soft_wrap=True)


def check_place(path: Path) -> None:
    """Raise ``FailureError`` for a path that is a folder, or in a folder that does not exist."""
    reason = "it is a folder" if path.is_dir() else None if path.parent.is_dir() else "its folder does not exist"
    if reason:
        raise FailureError(f"cannot write {path}: {reason}; name a file in a folder that exists")


def write_file(path: Path, content: bytes) -> None:
    """Write a file. Raises ``FailureError`` when that is not possible."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
