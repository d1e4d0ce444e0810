"""Counts the turns of a file's games by position up to symmetry: the table ``positions``.

A row is a position, a turn and a player, with the number of games and their results. Games that transpose into a
position share its rows. The table is sorted by position and made in one pass for each ply: replay, canonical form
(``quarto/canonical.py``), radix sort, count. The same games give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.tables.derived.turn_counts import (
    CELL_SHIFT,
    MASK_SHIFT,
    PAIRING_SHIFT,
    SECOND_SHIFT,
    TurnCounts,
)
from quarto.batch import GAME_BITS
from quarto.bits import piece_to_lanes
from quarto.canonical import CanonicalTurn, canonical_first_turn, canonical_turn
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import PackedPosition
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.symmetry import Symmetries, build_symmetries

# 64 bits even where fewer would do: the encoder stores such columns as differences, which take less than a dictionary.
POSITIONS = pl.Schema(
    {
        "ply": pl.Int8(),  # 0 to 15: how many pieces are on the board
        "occupied": pl.Int64(),  # of the canonical board: bit c says that cell c holds a piece
        "board": pl.Int64(),  # its pieces and the hand: ``quarto.canonical.pack_lanes_and_hand``
        "pairing": pl.Int32(),
        "second": pl.Int8(),  # agent that decided: 0 the pairing's first, 1 its second
        "cell": pl.Int8(),  # where the piece was placed, on the canonical board
        "piece": pl.Int8(),  # the gift that came with it, -1 none; where the mover chooses, the piece placed
        "imposed": pl.Int8(),  # 0 chosen, 1 the placement was imposed and the gift chosen, 2 the whole turn imposed
        "games": pl.Int64(),
        "wins": pl.Int64(),  # of the agent that decided
        "draws": pl.Int64(),
        "sample": pl.Int64(),  # number in its pairing of the first of the games: the low 32 bits of its game_id
    }
)

# The column ``imposed``: nothing, the placement only, or the whole turn.
CHOSEN_TURN, IMPOSED_PLACEMENT, IMPOSED_TURN = range(3)

DIGIT_BITS = 11  # of a digit of the sort
BUCKETS = 1 << DIGIT_BITS
CHOICE_DIGITS, BOARD_DIGITS, MASK_DIGITS = 4, 6, 2
DIGITS = CHOICE_DIGITS + BOARD_DIGITS + MASK_DIGITS


class Plies(NamedTuple):
    """The ``R`` rows of one or more plies. Within each ply, the rows are sorted by game."""

    game_id: NDArray[np.int64]  # [R]
    piece: NDArray[np.int8]  # [R]
    cell: NDArray[np.int8]  # [R]
    outcome: NDArray[np.int8]  # [R] of the game, for the mover: 1, 0, -1

    def slice_rows(self, start: int, end: int) -> Plies:
        """Return views of the rows from ``start`` up to but not including ``end``."""
        of = slice(start, end)
        return Plies(self.game_id[of], self.piece[of], self.cell[of], self.outcome[of])


class Boards(NamedTuple):
    """The boards before each of ``R`` plies."""

    lanes: NDArray[np.uint64]  # [R]
    before: NDArray[np.int32]  # [R] bit p: piece p is on the board
    filled: NDArray[np.int32]  # [R] bit c: cell c holds a piece

    def slice_rows(self, start: int, end: int) -> Boards:
        """Return views of the boards from ``start`` up to but not including ``end``."""
        return Boards(self.lanes[start:end], self.before[start:end], self.filled[start:end])


class SortKeys(NamedTuple):
    """The keys by which the turns of a ply are sorted: by mask of occupied cells, then by board, then by choice."""

    board: NDArray[np.uint64]  # [R] as in ``TurnCounts``
    choice: NDArray[np.uint64]  # [R] as in ``TurnCounts``
    row: NDArray[np.int32]  # [R] index of the row in the ply, times 4, plus the outcome + 1: fewer than 2^29 rows

    @staticmethod
    def empty(rows: int) -> SortKeys:
        """Allocate uninitialised keys for ``rows`` rows."""
        return SortKeys(np.empty(rows, np.uint64), np.empty(rows, np.uint64), np.empty(rows, np.int32))

    def head(self, rows: int) -> SortKeys:
        """Return views of the first ``rows`` keys."""
        return SortKeys(self.board[:rows], self.choice[:rows], self.row[:rows])


class PositionColumns(NamedTuple):
    """The columns of the table ``positions``."""

    ply: NDArray[np.int8]  # [R]
    occupied: NDArray[np.int64]  # [R]
    board: NDArray[np.int64]  # [R]
    pairing: NDArray[np.int32]  # [R]
    second: NDArray[np.int8]  # [R]
    cell: NDArray[np.int8]  # [R]
    piece: NDArray[np.int8]  # [R]
    imposed: NDArray[np.int8]  # [R]
    games: NDArray[np.int64]  # [R]
    wins: NDArray[np.int64]  # [R]
    draws: NDArray[np.int64]  # [R]
    sample: NDArray[np.int64]  # [R]

    @staticmethod
    def empty(rows: int) -> PositionColumns:
        """Allocate uninitialised columns with ``rows`` rows."""
        columns = pl.DataFrame(schema=POSITIONS).iter_columns()
        return PositionColumns._make(np.empty(rows, column.to_numpy().dtype) for column in columns)

    def head(self, rows: int) -> PositionColumns:
        """Return views of the first ``rows`` rows."""
        return PositionColumns._make(column[:rows] for column in self)

    def to_frame(self) -> pl.DataFrame:
        """Return the columns as a table with the schema ``POSITIONS``."""
        return pl.DataFrame(self._asdict(), schema=POSITIONS)


@kernel()
def _fill_boards_and_count_intact_plies(starts: NDArray[np.int64], plies: Plies, boards: Boards, end_ply: int) -> int:
    """Fill ``boards`` with the board before each placement of the plies up to but not including ``end_ply``.

    The arrays of ``boards`` must be initialised with zeros. Returns the number of consecutive intact plies from ply 0
    on, at most ``end_ply``. Ply 0 is intact. A later ply is intact if the game of each of its rows also has a row in
    the previous ply. ``starts`` is a result of ``find_first_row_of_each_ply``.
    """
    for ply in range(1, end_ply):
        row = starts[ply]
        for last in range(starts[ply - 1], starts[ply]):
            if row < starts[ply + 1] and plies.game_id[row] == plies.game_id[last]:
                piece, cell = int64(plies.piece[last]), int64(plies.cell[last])
                boards.lanes[row] = boards.lanes[last] | (piece_to_lanes(piece) << uint64(cell))
                boards.before[row] = int64(boards.before[last]) | int64(1) << piece
                boards.filled[row] = int64(boards.filled[last]) | int64(1) << cell
                row += 1
        if row != starts[ply + 1]:
            return ply
    return end_ply


def replay_board_before_each_placement(starts: NDArray[np.int64], plies: Plies, end_ply: int) -> Boards:
    """Replay games, and return the board before each placement of the plies up to but not including ``end_ply``.

    ``starts`` is a result of ``find_first_row_of_each_ply``. Raises ``ValueError`` if a game skips one of these plies.
    """
    rows = len(plies.piece)
    boards = Boards(np.zeros(rows, np.uint64), np.zeros(rows, np.int32), np.zeros(rows, np.int32))
    check_games_complete(_fill_boards_and_count_intact_plies(starts, plies, boards, end_ply), end_ply)
    return boards


def check_games_complete(intact_plies: int, ply_count: int) -> None:
    """Raise ``ValueError`` unless all ``ply_count`` plies of a replay are intact, that is, no game skips one of them.

    ``intact_plies`` is the number of plies that the replay found intact, counted from ply 0.
    """
    if intact_plies != ply_count:
        raise ValueError(f"has a row of ply {intact_plies} whose game has none of ply {intact_plies - 1}")


@kernel()
def _fill_sort_keys(
    ply: int, mover_chooses: bool, rows: Plies, next_ply_rows: Plies, boards: Boards, keys: SortKeys, tables: Symmetries
) -> None:
    """Fill ``keys`` with the turns of ply ``ply``.

    The gifts of these turns are in ``next_ply_rows``, the rows of the next ply. With ``mover_chooses``, the mover
    chooses the piece, so a turn is a piece and a cell, without a gift.
    """
    after_row = int64(0)
    for row in range(rows.game_id.shape[0]):
        game_id, placed, cell = rows.game_id[row], int64(rows.piece[row]), int64(rows.cell[row])
        goes_on = after_row < next_ply_rows.game_id.shape[0] and next_ply_rows.game_id[after_row] == game_id
        occupied = int64(boards.filled[row])
        piece = placed if mover_chooses else int64(next_ply_rows.piece[after_row]) if goes_on else int64(NONE)
        hand = int64(NONE) if mover_chooses else placed
        if ply == 0:
            turn = canonical_first_turn(hand, (cell, piece), tables)
        else:
            turn = canonical_turn(boards.lanes[row], occupied, hand, (cell, piece), tables)
        second = ((ply + 1) & 1) ^ (game_id & 1)
        choice = (
            (turn.piece + 1)
            | turn.cell << CELL_SHIFT
            | second << SECOND_SHIFT
            | (game_id >> GAME_BITS) << PAIRING_SHIFT
        )
        keys.board[row] = turn.board
        keys.choice[row] = uint64(choice) | uint64(tables.number[occupied]) << uint64(MASK_SHIFT)
        keys.row[row] = row << 2 | (int64(rows.outcome[row]) + 1)
        after_row += int64(goes_on)


@inline_function
def _distribute_by_digit(words: NDArray[np.uint64], shift: int, source: SortKeys, target: SortKeys) -> bool:
    """Copy ``source`` to ``target``, sorted by one digit of each word; return whether anything was copied.

    ``words`` is a column of ``source``. A digit has ``DIGIT_BITS`` bits and begins at bit ``shift``. Keys with equal
    digits keep their order. If all words have the same digit, nothing is copied.
    """
    counts = np.zeros(BUCKETS, np.int64)
    mask = uint64(BUCKETS - 1)
    for row in range(words.shape[0]):
        counts[int64((words[row] >> uint64(shift)) & mask)] += 1
    if counts[int64((words[0] >> uint64(shift)) & mask)] == words.shape[0]:
        return False
    index = int64(0)
    for bucket in range(BUCKETS):
        count = counts[bucket]
        counts[bucket] = index
        index += count
    for row in range(words.shape[0]):
        bucket = int64((words[row] >> uint64(shift)) & mask)
        index = counts[bucket]
        counts[bucket] = index + 1
        target.board[index], target.choice[index] = source.board[row], source.choice[row]
        target.row[index] = source.row[row]
    return True


@kernel()
def radix_sort(keys: SortKeys, spare: SortKeys) -> bool:
    """Sort ``keys`` stably by mask, board and choice. Return whether the result is in ``spare``, not in ``keys``.

    This is a radix sort from the lowest digit up. Most digits are equal in all keys and cost only one pass of reading.
    """
    moved = False
    if keys.row.shape[0] == 0:
        return moved
    for digit in range(DIGITS):
        source, target = (spare, keys) if moved else (keys, spare)
        if digit < CHOICE_DIGITS:
            done = _distribute_by_digit(source.choice, DIGIT_BITS * digit, source, target)
        elif digit < CHOICE_DIGITS + BOARD_DIGITS:
            done = _distribute_by_digit(source.board, DIGIT_BITS * (digit - CHOICE_DIGITS), source, target)
        else:
            done = _distribute_by_digit(source.choice, DIGIT_BITS * (digit - BOARD_DIGITS), source, target)
        moved ^= done
    return moved


@kernel()
def _count_equal_keys(keys: SortKeys, plies: Plies, counts: TurnCounts) -> int:
    """Write a row of ``counts`` for each group of equal ``keys``, and return the number of rows.

    ``keys`` are sorted, and belong to the rows of ``plies``.
    """
    at = int64(-1)
    for i in range(keys.row.shape[0]):
        choice, outcome = keys.choice[i], int64(keys.row[i]) & 3
        if i == 0 or choice != keys.choice[i - 1] or keys.board[i] != keys.board[i - 1]:
            at += 1
            counts.board[at], counts.choice[at] = keys.board[i], choice
            counts.games[at], counts.wins[at], counts.draws[at] = 0, 0, 0
            counts.sample[at] = plies.game_id[keys.row[i] >> 2] & ((1 << GAME_BITS) - 1)
        counts.games[at] += 1
        counts.wins[at] += outcome >> 1
        counts.draws[at] += outcome & 1
    return int(at + 1)


def count_turns(plies: pl.DataFrame, rules: Rules, of_plies: range = range(PIECES)) -> list[TurnCounts]:
    """Count how often each turn was taken in each position, for each of ``of_plies``.

    ``plies`` is the stored table of one file, sorted by ply, then by game; of later plies than the one after the last
    of ``of_plies``, it may lack rows. Raises ``ValueError`` if a game skips a ply, or if a piece or a cell is not from
    0 to 15.
    """
    tables, begins = build_symmetries(rules), find_first_row_of_each_ply(plies)
    starts, end = begins.tolist(), min(of_plies.stop + 1, PIECES)
    every = plies_from_first_rows(plies, starts[end])
    boards = replay_board_before_each_placement(begins, every, end)
    keys, spare, counts = SortKeys.empty(starts[1]), SortKeys.empty(starts[1]), TurnCounts.empty(starts[1])
    result = list[TurnCounts]()
    for ply in of_plies:
        rows, after = (every.slice_rows(starts[at], starts[at + 1]) for at in (ply, ply + 1))
        keys, spare = (sort_keys.head(len(rows.game_id)) for sort_keys in (keys, spare))
        _fill_sort_keys(
            ply, rules.mover_chooses, rows, after, boards.slice_rows(starts[ply], starts[ply + 1]), keys, tables
        )
        size = _count_equal_keys(spare if radix_sort(keys, spare) else keys, rows, counts)
        result.append(counts.copy_head(size))
    return result


def derive_positions(
    plies: pl.DataFrame, rules: Rules, imposed_plies: int, of_plies: range = range(PIECES)
) -> pl.DataFrame:
    """Count how often each turn was taken in each position at ``of_plies``, as a table with the schema ``POSITIONS``.

    ``imposed_plies`` is the number of imposed plies of its games. See ``count_turns`` for the other parameters, and for
    the errors.
    """
    counts = count_turns(plies, rules, of_plies)
    rows = sum(len(of_ply.board) for of_ply in counts)  # one part, without room for more, so that it may be kept
    parts = [*iterate_position_frames(counts, rules, imposed_plies, of_plies, rows)]
    return parts[0] if parts else pl.DataFrame(schema=POSITIONS)


@kernel()
def _fill_position_columns(
    ply: int, imposed: int, counts: TurnCounts, first: int, columns: PositionColumns, at: int, tables: Symmetries
) -> int:
    """Write rows of ``counts`` from ``first`` on to ``columns`` from ``at`` on; return how many there was room for."""
    size = min(counts.board.shape[0] - first, columns.board.shape[0] - at)
    for i in range(size):
        row, source = uint64(at + i), uint64(first + i)
        choice = counts.choice[source]
        columns.ply[row], columns.imposed[row] = ply, imposed
        columns.occupied[row] = tables.masks[int64(choice >> uint64(MASK_SHIFT))]
        columns.board[row] = int64(counts.board[source])
        columns.pairing[row] = int64(choice >> uint64(PAIRING_SHIFT)) & ((1 << 31) - 1)
        columns.second[row] = int64(choice >> uint64(SECOND_SHIFT)) & 1
        columns.cell[row] = int64(choice >> uint64(CELL_SHIFT)) & 15
        columns.piece[row] = int64(choice & uint64(31)) - 1
        columns.games[row], columns.wins[row] = counts.games[source], counts.wins[source]
        columns.draws[row], columns.sample[row] = counts.draws[source], counts.sample[source]
    return int(size)


def iterate_position_frames(
    counts: Iterable[TurnCounts], rules: Rules, imposed_plies: int, of_plies: range, part_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the counts at the plies ``of_plies`` as parts of a table with the schema ``POSITIONS``.

    A part has ``part_rows`` rows; only the last one may have fewer.
    """
    tables, columns, at = build_symmetries(rules), PositionColumns.empty(part_rows), 0
    for ply, of_ply in zip(of_plies, counts, strict=True):
        imposed = IMPOSED_TURN if ply + 1 < imposed_plies else IMPOSED_PLACEMENT if ply < imposed_plies else CHOSEN_TURN
        first = 0
        while first < len(of_ply.board):
            size = _fill_position_columns(ply, imposed, of_ply, first, columns, at, tables)
            first, at = first + size, at + size
            if at == part_rows:
                yield columns.to_frame()
                columns, at = PositionColumns.empty(part_rows), 0
    if at:
        yield columns.head(at).to_frame()


