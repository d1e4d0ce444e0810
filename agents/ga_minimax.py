"""Study B's strongest player: ga2, with a search when a line lacks only one cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from agents.alpha_beta import (
    MEMORY_SIZE,
    SOONER_WIN_EVALUATION,
    TURN_BITS,
    UNBOUNDED,
    proven_result_or_zero,
    search_valued_turn,
)
from agents.base.agent import RULES_TYPE, KernelAgent, Knowledge, encode_turn, params, report_evaluation, turn
from agents.base.parameters import check_flag, check_integer, check_probability
from agents.ga2 import VALUE_BITS, cell_of_nearly_full_or_random_line, pack_value_ranks
from quarto.batch import NO_VISITS
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel
from quarto.position import ALL_CELLS, POSITION_TYPE, PackedPosition, place_hand
from quarto.rng import draw, integer_below, unit_float
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Rules
from quarto.threats import VALUES, safe_pieces, winning_cells

FEW_EMPTY = 8  # with fewer empty cells it searches to its full depth, otherwise one placement
RANDOM_COMBINATION = 4  # index of the word that chooses among combinations; 0 to 3 are those of the two genes


@inline_function
def threatened_cells(occupied: int, rules: Any) -> int:
    """Return, as a mask of 16 bits, each empty cell that is the only empty cell of some line."""
    return int64(rules.completes[occupied]) & ~occupied


@inline_function
def count_value_choices_forming_piece(piece: int, ranks: int, first_values: int) -> int:
    """Count the ways to form ``piece`` from four of the ``first_values`` attribute values of lowest rank.

    Four values form a piece if their bits add up to it. High, coloured, solid and square each set a bit; ``ranks``
    packs their ranks (``pack_value_ranks``). Low, uncoloured, hollow and round set no bit; they have the remaining
    ranks.
    """
    blanks_needed, blanks = ATTRIBUTES - int64(popcount(piece)), first_values
    for i in range(ATTRIBUTES):
        inside = ((ranks >> (3 * i)) & 7) < first_values
        blanks -= int64(inside)
        if piece & VALUE_BITS[i] and not inside:
            return int64(0)
    ways = int64(1)
    for i in range(blanks_needed):
        ways = ways * (blanks - i) // (i + 1)
    return ways


@inline_function
def gift_by_random_combination(
    position: PackedPosition, allowed: int, commonest_first_probability: float, seed: int
) -> int:
    """Try the study's combinations of attribute values in random order, and return the first piece that is allowed.

    ``allowed`` is a mask of 16 bits. The result is NONE if no piece is allowed. With probability
    ``commonest_first_probability`` the combinations begin with common values, otherwise with rare ones.
    """
    if allowed == 0:
        return int64(NONE)
    ranks = pack_value_ranks(
        position.lanes, position.occupied, unit_float(draw(seed, 0)) >= commonest_first_probability
    )
    for size in range(ATTRIBUTES, VALUES + 1):
        total = int64(0)
        for piece in range(PIECES):
            if (allowed >> piece) & 1:
                total += count_value_choices_forming_piece(piece, ranks, size)
        rank = integer_below(draw(seed, RANDOM_COMBINATION), total)
        for piece in range(PIECES):
            if total != 0 and (allowed >> piece) & 1:
                rank -= count_value_choices_forming_piece(piece, ranks, size)
                if rank < 0:
                    return int64(piece)
    return int64(NONE)


PHANTOM_SIGNATURE = types.int64(POSITION_TYPE, types.int64, types.int64, types.int64, types.boolean, RULES_TYPE)


@kernel(PHANTOM_SIGNATURE)
def study_search_value(
    position: PackedPosition, depth: int, alpha: int, beta: int, maximising: bool, rules: Any
) -> int:
    """Return what a board without a line is worth, by study B's code, to the side that began the search.

    ``GaMinimax`` explains this search. A piece may stand twice on a board of this search, because the code places
    ``hand`` even if it is on the board already. ``available`` is the set of all pieces off the board; it contains the
    hand unless the hand is on the board already. ``UNBOUNDED`` stands for infinity.
    """
    empty = ~position.occupied & ALL_CELLS
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    best = int64(-UNBOUNDED if maximising else UNBOUNDED)
    while empty != 0 and alpha < beta:
        cell = lowest_bit(empty)
        placed = place_hand(position, cell)
        unplaced = position.available & ~(int64(1) << position.hand)
        gifts = position.available
        while gifts != 0 and alpha < beta:
            value = int64(0)
            if (wins >> cell) & 1:
                value = int64(depth if maximising else -UNBOUNDED)
            elif depth > 1:
                child = PackedPosition(placed.lanes, placed.occupied, unplaced, int64(lowest_bit(gifts)), cell)
                value = study_search_value(child, depth - 1, alpha, beta, not maximising, rules)
            best = max(best, value) if maximising else min(best, value)
            alpha, beta = (max(alpha, best), beta) if maximising else (alpha, min(beta, best))
            gifts &= gifts - 1
        empty &= empty - 1
    return best


@kernel(types.int64(POSITION_TYPE, types.int64, RULES_TYPE))
def study_search_cell(position: PackedPosition, depth: int, rules: Any) -> int:
    """Return the cell that study B's code values most, the first one on ties."""
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    best, choice = int64(-UNBOUNDED - 1), int64(NONE)
    for cell in range(CELLS):
        if (position.occupied >> cell) & 1:
            continue
        placed, value = place_hand(position, cell), 1 + depth
        if (wins >> cell) & 1 == 0:
            after = PackedPosition(placed.lanes, placed.occupied, position.available, position.hand, placed.last_cell)
            value = study_search_value(after, depth, -UNBOUNDED, UNBOUNDED, False, rules)
        if value > best:
            best, choice = value, int64(cell)
    return choice


