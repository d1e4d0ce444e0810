"""`qarena report`: write the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analytics import open_archive
from analytics.query.mistakes import among
from analytics.report import style
from analytics.report.page import report
from analytics.store.archive import Archive, chosen_runs
from runners.terminal import console
from runners.terminal.files import check_writable, write_file


def write_report(root: Path, where: str | None, wanted: Sequence[str], output: Path, title: str | None) -> None:
    """Write the page about the games of the ``wanted`` runs (none: all) that meet the condition ``where``.

    Raises ``RequestError`` for an unknown run, a wrong condition or one that no game meets, and without the extra
    ``plots``; ``FailureError`` if the file cannot be written.
    """
    style.altair()  # fails now rather than after the games are read, as does the next line
    check_writable(output)
    condition = where
    if wanted:
        runs = among(chosen_runs(Archive.open(root), wanted))
        condition = runs if where is None else f"{runs} AND (\n{where}\n)"
    with open_archive(root) as opened:
        page = report(opened, condition, title)
    content = page.encode()
    write_file(output, content)
    console.print_line(f"{output}: {len(content):,} bytes; open it in a browser.")
