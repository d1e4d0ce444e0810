"""Plays by values of afterstates that generalise: weights of features of lines, learned from logged games."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, keys, params, table, turn
from agents.learning.line_features import STAGE_SIZE, words_of
from agents.learning.line_values import Weights, check_weights, judge_turns, reading_of, stage_words, work_memory
from agents.learning.policy import Policy
from agents.parameters import checked_probability
from agents.semi_random import gift_turn
from quarto.jit import int64
from quarto.position import Position
from quarto.rng import draw, unit
from quarto.rules import NONE, Rules
from quarto.threats import winning_cells

EXPLORATION, UNITS, STAGE = range(3)  # indices of the parameters
COIN = 1  # index of the random word that decides whether to explore; word 0 is that of a turn without weights


@turn
def line_values_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    hand = position.hand
    won = hand != NONE and winning_cells(position.lanes, position.occupied, hand, rules) != 0
    settings = params(own)
    explores = settings[EXPLORATION] > 0.0 and unit(draw(seed, COIN)) < settings[EXPLORATION]
    if not won and not explores and settings[STAGE] > 0.0:
        weights = Weights(table(own), int64(settings[STAGE]), int64(1), int64(settings[UNITS]))
        work = work_memory(1)
        judge_turns(position.lanes, position.occupied, position.available, hand, keys(own), weights, work)
        if work.gifts[0, 0] != NONE:
            return encode_turn(work.cells[0, 0], work.gifts[0, 0])
    return gift_turn(position, draw(seed, 0), rules)


class LineValues(KernelAgent):
    """Makes the turn whose afterstate has the greatest value by the weights of a policy.

    It finishes a line if it can. Else it values every turn that gives no win away by (1 - ``risk``) logit P(not lost) +
    ``risk`` logit P(won). It makes the first of the best by cell, then by gift. It does not search. If every turn gives
    a win away, and on the last cell, it plays as ``semi_random``. Otherwise it does so with probability
    ``exploration``. Word 0 is for ``semi_random``, word 1 decides whether to explore.

    ``policy`` is of kind 'line_values' or 'line_network': see ``agents/learning/line_values.py``. Without one it plays
    as ``semi_random``. Raises ``ValueError`` for any other policy; ``knowledge`` does for weights of other lines.
    """

    kernel = line_values_turn

    def __init__(self, policy: Policy | None = None, risk: float = 0.25, exploration: float = 0.0) -> None:
        self._risk = checked_probability("risk", risk)
        self._exploration = checked_probability("exploration", exploration)
        if policy is not None:
            check_weights(policy, "line_values")
        self._policy = policy

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = np.array([self._exploration, 0.0, 0.0])
        if self._policy is None:
            return Knowledge(settings, np.zeros(1), words_of(rules, True, 0))
        reading = reading_of(self._policy, rules, self._risk)
        settings[UNITS] = reading.units
        settings[STAGE] = stage_words(int(reading.words[STAGE_SIZE]), 1, reading.units)
        return Knowledge(settings, reading.values, reading.words)
