"""The opening explorer: the decisions made in a position, up to symmetry, with their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from analytics.questions.columns import Cell, Table, opening_columns, text_column
from analytics.questions.openings import (
    ChoiceResult,
    OpeningsQuery,
    OpeningsResult,
    is_start_of_game,
    parse_openings_query,
    run_openings_query,
    sum_equivalent_choices,
)
from analytics.questions.sql.database import OpenArchive
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.definitions import POSITIONS_TABLE, is_ply_within_extent
from quarto.errors import ArenaError, FailureError, RequestError
from quarto.notation import parse_piece
from quarto.position import PackedPosition
from quarto.rules import NONE
from runners.web.archive import urls

MAX_REPLAYED_GAMES = 2_000_000  # replaying so many games without an index takes a second or two
MAX_ROWS = 60
DECIDERS = {"gift": "the giver", "placement": "the mover", "turn": "the mover"}
DECISION_COLUMNS = ("position", "piece", "cell", "gift")
BRIEF_COLUMNS = 4  # columns after the decision in a brief table


class ExplorerResult(NamedTuple):
    """The decisions made in a position, or the reason why none can be shown."""

    explored: OpeningsResult | None
    results: Sequence[ChoiceResult]  # of cells or pieces, one for each group of equivalent ones
    missing: str = ""  # reason for which there is nothing to show
    damaged: bool = False  # the reason is a damaged file


def build_empty_result(reason: str) -> ExplorerResult:
    """Build a result without decisions, in which ``reason`` says why there are none."""
    return ExplorerResult(None, (), reason)


def explore_position_if_readable(opened: OpenArchive, query: OpeningsQuery) -> ExplorerResult:
    """Find the decisions that were made in a position in archived games.

    If the archive cannot be read, the result is empty and gives the reason. Raises ``RequestError`` if the text is not
    an unfinished position, if a filter is unknown, and if too many games would have to be replayed.
    """
    position, _, records = parse_openings_query(opened.archive, query)
    _check_replay_is_short(opened, records, query, position)
    try:
        explored = run_openings_query(opened, query, with_samples=False)
    except ArenaError as error:  # the board is shown even if the archive is unreadable
        return build_empty_result(error.for_command_line)._replace(damaged=isinstance(error, FailureError))
    return ExplorerResult(explored, sum_equivalent_choices(explored))


def _check_replay_is_short(
    opened: OpenArchive, records: list[RunRecord], query: OpeningsQuery, position: PackedPosition
) -> None:
    """Raise ``RequestError`` if the query would have to replay too many games because they are not indexed."""
    later = query.first_free is not False and not query.imposed and is_start_of_game(position)
    later = later and (query.first_free or all(record.spec["opening_plies"] for record in records))
    games = deepest = 0
    for record in records:
        ply = record.spec["opening_plies"] if later else position.occupied.bit_count()
        _, lacking = opened.files.list_derived_files_and_gaps(
            POSITIONS_TABLE, record.run_id, partial(is_ply_within_extent, ply)
        )
        unindexed = sum(stored.units for stored in lacking) * record.unit_line.games_a_pair
        games, deepest = games + unindexed, max(deepest, ply) if unindexed else deepest
    if games > MAX_REPLAYED_GAMES:
        raise RequestError(
            f"too few of these games are indexed as deep as {deepest} pieces ({games:,} are not): run "
            f"{opened.archive.format_command('archive index')}, with --plies {deepest + 1} beyond the opening, or "
            "choose a run"
        )


def build_decisions_table(
    result: OpeningsResult,
    url_after: Callable[[str], str],
    brief: bool = False,
    url_of_position: Callable[[str], str] = urls.openings_url,
) -> Table:
    """Build the table of decisions with their results, with the most frequent decision first.

    ``url_after`` returns the address of the position after a decision. ``url_of_position`` returns the address of a
    position; it is used if the rows are about several positions. If ``brief`` is true, only frequency and score are
    shown.
    """
    rows = result.rows.head(MAX_ROWS)
    dicts, columns = rows.to_dicts(), opening_columns(rows)
    # If the piece is given, the column with it is left out: all rows agree, or the position of each row names it.
    in_hand = result.position.hand != NONE
    in_hand |= result.first_free and result.by != "gift" and not result.rules.mover_chooses
    names = [name for name in rows.columns if name in DECISION_COLUMNS and not (in_hand and name == "piece")]
    decided = [
        text_column(name, [_build_decision_cell(result, name, row, url_after, url_of_position) for row in dicts])
        for name in names
    ]
    results = columns[[column.heading for column in columns].index("alike") :]
    if brief:
        results = results[:BRIEF_COLUMNS]
    else:
        plies = result.position.occupied.bit_count() + (result.by != "gift")
        samples = rows.select("run_id", "game_id").rows()
        decided.append(
            text_column("sample game", [urls.build_game_cell(run_id, game_id, plies) for run_id, game_id in samples])
        )
    more = f", the {MAX_ROWS} most frequent of {result.rows.height:,}" if result.rows.height > MAX_ROWS else ""
    games = format_count_with_noun(result.games, "game")
    caption = f"{result.by.capitalize()}s in {games}{more}; in %, for {DECIDERS[result.by]}"
    return Table(caption, [*decided[: len(names)], *results, *decided[len(names) :]])


def _build_decision_cell(
    result: OpeningsResult,
    column: str,
    row: Mapping[str, str | None],
    url_after: Callable[[str], str],
    url_of_position: Callable[[str], str],
) -> Cell:
    """Build the table cell that shows one column of a decision.

    In a row about one decision, the gift or the cell may link to the position after the decision; ``url_after`` returns
    its address. A position links to the address that ``url_of_position`` returns.
    """
    value, hand = row[column], result.position.hand
    if value is None:
        return Cell("·")
    if column == "position":
        return Cell(value, code=True, link=url_of_position(value))
    by_mover = result.by == "turn" and result.rules.mover_chooses
    word = f"{row['piece']}@{value}" if by_mover else value
    leads = column == ("gift" if result.by == "gift" else "cell") and (by_mover or result.by != "turn")
    leads &= not result.first_free and (result.by == "gift" or by_mover or hand != NONE)
    return Cell(value, piece=None if column == "cell" else parse_piece(value), link=url_after(word) if leads else "")
