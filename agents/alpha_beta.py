"""Study B's minimax, and alpha-beta over turns (cell, gift) with an exact memory, which study A's players use too.

Depth counts placements. Values are whole numbers as the mover sees them: a draw is 0, and a loss is a win with the sign
changed. Two evaluations:

- ``SHARE_EVALUATION`` (study A): a line is worth ``FULL_SHARE``. At the depth limit the value for the mover is the
  share of safe pieces among those left. It goes from -``FULL_SHARE`` (0 percent) to ``FULL_SHARE`` (100 percent), and
  is 0 (50 percent) where no piece is left.
- ``SOONER_WIN_EVALUATION`` (study B): a line is worth 1 + the placements that the search could still have made, so
  sooner wins are preferred. A position at the depth limit is worth 0.

With a learned policy, a position at the limit is worth the learned value of its best turn instead, and a position with
many pieces its exact value. The best ``BREADTH`` turns are tried, in the order of their learned values.

The memory is a table in a thread's scratch with two words an entry. Its key is the whole state, so its entries are
exact, and turns do not depend on which entries it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from agents.base.agent import (
    AGENT_TYPE,
    RULES_TYPE,
    KernelAgent,
    Knowledge,
    TurnKernel,
    encode_turn,
    params,
    report_evaluation,
    scratch,
    turn,
)
from agents.base.parameters import check_integer
from agents.learning.policy import Policy
from agents.line_values import check_weights
from agents.search.policy_values import (
    EXACT_FROM,
    UNDECIDED,
    build_search_knowledge,
    count_turns,
    exact_value,
    find_best_turns,
    find_candidates,
    is_exact,
    position_after_turn,
    turn_value,
)
from quarto.batch import NO_VISITS
from quarto.bits import lowest_bit, popcount
from quarto.jit import float64, inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS, POSITION_TYPE, PackedPosition, give_piece, place_hand
from quarto.rng import mix
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.threats import safe_pieces, winning_cells

SHARE_EVALUATION, SOONER_WIN_EVALUATION = 0, 1
FULL_SHARE = 360360  # every share of up to fifteen pieces is a whole number of it
UNBOUNDED = 1 << 20  # beyond every value

MEMORY_DEPTH = 3  # shallower searches are cheaper than looking them up
MEMORY_ENTRIES = 1 << 13
MEMORY_SIZE = 2 * MEMORY_ENTRIES  # words of scratch
EXACT, AT_LEAST, AT_MOST = 0, 1, 2

TURN_BITS = 16
BREADTH = 8  # number of the best turns by a policy that are searched
DEPTH = 1  # index of the parameter, by a policy


@inline_function
def finished_line_value(evaluation_mode: int, placements_to_go: int) -> int:
    """Return what a line is worth to the player who finishes it, under ``evaluation_mode``.

    Under ``SHARE_EVALUATION``, every line is worth ``FULL_SHARE``. Under ``SOONER_WIN_EVALUATION``, it is worth
    ``placements_to_go``, the number of placements that the search had left just before the line was finished.
    """
    return FULL_SHARE if evaluation_mode == SHARE_EVALUATION else placements_to_go


@inline_function
def depth_limit_value(evaluation_mode: int, pieces_left: int, safe_left: int) -> int:
    """Return what a position at the depth limit is worth to the mover, under ``evaluation_mode``.

    Under ``SHARE_EVALUATION``, the value grows with the share of safe pieces: ``safe_left`` divided by ``pieces_left``,
    the number of pieces that the mover could give. It is -``FULL_SHARE`` if no piece is safe and ``FULL_SHARE`` if all
    are; if no piece is left, it is 0. Under ``SOONER_WIN_EVALUATION``, the value is always 0.
    """
    if evaluation_mode == SOONER_WIN_EVALUATION or pieces_left == 0:
        return int64(0)
    return 2 * FULL_SHARE * safe_left // pieces_left - FULL_SHARE


@inline_function
def memory_key(position: PackedPosition, depth: int) -> int:
    """Pack the occupied cells, the piece in hand and the depth of a search into 25 bits.

    Together with ``position.lanes`` (a mask of cells for each attribute), the key says which position is searched and
    how deep. The hand must not be empty. The key is never 0 once a piece is on the board.
    """
    return position.occupied | (position.hand << 16) | (depth << 20)


@inline_function
def memory_index(lanes: int, key: int) -> int:
    """Return where the entry of a position and a depth begins in the search's memory. An entry has two words.

    ``lanes`` are those of the position (a mask of cells for each attribute), and ``key`` is the ``memory_key`` of the
    position and the depth.
    """
    return 2 * int64(mix(lanes + (uint64(key) << uint64(38))) & uint64(MEMORY_ENTRIES - 1))


@inline_function
def one_placement_search_value(position: PackedPosition, evaluation_mode: int, rules: Any) -> int:
    """Search one placement deep, and return what the position is worth to the mover.

    The result is the value of the best turn: the greatest value over all cells and gifts. The caller must ensure that
    the piece in hand cannot finish a line. ``search_value`` calls this function for depth 1 under ``SHARE_EVALUATION``.
    """
    best = int64(-UNBOUNDED)
    empty, pieces_left = ~position.occupied & ALL_CELLS, int64(popcount(position.available)) - 1
    while empty != 0:
        placed = place_hand(position, lowest_bit(empty))
        safe = int64(popcount(position.available & safe_pieces(placed.lanes, placed.occupied, rules)))
        safe_left = safe - int64(safe > 0)  # a safe gift leaves the fewest
        best = max(best, -depth_limit_value(evaluation_mode, pieces_left, safe_left))
        empty &= empty - 1
    return best


SEARCH_SIGNATURE = types.int64(
    POSITION_TYPE, types.int64, types.int64, types.int64, types.int64, RULES_TYPE, AGENT_TYPE
)


@kernel(SEARCH_SIGNATURE)
def search_value(
    position: PackedPosition, depth: int, alpha: int, beta: int, evaluation_mode: int, rules: Any, agent: Any
) -> int:
    """Search ``depth`` placements deep, and return what the position is worth to the mover.

    The caller must ensure that the piece in hand cannot finish a line. A value that is not between ``alpha`` and
    ``beta`` is only a bound on the true value (fail-soft).
    """
    if position.available == 0:
        return int64(0)
    if depth == 1:
        return (
            one_placement_search_value(position, evaluation_mode, rules)
            if evaluation_mode == SHARE_EVALUATION
            else int64(0)
        )
    memory, key, index = scratch(agent), uint64(0), int64(0)
    if depth >= MEMORY_DEPTH:
        key = uint64(memory_key(position, depth))
        index = memory_index(position.lanes, key)
        entry = memory[index + 1]
        if memory[index] == position.lanes and entry & uint64(0x1FFFFFF) == key:
            value, bound = int64(entry >> uint64(27)) - UNBOUNDED, int64(entry >> uint64(25)) & 3
            if bound == EXACT or (bound == AT_LEAST and value >= beta) or (bound == AT_MOST and value <= alpha):
                return value
    best, lost = int64(-UNBOUNDED), -finished_line_value(evaluation_mode, depth - 1)
    empty = ~position.occupied & ALL_CELLS
    while empty != 0 and best < beta:
        placed = place_hand(position, lowest_bit(empty))
        safe = position.available & safe_pieces(placed.lanes, placed.occupied, rules)
        if safe != position.available:
            best = max(best, lost)
        while safe != 0 and best < beta:
            child = give_piece(placed, lowest_bit(safe))
            best = max(best, -search_value(child, depth - 1, -beta, -max(alpha, best), evaluation_mode, rules, agent))
            safe &= safe - 1
        empty &= empty - 1
    if depth >= MEMORY_DEPTH:
        bound = AT_LEAST if best >= beta else AT_MOST if best <= alpha else EXACT
        memory[index] = position.lanes
        memory[index + 1] = key | (uint64(bound) << uint64(25)) | (uint64(best + UNBOUNDED) << uint64(27))
    return best


@inline_function
def gift_value(
    position: PackedPosition, piece: int, depth: int, floor: int, evaluation_mode: int, rules: Any, agent: Any
) -> int:
    """Return what giving ``piece`` is worth to the giver, as found by a search ``depth`` placements deep.

    A value that is not above ``floor`` is only an upper bound.
    """
    child = give_piece(position, piece)
    if winning_cells(child.lanes, child.occupied, piece, rules) != 0:
        return -finished_line_value(evaluation_mode, depth)
    return -search_value(child, depth, -UNBOUNDED, -floor, evaluation_mode, rules, agent)


@kernel(types.int64(POSITION_TYPE, types.int64, types.int64, RULES_TYPE, AGENT_TYPE))
def search_valued_turn(position: PackedPosition, depth: int, evaluation_mode: int, rules: Any, agent: Any) -> int:
    """Return the best turn with the piece in hand, packed with its value into one integer.

    The integer is the value shifted left by ``TURN_BITS``, plus the encoded turn. On ties, the turn with the lowest
    cell is returned, then the one with the lowest gift.
    """
    best, turn, highest = int64(-UNBOUNDED), int64(0), finished_line_value(evaluation_mode, depth)
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    pieces = int64(popcount(position.available))
    for cell in range(CELLS):
        if (position.occupied >> cell) & 1 or best >= highest:
            continue
        placed = place_hand(position, cell)
        if (wins >> cell) & 1 or pieces == 0:
            value = highest if (wins >> cell) & 1 else int64(0)
            if value > best:
                best, turn = value, encode_turn(cell, lowest_bit(position.available) if pieces != 0 else NONE)
            continue
        safe = position.available & safe_pieces(placed.lanes, placed.occupied, rules)
        for gift in range(PIECES):
            if (position.available >> gift) & 1 == 0 or best >= highest:
                continue
            if depth == 1:
                safe_left = int64(popcount(safe & ~(int64(1) << gift)))
                value = -depth_limit_value(evaluation_mode, pieces - 1, safe_left)
            else:
                value = gift_value(placed, gift, depth - 1, best, evaluation_mode, rules, agent)
            if value > best:
                best, turn = value, encode_turn(cell, gift)
    return (best << TURN_BITS) | turn


@kernel(types.int64(POSITION_TYPE, types.int64, types.int64, RULES_TYPE, AGENT_TYPE))
def search_valued_gift(position: PackedPosition, depth: int, evaluation_mode: int, rules: Any, agent: Any) -> int:
    """Return the best gift of a position without a piece in hand, packed with its value into one integer.

    ``depth`` placements follow the gift. The lowest gift is returned on ties. The integer has the form that
    ``search_valued_turn`` returns.
    """
    best, choice = int64(-UNBOUNDED), int64(NONE)
    for piece in range(PIECES):
        if (position.available >> piece) & 1:
            value = gift_value(position, piece, depth, best, evaluation_mode, rules, agent)
            if value > best:
                best, choice = value, int64(piece)
    return (best << TURN_BITS) | encode_turn(NONE, choice)


@inline_function
def proven_result_or_zero(valued_turn: int) -> float:
    """Return 1 if a turn is proven to win, -1 if it is proven to lose, and 0 if neither is proven.

    ``valued_turn`` is a result of ``search_valued_turn`` or ``search_valued_gift`` with ``SOONER_WIN_EVALUATION``.
    """
    value = valued_turn >> TURN_BITS
    return 1.0 if value > 0 else (-1.0 if value < 0 else 0.0)


@turn
def alpha_beta_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    depth = int64(params(agent)[0])
    if position.hand == NONE:
        valued_turn = search_valued_gift(position, depth, SOONER_WIN_EVALUATION, rules, agent)
    else:
        valued_turn = search_valued_turn(position, depth, SOONER_WIN_EVALUATION, rules, agent)
    report_evaluation(agent, proven_result_or_zero(valued_turn), NO_VISITS)
    return valued_turn & 0xFFFF


POLICY_SEARCH_SIGNATURE = types.float64(
    POSITION_TYPE, types.int64, types.float64, types.float64, RULES_TYPE, AGENT_TYPE
)


@kernel(POLICY_SEARCH_SIGNATURE)
def search_by_policy(position: PackedPosition, depth: int, alpha: float, beta: float, rules: Any, agent: Any) -> float:
    """Search ``depth`` placements deep, and return what the position is worth to the mover.

    At the depth limit, a position is worth the value that the agent's policy assigns to its best turn. The caller must
    ensure that the piece in hand cannot finish a line. A value that is not between ``alpha`` and ``beta`` is only a
    bound on the true value.
    """
    if position.available == 0:
        return float64(0.0)
    if is_exact(position, agent):
        return float64(exact_value(position, rules, agent))
    turns = find_best_turns(position, BREADTH if depth > 1 else 1, agent)
    if turns.gifts[0, 0] == NONE:
        return float64(-1.0)
    if depth == 1:
        return turn_value(turns, 0)
    best = float64(-np.inf)
    for k in range(count_turns(turns)):
        child = position_after_turn(position, turns.cells[0, k], turns.gifts[0, k])
        best = max(best, -search_by_policy(child, depth - 1, -beta, -max(alpha, best), rules, agent))
        if best >= beta:
            break
    return best


@turn
def policy_alpha_beta_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    immediate_turn, turns = find_candidates(position, BREADTH, seed, rules, agent)
    if immediate_turn != UNDECIDED:
        return immediate_turn
    depth = int64(params(agent)[DEPTH])
    best, best_rank = turn_value(turns, 0) if depth == 1 else float64(-np.inf), int64(0)
    for k in range(count_turns(turns) if depth > 1 else 0):
        child = position_after_turn(position, turns.cells[0, k], turns.gifts[0, k])
        value = -search_by_policy(child, depth - 1, -np.inf, -best, rules, agent)
        if value > best:
            best, best_rank = value, k
    report_evaluation(agent, best, NO_VISITS)
    return encode_turn(turns.cells[0, best_rank], turns.gifts[0, best_rank])


class AlphaBeta(KernelAgent):
    """Study B's minimax with alpha-beta (``quarto_ci_2022_2023``).

    Of the best turns, it plays the one with the lowest cell, then the lowest gift. ``depth`` counts placements,
    beginning with the player's own or, if the player only gives a piece, with the opponent's. An undecided position is
    worth 0; sooner wins and later losses are better. As its evaluation of a turn the agent reports 1 if the turn is
    proven to win, -1 if it is proven to lose, and 0 otherwise. Raises ``ValueError`` for a depth outside 1 to 16.

    ``value`` is an optional policy of kind 'line_values', which values the positions at the depth limit and orders the
    turns (``agents/search/policy_values.py``). With such a policy, positions with ``exact_from`` or more pieces on the
    board have exact values instead of learned ones. There the agent plays the turn with the greatest learned value
    among the turns that keep the exact value.
    """

    kernel = alpha_beta_turn

    def __init__(self, depth: int = 2, value: Policy | None = None, exact_from: int = EXACT_FROM) -> None:
        self.depth = check_integer("depth", depth, 1, CELLS)
        if value is not None:
            check_weights(value, "alpha_beta")
        self.value = value
        self.exact_from = check_integer("exact_from", exact_from, 5, CELLS)

    def turn_kernel(self) -> TurnKernel:
        return alpha_beta_turn if self.value is None else policy_alpha_beta_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        if self.value is not None:
            return build_search_knowledge(self.value, rules, self.exact_from, [float(self.depth)], 0)
        return Knowledge(params=np.array([float(self.depth)]), scratch_size=MEMORY_SIZE)
