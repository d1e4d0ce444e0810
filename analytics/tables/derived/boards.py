"""Replays the plies of a file: the board before each ply with its tactics, and the order of play up to symmetry.

*Tactics* are facts about a ply that follow from the rules without a search: the cells that win, the gifts that are
safe, and the lines that the ply finished.

*The order of play up to symmetry* is the least image of a game under the symmetries of its rules. Images are compared
from the first ply on. Symmetries of cells move only cells, and symmetries of pieces move only pieces, so the least
image of the cells and of the pieces is found separately. The beginning of a least image is the least image of the
beginning, so one image of a game tells its opening of any length.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.records import RunRecord
from analytics.store.schema import PLIES_SCHEMA
from analytics.tables.derived.positions import (
    Boards,
    Plies,
    check_games_complete,
    find_first_row_of_each_ply,
    plies_from_first_rows,
    replay_board_before_each_placement,
)
from quarto.batch import GAME_BITS
from quarto.bits import piece_to_lanes
from quarto.canonical import canonical_first_turn, canonical_turn
from quarto.jit import int64, kernel, uint64
from quarto.notation import ATTRIBUTE_WORDS
from quarto.position import ALL_PIECES
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Rules
from quarto.symmetry import Symmetries, build_symmetries
from quarto.threats import VALUES, occupied_cells_with_value, safe_pieces, winning_cells

ORDERED_PLIES = 8  # plies of each game: two random games hardly ever agree in more

BOARDS = pl.Schema(
    {
        **PLIES_SCHEMA,
        "before": pl.Int32(),  # bit p: piece p is on the board before the ply
        "filled": pl.Int32(),  # bit c: cell c holds a piece then
    }
)
# Further columns, each of which is computed only for queries that need it.
AGENT_COLUMNS = pl.Schema(
    {
        "giver": pl.Int32(),  # 1 + the number of the agent in the run; 0: the gift was imposed
        "mover": pl.Int32(),  # likewise, of the placement
    }
)
KEY_COLUMNS = pl.Schema(
    {"occupied": pl.Int64(), "board": pl.Int64()}
)  # of the position before the placement: ``POSITIONS``
TACTICS_COLUMNS = pl.Schema(
    {
        "winning_cells": pl.Int32(),  # bit c: the mover could win on cell c
        "safe_gifts": pl.Int32(),  # bit p: piece p was left, and the mover could not win with it
        "lines": pl.Int64(),  # bit n: the ply finished line n of the rules
        "attributes": pl.Int32(),  # bit v: the pieces of such a line share value v, as in ``cells_with_value``
    }
)
EXTRA_COLUMNS = pl.Schema({**AGENT_COLUMNS, **KEY_COLUMNS, **TACTICS_COLUMNS})
ATTRIBUTE_VALUE_WORDS = [
    words[clear] for clear in (0, 1) for words in reversed(ATTRIBUTE_WORDS)
]  # by attribute value 0 to 7

ORDERED_OPENINGS = pl.Schema(
    {
        "game_id": pl.Int64(),
        "pairing": pl.Int32(),
        "outcome": pl.Int8(),  # for the seat that placed first
        "ordered": pl.Int8(),  # plies in the two words: those of the game, at most ORDERED_PLIES
        "pieces": pl.Int64(),  # four bits a ply, the first ply highest; 0 after the last
        "cells": pl.Int64(),  # likewise
    }
)


@kernel()
def _fill_canonical_board_keys(
    plies: Plies, boards: Boards, mover_chooses: bool, keys: NDArray[np.int64], tables: Symmetries
) -> None:
    """Fill ``keys`` [2, R] with a key for the position before each of ``R`` placements.

    Symmetric positions get equal keys. Row 0 of ``keys`` holds the field ``occupied`` of ``CanonicalTurn``, and row 1
    the field ``board``. With ``mover_chooses``, the key's position has no piece in hand, because the mover chooses the
    piece and the cell together.
    """
    for row in range(plies.piece.shape[0]):
        occupied, choice = int64(boards.filled[row]), (int64(plies.cell[row]), int64(NONE))
        hand = int64(NONE) if mover_chooses else int64(plies.piece[row])
        if occupied == 0:
            turn = canonical_first_turn(hand, choice, tables)
        else:
            turn = canonical_turn(boards.lanes[row], occupied, hand, choice, tables)
        keys[0, row], keys[1, row] = turn.occupied, int64(turn.board)


class Tactics(NamedTuple):
    """The columns ``TACTICS_COLUMNS`` of ``R`` plies."""

    winning_cells: NDArray[np.int32]  # [R]
    safe_gifts: NDArray[np.int32]  # [R]
    lines: NDArray[np.int64]  # [R]
    attributes: NDArray[np.int32]  # [R]


@kernel()
def _fill_tactics(plies: Plies, boards: Boards, lines: NDArray[np.int64], rules: Any, tactics: Tactics) -> None:
    """Fill ``tactics`` for each ply. ``lines`` [L] has, for each line of the rules, the mask of its cells."""
    for row in range(plies.piece.shape[0]):
        lanes, occupied = boards.lanes[row], int64(boards.filled[row])
        piece, cell = int64(plies.piece[row]), int64(plies.cell[row])
        available = int64(ALL_PIECES) & ~int64(boards.before[row])
        winning, finished, shared = winning_cells(lanes, occupied, piece, rules), int64(0), int64(0)
        if (winning >> cell) & 1:
            after = lanes | (piece_to_lanes(piece) << uint64(cell))
            for value in range(VALUES):
                cells = occupied_cells_with_value(after, occupied | int64(1) << cell, value)
                for line in range(lines.shape[0]):
                    if cells & lines[line] == lines[line]:
                        finished |= int64(1) << line
                        shared |= int64(1) << value
        if rules.mover_chooses != 0:
            for other in range(PIECES):
                if (available >> other) & 1:
                    winning |= winning_cells(lanes, occupied, other, rules)
        tactics.winning_cells[row] = winning
        tactics.safe_gifts[row] = available & safe_pieces(lanes, occupied, rules)
        tactics.lines[row], tactics.attributes[row] = finished, shared


@kernel()
def _gather_openings_and_count_intact_plies(
    starts: NDArray[np.int64],
    plies: Plies,
    pieces: NDArray[np.int8],
    cells: NDArray[np.int8],
    ply_counts: NDArray[np.int8],
) -> int:
    """Gather the pieces and cells [G, 8] of each game's first plies, and the number of these plies [G].

    Returns the number of consecutive intact plies from ply 0 on, at most 8. Ply 0 is intact. A later ply is intact if
    the game of each of its rows also has a row in the previous ply. ``starts`` is a result of
    ``find_first_row_of_each_ply``.
    """
    game = np.arange(starts[1])  # of each row of the ply
    for ply in range(ORDERED_PLIES):
        row = starts[ply + 1]
        for last in range(starts[ply], starts[ply + 1]):
            of = game[last - starts[ply]]
            pieces[of, ply], cells[of, ply], ply_counts[of] = plies.piece[last], plies.cell[last], ply + 1
            if row < starts[ply + 2] and plies.game_id[row] == plies.game_id[last]:
                game[row - starts[ply + 1]] = of
                row += 1
        if row != starts[ply + 2]:
            return ply + 1
    return ORDERED_PLIES


@kernel()
def _fill_least_cells(
    cells: NDArray[np.int8], ply_counts: NDArray[np.int8], words: NDArray[np.int64], tables: Symmetries
) -> None:
    """Fill ``words`` [G] with the least image of each game's cells [G, 8] under the symmetries of the board.

    A word has four bits for each ply, the first ply in the highest bits. The search goes ply by ply, and keeps only the
    symmetries whose image has been the least so far.
    """
    remaining = np.empty(tables.cells.shape[0], np.int16)
    for game in range(cells.shape[0]):
        count, word = remaining.shape[0], int64(0)
        for i in range(count):
            remaining[i] = i
        for ply in range(ply_counts[game]):
            cell, least, kept = int64(cells[game, ply]), int64(CELLS), 0
            for i in range(count):
                image = int64(tables.cells[remaining[i], cell])
                if image < least:
                    least, kept = image, 0
                if image == least:
                    remaining[kept] = remaining[i]
                    kept += 1
            count = kept
            word |= least << int64(4 * (ORDERED_PLIES - 1 - ply))
        words[game] = word


@kernel()
def _fill_least_pieces(pieces: NDArray[np.int8], ply_counts: NDArray[np.int8], words: NDArray[np.int64]) -> None:
    """Fill ``words`` [G] with the least image of each game's pieces [G, 8] under the symmetries of pieces.

    A word has four bits for each ply, the first ply in the highest bits. The image of the first piece is 0. The search
    goes ply by ply. Two attributes are in the same group of consecutive bits if no image so far tells them apart: in
    each image, their bits are equal. Within each group, the attributes in which the next piece differs from the first
    piece are moved to the lowest bits.
    """
    order, kept = np.empty(ATTRIBUTES, np.int64), np.empty(ATTRIBUTES, np.int64)
    begins = np.empty(ATTRIBUTES + 1, np.bool_)  # whether an attribute is distinguished from the one below it
    for game in range(pieces.shape[0]):
        word = int64(0)
        for rank in range(ATTRIBUTES):
            order[rank], begins[rank] = rank, False
        begins[0] = begins[ATTRIBUTES] = True
        groups = 1
        for ply in range(1, ply_counts[game]):
            piece, image, start = int64(pieces[game, ply]) ^ int64(pieces[game, 0]), int64(0), 0
            if groups == ATTRIBUTES:  # all distinguished, as they soon are
                for rank in range(ATTRIBUTES):
                    image |= ((piece >> order[rank]) & 1) << int64(rank)
                word |= image << int64(4 * (ORDERED_PLIES - 1 - ply))
                continue
            while start < ATTRIBUTES:
                end, low = start + 1, start
                while not begins[end]:
                    end += 1
                for bit in (1, 0):
                    for rank in range(start, end):
                        if (piece >> order[rank]) & 1 == bit:
                            kept[low] = order[rank]
                            image |= int64(bit) << int64(low)
                            low += 1
                    if bit and start < low < end:
                        begins[low] = True
                        groups += 1
                start = end
            for rank in range(ATTRIBUTES):
                order[rank] = kept[rank]
            word |= image << int64(4 * (ORDERED_PLIES - 1 - ply))
        words[game] = word


def replay_plies(plies: pl.DataFrame, record: RunRecord, extra_columns: Collection[str] = ()) -> pl.DataFrame:
    """Replay the plies of one file, and return them with the columns of ``BOARDS`` and the requested ``EXTRA_COLUMNS``.

    The rows must be sorted by ply, then by game. Raises ``ValueError`` if a game skips a ply, or if a piece or a cell
    is not from 0 to 15.
    """
    rows, of_plies, rules = len(plies), plies_from_first_rows(plies, len(plies)), record.rules
    boards = replay_board_before_each_placement(find_first_row_of_each_ply(plies), of_plies, PIECES)
    columns = {"before": pl.Series(boards.before), "filled": pl.Series(boards.filled)}
    if AGENT_COLUMNS.keys() & set(extra_columns):
        columns |= _compute_giver_and_mover_numbers(plies, record)
    if KEY_COLUMNS.keys() & set(extra_columns):
        keys = np.empty((2, rows), np.int64)
        _fill_canonical_board_keys(of_plies, boards, rules.mover_chooses, keys, build_symmetries(rules))
        columns |= {name: pl.Series(key) for name, key in zip(KEY_COLUMNS, keys, strict=True)}
    if TACTICS_COLUMNS.keys() & set(extra_columns):
        columns |= _compute_tactics(of_plies, boards, rules)
    return plies.with_columns(
        **{name: column for name, column in columns.items() if name in BOARDS or name in extra_columns}
    )


def _compute_giver_and_mover_numbers(plies: pl.DataFrame, record: RunRecord) -> dict[str, pl.Series]:
    """Compute the columns ``AGENT_COLUMNS``, by name: which agent gave each ply's piece, and which placed it.

    An agent is given as its number in the run's record, plus 1. Both columns are 0 for an imposed ply.
    """
    game_id, seat, ply = (plies[name].to_numpy() for name in ("game_id", "seat", "ply"))
    numbers = 1 + np.array(record.spec["pairings"], np.int32).ravel()
    mover = 2 * (game_id >> GAME_BITS) + (seat ^ (game_id & 1))
    chosen = ply >= record.spec["opening_plies"]
    return {"giver": pl.Series(numbers[mover ^ 1] * chosen), "mover": pl.Series(numbers[mover] * chosen)}


def _compute_tactics(plies: Plies, boards: Boards, rules: Rules) -> dict[str, pl.Series]:
    """Compute the columns ``TACTICS_COLUMNS`` of each ply, by name."""
    rows = len(plies.piece)
    small = np.empty((3, rows), np.int32)
    tactics = Tactics(small[0], small[1], np.empty(rows, np.int64), small[2])
    masks = np.array([sum(1 << cell for cell in line) for line in rules.lines])
    _fill_tactics(plies, boards, masks, rules.tables, tactics)
    return {name: pl.Series(column) for name, column in tactics._asdict().items()}


def derive_canonical_first_plies(plies: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Derive a table with one row per game: its first ``ORDERED_PLIES`` plies, in a form that symmetric games share.

    The form is the least image of the plies in their order of play, and the table has the schema ``ORDERED_OPENINGS``.
    Games without plies are left out. The rows of ``plies`` must be sorted by ply, then by game. Raises ``ValueError``
    if a game skips one of its first plies, or if a piece or a cell is not from 0 to 15.
    """
    starts = find_first_row_of_each_ply(plies)
    games = int(starts[1])
    pieces, cells, ply_counts = np.zeros((games, 8), np.int8), np.zeros((games, 8), np.int8), np.zeros(games, np.int8)
    reached = _gather_openings_and_count_intact_plies(
        starts, plies_from_first_rows(plies, int(starts[ORDERED_PLIES + 1])), pieces, cells, ply_counts
    )
    check_games_complete(reached, ORDERED_PLIES)
    words = np.zeros((2, games), np.int64)
    _fill_least_pieces(pieces, ply_counts, words[0])
    _fill_least_cells(cells, ply_counts, words[1], build_symmetries(rules))
    first = plies.head(games).select("game_id", "pairing", "outcome")
    return first.with_columns(ordered=pl.Series(ply_counts), pieces=pl.Series(words[0]), cells=pl.Series(words[1]))
