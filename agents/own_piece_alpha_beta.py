"""Study D's minimax, for rules under which the mover chooses the piece as well as the cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from agents.base.agent import RULES_TYPE, KernelAgent, Knowledge, encode_turn, params, turn
from agents.base.parameters import check_flag, check_integer
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel
from quarto.position import ALL_CELLS, POSITION_TYPE, PackedPosition, give_piece, place_hand
from quarto.rules import CELLS, PIECES, SIDE, Rules
from quarto.threats import safe_pieces, winning_cells

LINE = 10  # a line is worth this, less the placements it took
MAX_DEPTH = LINE - 1  # deeper, a line would be worth nothing
UNBOUNDED = 2 * LINE


@inline_function
def full_board_value(placements_made: int, faithful: bool) -> int:
    """Return what a placement that fills the board without a line is worth to the player who makes it.

    The value is 0 or, with ``faithful``, as much as if the placement finished a line. ``placements_made`` counts the
    placements from the root of the search up to and including this one.
    """
    return LINE - placements_made if faithful else 0


VALUE_SIGNATURE = types.int64(
    POSITION_TYPE, types.int64, types.int64, types.int64, types.int64, types.boolean, RULES_TYPE
)


@kernel(VALUE_SIGNATURE)
def search_value(
    position: PackedPosition, placements_made: int, depth: int, alpha: int, beta: int, faithful: bool, rules: Any
) -> int:
    """Return what a board without a line is worth to the mover.

    The search is ``depth`` placements deep, and ``placements_made`` of them have been made. At least one piece must be
    left. A value that is not between ``alpha`` and ``beta`` is only a bound on the true value (fail-soft).
    """
    if placements_made == depth:
        return int64(0)
    if position.available & ~safe_pieces(position.lanes, position.occupied, rules) != 0:
        return int64(LINE - placements_made - 1)
    if popcount(position.available) == 1:
        return int64(full_board_value(placements_made + 1, faithful))
    # Without a line now, the next own placement but one is the first that can win.
    ceiling = int64(LINE - placements_made - 3) if placements_made + 3 <= depth else int64(0)
    best, empty = int64(-UNBOUNDED), ~position.occupied & ALL_CELLS
    if placements_made + 1 == depth or ceiling <= alpha:
        return ceiling
    while empty != 0 and best < beta:
        pieces = position.available
        while pieces != 0 and best < beta:
            after = place_hand(give_piece(position, lowest_bit(pieces)), lowest_bit(empty))
            best = max(
                best, -search_value(after, placements_made + 1, depth, -beta, -max(alpha, best), faithful, rules)
            )
            pieces &= pieces - 1
        empty &= empty - 1
    return best


@kernel(types.int64(POSITION_TYPE, types.int64, types.boolean, RULES_TYPE))
def best_turn(position: PackedPosition, depth: int, faithful: bool, rules: Any) -> int:
    """Return the best turn, as ``encode_turn`` encodes it; on ties the first one.

    Cells are tried column by column, and pieces in ascending order.
    """
    best, choice = int64(-UNBOUNDED), int64(0)
    for number in range(CELLS):
        cell = int64(number % SIDE * SIDE + number // SIDE)
        for piece in range(PIECES):
            if (position.occupied >> cell) & 1 or (position.available >> piece) & 1 == 0 or best == LINE - 1:
                continue
            after = place_hand(give_piece(position, piece), cell)
            if (winning_cells(position.lanes, position.occupied, piece, rules) >> cell) & 1:
                value = int64(LINE - 1)
            elif after.available == 0:
                value = int64(full_board_value(int64(1), faithful))
            else:
                value = -search_value(after, int64(1), depth, -UNBOUNDED, -best, faithful, rules)
            if value > best:
                best, choice = value, encode_turn(cell, piece)
    return choice


@turn
def own_piece_alpha_beta_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings = params(agent)
    return best_turn(position, int64(settings[0]), settings[1] != 0.0, rules)


class OwnPieceAlphaBeta(KernelAgent):
    """Study D's minimax with alpha-beta (Hernández Jiménez), for rules where the mover chooses the piece.

    It searches on every ply. ``depth`` counts placements, beginning with the player's own. A line finished by the n-th
    placement of the search is worth 10 - n to the player who makes it and n - 10 to the other. Anything else is worth
    0. The first of the best turns is played; cells are tried column by column, and pieces in ascending order. With
    ``faithful``, as in the study's code, a full board without a line counts as a line of the player who filled it.
    Raises ``ValueError`` for a depth outside 1 to 9.
    """

    kernel = own_piece_alpha_beta_turn
    choosers = ("mover",)

    def __init__(self, depth: int = 4, faithful: bool = False) -> None:
        self.depth = check_integer("depth", depth, 1, MAX_DEPTH)
        self.faithful = check_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.depth), float(self.faithful)]))
