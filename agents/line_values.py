"""Plays by values of afterstates that generalise: weights of features of lines, learned from logged games.

The logit of a head is the sum of its weights over the features of an afterstate. A hidden layer adds the sum over units
of the head's output weight times the positive part of the unit. Two heads are learned, the chances not to lose and to
win. A player reads one head, mixed from both. Weights are multiples of ``UNIT``, so sums are exact in whatever order
features come. So afterstates that a symmetry exchanges have the same value to the last bit.

The weights of a stage are [features, heads + units], a row for each feature, then [heads, units], the output weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import KernelAgent, Knowledge, encode_turn, keys, params, table, think, turn
from agents.learning.line_features import (
    BOARD,
    DANGERS,
    MOST_FEATURES,
    STAGE_SIZE,
    features_of,
    mark_of,
    place_on_lines,
    read_lines,
    survey,
    words_of,
)
from agents.learning.policy import Policy, check_ascending, check_within, checked_columns, refuse
from agents.parameters import checked_probability
from agents.semi_random import gift_turn
from quarto.batch import NO_VISITS
from quarto.bits import lowest_bit, popcount
from quarto.jit import float64, inlined, int64, kernel
from quarto.position import ALL_CELLS, ALL_PIECES, Position
from quarto.rng import draw, unit
from quarto.rules import CELLS, NONE, Rules
from quarto.threats import SAFE_PIECES, winning_cells

LINE_VALUES, LINE_NETWORK = "line_values", "line_network"  # the kinds of policy
NOT_LOST, WON = 0, 1  # the heads
HEADS = 2
UNIT = 2.0**-20
MOST_WEIGHT = 64.0  # |weight|; sums of such multiples of UNIT are exact in float64
MOST_UNITS = 64
ALL_TURNS = (ALL_CELLS, ALL_PIECES)
COLUMNS = {"pieces": np.int64, "feature": np.int64, "part": np.int64, "weight": np.float64}
PARAMETERS = ("mobility", "foresight", "units", "lines")


class Work(NamedTuple):
    """Memory that one thread works in."""

    boards: NDArray[np.int64]  # [3, BOARD]: before the placement, after it, and after a reply to that
    found: NDArray[np.int64]  # [MOST_FEATURES]
    sums: NDArray[np.float64]  # [HEADS + MOST_UNITS] of an afterstate
    top: NDArray[np.float64]  # [HEADS, K] the greatest logits of each head, descending; -inf: there are fewer turns
    cells: NDArray[np.int64]  # [HEADS, K] where they were found
    gifts: NDArray[np.int64]  # [HEADS, K] NONE: there are fewer turns


@inlined
def work_memory(kept: int) -> Work:
    """Memory for the best ``kept`` turns of each head."""
    return Work(
        np.empty((3, BOARD), np.int64),
        np.empty(MOST_FEATURES, np.int64),
        np.empty(HEADS + MOST_UNITS, np.float64),
        np.empty((HEADS, kept), np.float64),
        np.empty((HEADS, kept), np.int64),
        np.empty((HEADS, kept), np.int64),
    )


class Weights(NamedTuple):
    """The weights of one stage or of many, and which of them to read."""

    values: NDArray[np.float64]
    stage_words: int  # numbers of a stage; 0: all stages have the same
    heads: int
    units: int


@inlined
def sum_up(work: Work, count: int, base: int, features: int, weights: Weights) -> None:
    """The logit of each head into ``work.sums``; ``base`` is where the stage begins."""
    width, sums, values = weights.heads + weights.units, work.sums, weights.values
    if width == 1:  # one linear head, as at play: its sum stays in a register
        total = float64(0.0)
        for i in range(count):
            total += values[base + work.found[i]]
        sums[0] = total
        return
    for k in range(width):
        sums[k] = 0.0
    for i in range(count):
        row = base + work.found[i] * width
        for k in range(width):
            sums[k] += values[row + k]
    output = base + features * width
    for head in range(weights.heads):
        for hidden in range(weights.units):
            sums[head] += values[output + head * weights.units + hidden] * max(sums[weights.heads + hidden], 0.0)


@inlined
def keep_turn(head: int, cell: int, gift: int, work: Work) -> None:
    """Put the turn that was summed up among the best of a head, behind those of its value; the last one is left out."""
    value, rank = work.sums[head], work.top.shape[1] - 1
    while rank > 0 and work.top[head, rank - 1] < value:
        work.top[head, rank] = work.top[head, rank - 1]
        work.cells[head, rank], work.gifts[head, rank] = work.cells[head, rank - 1], work.gifts[head, rank - 1]
        rank -= 1
    work.top[head, rank], work.cells[head, rank], work.gifts[head, rank] = value, cell, gift


@kernel()
def judge_turns(
    lanes: int, occupied: int, available: int, hand: int, words: Any, weights: Weights, work: Work, among: Any
) -> None:
    """The best safe turns of each head, first on ties by cell, then by gift, into ``work``.

    ``among`` are the cells and the gifts, 16 bits each, that are looked at: ``ALL_TURNS``.

    The hand finishes no line; NONE asks for a gift alone.
    """
    last = work.top.shape[1] - 1
    for head in range(weights.heads):
        for k in range(last + 1):
            work.top[head, k], work.cells[head, k], work.gifts[head, k] = -np.inf, NONE, NONE
    before, board = work.boards[0], work.boards[1]
    read_lines(lanes, occupied, words, before)
    features, empty, filled = int64(words[STAGE_SIZE]), ~occupied & ALL_CELLS & among[0], occupied
    if hand == NONE:
        empty, board = int64(1), before  # one round, without a placement
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        if hand == NONE:
            cell = int64(NONE)
        else:
            filled = occupied | int64(1) << cell
            place_on_lines(before, hand, cell, words, board)
        survey(filled, words, board)
        base, safe = int64(popcount(filled)) * weights.stage_words, available & SAFE_PIECES[board[DANGERS]] & among[1]
        while safe != 0:
            gift = lowest_bit(safe)
            safe &= safe - 1
            left = available & ~(int64(1) << gift)
            count = features_of(filled, gift, left, words, board, work.boards[2], work.found)
            sum_up(work, count, base, features, weights)
            for head in range(weights.heads):
                if work.sums[head] > work.top[head, last]:
                    keep_turn(head, cell, gift, work)


def stage_words(features: int, heads: int, units: int) -> int:
    """The numbers of a stage: a row for each feature, and the output weights."""
    return features * (heads + units) + heads * units


def columns_of(stages: Mapping[int, NDArray[np.float64]], features: int, units: int) -> dict[str, NDArray[Any]]:
    """The table of a policy: a row for each weight that is not 0, ascending by pieces, feature and part.

    ``stages`` has the weights of both heads by number of pieces. Output weights follow the features: the number of
    such a row is ``features`` plus the head, its part is the unit.
    """
    width, parts = HEADS + units, []
    for pieces in sorted(stages):
        indices = np.flatnonzero(stages[pieces])
        late = indices >= features * width
        output = indices - features * width
        row = np.where(late, features + output // max(units, 1), indices // width)
        part_of = np.where(late, output % max(units, 1), indices % width)
        parts.append((np.full(len(indices), pieces), row, part_of, stages[pieces][indices]))
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    types = (np.int8, np.int32, np.int8, np.float64)
    return {name: column.astype(type_) for name, column, type_ in zip(COLUMNS, columns, types, strict=True)}


class Reading(NamedTuple):
    """A policy in the form that kernels read."""

    words: NDArray[np.uint64]  # of the features
    values: NDArray[np.float64]  # [16 stages of weights of one head]
    units: int


def reading_of(policy: Policy, rules: Rules, risk: float) -> Reading:
    """The weights of one head, ``1 - risk`` times those of not losing and ``risk`` times those of winning.

    Raises ``ValueError`` for weights that were learned under rules with other lines.
    """
    mobility, foresight, units, lines = (policy.parameters[name] for name in PARAMETERS)
    if lines != mark_of(rules):
        raise ValueError(f"its weights are for other lines than those of rules '{rules.name}'")
    words, width = words_of(rules, bool(mobility), int(foresight)), 1 + int(units)
    features = int(words[STAGE_SIZE])
    size = stage_words(features, 1, int(units))
    values = np.zeros(CELLS * size)
    pieces, feature, part = (np.asarray(policy.table[name], np.int64) for name in ("pieces", "feature", "part"))
    check_within("feature", feature, 0, features + (HEADS if units else 0) - 1)
    late = feature >= features
    head = np.where(late, feature - features, part)
    share = np.where(head == NOT_LOST, 1.0 - risk, np.where(head == WON, risk, 1.0))
    column = np.where(part < HEADS, 0, part - HEADS + 1)
    index = pieces * size + np.where(late, features * width + part, feature * width + column)
    np.add.at(values, index, np.asarray(policy.table["weight"], np.float64) * share)
    return Reading(words, np.rint(values / UNIT) * UNIT, int(units))


def check_weights(policy: Policy, player: str) -> None:
    """Raises ``ValueError`` for a policy that is not of these kinds, or has rows or numbers that no learner makes."""
    kind = policy.kind if isinstance(policy, Policy) and policy.kind == LINE_NETWORK else LINE_VALUES
    pieces, feature, part, weight = checked_columns(policy, kind, player, COLUMNS)
    for name in PARAMETERS:
        if not policy.parameters.get(name, -1.0) >= 0.0:
            raise ValueError(f"policy of kind '{kind}' has no parameter '{name}' that is at least 0")
    units = policy.parameters["units"]
    if units > MOST_UNITS or units % 1:
        raise ValueError(f"parameter units={units} of a policy is not a whole number from 0 to {MOST_UNITS}")
    check_within("pieces", pieces, 0, CELLS - 1)
    check_within("part", part, 0, HEADS + int(units) - 1)
    check_ascending({"pieces": pieces, "feature": feature, "part": part})
    refuse("weight", weight, np.abs(weight) > MOST_WEIGHT, f"is not from -{MOST_WEIGHT} to {MOST_WEIGHT}")
    refuse("weight", weight, weight / UNIT % 1.0 != 0.0, "is no multiple of 2^-20")


EXPLORATION, UNITS, STAGE, TELLS = range(4)  # indices of the parameters; TELLS: the table has both heads too
COIN = 1  # index of the random word that decides whether to explore; word 0 is that of a turn without weights


@inlined
def expected_result(position: Position, cell: int, gift: int, work: Work, own: Any) -> float:
    """The chance to win less the chance to lose by the heads of the weights, after a turn."""
    settings, every = params(own), table(own)
    among = ((int64(1) << max(cell, 0)), int64(1) << gift)
    size, result = every.shape[0] // (1 + HEADS), float64(-1.0)
    for head in range(HEADS):
        values = every[(1 + head) * size : (2 + head) * size]
        weights = Weights(values, int64(settings[STAGE]), int64(1), int64(settings[UNITS]))
        judge_turns(
            position.lanes, position.occupied, position.available, position.hand, keys(own), weights, work, among
        )
        result += 1.0 / (1.0 + math.exp(-work.top[0, 0]))
    return result


@turn
def line_values_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    hand = position.hand
    won = hand != NONE and winning_cells(position.lanes, position.occupied, hand, rules) != 0
    settings = params(own)
    if won:
        think(own, 1.0, NO_VISITS)
    explores = settings[EXPLORATION] > 0.0 and unit(draw(seed, COIN)) < settings[EXPLORATION]
    if not won and not explores and settings[STAGE] > 0.0:
        weights = Weights(table(own), int64(settings[STAGE]), int64(1), int64(settings[UNITS]))
        work = work_memory(1)
        judge_turns(position.lanes, position.occupied, position.available, hand, keys(own), weights, work, ALL_TURNS)
        cell, gift = work.cells[0, 0], work.gifts[0, 0]
        if gift != NONE:
            if own.thinks != 0 and settings[TELLS] > 0.0:
                think(own, expected_result(position, cell, gift, work, own), NO_VISITS)
            return encode_turn(cell, gift)
        think(own, 0.0 if position.available == 0 else -1.0, NO_VISITS)
    return gift_turn(position, draw(seed, 0), rules)


class LineValues(KernelAgent):
    """Makes the turn whose afterstate has the greatest value by the weights of a policy.

    It finishes a line if it can. Else it values every turn that gives no win away by (1 - ``risk``) logit P(not lost) +
    ``risk`` logit P(won). It makes the first of the best by cell, then by gift. It does not search. If every turn gives
    a win away, and on the last cell, it plays as ``semi_random``. Otherwise it does so with probability
    ``exploration``. Word 0 is for ``semi_random``, word 1 decides whether to explore. What it thinks of its turn is
    P(won) - P(lost).

    ``policy`` is of kind 'line_values' or 'line_network': see ``agents/line_values.py``. Without one it plays
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
        settings = np.array([self._exploration, 0.0, 0.0, float(self.thinks)])
        if self._policy is None:
            return Knowledge(settings, np.zeros(1), words_of(rules, True, 0))
        reading = reading_of(self._policy, rules, self._risk)
        settings[UNITS] = reading.units
        settings[STAGE] = stage_words(int(reading.words[STAGE_SIZE]), 1, reading.units)
        values = reading.values
        if self.thinks:  # by both heads
            heads = (reading_of(self._policy, rules, risk).values for risk in (0.0, 1.0))
            values = np.concatenate([values, *heads])
        return Knowledge(settings, values, reading.words)
