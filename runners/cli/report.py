"""``qarena report``: one page about the games of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(report)


def report(
    archive: ArchiveOption = ARCHIVE,
    where: Annotated[
        str | None, typer.Option("--where", metavar="COND", help="Only games that meet this condition in SQL.")
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--run", metavar="RUN", help="Only this run; may be repeated.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", help="The file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Of the page.")] = None,
) -> None:
    """Write one page that needs no network: who wins, ratings, openings, lengths, learning, mistakes (extra plots)."""
    from runners.archive.report import write_report

    write_report(archive, where, runs or [], output, title)
