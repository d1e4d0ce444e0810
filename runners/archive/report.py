"""`qarena report`: write the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from analytics import open_archive
from analytics.report.page import report
from analytics.sql.syntax import both
from analytics.sql.views import among
from analytics.store.archive import Archive, chosen_runs
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import write_file


def write_report(root: PurePath, where: str | None, run_ids: Sequence[str], output: Path, title: str | None) -> None:
    """Write the page about the games of these runs (none: all runs) that meet a condition.

    Raises ``RequestError`` for an unknown run and for an invalid condition or one that no game meets,
    ``FailureError`` when the file cannot be written.
    """
    archive = Archive.open(root)
    runs = among(chosen_runs(archive, run_ids)) if run_ids else None
    with open_archive(root) as opened, progress_bar("writing the report", "games"):
        condition = both(opened.sql, runs, where) if runs and where is not None else runs or where
        page = report(opened, condition, title, run_ids)
    content = page.encode()
    write_file(output, content)
    console.print_line(f"{output}: {len(content):,} bytes; open it in a browser.")