@inline_function
def study_cell_or_surely_winning_cell(
    position: PackedPosition, depth: int, faithful: bool, rules: Any, agent: Any
) -> int:
    """Return the cell that the search finds, or NONE.

    With ``faithful``, it is the best cell by the study's code, whatever its value. Otherwise it is a cell that surely
    wins, or NONE if the search finds none.
    """
    if faithful:
        return study_search_cell(position, depth, rules)
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins != 0:
        report_evaluation(agent, 1.0, NO_VISITS)
        return int64(lowest_bit(wins))
    if depth == 1:
        return int64(NONE)
    valued_turn = search_valued_turn(position, depth, SOONER_WIN_EVALUATION, rules, agent)
    report_evaluation(agent, proven_result_or_zero(valued_turn), NO_VISITS)
    return int64(valued_turn & 0xFF) if valued_turn >> TURN_BITS > 0 else int64(NONE)


@turn
def ga_minimax_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings, placed, cell = params(agent), position, int64(NONE)
    if position.hand != NONE:
        if threatened_cells(position.occupied, rules) != 0:
            few = CELLS - int64(popcount(position.occupied)) < FEW_EMPTY
            cell = study_cell_or_surely_winning_cell(
                position, int64(settings[2]) if few else int64(1), settings[3] != 0.0, rules, agent
            )
        if cell == NONE:
            cell = cell_of_nearly_full_or_random_line(position.occupied, settings[1], seed)
        placed = place_hand(position, cell)
    allowed = position.available
    if threatened_cells(placed.occupied, rules) != 0:
        safe = allowed & safe_pieces(placed.lanes, placed.occupied, rules)
        allowed = safe if safe != 0 else allowed
    return encode_turn(cell, gift_by_random_combination(placed, allowed, settings[0], seed))


class GaMinimax(KernelAgent):
    """Study B's ``ga2`` with a search (``quarto_ci_2022_2023``).

    Cell: if some line lacks only one cell, a search over turns looks for a cell that surely wins. The search is
    ``depth`` placements deep if fewer than eight cells are empty, otherwise one placement deep. If there is no such
    cell, the cell is chosen as in ``ga2``. Gift: as in ``ga2``, except that the combinations of attribute values that
    form a piece are tried in a random order, drawn with random word 4 of the turn. If some line lacks only one cell,
    the agent gives a safe piece, as long as there is one.

    With ``faithful``, the search follows the study's code:

    - The reply to a cell places the same piece once more, because no other piece is selected yet.
    - A line that the agent's first placement finishes is worth 1 + ``depth``. A line that a later placement of the
      agent finishes is worth 1 + the number of placements left, and a line that the opponent finishes is worth
      -infinity.
    - A full board is worth infinity if the opponent would be next to move, and -infinity if the agent would be.
    - The first of the best cells is always taken, so ``ga2``'s rules for nearly full lines are never reached.

    As its evaluation of a turn the agent reports what the search proved, as ``alpha_beta`` does. It reports nothing
    without a search, or with ``faithful``. Raises ``ValueError`` for a gene outside 0 to 1, or a depth outside 1 to 16.
    """

    kernel = ga_minimax_turn

    def __init__(self, alpha: float = 0.1, beta: float = 0.3, depth: int = 1, faithful: bool = False) -> None:
        self.alpha = check_probability("alpha", alpha)
        self.beta = check_probability("beta", beta)
        self.depth = check_integer("depth", depth, 1, CELLS)
        self.faithful = check_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = [self.alpha, self.beta, float(self.depth), float(self.faithful)]
        return Knowledge(params=np.array(settings), scratch_size=MEMORY_SIZE)
