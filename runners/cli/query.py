"""``qarena sql``, ``openings``, ``show`` and ``report``: questions to an archive, and a page about its games."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli import options


def sql(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    question: Annotated[
        str,
        typer.Argument(help="One SELECT over views such as games, plies, seats, runs; - reads standard input."),
    ],
    archive: options.Archive = options.ARCHIVE,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
    memory: Annotated[
        str, typer.Option("--memory", help="Memory that DuckDB uses before it spills to the disk: 1GiB, 70%.")
    ] = "70%",
    spill: Annotated[
        str | None, typer.Option("--spill", help="The most that it spills: 10GiB. Default: 90% of what is free.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Give up after this time. Default: never.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare files with their checksums, once per machine.")
    ] = True,
) -> None:
    """Ask the archive a question in SQL.

    The dialect is DuckDB's. Nothing can be written. docs/sql.md lists all views and macros.
    """
    from analytics.sql.limits import Limits
    from runners.archive.index import answer
    from runners.terminal.tables import output_of

    limits = Limits(memory, spill, timeout)
    destination = output_of(form, output, force, wide)  # before the question is asked
    answer(archive, sys.stdin.read() if question == "-" else question, limits, destination, check)


def openings(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    position: Annotated[
        str,
        typer.Argument(help="Four rows and a hand, '...F/.3../..../.... 7', - for no hand, then rules if not classic."),
    ] = "..../..../..../.... -",
    archive: options.Archive = options.ARCHIVE,
    by: Annotated[
        str | None, typer.Option(help="gift, placement or turn (cell and gift). Default: the next decision, and turns.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only decisions of the agent with this label.")] = None,
    opponent: Annotated[str | None, typer.Option(help="Only decisions against the agent with this label.")] = None,
    run: options.Runs = None,
    since: Annotated[str | None, typer.Option(help="Only runs created on this day (2026-01-31) or later, UTC.")] = None,
    until: Annotated[str | None, typer.Option(help="Only runs created on this day or earlier.")] = None,
    least: Annotated[int, typer.Option(min=1, help="Only decisions that were made at least this many times.")] = 1,
    rules: Annotated[
        str | None, options.rules("Rules of the position, if it does not name them. Default: classic.")
    ] = None,
    sort: Annotated[
        str, typer.Option(help="games (most first), score (lowest first) or losses (most first).")
    ] = "games",
    imposed: Annotated[bool, typer.Option("--imposed", help="Also count imposed plies, which no agent chose.")] = False,
    form: options.Format = None,
    output: options.Output = None,
    wide: options.Wide = False,
    force: options.Force = False,
) -> None:
    """Show what was played in a position, and the results.

    Counts gifts, placements or turns, up to symmetry, each with a sample game.
    """
    from analytics.query.game_filter import GameFilter
    from analytics.query.openings import OpeningsQuery
    from runners.archive.openings import show_openings, text_of
    from runners.terminal.tables import output_of

    games = GameFilter(runs=tuple(run or ()), agent=agent, opponent=opponent, since=since, until=until)
    asked = OpeningsQuery(text_of(position, rules), by, games, least, imposed, sort)
    show_openings(archive, asked, output_of(form, output, force, wide))


def show(
    game: Annotated[list[str], typer.Argument(metavar="GAME", help="The run and the game's id, as tables print them.")],
    archive: options.Archive = options.ARCHIVE,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run, if GAME is the id alone.")] = None,
    json: options.Json = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Also write a picture of the boards.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Show one game, board by board.

    Each ply has its exact values if the game is annotated (`qarena annotate`).
    """
    from runners.browse.show import show_game
    from runners.terminal.files import check_output

    for file in filter(None, (json, svg)):
        check_output(file, force)
    show_game(archive, " ".join(game), run, json, svg)


def report(
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    runs: options.Runs = None,
    output: Annotated[Path, typer.Option("--output", help="The file to write.")] = Path("report.html"),
    force: options.Force = False,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
) -> None:
    """Write an HTML report about the games.

    Results, ratings, openings, lengths, learning and mistakes, as one page that needs no network.
    """
    from runners.archive.report import write_report
    from runners.terminal.files import check_output

    check_output(output, force)  # before any game is read
    write_report(archive, where, runs or [], output, title)
