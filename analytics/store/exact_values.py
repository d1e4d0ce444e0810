"""Exact values for every decision of finished games: what a player had before it, and what was left after.

A game is judged from its end: whoever had a turn that led to a win was winning, so most positions of a game that was
decided need one question or none. Boards are looked up by their canonical key before they are searched, in a table that
all threads share and that stays warm from game to game: what transposes is solved once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from analytics.store.schema import NOT_COUNTED
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64, kernel, uint64
from quarto.position import ALL_CELLS, ALL_PIECES, Position, placed
from quarto.rules import CELLS, NONE, PIECES
from quarto.solver.mover import can_move, wins_at_once
from quarto.solver.search import can_give, can_place
from quarto.solver.table import DRAW, RULES_TYPE, SEARCH_TYPE, WIN, key_of, recall, remember
from quarto.threats import SAFE_PIECES, danger, winning_cells

TABLE_PIECES = 9  # boards with more are not looked up where the opponent chooses the piece
TABLE_PIECES_MOVER = 11


class Judged(NamedTuple):
    """``G`` games by ply. What a player has is 1 a win, 0 a draw, -1 a loss."""

    given: NDArray[np.int8]  # [17, G] before each gift, for who gives; where the mover chooses, for who moves
    held: NDArray[np.int8]  # [16, G] with the piece in hand, for who places it
    last: NDArray[np.int8]  # [G] after the last placement, for who placed
    saving_gifts: NDArray[np.int16]  # [16, G] how many gifts keep what the giver has, or NOT_COUNTED
    saving_cells: NDArray[np.int16]  # [16, G] how many cells keep what the placer has (or turns what the mover has)

    @staticmethod
    def empty(games: int) -> Judged:
        """Room for so many games, nothing counted."""
        given, held = (np.zeros((size, games), np.int8) for size in (CELLS + 1, CELLS))
        gifts, cells = (np.full((CELLS, games), NOT_COUNTED, np.int16) for _ in range(2))
        return Judged(given, held, np.zeros(games, np.int8), gifts, cells)


class Record(NamedTuple):
    """``G`` finished games as they were played."""

    pieces: NDArray[np.int8]  # [16, G]
    cells: NDArray[np.int8]  # [16, G]
    plies: NDArray[np.int8]  # [G] how many there are
    first: NDArray[np.int8]  # [G] the first ply that is judged


class Task(NamedTuple):
    """Which games of a record are judged by one thread."""

    start: int
    end: int
    choices: int  # 1: count the choices that keep a value


JUDGED_TYPE = numba.typeof(Judged.empty(1))
RECORD_TYPE = numba.typeof(
    Record(np.zeros((16, 1), np.int8), np.zeros((16, 1), np.int8), np.zeros(1, np.int8), np.zeros(1, np.int8))
)
TASK_TYPE = types.NamedUniTuple(types.int64, 3, Task)


@inlined
def board_answer(lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any) -> int:
    """Whether who gives next can win or at least draw; ``available`` is not empty."""
    pieces = int64(popcount(occupied))
    key = key_of(lanes, occupied, search) if pieces <= TABLE_PIECES else uint64(0)
    known = recall(key, pieces, question, search) if pieces <= TABLE_PIECES else int64(-1)
    if known >= 0:
        return known
    safe = available & SAFE_PIECES[danger(lanes, occupied, rules)]
    answer = can_give(lanes, occupied, available, safe, question, rules, search)
    if pieces <= TABLE_PIECES and search.stopped == 0:
        remember(key, question, answer, search)
    return answer


@inlined
def hand_answer(board: Position, gift: int, question: int, rules: Any, search: Any) -> int:
    """Whether who is given ``gift`` on a board can win or at least draw."""
    if winning_cells(board.lanes, board.occupied, gift, rules) != 0:
        return int64(1)
    rest = board.available & ~(int64(1) << gift)
    return can_place(board.lanes, board.occupied, rest, gift, question, rules, search)


@inlined
def move_answer(lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any) -> int:
    """Where the mover chooses: whether who moves next can win or at least draw."""
    if available == 0:
        return int64(question == DRAW)
    if wins_at_once(lanes, occupied, available, rules):
        return int64(1)
    pieces = int64(popcount(occupied))
    key = key_of(lanes, occupied, search) if pieces <= TABLE_PIECES_MOVER else uint64(0)
    known = recall(key, pieces, question, search) if pieces <= TABLE_PIECES_MOVER else int64(-1)
    if known >= 0:
        return known
    answer = can_move(lanes, occupied, available, question, rules, search)
    if pieces <= TABLE_PIECES_MOVER and search.stopped == 0:
        remember(key, question, answer, search)
    return answer


@inlined
def value_on_board(board: Position, at_least: int, rules: Any, search: Any) -> int:
    """What who gives (or moves) next has, known to be no less than ``at_least``."""
    mover = rules.mover_chooses != 0
    if at_least > 0:
        return int64(1)
    if board.available == 0:
        return int64(0)
    for question in (WIN, DRAW):
        if question == DRAW and at_least == 0:
            return int64(0)
        if mover:
            yes = move_answer(board.lanes, board.occupied, board.available, question, rules, search)
        else:
            yes = board_answer(board.lanes, board.occupied, board.available, question, rules, search)
        if yes:
            return int64(1) - question
    return int64(-1)


@inlined
def value_in_hand(board: Position, piece: int, at_least: int, rules: Any, search: Any) -> int:
    """What who places ``piece``, available on this board, has, known to be no less than ``at_least``."""
    if at_least > 0 or hand_answer(board, piece, WIN, rules, search):
        return int64(1)
    if at_least == 0:
        return int64(0)
    return hand_answer(board, piece, DRAW, rules, search) - 1


@inlined
def saving_gifts(board: Position, value: int, rules: Any, search: Any) -> int:
    """How many gifts keep the giver's ``value``."""
    gifts, count = board.available, int64(0)
    if value < 0:
        return int64(popcount(gifts))
    while gifts:
        gift = lowest_bit(gifts)
        gifts &= gifts - 1
        count += 1 - hand_answer(board, gift, DRAW if value > 0 else WIN, rules, search)
    return count


