"""A learned policy as the evaluation of a search: values of turns, and exact values of endings.

The value of a turn is P(won) + P(not lost) - 1, from -1 to 1 for the player who makes it. So the same board has the
opposite value for the other player. An agent's keys hold the solver's record, then the words of the policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.base.agent import encode_turn, keys, params, report_evaluation, table
from agents.learning.policy import Policy
from agents.line_values import (
    WorkMemory,
    all_candidate_cells_and_pieces,
    allocate_work_memory,
    fill_best_safe_turns,
    pack_weights,
    unpack_weights,
)
from agents.search.exact_solver import (
    RECORD_WORDS,
    SOLVER_WORDS,
    SolverKnowledge,
    build_solver_record,
    copy_search_record_to_scratch_once,
)
from agents.semi_random import turn_if_opponent_chooses
from quarto.batch import NO_VISITS
from quarto.bits import popcount
from quarto.jit import float64, inline_function, int64
from quarto.position import PackedPosition, give_piece, place_hand
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.solver.solver import solve_value
from quarto.threats import winning_cells

MAX_TURNS = CELLS * (PIECES - 1)
EXACT_FROM = 7  # pieces on the board; a few positions with so many take milliseconds
UNDECIDED = -1
EXACT = 0  # index of the first parameter; those of the search follow


@inline_function
def find_best_turns(position: PackedPosition, max_turns: int, agent: Any) -> WorkMemory:
    """Return work memory with the best ``max_turns`` safe turns of a position, as ``fill_best_safe_turns`` writes them.

    The caller must ensure that the piece in hand cannot finish a line.
    """
    words, work = keys(agent)[RECORD_WORDS:], allocate_work_memory(np.full(1, 0.5), max_turns)
    weights, state = unpack_weights(words, table(agent)), (position.lanes, position.occupied, position.available)
    fill_best_safe_turns(*state, position.hand, words, weights, work, all_candidate_cells_and_pieces())
    return work


@inline_function
def count_turns(turns: WorkMemory) -> int:
    count = int64(0)
    while count < turns.gifts.shape[1] and turns.gifts[0, count] != NONE:
        count += 1
    return count


@inline_function
def turn_value(turns: WorkMemory, rank: int) -> float:
    """Return the learned value of the turn at ``rank``: P(won) + P(not lost) - 1."""
    return float64(2.0 * turns.top[0, rank] - 1.0)


@inline_function
def position_after_turn(position: PackedPosition, cell: int, gift: int) -> PackedPosition:
    """Return the opponent's position after a turn, or after a gift alone if ``cell`` is NONE."""
    placed = position if cell == NONE else place_hand(position, cell)
    return give_piece(placed, gift)


@inline_function
def is_exact(position: PackedPosition, agent: Any) -> bool:
    """Return whether enough pieces are on the board for the agent to use the solver's exact value of the position."""
    return int64(popcount(position.occupied)) >= int64(params(agent)[EXACT])


@inline_function
def exact_value(position: PackedPosition, rules: Any, agent: Any) -> int:
    """Return the exact value of a position for the player to move: 1, 0 or -1."""
    return int64(
        solve_value(
            position.lanes,
            position.occupied,
            position.available,
            position.hand,
            rules,
            copy_search_record_to_scratch_once(agent),
        )
    )


class ExactTurn(NamedTuple):
    """An encoded turn that keeps the exact value of its position, together with this value."""

    turn: int
    value: int


class Candidates(NamedTuple):
    """The turns to search in a position, or the turn to play if the position needs no search."""

    immediate_turn: int  # UNDECIDED if the position needs a search
    turns: WorkMemory  # to search, the best first


@inline_function
def find_exact_turn(position: PackedPosition, turns: WorkMemory, rules: Any, agent: Any) -> ExactTurn:
    """Find, among the turns that keep the position's exact value, the one with the greatest learned value.

    ``turns`` are the position's safe turns in the order of their learned values.
    """
    value, chosen, last = exact_value(position, rules, agent), int64(0), count_turns(turns) - 1
    while value >= 0 and chosen < last:
        if (
            -exact_value(position_after_turn(position, turns.cells[0, chosen], turns.gifts[0, chosen]), rules, agent)
            == value
        ):
            break
        chosen += 1
    return ExactTurn(encode_turn(turns.cells[0, chosen], turns.gifts[0, chosen]), value)


@inline_function
def find_candidates(position: PackedPosition, max_turns: int, seed: int, rules: Any, agent: Any) -> Candidates:
    """Find the best ``max_turns`` turns to search, or the turn of a position that needs no search.

    No search is needed if the piece in hand finishes a line, if no piece is left, or if every turn lets the opponent
    win at once. The turn is then the one that ``semi_random`` would choose. In a position for which the agent uses the
    solver's exact value, the turn is the one that ``find_exact_turn`` finds.
    """
    hand, exact = position.hand, is_exact(position, agent)
    won = hand != NONE and winning_cells(position.lanes, position.occupied, hand, rules) != 0
    if won or position.available == 0:
        report_evaluation(agent, float64(int64(won)), NO_VISITS)
        immediate = turn_if_opponent_chooses(position, draw(seed, 0), rules)
        return Candidates(immediate, allocate_work_memory(np.full(1, 0.5), 1))
    turns = find_best_turns(position, MAX_TURNS if exact else max_turns, agent)
    if turns.gifts[0, 0] == NONE:
        report_evaluation(agent, -1.0, NO_VISITS)
        return Candidates(turn_if_opponent_chooses(position, draw(seed, 0), rules), turns)
    if exact:
        exact_turn, value = find_exact_turn(position, turns, rules, agent)
        report_evaluation(agent, float64(value), NO_VISITS)
        return Candidates(exact_turn, turns)
    return Candidates(int64(UNDECIDED), turns)


def build_search_knowledge(
    policy: Policy, rules: Rules, exact_from: int, settings: list[float], scratch: int
) -> SolverKnowledge:
    """Build the knowledge of an agent that searches with a policy.

    Its parameters are ``exact_from``, followed by ``settings``. ``scratch`` is the number of words that the search
    needs in addition to the solver's. Raises ``ValueError`` for rules under which the mover chooses the piece, and for
    a policy that was learned for other lines.
    """
    if rules.mover_chooses:
        raise ValueError("value=POLICY has no meaning where the mover chooses the piece: nothing is given")
    weights, (record, owned_arrays) = pack_weights(policy, rules), build_solver_record(rules)
    return SolverKnowledge(
        params=np.array([exact_from, *settings], np.float64),
        table=weights.table,
        keys=np.concatenate([record, weights.keys]),
        scratch_size=SOLVER_WORDS + scratch,
        owned_arrays=owned_arrays,
    )
