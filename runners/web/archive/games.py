"""Lists of the logged games that match filters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import Table, imposed_plies_columns, link_column, number_column, text_column
from analytics.questions.logged_games import describe_winner
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from quarto.errors import FailureError, RequestError
from quarto.rules import NONE
from runners.web.archive import urls
from runners.web.archive.runs import RunRow, find_run_record, select_runs

MAX_SEARCHED_RUNS = 20  # the newest runs, because each run means reading at least one file
ROWS_PER_PAGE = 50
RESULTS = ("won", "drawn", "lost")
ORDERS = ("logged", "shortest", "longest")


class GamesPage(NamedTuple):
    """One page of the list of games."""

    table: Table
    total: int  # games that match the filters, in the searched runs
    searched: int  # number of runs
    matching: int  # number of runs that may hold such games
    damaged: tuple[str, ...] = ()  # a line for each run with a damaged file, which was left out


NO_GAMES = GamesPage(Table("Games"), 0, 0, 0)


def list_games_page_of_newest_runs(
    opened: OpenArchive,
    run_rows: Sequence[RunRow],
    game_filter: GameFilter,
    result: str = "",
    order: str = ORDERS[0],
    page: int = 1,
) -> GamesPage:
    """Return one page of the games that match the filters, with the games of the newest runs first.

    Only the newest runs that may hold such games are searched. ``run_rows`` are all runs, with the newest first.
    ``result`` is one of ``RESULTS``, as seen by the agent that the filter names; without such an agent, only ``drawn``
    has an effect. Raises ``RequestError`` for an unknown run, result or order.
    """
    for run_id in game_filter.runs:
        find_run_record(opened, run_id)  # raises if there is no such run
    if result not in ("", *RESULTS) or order not in ORDERS:
        raise RequestError(f"a result is one of {', '.join(RESULTS)}, an order one of {', '.join(ORDERS)}")
    runs = [row for row in select_runs(run_rows, game_filter) if row.games]
    searched, damaged = _scan_readable_games(opened, runs[:MAX_SEARCHED_RUNS])
    if not searched:
        return NO_GAMES._replace(damaged=damaged)
    games = pl.concat(searched).with_columns(pl.col("agent_0", "agent_1", "ending").cast(pl.String))
    games = games.filter(_build_condition(game_filter, result))
    if order != ORDERS[0]:
        games = games.sort("plies", descending=order == "longest", maintain_order=True)
    first = ROWS_PER_PAGE * (max(1, page) - 1)
    total, page_rows = pl.collect_all([games.select(pl.len()), games.slice(first, ROWS_PER_PAGE)])
    return GamesPage(_build_games_table(page_rows), int(total.item()), len(searched), len(runs), damaged)


def _scan_readable_games(opened: OpenArchive, runs: Sequence[RunRow]) -> tuple[list[pl.LazyFrame], tuple[str, ...]]:
    """Scan the games of all runs whose files can be read; return the frames, and a line about each damaged run."""
    frames, damaged = [], []
    for row in runs:
        try:
            opened.retry_if_file_missing(partial(opened.files.list_and_check_files, "games", row.run_id))
            frames.append(opened.scan("games", row.run_id))
        except FailureError as error:
            damaged.append(error.for_command_line)
    return frames, tuple(damaged)


def _build_condition(game_filter: GameFilter, result: str) -> pl.Expr:
    agent_0, agent_1, winner = pl.col("agent_0"), pl.col("agent_1"), pl.col("winner")
    conditions: list[pl.Expr] = []
    for seat, (agent, opponent) in enumerate(((agent_0, agent_1), (agent_1, agent_0))):
        condition = pl.lit(value=True)
        if game_filter.agent:
            condition &= agent == game_filter.agent
        if game_filter.opponent:
            condition &= opponent == game_filter.opponent
        if result == "drawn":
            condition &= winner == NONE
        elif result and game_filter.agent:
            condition &= winner == (seat if result == "won" else 1 - seat)
        conditions.append(condition)
    return conditions[0] | conditions[1]


def _build_games_table(page: pl.DataFrame) -> Table:
    agents = page.select("agent_0", "agent_1").rows()
    columns = [
        text_column("game", [urls.build_game_cell(*ids) for ids in page.select("run_id", "game_id").rows()]),
        link_column("gives first", page["agent_0"], map(urls.agent_url, page["agent_0"])),
        link_column("places first", page["agent_1"], map(urls.agent_url, page["agent_1"])),
        text_column("winner", [describe_winner(*outcome) for outcome in zip(page["winner"], agents, strict=True)]),
        number_column("plies", page["plies"]),
        text_column("ending", map(format_ending, page["ending"])),
        *imposed_plies_columns(page["opening"]),
    ]
    return Table("Games", columns)


def format_ending(ending: str) -> str:
    """Format the ending of a game for people, such as ``full board`` or ``forfeit: resigned``."""
    return ending.replace("forfeit_", "forfeit: ").replace("_", " ")


class NeighbourIds(NamedTuple):
    """The ids of the previous and the next game in the same run; None if there is no such game."""

    before: int | None
    after: int | None


def find_neighbour_ids(opened: OpenArchive, run_id: str, game_id: int) -> NeighbourIds:
    """Return the ids of the previous and the next game in the same run.

    An id is None if there is no such game.
    """
    ids = opened.scan("games", run_id).select(
        before=pl.col("game_id").filter(pl.col("game_id") < game_id).max(),
        after=pl.col("game_id").filter(pl.col("game_id") > game_id).min(),
    )
    return NeighbourIds(*ids.collect().row(0))
