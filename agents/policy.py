"""Plays by a learned policy: by the values of afterstates itself; policies of other kinds have players of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import KernelAgent, Knowledge, turn
from agents.learning.afterstates import FALLBACKS, HAND, MC_AFTERSTATE, VALUE_COLUMNS, explores, turn_by_afterstates
from agents.learning.boards import check_ascending, check_boards, check_canonical, refuse
from agents.learning.policy import Policy, checked_columns
from agents.learning.rows import empty_rows, rows_of
from agents.parameters import checked_number, checked_one_of, checked_probability
from quarto.position import Position
from quarto.rules import NONE, Rules


@turn
def policy_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    return turn_by_afterstates(position, seed, explores(seed, own), rules, own)


class PolicyAgent(KernelAgent):
    """Plays by the values of afterstates in a policy.

    It finishes a line if it can. Else it considers the known turns that do not let the opponent finish one at once. It
    makes the turn of the greatest value, first on ties by cell, then by gift. If no such turn is known, or none is
    worth at least ``unknown``, it plays as ``fallback``: ``random`` or ``semi_random``. Otherwise it does so with
    probability ``exploration``. Word 0 of a turn is the fallback's, word 1 decides whether to explore.

    ``policy`` is of kind 'mc_afterstate' (its column ``mean``), 'q_table' or 'fitted_q' (``value``). It has a row for
    each afterstate, ascending: ``lanes`` int64 and ``occupied`` int32 of its canonical form, in which piece 0 is in
    hand. Without a policy nothing is known. ``runners/arena/agent_policies.py`` gives a policy of another kind to the
    player of that kind. The player also gets the other parameters that it has, such as ``risk``. Raises ``ValueError``
    for any other policy and for a fallback that does not exist; ``knowledge`` does for a policy learned under rules
    with other symmetries.
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
        chosen = FALLBACKS.index(checked_one_of("fallback", fallback, FALLBACKS))
        self._columns = None if policy is None else _checked(policy)
        occupied = np.zeros(0, np.int64) if self._columns is None else self._columns[1]
        most_pieces = np.bitwise_count(occupied).astype(np.int64).max(initial=NONE)  # nothing beyond is looked up
        explored = checked_probability("exploration", exploration)
        self._settings = np.array([float(chosen), checked_number("unknown", unknown), most_pieces, explored])

    def knowledge(self, rules: Rules) -> Knowledge:
        if self._columns is None:
            return replace(empty_rows(self._settings), symmetric=True)
        lanes, occupied, value = self._columns
        check_canonical(lanes, occupied, HAND, rules)
        hand, widths = np.full(len(lanes), HAND), np.ones(len(lanes), np.int64)
        knowledge, first = rows_of(self._settings, (lanes, occupied, hand), widths)
        knowledge.table[first] = value
        return replace(knowledge, symmetric=True)


def _checked(policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Lanes, occupied and value of each row. Raises ``ValueError`` for values that no learner makes."""
    kind = policy.kind if isinstance(policy, Policy) and policy.kind in VALUE_COLUMNS else MC_AFTERSTATE
    names = {"lanes": np.int64, "occupied": np.int64, VALUE_COLUMNS[kind]: np.float64}
    lanes, occupied, value = checked_columns(policy, kind, "policy", names)
    pieces = check_boards(lanes, occupied)
    refuse("lanes", lanes, (pieces >> HAND) & 1 == 1, "has the piece in hand on the board")
    check_ascending({"lanes": lanes, "occupied": occupied})
    refuse(VALUE_COLUMNS[kind], value, np.abs(value) > 1.0, "is not from -1 to 1")
    return lanes, occupied, value
