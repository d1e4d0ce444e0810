"""The agent `line_values`: its turns are those of its slow twin; which weights it refuses."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from agents.learning.line_boards import BOARD, STAGE_SIZE, WORDS
from agents.learning.line_features import MAX_FEATURES, build_feature_words, compute_feature_hash
from agents.learning.policy import Policy
from agents.line_values import (
    ALL_TURNS,
    HEADS,
    LINE_VALUES,
    MAX_UNITS,
    STEEPEST,
    UNIT,
    LineValues,
    PackedWeights,
    Weights,
    WorkMemory,
    fill_best_safe_turns,
    pack_weights,
    sigmoid,
    stage_size,
    to_columns,
)
from quarto.jit import kernel, uint64
from quarto.position import PackedPosition
from quarto.position import board as naive_board
from quarto.rules import CLASSIC, NONE, Rules
from tests.agents.learning.test_line_features import image, numbers_of
from tests.marks import seldom
from tests.naive import PRESETS, SemiRandom
from tests.naive_players.agreement import assert_same_turns
from tests.naive_policies import lines
from tests.naive_policies.games import position_of
from tests.positions import list_positions

UNITS_FROM = 7  # pieces on the board from which the stages of random policies have units


@cache
def random_policy(rules: Rules, units: int) -> tuple[Policy, dict[int, np.ndarray]]:
    """Build a policy in which every seventh weight is random, as are those of all units.

    Returns also its weights by number of pieces.
    """
    features, drawn = int(build_feature_words(rules)[STAGE_SIZE]), np.random.default_rng(units)
    stages = dict[int, np.ndarray]()
    for pieces in range(1, 16):
        of_stage = units * (pieces >= UNITS_FROM)
        stages[pieces] = weights = np.zeros(stage_size(features, of_stage), np.int16)
        for part in (weights[::7], weights[len(weights) - HEADS * of_stage :]):
            part[:] = drawn.normal(0, 0.3 / UNIT, len(part))
    return Policy(LINE_VALUES, {"lines": compute_feature_hash(rules)}, to_columns(stages, features)), stages


def value_of(after: lines.Afterstate, stages: dict[int, np.ndarray], units: int, risk: float) -> float:
    """Return the value of an afterstate by the formula."""
    words = build_feature_words(after.rules)
    features, pieces = int(words[STAGE_SIZE]), 16 - after.board.count(NONE)
    if pieces not in stages:
        return 0.5
    end = lines.decided(after)
    if end:
        not_lost, won = float(end != lines.LOST), float(end == lines.WON)
        return (1 - risk) * not_lost + risk * won
    units = units if pieces >= UNITS_FROM else 0
    position = position_of(after.board, after.gift)._replace(available=sum(1 << piece for piece in after.left))
    rows = stages[pieces][: features * (HEADS + units)].reshape(features, -1)
    outputs = stages[pieces][features * (HEADS + units) :].reshape(HEADS, units) * UNIT
    sums = rows[numbers_of(position, words)].sum(axis=0) * UNIT
    logits = [sums[head] + sum(outputs[head] * np.maximum(sums[HEADS:], 0.0)) for head in range(HEADS)]
    return (1 - risk) * chance(float(logits[0])) + risk * chance(float(logits[1]))


@kernel()
def chances(logits: Any, results: Any) -> None:
    for i in range(len(logits)):
        results[i] = sigmoid(logits[i])


def chance(logit: float) -> float:
    results = np.zeros(1)
    chances(np.array([logit]), results)
    return float(results[0])


def test_chances_are_the_logistic_function() -> None:
    logits = np.linspace(-STEEPEST, STEEPEST, 1001)
    results = np.zeros(1001)
    chances(logits, results)
    assert np.abs(results - 1 / (1 + np.exp(-logits))).max() < 5e-5
    assert chance(1e9) == chance(STEEPEST) == 1 - chance(-1e9)


@pytest.mark.parametrize(("units", "risk"), [(0, 0.25), *seldom((3, 0.75))])
def test_turns_and_games_are_those_of_the_slow_twin(units: int, risk: float) -> None:
    policy, stages = random_policy(CLASSIC, units)
    agent = LineValues(policy, risk)
    twin = lines.LineValues(lambda after: value_of(after, stages, units, risk))
    assert assert_same_turns(agent, twin, CLASSIC, list_positions(CLASSIC, 2)[::2]) > 10


@pytest.mark.parametrize("name", ["classic", *seldom("torus_square")])
def test_symmetric_afterstates_have_the_same_value_to_the_last_bit(name: str) -> None:
    rules, dice = PRESETS[name], random.Random(4)
    policy, _ = random_policy(rules, 3)
    reading = pack_weights(policy, rules)
    weights = weights_in(reading)
    different = set()
    for position in [position for position in list_positions(rules, 3) if position.hand != NONE and position.available]:
        images = (position, image(position, dice, rules), image(position, dice, rules))
        tops = {top_of(moved, reading.keys, weights) for moved in images}
        assert len(tops) == 1
        different |= tops
    assert len(different) > 10


def weights_in(reading: PackedWeights) -> Weights:
    """Unpack weights in Python."""
    return Weights(reading.table.view(np.int16), reading.keys[WORDS:].copy())


def best_of(position: PackedPosition, words: Any, weights: Weights, kept: int) -> list[tuple[float, int, int]]:
    """Return the value, cell and gift of the best turns; -inf and NONE if fewer give no win away."""
    boards, features = np.empty((5, BOARD), np.int64), np.empty(MAX_FEATURES, np.int64)
    top, cells, gifts = np.empty((1, kept)), *np.empty((2, 1, kept), np.int64)
    sums, chances_of = np.empty(HEADS + MAX_UNITS, np.int32), np.empty(HEADS)
    work = WorkMemory(np.full(1, 0.25), boards, features, sums, chances_of, top, cells, gifts)
    fill_best_safe_turns(
        uint64(position.lanes), position.occupied, position.available, position.hand, words, weights, work, ALL_TURNS
    )
    return list(zip(top[0].tolist(), cells[0].tolist(), gifts[0].tolist(), strict=True))


def top_of(position: PackedPosition, words: Any, weights: Weights) -> float:
    return best_of(position, words, weights, 1)[0][0]


def test_as_many_of_the_best_turns_as_wanted_are_kept_in_order() -> None:
    policy, stages = random_policy(CLASSIC, 3)
    reading = pack_weights(policy, CLASSIC)
    weights = weights_in(reading)
    positions = [position for position in list_positions(CLASSIC, 4) if position.hand != NONE and position.available]
    for position in positions[::25]:
        pieces = [piece for piece in range(16) if position.available >> piece & 1]
        turns = lines.safe_turns(naive_board(position), position.hand, pieces, CLASSIC)
        valued = [(value_of(after, stages, 3, 0.25), cell, gift) for cell, gift, after in turns]
        valued.sort(key=lambda turn: -turn[0])  # a stable order: first on ties by cell, then by gift
        assert len(valued) < 256
        for kept in (3, 256):
            expected = (valued + [(-np.inf, NONE, NONE)] * kept)[:kept]
            assert best_of(position, reading.keys, weights, kept) == expected


@pytest.mark.parametrize("exploring", [False, True])
def test_untrained_or_exploring_it_plays_as_semi_random(exploring: bool) -> None:
    agent = LineValues(random_policy(CLASSIC, 0)[0], exploration=1.0) if exploring else LineValues()
    assert assert_same_turns(agent, SemiRandom(), CLASSIC, list_positions(CLASSIC, 5)) > 50
