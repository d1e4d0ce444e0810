"""``qarena sql`` and ``openings``: questions to an archive."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, FormatOption, OutputOption, rules_options


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(sql)
    app.command()(openings)


def sql(
    question: Annotated[
        str,
        typer.Argument(
            help="One SELECT over the views runs, games, plies, decisions, positions, sweeps, verdicts; - reads stdin."
        ),
    ],
    archive: ArchiveOption = ARCHIVE,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    memory: Annotated[
        str, typer.Option("--memory", help="What DuckDB may take before it spills to the disk: 1GiB, 70%.")
    ] = "70%",
) -> None:
    """Ask the archive a question in SQL (DuckDB's dialect, read-only)."""
    from runners.archive.index import ask
    from runners.terminal.tables import form_of, write

    form = form_of(format.value if format else None, output)  # before the question is asked
    frame = ask(archive, sys.stdin.read() if question == "-" else question, memory)
    write(frame, form, output)


def openings(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    position: Annotated[
        str,
        typer.Argument(help="Four rows and a hand, '...F/.3../..../.... 7', - for no hand, then rules if not classic."),
    ] = "..../..../..../.... -",
    archive: ArchiveOption = ARCHIVE,
    by: Annotated[
        str | None,
        typer.Option(help="gift, placement or turn (cell and gift). Default: what is decided next, and turns."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only what the agent with this label decided.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only games of this run; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="Only runs created on this day (2026-01-31) or later, UTC.")] = None,
    until: Annotated[str | None, typer.Option(help="Only runs created on this day or earlier.")] = None,
    least: Annotated[int, typer.Option(min=1, help="Only what was played at least so often.")] = 1,
    rules: Annotated[
        str | None, typer.Option(help="As after the position. Default: classic.", autocompletion=rules_options)
    ] = None,
    imposed: Annotated[bool, typer.Option("--imposed", help="Count imposed plies, too: nobody chose them.")] = False,
    format: Annotated[  # noqa: A002
        str | None, typer.Option("--format", help="table, csv, json, parquet. Default: by the name of --output.")
    ] = None,
    output: OutputOption = None,
) -> None:
    """What was played in a position and how it went, up to symmetry: gifts, placements, turns, each with a sample."""
    from analytics.query.openings import Filters
    from runners.archive.openings import show_openings, text_of

    filters = Filters(agent, tuple(run or ()), since, until, least, imposed)
    show_openings(archive, text_of(position, rules), by, filters, (format, output))
