"""The decisions that were made in a position, with their results, up to symmetry: for a board and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import Cell, Table, opening_columns, words
from analytics.questions.openings import Explored, OpeningsQuery, checked, explore
from analytics.questions.sql.database import OpenArchive
from analytics.store.records import RunRecord
from analytics.tables.derived.positions import turns_in
from analytics.tables.derived.tables import POSITIONS_TABLE, counts_turns_of
from quarto.errors import ArenaError, FailureError, RequestError
from quarto.notation import format_cell, format_piece, parse_piece
from quarto.position import Position
from quarto.rules import NONE, Rules
from runners.web.archive import links

MOST_REPLAYED = 2_000_000  # games that are counted here without an index: a second or two
MOST_ROWS = 60
DECIDERS = {"gift": "the giver", "placement": "the mover", "turn": "the mover"}
BRIEF = 4  # columns after the decision, where there is little room


class Played(NamedTuple):
    """The results of a decision, for the player that made it."""

    games: int
    share: float
    score: float  # a draw counts half


class Found(NamedTuple):
    """The decisions that were made in a position."""

    explored: Explored | None
    played: Mapping[str, Played]  # by cell or piece, equivalent ones too
    missing: str = ""  # why there is nothing to show
    damaged: bool = False  # because of a damaged file


def nothing(reason: str) -> Found:
    """No decisions, and why."""
    return Found(None, {}, reason)


def found_in(opened: OpenArchive, asked: OpeningsQuery) -> Found:
    """The decisions in a position. Raises ``RequestError`` for a text that is no live position, and unknown filters."""
    position, _, records = checked(opened.archive, asked)
    _require_indexed(opened, records, position)
    try:
        explored = explore(opened, asked, samples=False)
    except ArenaError as error:  # the board is shown whatever the archive is like
        return nothing(str(error))._replace(damaged=isinstance(error, FailureError))
    return Found(explored, _played(explored))


def _require_indexed(opened: OpenArchive, records: list[RunRecord], position: Position) -> None:
    """Raise ``RequestError`` for a question that would replay too many games."""
    games, ply = 0, position.occupied.bit_count()
    for record in records:
        _, lacking = opened.files.derived(POSITIONS_TABLE, record.run_id, partial(counts_turns_of, ply))
        games += sum(each.units for each in lacking) * record.line.games_a_pair
    if games > MOST_REPLAYED:
        raise RequestError(
            f"{games:,} of these games are not indexed as deep as {ply} pieces: run "
            f"{opened.archive.hint('archive index')}, with --plies {ply + 1} beyond the opening, or choose a run"
        )


def _played(found: Explored) -> dict[str, Played]:
    """The results of each cell or piece: those of the equivalent decision that has a row."""
    if found.by == "turn":
        return {}
    column = "gift" if found.by == "gift" else "cell"
    games = pl.col("games")
    by_name = found.rows.group_by(column).agg(games.sum(), pl.sum("share"), score=games.dot("score") / games.sum())
    of_rows = {name: Played(*results) for name, *results in by_name.select(column, "games", "share", "score").rows()}
    return {each: of_rows[least] for each, least in _least(found.position, found.rules, column) if least in of_rows}


def _least(position: Position, rules: Rules, column: str) -> list[tuple[str, str]]:
    """Each cell or piece, and the one that stands for all equivalent ones."""
    same, own, text = (
        (["board"], "own_hand", format_piece) if column == "gift" else (["board", "cell"], "own_cell", format_cell)
    )
    named = turns_in(position, rules).with_columns(least=pl.col(own).min().over(same)).select(own, "least").unique()
    return [(text(each), text(least)) for each, least in named.iter_rows()]


def played_table(found: Explored, after: Callable[[str], str], brief: bool = False) -> Table:
    """The decisions with their results, most played first; ``after`` is the address after one of them.

    ``brief``: only how often, and with which score.
    """
    rows = found.rows.head(MOST_ROWS)
    dicts, columns = rows.to_dicts(), opening_columns(rows)
    in_hand = found.position.hand != NONE  # in every row the same piece
    names = [name for name in ("piece", "cell", "gift") if name in rows.columns and not (in_hand and name == "piece")]
    decided = [words(name, [_decided(found, name, row, after) for row in dicts]) for name in names]
    results = columns[[column.heading for column in columns].index("alike") :]
    if brief:
        results = results[:BRIEF]
    else:
        plies = found.position.occupied.bit_count() + (found.by != "gift")
        games = rows.select("run_id", "game_id").rows()
        decided.append(words("sample game", [links.game_cell(run_id, game_id, plies) for run_id, game_id in games]))
    more = f", the {MOST_ROWS} most frequent of {found.rows.height:,}" if found.rows.height > MOST_ROWS else ""
    caption = f"{found.by.capitalize()}s in {found.games:,} games{more}; in %, for {DECIDERS[found.by]}"
    return Table(caption, [*decided[: len(names)], *results, *decided[len(names) :]])


def _decided(found: Explored, name: str, row: Mapping[str, str | None], after: Callable[[str], str]) -> Cell:
    """A piece with its picture, or a cell; the last of a decision leads to the position after it."""
    value, hand = row[name], found.position.hand
    if value is None:
        return Cell("·")
    by_mover = found.by == "turn" and found.rules.mover_chooses
    word = f"{row['piece']}@{value}" if by_mover else value
    leads = name == ("gift" if found.by == "gift" else "cell") and (by_mover or found.by != "turn")
    leads &= found.by == "gift" or by_mover or hand != NONE
    return Cell(value, piece=None if name == "cell" else parse_piece(value), link=after(word) if leads else "")
