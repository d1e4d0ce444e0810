"""``qarena sql``, ``crosstable``, ``rate``, ``openings``, ``show`` and ``report``: questions to an archive."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli import options

if TYPE_CHECKING:
    from analytics.query.game_filter import GameFilter
    from analytics.ratings.head_to_head import HeadToHead

TrainingsOption = Annotated[
    bool, typer.Option("--trainings", help="Also games of trainings, which are left out unless --run names them.")
]
RulesName = Annotated[str | None, options.rules("Only games under these rules; needed if there are several.")]


@options.with_table
def sql(
    table: options.Table,
    question: Annotated[
        str, typer.Argument(help="One SELECT over views such as games, plies, seats, runs; - reads standard input.")
    ],
    archive: options.Archive = options.ARCHIVE,
    memory: Annotated[
        str, typer.Option(help="Memory that DuckDB uses before it spills to the disk: 1GiB, 70%.")
    ] = "70%",
    spill: Annotated[
        str | None, typer.Option(help="The most that it spills: 10GiB. Default: 90% of what is free.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Give up after this time. Default: never.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare files with their checksums, once per machine.")
    ] = True,
) -> None:
    """Ask the archive a question in SQL.

    The dialect is DuckDB's. Nothing can be written. docs/sql.md lists all views and macros.
    """
    from analytics.sql.answers import Limits
    from runners.archive.index import answer

    limits = Limits(memory, spill, timeout)
    answer(archive, sys.stdin.read() if question == "-" else question, limits, table, check)


@options.with_table
def rate(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    table: options.Table,
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    run: options.Runs = None,
    rules: RulesName = None,
    trainings: TrainingsOption = False,
    anchor: Annotated[str | None, typer.Option(metavar="AGENT", help="The agent that ratings are relative to.")] = None,
    anchor_elo: Annotated[
        float, typer.Option(help="The rating of the anchor; without an anchor, the mean of all.")
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=0, max=100_000, help="Number of bootstrap samples.")] = 200,
) -> None:
    """Rate all agents in one fit: Elo with intervals.

    Also the probability of being above the next agent, and the value of the first seat.
    """
    from analytics.query.game_filter import GameFilter
    from analytics.ratings.ratings import rate as fit
    from runners.terminal.console import print_note
    from runners.terminal.results import show_ratings, unrated
    from runners.terminal.tables import write

    met = _met(archive, GameFilter(where, tuple(run or ()), rules, trainings=trainings))
    found = fit(met.tallies, anchor, anchor_elo, samples=samples, shared=met.shared)
    if table.is_printed:
        show_ratings(met, found, anchor, anchor_elo, table.wide)
    else:
        write(found.frame(), table)
        for line in unrated(found):
            print_note(line)


@options.with_table
def crosstable(
    table: options.Table,
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    run: options.Runs = None,
    rules: RulesName = None,
    trainings: TrainingsOption = False,
    by_seat: Annotated[
        bool, typer.Option("--by-seat", help="Separate results for each seat of the first agent.")
    ] = False,
) -> None:
    """Show the score of every agent against every other.

    With wins, draws and losses, and 95 % intervals.
    """
    from analytics.query.game_filter import GameFilter
    from runners.terminal.results import show_head_to_head
    from runners.terminal.tables import write

    met = _met(archive, GameFilter(where, tuple(run or ()), rules, trainings=trainings))
    if table.is_printed:
        show_head_to_head(met, by_seat, table.wide)
    else:
        write(met.frame(by_seat), table)


def _met(archive: PurePath, choice: GameFilter) -> HeadToHead:
    from analytics import open_archive
    from analytics.ratings.head_to_head import head_to_head
    from runners.terminal.console import print_note

    with open_archive(archive) as opened:
        met = head_to_head(opened, choice)
    for note in met.notes:
        print_note(note)
    return met


@options.with_table
def openings(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    table: options.Table,
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
) -> None:
    """Show what was played in a position, and the results.

    Counts gifts, placements or turns, up to symmetry, each with a sample game.
    """
    from analytics.query.game_filter import GameFilter
    from analytics.query.openings import OpeningsQuery
    from runners.archive.openings import show_openings, text_of

    games = GameFilter(runs=tuple(run or ()), agent=agent, opponent=opponent, since=since, until=until)
    asked = OpeningsQuery(text_of(position, rules), by, games, least, imposed, sort)
    show_openings(archive, asked, table)


def show(
    game: Annotated[list[str], typer.Argument(metavar="GAME", help="The run and the game's id, as tables print them.")],
    archive: options.Archive = options.ARCHIVE,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="The run, if GAME is the id alone.")] = None,
    json: options.Json = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a picture of the boards.")] = None,
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
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    force: options.Force = False,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Write an HTML report about the games.

    Results, ratings, openings, lengths, learning and mistakes, as one page that needs no network.
    """
    from runners.archive.report import write_report
    from runners.terminal.files import check_output

    check_output(output, force)  # before any game is read
    write_report(archive, where, runs or [], output, title)
