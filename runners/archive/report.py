"""Writing a report, and saying where it is."""

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


def write_report(root: Path, where: str | None, wanted: Sequence[str], output: Path, title: str | None) -> None:
    """Write the page about the games of these runs (none: all) that meet a condition.

    Raises ``RequestError`` for a run that is not there, for a condition that is none or that no game meets, and without
    the extra ``plots``; ``FailureError`` when the file cannot be written.
    """
    style.altair()  # this and the next before anything is read
    check_place(output)
    condition = where
    if wanted:
        runs = among(chosen_runs(Archive.open(root), wanted))
        condition = runs if where is None else f"{runs} AND (\n{where}\n)"
    with open_archive(root) as opened:
        page = report(opened, condition, title)
    content = page.encode()
    write_file(output, content)
    console.out().print(f"{output}: {len(content):,} bytes, to be opened in any browser.", markup=False, soft_wrap=True)


def check_place(path: Path) -> None:
    """Raises ``FailureError`` for a file that cannot be written as far as can be seen now."""
    reason = "it is a folder" if path.is_dir() else None if path.parent.is_dir() else "its folder is not there"
    if reason:
        raise FailureError(f"cannot write {path}: {reason}; name a file in a folder that exists")


def write_file(path: Path, content: bytes) -> None:
    """Raises ``FailureError`` when it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
