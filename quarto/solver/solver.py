"""Exact values and distances of positions, for Python: one solver a thread, and one table for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.bits import lowest_bit, popcount
from quarto.errors import RequestError, describe_value
from quarto.jit import inline_function, int64, kernel, to_kernel_called_by_address, uint64
from quarto.notation import format_position
from quarto.observations import GIFT_CODES, NO_CELL, NO_GIFT, TURN_CODES
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition, board_piece_mask, place_piece
from quarto.rules import CELLS, CLASSIC, NONE, PIECES, Rules, find_finished_lines
from quarto.solver.distance import giver_wins_or_loses_within, mover_wins_or_loses_within
from quarto.solver.search import can_giver_win_or_draw, can_mover_win_or_draw, can_placer_win_or_draw
from quarto.solver.solution import Solution, SolvedTurn
from quarto.solver.table import (
    CHILD_FIELDS,
    DRAW,
    RULES_TYPE,
    SEARCH_TYPE,
    WIN,
    TablebaseIndex,
    allocate_table,
    build_search_record,
)
from quarto.threats import SAFE_PIECES, danger_byte, winning_cells
from quarto.views import Position

MEGABYTES = 128.0  # size of the table of values; the table of distances has a quarter of this size

POSITION_TYPES = (types.uint64, types.int64, types.int64, types.int64)  # lanes, occupied, available, hand
STATE_TYPES = (*POSITION_TYPES, RULES_TYPE, SEARCH_TYPE)
BATCH_TYPES = (types.uint64[::1], types.uint16[::1], types.uint16[::1], types.int8[::1])  # the same for ``B`` positions
ILLEGAL = np.int8(-128)  # stands for the value of a turn that is not legal


@kernel(types.int64(*STATE_TYPES))
def _solve_value(lanes: int, occupied: int, available: int, hand: int, rules: Any, search: Any) -> int:
    """Return the value of a position for the player to act: 1 won, 0 drawn, -1 lost.

    Nobody may have finished a line in the position. The value has no meaning once ``search.stopped`` is 1.
    """
    if hand >= 0:
        if winning_cells(lanes, occupied, hand, rules):
            return 1
        if can_placer_win_or_draw(lanes, occupied, available, hand, WIN, rules, search):
            return 1
        return can_placer_win_or_draw(lanes, occupied, available, hand, DRAW, rules, search) - 1
    if available == 0:
        return 0
    if rules.mover_chooses != 0:
        if can_mover_win_or_draw(lanes, occupied, available, WIN, rules, search):
            return 1
        return can_mover_win_or_draw(lanes, occupied, available, DRAW, rules, search) - 1
    safe = available & SAFE_PIECES[danger_byte(lanes, occupied, rules)]
    if can_giver_win_or_draw(lanes, occupied, available, safe, WIN, rules, search):
        return 1
    return can_giver_win_or_draw(lanes, occupied, available, safe, DRAW, rules, search) - 1


solve_value = to_kernel_called_by_address(_solve_value)


@kernel(types.int64(types.int64, *STATE_TYPES))
def _solve_distance(value: int, lanes: int, occupied: int, available: int, hand: int, rules: Any, search: Any) -> int:
    """Return the number of placements until the game ends if the winner hurries and the loser delays.

    ``value`` is the value of the position. The number has no meaning once ``search.stopped`` is 1.
    """
    placements_left = CELLS - int64(popcount(occupied))
    if value == 0:
        return placements_left
    if hand < 0:
        mover_chooses = rules.mover_chooses != 0
        first = 2 - int64(value < 0) if not mover_chooses else 1 + int64(value < 0)
        for placements in range(first, placements_left + 1, 2):
            if mover_chooses:
                yes = mover_wins_or_loses_within(lanes, occupied, available, placements, rules, search)
            else:
                yes = giver_wins_or_loses_within(lanes, occupied, available, placements, rules, search)
            if yes or search.stopped:
                return placements
        return placements_left
    if winning_cells(lanes, occupied, hand, rules):
        return 1
    for placements in range(2 + int64(value > 0), placements_left + 1, 2):
        empty, forced_by, cells = ~occupied & ALL_CELLS, int64(0), int64(0)
        while empty:
            cell = lowest_bit(empty)
            empty &= empty - 1
            board, filled = place_piece(lanes, hand, cell), occupied | int64(1) << cell
            forced_by += giver_wins_or_loses_within(board, filled, available, placements - 1, rules, search)
            cells += 1
            if (value > 0 and forced_by) or (value < 0 and forced_by < cells):
                break
        if search.stopped or (forced_by if value > 0 else forced_by == cells):
            return placements
    return placements_left


solve_distance = to_kernel_called_by_address(_solve_distance)


@inline_function
def _fill_solved_turn(
    turn: Any, cell: int, gift: int, after: PackedPosition, with_distance: bool, rules: Any, search: Any
) -> None:
    """Solve the position ``after``, to which a turn leads, and write the turn into ``turn`` [4] int8.

    ``cell`` and ``gift`` are the turn. The four numbers are the columns that ``fill_and_count_solved_turns`` explains.
    """
    state = (after.lanes, after.occupied, after.available, after.hand)
    value = solve_value(*state, rules, search)
    turn[0], turn[1], turn[2] = cell, gift, -value
    turn[3] = solve_distance(value, *state, rules, search) + int64(cell >= 0) if with_distance else 0


@kernel(types.int64(types.boolean, types.int8[:, ::1], *STATE_TYPES))
def fill_and_count_solved_turns(
    with_distance: bool, turns: Any, lanes: int, occupied: int, available: int, hand: int, rules: Any, search: Any
) -> int:
    """Write every legal turn into ``turns`` [256, 4] int8, and return the number of turns.

    The columns are the cell, the gift, the value for the player who takes the turn, and the distance. The distance has
    no meaning unless ``with_distance`` is true. The gift is NONE for a placement that ends the game, and the cell is
    NONE if no piece is in hand, because the turn is then only a gift.

    Under rules by which the mover chooses the piece, the gift column has the piece that is placed.
    """
    count, mover_chooses = int64(0), rules.mover_chooses != 0
    pieces = available if hand < 0 else int64(1) << hand
    while pieces:
        piece = lowest_bit(pieces)
        pieces &= pieces - 1
        rest = available & ~(int64(1) << piece)
        if hand < 0 and not mover_chooses:
            after = PackedPosition(lanes, occupied, rest, piece, int64(NONE))
            _fill_solved_turn(turns[count], int64(NONE), piece, after, with_distance, rules, search)
            count += 1
            continue
        wins, empty = winning_cells(lanes, occupied, piece, rules), ~occupied & ALL_CELLS
        while empty:
            cell = lowest_bit(empty)
            empty &= empty - 1
            won, board, filled = (wins >> cell) & 1, place_piece(lanes, piece, cell), occupied | int64(1) << cell
            if won != 0 or rest == 0:
                turns[count, 0], turns[count, 1] = cell, piece if mover_chooses else NONE
                turns[count, 2], turns[count, 3] = won, 1
                count += 1
                continue
            gifts = rest if not mover_chooses else int64(1) << piece
            while gifts:
                gift = lowest_bit(gifts)
                gifts &= gifts - 1
                hand_then = int64(NONE) if mover_chooses else gift
                after = PackedPosition(board, filled, rest & ~(int64(1) << gift), hand_then, cell)
                _fill_solved_turn(turns[count], cell, gift, after, with_distance, rules, search)
                count += 1
    return count


@kernel(types.void(types.uint64[::1], types.uint16[::1], types.int8[::1], types.int8[::1], RULES_TYPE, SEARCH_TYPE))
def fill_solved_values(lanes: Any, occupied: Any, hands: Any, values: Any, rules: Any, search: Any) -> None:
    """Write the values of ``B`` positions in which nobody has finished a line into ``values``.

    The four arrays are [B]; ``hands`` is NONE before a gift. The kernel stops early once ``search.stopped`` is 1.
    """
    for i in range(len(lanes)):
        if search.stopped != 0:
            break
        filled, hand = int64(occupied[i]), int64(hands[i])
        available = ALL_PIECES & ~board_piece_mask(lanes[i], filled)
        if hand >= 0:
            available &= ~(int64(1) << hand)
        values[i] = solve_value(lanes[i], filled, available, hand, rules, search)


@kernel(types.void(types.int8[:, ::1], *BATCH_TYPES, RULES_TYPE, SEARCH_TYPE))
def fill_solved_turn_values(
    values: Any, lanes: Any, occupied: Any, available: Any, hands: Any, rules: Any, search: Any
) -> None:
    """Write the values of all legal turns in ``B`` positions into ``values`` [B, 289].

    Nobody may have finished a line in any of the positions. The kernel stops early once ``search.stopped`` is 1.
    """
    turns = np.empty((CELLS * PIECES, 4), np.int8)
    for i in range(len(lanes)):
        if search.stopped != 0:
            break
        state = (lanes[i], int64(occupied[i]), int64(available[i]), int64(hands[i]))
        for turn in turns[: fill_and_count_solved_turns(False, turns, *state, rules, search)]:
            cell = int64(turn[0]) if turn[0] >= 0 else int64(NO_CELL)
            values[i, GIFT_CODES * cell + (turn[1] if turn[1] >= 0 else NO_GIFT)] = turn[2]


class Solver:
    """A solver of positions under one set of rules.

    Each thread needs its own solver: see ``fork``. A solver and its forks share their results.

    Args:
        rules: The rules of the positions.
        megabytes: The size of the table of values. The table of distances takes another quarter of this size.
        base: A tablebase for these rules. Boards with no more pieces than it covers are looked up instead of searched.

    Raises:
        FailureError: The tables do not fit into memory.

    Examples:
        >>> from quarto import CLASSIC, Position, Solver
        >>> solver = Solver(CLASSIC, megabytes=1)
        >>> solver.value(Position.parse("0.6F/.3A./..5./C..9 7").packed)
        0

    """

    def __init__(self, rules: Rules, megabytes: float = MEGABYTES, base: TablebaseIndex | None = None) -> None:
        self.rules, self.base = rules, base
        self._arrays = {
            "table": allocate_table(megabytes),
            "distances": allocate_table(megabytes / 4),
            "stop": np.zeros(1, np.int64),
            **({"base": base.words} if base else {}),
        }
        self._allocate_children_and_search_record()

    def _allocate_children_and_search_record(self) -> None:
        """Allocate the arrays that each solver has for itself, and build the search record that kernels take."""
        self._arrays["children"] = np.zeros((CELLS + 1, CELLS, CHILD_FIELDS), np.uint64)
        self._search = build_search_record(self.rules, self._arrays)
        if self.base:
            self._search["base_pieces"] = self.base.pieces
        self.state = (self.rules.tables, self._search[0])  # what kernels take: rules, search

    def fork(self, own_stop: bool = False) -> Solver:
        """Return a solver that uses the same tables, for another thread.

        With ``own_stop``, the fork is stopped only by its own ``stop``. Otherwise a call of ``stop`` on this solver or
        on the fork stops both.
        """
        other = Solver.__new__(Solver)
        other.rules, other.base, other._arrays = self.rules, self.base, dict(self._arrays)
        if own_stop:
            other._arrays["stop"] = np.zeros(1, np.int64)
        other._allocate_children_and_search_record()
        return other

    def map_memory(self) -> None:
        """Make the operating system map all memory of the tables now, so that searches cause no page faults.

        This empties the tables.
        """
        for name in ("table", "distances"):
            self._arrays[name].fill(0)

    def stop(self) -> None:
        """End every search of this solver and of its forks. The answers of these searches have no meaning.

        Any thread may call this. Forks that have a stop of their own go on.
        """
        self._arrays["stop"][0] = 1

    @property
    def stopped(self) -> bool:
        """Whether the solver has been stopped during a search. From then on its answers have no meaning."""
        return bool(self._search["stopped"][0])

    @property
    def nodes(self) -> int:
        """The number of positions that this solver, without its forks, has searched so far."""
        return int(self._search["nodes"][0])

    def value(self, position: PackedPosition) -> int:
        """Return the value of a position for the player to act: 1 won, 0 drawn, -1 lost.

        The position must be live, which means that nobody has finished a line. The value has no meaning once the solver
        is ``stopped``.
        """
        return int(solve_value(*self._to_words(position), *self.state))

    def values(
        self, lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], hands: NDArray[np.int8] | None = None
    ) -> NDArray[np.int8]:
        """Return the values of ``B`` positions for the player to act: [B] int8.

        Nobody may have finished a line in any of them. ``hands`` [B] has the pieces in hand, or NONE before a gift.
        Without ``hands``, all positions are before a gift. The values have no meaning once the solver is ``stopped``.
        """
        values = np.zeros(len(lanes), np.int8)
        fill_solved_values(
            lanes, occupied, np.full(len(lanes), NONE, np.int8) if hands is None else hands, values, *self.state
        )
        return values

    def turn_values(self, batch: Batch) -> NDArray[np.int8]:
        """Return the value of every turn in ``B`` positions, for the player who takes the turn: [B, 289] int8.

        Nobody may have finished a line in any of them. 1 is won, 0 drawn, -1 lost, and ``ILLEGAL`` (-128) marks turns
        that are not legal. The column of a turn is its code (0 to 288): see ``quarto.observations``. The values have no
        meaning once the solver is ``stopped``.
        """
        values = np.full((len(batch.lanes), TURN_CODES), ILLEGAL)
        lanes, occupied, available, hands = map(np.ascontiguousarray, batch[:-1])
        fill_solved_turn_values(values, lanes, occupied, available, hands, *self.state)
        return values

    def distance(self, position: PackedPosition, value: int) -> int:
        """Return the number of placements until the game is over under perfect play.

        ``value`` is the value of the position.
        """
        return int(solve_distance(value, *self._to_words(position), *self.state))

    def turns(self, position: PackedPosition, distance: bool = True) -> tuple[SolvedTurn, ...]:
        """Return every legal turn with its value, sorted by cell and then by gift.

        With ``distance``, each turn has its distance too.
        """
        buffer = np.zeros((CELLS * PIECES, 4), np.int8)
        count = fill_and_count_solved_turns(distance, buffer, *self._to_words(position), *self.state)
        rows = buffer[:count].tolist()
        return tuple(
            SolvedTurn(cell, gift, value, placements if distance else None) for cell, gift, value, placements in rows
        )

    def solve(self, position: PackedPosition, turns: bool = True, distance: bool = True) -> Solution:
        """Return the value of a position and, if requested, its distance and its turns."""
        value = self.value(position)
        return Solution(
            value, self.distance(position, value) if distance else None, self.turns(position, distance) if turns else ()
        )

    @staticmethod
    def _to_words(position: PackedPosition) -> tuple[int, int, int, int]:
        return uint64(position.lanes), position.occupied, position.available, position.hand


def solve(position: Position | str, rules: Rules = CLASSIC, distance: bool = True) -> Solution:
    """Solve a position: find its exact value, and the value of every turn.

    With six pieces or more on the board this takes at most a few seconds. With fewer pieces it may take hours;
    `qarena solve` is faster, because it uses the tables of `qarena tablebase`.

    Args:
        position: A position, or its text: four rows of pieces or dots and the piece in hand (``-`` for none).
        rules: The rules of a text. A ``Position`` has its own rules.
        distance: Whether to count the placements until the game is over under perfect play.

    Returns:
        A ``Solution``: ``value`` for the player to act (1 won, 0 drawn, -1 lost), every turn in ``turns``, the best
        turns in ``best``, and ``frame`` with a row for each turn. ``turn.text`` names a turn: ``c3 7`` places the
        piece in hand on c3 and gives 7.

    Raises:
        RequestError: The text or the value is not a position, or the game is over.

    Examples:
        >>> import quarto
        >>> solution = quarto.solve("0.6F/.3A./..5./C..9 7")
        >>> solution.value, solution.best[0].text
        (0, 'b4 1')

    """
    view = Position.parse(position, rules) if isinstance(position, str) else position
    if not isinstance(view, Position):
        raise RequestError(f"{describe_value(view)} is no position: write its text, such as '0.6F/.3A./..5./C..9 7'")
    if find_finished_lines([*view.board], view.rules) or not view.free:
        text = format_position(view.packed, view.rules.name)
        raise RequestError(f"in {text} the game is over: nothing is left to solve")
    return Solver(view.rules).solve(view.packed, distance=distance)
