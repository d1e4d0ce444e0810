"""Plays by a learned policy. It plays by values of afterstates itself; policies of other kinds have their own players.

An afterstate is the board after a placement with the gift in the opponent's hand.

A turn leads to one afterstate only, so its value is that of the turn (R. Sutton and A. Barto, Reinforcement Learning,
2nd edition, 6.8): 1 is a win for the player who made the turn, -1 a loss. The keys of afterstates are their canonical
forms (``quarto/canonical.py``), in which piece 0 is in hand: keys are exact, and symmetric turns share one.

Where the rules decide, no value is read. A placement that finishes a line is made. A gift with which the opponent could
finish one is given only if there is no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, keys, params, symmetry_tables, table, turn
from agents.base.parameters import check_number, check_one_of, check_probability
from agents.learning.policy import (
    Policy,
    check_ascending,
    check_canonical,
    check_no_wrong_row,
    compute_checked_board_pieces,
    load_checked_columns,
)
from agents.learning.position_rows import build_empty_row_knowledge, build_row_knowledge, find_row_start
from agents.random import random_cell, random_piece
from agents.semi_random import turn_if_opponent_chooses
from quarto.bits import piece_to_lanes, popcount
from quarto.canonical import canonical_lanes_and_occupied
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rng import draw, unit_float
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.symmetry import Symmetries
from quarto.threats import safe_pieces, winning_cells

FALLBACKS = ("random", "semi_random")
MC_AFTERSTATE, Q_TABLE, FITTED_Q = "mc_afterstate", "q_table", "fitted_q"  # the kinds of policy that hold such values
VALUE_COLUMNS = {MC_AFTERSTATE: "mean", Q_TABLE: "value", FITTED_Q: "value"}
FALLBACK, UNKNOWN, MAX_PIECES, EXPLORATION = range(4)  # indices of the parameters; a learner has more of them
COIN = 1  # index of the random word that decides whether to explore; word 0 is the fallback's
CANONICAL_HAND = 0  # of every canonical form


class ValuedTurn(NamedTuple):
    """A turn with its value for the player who makes it. The value is -inf if no turn is known.

    All numbers are int64 except the value.
    """

    cell: int
    gift: int
    value: float


@inline_function
def afterstate_value(lanes: int, occupied: int, gift: int, tables: Symmetries, words: Any, values: Any) -> float:
    """Return the value of an afterstate, or NaN if it is unknown."""
    least, minimal = canonical_lanes_and_occupied(lanes, occupied, gift, tables)
    row = find_row_start(least, minimal, int64(CANONICAL_HAND), words)
    return np.nan if row == NONE else values[row]


@inline_function
def best_known_gift(lanes: int, occupied: int, gifts: int, tables: Symmetries, agent: Any) -> ValuedTurn:
    """Return, as a turn whose cell is NONE, the gift among ``gifts`` with the greatest known value on this board.

    On ties it is the lowest gift. If no gift has a known value, the gift is NONE.
    """
    words, values = keys(agent), table(agent)
    best, choice = -np.inf, int64(NONE)
    for gift in range(PIECES):
        if (gifts >> gift) & 1:
            value = afterstate_value(lanes, occupied, gift, tables, words, values)
            if value > best:  # false for NaN: not known
                best, choice = value, int64(gift)
    return ValuedTurn(int64(NONE), choice, best)


@inline_function
def best_known_turn(position: PackedPosition, rules: Any, safe_only: bool, agent: Any) -> ValuedTurn:
    """Return the turn with the greatest known value; on ties the one with the lowest cell, then the lowest gift.

    With ``safe_only``, turns that let the opponent finish a line at once are ignored.
    """
    tables = symmetry_tables(agent)
    if position.hand == NONE:
        safe = safe_pieces(position.lanes, position.occupied, rules) if safe_only else ALL_CELLS
        return best_known_gift(position.lanes, position.occupied, position.available & safe, tables, agent)
    best, piece = ValuedTurn(int64(NONE), int64(NONE), -np.inf), piece_to_lanes(position.hand)
    for cell in range(CELLS):
        if (position.occupied >> cell) & 1 == 0:
            lanes, occupied = position.lanes | (piece << uint64(cell)), position.occupied | (int64(1) << cell)
            safe = safe_pieces(lanes, occupied, rules) if safe_only else ALL_CELLS
            best_of_cell = best_known_gift(lanes, occupied, position.available & safe, tables, agent)
            if best_of_cell.value > best.value:
                best = ValuedTurn(int64(cell), best_of_cell.gift, best_of_cell.value)
    return best


@inline_function
def is_exploring(seed: int, agent: Any) -> bool:
    """Return whether the agent explores in this turn, that is, ignores the known values."""
    coin: bool = unit_float(draw(seed, COIN)) < params(agent)[EXPLORATION]
    return coin


@inline_function
def winning_known_or_fallback_turn(position: PackedPosition, seed: int, explore: bool, rules: Any, agent: Any) -> int:
    """Return a winning turn, otherwise the best known turn, otherwise the turn of the fallback.

    The best known turn must be worth at least ``unknown``. ``unknown`` and the fallback are parameters of the agent.
    With ``explore``, the known values are ignored.
    """
    settings, word = params(agent), draw(seed, 0)
    won = position.hand != NONE and winning_cells(position.lanes, position.occupied, position.hand, rules) != 0
    pieces = int64(popcount(position.occupied)) + int64(position.hand != NONE)  # of the afterstates
    if not won and not explore and pieces <= settings[MAX_PIECES]:
        best = best_known_turn(position, rules, True, agent)
        if best.gift != NONE and best.value >= settings[UNKNOWN]:
            return encode_turn(best.cell, best.gift)
    if won or settings[FALLBACK] != 0.0:
        return turn_if_opponent_chooses(position, word, rules)
    return encode_turn(random_cell(word, ~position.occupied & ALL_CELLS), random_piece(word, position.available))


@turn
def policy_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    return winning_known_or_fallback_turn(position, seed, is_exploring(seed, agent), rules, agent)


class PolicyAgent(KernelAgent):
    """A player that chooses turns by a policy's values of afterstates.

    It finishes a line if it can. Otherwise it considers the turns with a known value that do not let the opponent
    finish a line at once. It makes the turn with the greatest value; on ties the one with the lowest cell, then the
    lowest gift. If no such turn is known, or none has a value of at least ``unknown``, it plays as ``fallback``:
    ``random`` or ``semi_random``. In any other position it plays as ``fallback`` with probability ``exploration``. Word
    0 of a turn is for the fallback; word 1 decides whether to explore.

    ``policy`` is of kind 'mc_afterstate' (values in its column ``mean``), 'q_table' or 'fitted_q' (values in
    ``value``). It has a row for each afterstate, ascending by ``lanes`` (int64) and ``occupied`` (int32) of the
    afterstate's canonical form, in which piece 0 is in hand. Without a policy, no value is known. Raises ``ValueError``
    if the policy is of another kind or its table is invalid, and for a fallback that does not exist; ``knowledge``
    raises ``ValueError`` for a policy that was learned under rules with other symmetries.

    If a run gives this agent a policy of another kind, ``runners/config/agent_policies.py`` replaces the agent by the
    default player of that kind. Of the parameters that the user changed, such as ``risk``, the default player gets
    those that it has too.
    """

    kernel = policy_turn

    def __init__(
        self,
        policy: Policy | None = None,
        fallback: str = "semi_random",
        unknown: float = -1.0,
        exploration: float = 0.0,
        risk: float | None = None,
    ) -> None:
        chosen = FALLBACKS.index(check_one_of("fallback", fallback, FALLBACKS))
        self._columns = None if policy is None else _load_boards_and_values(policy)
        occupied = np.zeros(0, np.int64) if self._columns is None else self._columns[1]
        most_pieces = np.bitwise_count(occupied).astype(np.int64).max(initial=NONE)  # nothing beyond is looked up
        explored = check_probability("exploration", exploration)
        self._settings = np.array([float(chosen), check_number("unknown", unknown), most_pieces, explored])

    def knowledge(self, rules: Rules) -> Knowledge:
        if self._columns is None:
            return replace(build_empty_row_knowledge(self._settings), symmetric=True)
        lanes, occupied, value = self._columns
        check_canonical(lanes, occupied, CANONICAL_HAND, rules)
        hand, widths = np.full(len(lanes), CANONICAL_HAND), np.ones(len(lanes), np.int64)
        knowledge, first = build_row_knowledge(self._settings, (lanes, occupied, hand), widths)
        knowledge.table[first] = value
        return replace(knowledge, symmetric=True)


def _load_boards_and_values(policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Load the lanes, the occupied cells and the value of each row.

    Raises ``ValueError`` for values that cannot have been learned.
    """
    kind = policy.kind if isinstance(policy, Policy) and policy.kind in VALUE_COLUMNS else MC_AFTERSTATE
    names = {"lanes": np.int64, "occupied": np.int64, VALUE_COLUMNS[kind]: np.float64}
    lanes, occupied, value = load_checked_columns(policy, kind, "policy", names)
    pieces = compute_checked_board_pieces(lanes, occupied)
    check_no_wrong_row("lanes", lanes, (pieces >> CANONICAL_HAND) & 1 == 1, "has the piece in hand on the board")
    check_ascending({"lanes": lanes, "occupied": occupied})
    check_no_wrong_row(VALUE_COLUMNS[kind], value, np.abs(value) > 1.0, "is not from -1 to 1")
    return lanes, occupied, value