@inlined
def saving_cells(board: Position, piece: int, value: int, rules: Any, search: Any) -> int:
    """How many cells keep the ``value`` of who places ``piece`` or, where the mover chooses, that of who moves."""
    wins, count, empty = (
        winning_cells(board.lanes, board.occupied, piece, rules),
        int64(0),
        ~board.occupied & ALL_CELLS,
    )
    rest = board.available & ~(int64(1) << piece)
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        lanes, occupied = placed(board.lanes, piece, cell), board.occupied | int64(1) << cell
        if value < 0:
            count += 1
        elif (wins >> cell) & 1:
            count += int64(value > 0)
        elif rest == 0:
            count += int64(value == 0)
        elif rules.mover_chooses != 0:
            count += 1 - move_answer(lanes, occupied, rest, DRAW if value > 0 else WIN, rules, search)
        else:
            count += board_answer(lanes, occupied, rest, WIN if value > 0 else DRAW, rules, search)
    return count


@inlined
def boards_of(record: Record, game: int, lanes: Any, occupied: Any, available: Any) -> None:
    """The boards before each ply, and after the last, into three [17] arrays."""
    lanes[0], occupied[0], available[0] = uint64(0), 0, ALL_PIECES
    for ply in range(record.plies[game]):
        piece, cell = int64(record.pieces[ply, game]), int64(record.cells[ply, game])
        lanes[ply + 1] = placed(lanes[ply], piece, cell)
        occupied[ply + 1] = occupied[ply] | int64(1) << cell
        available[ply + 1] = available[ply] & ~(int64(1) << piece)


@kernel(types.void(TASK_TYPE, RECORD_TYPE, JUDGED_TYPE, RULES_TYPE, SEARCH_TYPE))
def judge(task: Task, record: Record, judged: Judged, rules: Any, search: Any) -> None:
    """Judge some games of a record into ``judged``. Its values mean nothing once ``search.stopped`` is 1."""
    lanes, occupied, available = np.empty(17, np.uint64), np.empty(17, np.int64), np.empty(17, np.int64)
    mover = rules.mover_chooses != 0
    for game in range(task.start, task.end):
        plies, first = int64(record.plies[game]), int64(record.first[game])
        boards_of(record, game, lanes, occupied, available)
        after = int64(0)
        for ply in range(plies - 1, first - 1, -1):
            piece, cell = int64(record.pieces[ply, game]), int64(record.cells[ply, game])
            board = Position(lanes[ply], occupied[ply], available[ply], int64(NONE), int64(NONE))
            if ply == plies - 1:
                after = int64((winning_cells(lanes[ply], occupied[ply], piece, rules) >> cell) & 1)
                if after == 0:
                    end = Position(lanes[plies], occupied[plies], available[plies], int64(NONE), int64(NONE))
                    after = value_on_board(end, int64(-1), rules, search) * (1 - 2 * int64(mover))
                judged.last[game] = after
            if mover:
                value = value_on_board(board, after, rules, search)
                judged.held[ply, game] = value
                if task.choices != 0:
                    pieces, count = available[ply], int64(0)
                    while pieces:
                        count += saving_cells(board, lowest_bit(pieces), value, rules, search)
                        pieces &= pieces - 1
                    judged.saving_cells[ply, game] = count
                after = -value
                continue
            held = value_in_hand(board, piece, after, rules, search)
            given = value_on_board(board, -held, rules, search)
            judged.held[ply, game], judged.given[ply, game] = held, given
            if task.choices != 0:
                judged.saving_cells[ply, game] = saving_cells(board, piece, held, rules, search)
                judged.saving_gifts[ply, game] = saving_gifts(board, given, rules, search)
            after = given
        if search.stopped != 0:
            break


@kernel()
def scatter(rows: NDArray[np.int8], plies: NDArray[np.int8], matrix: NDArray[np.int8]) -> None:
    """Rows by (ply, game) into ``matrix`` [16, G]; game g has ``plies[g]`` of them."""
    row = 0
    for ply in range(PIECES):
        for game in range(plies.shape[0]):
            if ply < plies[game]:
                matrix[ply, game] = rows[row]
                row += 1
