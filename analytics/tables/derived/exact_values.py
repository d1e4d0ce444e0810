"""Exact values of every decision in finished games: the value before it and the value after it.

A game is evaluated from its end backwards. If a turn led to a won position, its player was winning already. So most
positions of a decided game need one search or none. Before a search a board is looked up in a table by its canonical
key. All threads share the table and keep it from game to game, so transpositions are solved once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Games
from quarto.bits import lowest_bit, popcount
from quarto.jit import function_value, inline_function, int64, kernel, to_kernel_called_by_address, uint64
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition, place_piece
from quarto.rules import CELLS, NONE
from quarto.solver.search import (
    MOVER_QUESTION_SIGNATURE,
    can_giver_win_or_draw,
    can_mover_win_or_draw,
    can_placer_win_or_draw,
    can_win_at_once,
)
from quarto.solver.table import DRAW, RULES_TYPE, SEARCH_TYPE, WIN, proof_key, recall_answer, remember_answer
from quarto.threats import SAFE_PIECES, danger_byte, winning_cells

NOT_COUNTED = -1  # instead of a number of choices
UNKNOWN = 2  # instead of an exact value: 1 won, 0 drawn, -1 lost
TABLE_PIECES = 9  # boards with more pieces are not looked up where the opponent chooses the piece
TABLE_PIECES_MOVER = 11  # the same where the mover chooses the piece


class ExactValues(NamedTuple):
    """The exact values of the decisions in ``G`` games, by ply and game, and how many choices keep each value.

    A value is 1 for a win, 0 for a draw or -1 for a loss, from the point of view of the player who decides.
    """

    gift: NDArray[np.int8]  # [17, G] before each gift, for the giver; not used where the mover chooses
    placement: NDArray[np.int8]  # [16, G] before each placement (where the mover chooses: each turn), for the mover
    end: NDArray[np.int8]  # [G] after the last placement, for the mover
    saving_gifts: NDArray[np.int16]  # [16, G] how many gifts keep the giver's value, or NOT_COUNTED
    saving_cells: NDArray[np.int16]  # [16, G] how many cells (or turns) keep the mover's value, or NOT_COUNTED

    @staticmethod
    def zeros_with_uncounted_choices(games: int) -> ExactValues:
        """Return arrays for ``games`` games in which all values are 0 and all counts of choices are ``NOT_COUNTED``."""
        gift, placement = (np.zeros((size, games), np.int8) for size in (CELLS + 1, CELLS))
        gifts, cells = (np.full((CELLS, games), NOT_COUNTED, np.int16) for _ in range(2))
        return ExactValues(gift, placement, np.zeros(games, np.int8), gifts, cells)


GAMES_TYPE = numba.typeof(Games.allocate(1))
VALUES_TYPE = numba.typeof(ExactValues.zeros_with_uncounted_choices(1))
COUNT_TYPE = types.int64


@function_value(MOVER_QUESTION_SIGNATURE)
def _can_giver_achieve(lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any) -> int:
    """Return 1 if the giver can do what ``question`` asks, otherwise 0.

    The question ``WIN`` asks for a win, and ``DRAW`` for at least a draw. ``available`` must not be empty.
    """
    pieces = int64(popcount(occupied))
    key = proof_key(lanes, occupied, search) if pieces <= TABLE_PIECES else uint64(0)
    stored = recall_answer(key, pieces, question, search) if pieces <= TABLE_PIECES else int64(-1)
    if stored >= 0:
        return stored
    safe = available & SAFE_PIECES[danger_byte(lanes, occupied, rules)]
    answer = can_giver_win_or_draw(lanes, occupied, available, safe, question, rules, search)
    if pieces <= TABLE_PIECES and search.stopped == 0:
        remember_answer(key, question, answer, search)
    return answer


can_giver_achieve = to_kernel_called_by_address(_can_giver_achieve)


@inline_function
def can_mover_achieve(board: PackedPosition, gift: int, question: int, rules: Any, search: Any) -> int:
    """Return 1 if the mover, with ``gift`` in hand, can do what ``question`` asks, otherwise 0.

    The question ``WIN`` asks for a win, and ``DRAW`` for at least a draw.
    """
    if winning_cells(board.lanes, board.occupied, gift, rules) != 0:
        return int64(1)
    rest = board.available & ~(int64(1) << gift)
    return can_placer_win_or_draw(board.lanes, board.occupied, rest, gift, question, rules, search)


@function_value(MOVER_QUESTION_SIGNATURE)
def _can_choosing_mover_achieve(
    lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any
) -> int:
    """Return 1 if a mover who chooses the piece can do what ``question`` asks, otherwise 0.

    The question ``WIN`` asks for a win, and ``DRAW`` for at least a draw.
    """
    if available == 0:
        return int64(question == DRAW)
    if can_win_at_once(lanes, occupied, available, rules):
        return int64(1)
    pieces = int64(popcount(occupied))
    key = proof_key(lanes, occupied, search) if pieces <= TABLE_PIECES_MOVER else uint64(0)
    stored = recall_answer(key, pieces, question, search) if pieces <= TABLE_PIECES_MOVER else int64(-1)
    if stored >= 0:
        return stored
    answer = can_mover_win_or_draw(lanes, occupied, available, question, rules, search)
    if pieces <= TABLE_PIECES_MOVER and search.stopped == 0:
        remember_answer(key, question, answer, search)
    return answer


can_choosing_mover_achieve = to_kernel_called_by_address(_can_choosing_mover_achieve)


@inline_function
def solve_board(board: PackedPosition, at_least: int, rules: Any, search: Any) -> int:
    """Return the value of a board without a piece in hand, for the player whose turn it is.

    This is the giver or, if the mover chooses the piece, the mover. ``at_least`` is a lower bound of the value that the
    caller already knows; it shortens the search.
    """
    mover = rules.mover_chooses != 0
    if at_least > 0:
        return int64(1)
    if board.available == 0:
        return int64(0)
    for question in (WIN, DRAW):
        if question == DRAW and at_least == 0:
            return int64(0)
        if mover:
            yes = can_choosing_mover_achieve(board.lanes, board.occupied, board.available, question, rules, search)
        else:
            yes = can_giver_achieve(board.lanes, board.occupied, board.available, question, rules, search)
        if yes:
            return int64(1) - question
    return int64(-1)


@inline_function
def solve_hand(board: PackedPosition, piece: int, at_least: int, rules: Any, search: Any) -> int:
    """Return the value of a board for the mover, who holds the available piece ``piece``.

    ``at_least`` is a lower bound of the value that the caller already knows; it shortens the search.
    """
    if at_least > 0 or can_mover_achieve(board, piece, WIN, rules, search):
        return int64(1)
    if at_least == 0:
        return int64(0)
    return can_mover_achieve(board, piece, DRAW, rules, search) - 1


@inline_function
def count_saving_gifts(board: PackedPosition, value: int, rules: Any, search: Any) -> int:
    """Count the gifts that preserve ``value``, the giver's value of the board."""
    gifts, count = board.available, int64(0)
    if value < 0:
        return int64(popcount(gifts))
    while gifts:
        gift = lowest_bit(gifts)
        gifts &= gifts - 1
        count += 1 - can_mover_achieve(board, gift, DRAW if value > 0 else WIN, rules, search)
    return count