def find_first_row_of_each_ply(plies: pl.DataFrame) -> NDArray[np.int64]:
    """Find the row at which each ply begins in the stored table of one file.

    The result is an array [18]. Plies 16 and 17 do not exist; their entries are the number of rows, so that code that
    reads the ply after ply 15 finds no rows.
    """
    return np.searchsorted(plies["ply"].to_numpy(), np.arange(PIECES + 2, dtype=np.int8))


def plies_from_first_rows(frame: pl.DataFrame, row_count: int) -> Plies:
    """Copy the first ``row_count`` rows of a stored table to arrays.

    Raises ``ValueError`` if a piece or a cell is not from 0 to 15.
    """
    game_id, piece, cell, outcome = (np.array(frame[name][:row_count]) for name in Plies._fields)
    for name, column in (("piece", piece), ("cell", cell)):
        if row_count and not 0 <= column.min() <= column.max() < PIECES:
            raise ValueError(f"holds a {name} that is not 0 to 15")
    return Plies(game_id, piece, cell, outcome)


@kernel()
def _map_turns_to_canonical_position(
    position: PackedPosition, turns: NDArray[np.int64], tables: Symmetries
) -> NDArray[np.int64]:
    """Compute the fields of ``CanonicalTurn``, [T, 4], for turns [T, 3] (hand, cell, piece) in ``position``."""
    forms = np.empty((turns.shape[0], 4), np.int64)
    for i in range(turns.shape[0]):
        choice = turns[i, 1], turns[i, 2]
        if position.occupied == 0:
            turn = canonical_first_turn(turns[i, 0], choice, tables)
        else:
            turn = canonical_turn(position.lanes, position.occupied, turns[i, 0], choice, tables)
        forms[i, 0], forms[i, 1], forms[i, 2], forms[i, 3] = turn.occupied, int64(turn.board), turn.cell, turn.piece
    return forms


