"""``qarena report``: an HTML page about the games of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, RunsOption, WhereOption


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(report)


def report(
    archive: ArchiveOption = ARCHIVE,
    where: WhereOption = None,
    runs: RunsOption = None,
    output: Annotated[Path, typer.Option("--output", help="The file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
) -> None:
    """Write an HTML page about the games: results, ratings, openings, lengths, learning, mistakes (extra plots)."""
    from runners.archive.report import write_report

    write_report(archive, where, runs or [], output, title)