@inline_function
def count_saving_cells(board: PackedPosition, piece: int, value: int, rules: Any, search: Any) -> int:
    """Count the cells on which the mover can place ``piece`` and preserve ``value``, the mover's value of the board."""
    wins = winning_cells(board.lanes, board.occupied, piece, rules)
    count, empty = int64(0), ~board.occupied & ALL_CELLS
    rest = board.available & ~(int64(1) << piece)
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        lanes, occupied = place_piece(board.lanes, piece, cell), board.occupied | int64(1) << cell
        if value < 0:
            count += 1
        elif (wins >> cell) & 1:
            count += int64(value > 0)
        elif rest == 0:
            count += int64(value == 0)
        elif rules.mover_chooses != 0:
            count += 1 - can_choosing_mover_achieve(lanes, occupied, rest, DRAW if value > 0 else WIN, rules, search)
        else:
            count += can_giver_achieve(lanes, occupied, rest, WIN if value > 0 else DRAW, rules, search)
    return count


@inline_function
def fill_boards(games: Games, game: int, lanes: Any, occupied: Any, available: Any) -> None:
    """Fill three arrays [17] with the board before each ply of a game and the board after its last ply."""
    lanes[0], occupied[0], available[0] = uint64(0), 0, ALL_PIECES
    for ply in range(games.plies[game]):
        piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
        lanes[ply + 1] = place_piece(lanes[ply], piece, cell)
        occupied[ply + 1] = occupied[ply] | int64(1) << cell
        available[ply + 1] = available[ply] & ~(int64(1) << piece)


@kernel(
    types.void(COUNT_TYPE, COUNT_TYPE, COUNT_TYPE, GAMES_TYPE, types.int8[::1], VALUES_TYPE, RULES_TYPE, SEARCH_TYPE)
)
def fill_exact_game_values(
    start: int,
    end: int,
    choices: int,
    games: Games,
    first: NDArray[np.int8],
    values: ExactValues,
    rules: Any,
    search: Any,
) -> None:
    """Fill ``values`` for the games from ``start`` up to but not including ``end``, each from ply ``first`` [G] on.

    If ``choices`` is 1, the choices that preserve a value are counted too. If ``search.stopped`` is 1 when the function
    returns, the search was interrupted, and the values are meaningless.
    """
    lanes, occupied, available = np.empty(17, np.uint64), np.empty(17, np.int64), np.empty(17, np.int64)
    mover = rules.mover_chooses != 0
    for game in range(start, end):
        plies = int64(games.plies[game])
        fill_boards(games, game, lanes, occupied, available)
        after = int64(0)
        for ply in range(plies - 1, int64(first[game]) - 1, -1):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            board = PackedPosition(lanes[ply], occupied[ply], available[ply], int64(NONE), int64(NONE))
            if ply == plies - 1:
                after = int64((winning_cells(lanes[ply], occupied[ply], piece, rules) >> cell) & 1)
                if after == 0:
                    final = PackedPosition(lanes[plies], occupied[plies], available[plies], int64(NONE), int64(NONE))
                    after = solve_board(final, int64(-1), rules, search) * (1 - 2 * int64(mover))
                values.end[game] = after
            if mover:
                value = solve_board(board, after, rules, search)
                values.placement[ply, game] = value
                if choices != 0:
                    pieces, count = available[ply], int64(0)
                    while pieces:
                        count += count_saving_cells(board, lowest_bit(pieces), value, rules, search)
                        pieces &= pieces - 1
                    values.saving_cells[ply, game] = count
                after = -value
                continue
            placement = solve_hand(board, piece, after, rules, search)
            gift = solve_board(board, -placement, rules, search)
            values.placement[ply, game], values.gift[ply, game] = placement, gift
            if choices != 0:
                values.saving_cells[ply, game] = count_saving_cells(board, piece, placement, rules, search)
                values.saving_gifts[ply, game] = count_saving_gifts(board, gift, rules, search)
            after = gift
        if search.stopped != 0:
            break