def list_canonical_turns(position: PackedPosition, rules: Rules) -> pl.DataFrame:
    """List all turns in a position with their canonical forms.

    The columns ``own_hand``, ``own_cell`` and ``own_piece`` describe a turn as it is in ``position``; the rows are
    sorted by them. The other columns are the fields of ``CanonicalTurn``. If no piece is in hand, turns are listed for
    each piece that could be in hand. ``own_piece`` is the gift, or NONE for the placement without a gift. If the mover
    chooses the piece, the hand stays empty instead, and ``own_piece`` is the piece that is placed.
    """
    every = [piece for piece in range(PIECES) if position.available >> piece & 1]
    cells = [cell for cell in range(CELLS) if not position.occupied >> cell & 1]
    has_one_hand = position.hand != NONE or rules.mover_chooses
    turns = [
        (hand, cell, piece)
        for hand in ([position.hand] if has_one_hand else every)
        for cell in cells
        for piece in ([] if rules.mover_chooses else [NONE]) + [gift for gift in every if gift != hand]
    ]
    turn_table = np.array(turns, np.int64).reshape(-1, 3)
    board = position._replace(lanes=uint64(position.lanes), hand=NONE, last_cell=NONE)
    forms = _map_turns_to_canonical_position(board, turn_table, build_symmetries(rules))
    names = ("own_hand", "own_cell", "own_piece", *CanonicalTurn._fields)
    return pl.DataFrame(np.concatenate([turn_table, forms], axis=1), schema=names)
