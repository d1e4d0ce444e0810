"""Features of lines are those of the slow twin under every rules, and the same for symmetric afterstates."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from agents.learning.line_features import (
    BOARD,
    MOST_FEATURES,
    STAGE_SIZE,
    features_of,
    read_lines,
    survey,
    words_of,
)
from quarto.jit import kernel, uint64
from quarto.position import Position, board, from_plies
from quarto.rules import Rules
from quarto.symmetry import symmetries
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS
from tests.naive_policies import lines
from tests.positions import asked


@kernel()
def _features(lanes: int, occupied: int, gift: int, left: int, words: Any, found: Any) -> int:
    state = np.empty((2, BOARD), np.int64)
    read_lines(lanes, occupied, words, state[0])
    survey(occupied, words, state[0])
    return features_of(occupied, gift, left, words, state[0], state[1], found)


def numbers_of(position: Position, words: Any) -> list[int]:
    found = np.empty(MOST_FEATURES, np.int64)
    lanes = uint64(position.lanes)
    count = _features(lanes, position.occupied, position.hand, position.available, words, found)
    return [int(number) for number in found[:count]]


def afterstates(rules: Rules, games: int) -> list[Position]:
    """Positions with a gift that finishes no line."""
    return [
        position
        for position in asked(rules, games)
        if position.hand != NONE and not naive.winning_cells(board(position), position.hand, rules)
    ]


def occurrences(found: list[list[Any]]) -> Counter[tuple[tuple[int, int], ...]]:
    """For each different feature where it was found and how often there: how often that is so of a feature."""
    places: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for place, features in enumerate(found):
        for feature, count in Counter(features).items():
            places[feature].append((place, count))
    return Counter(map(tuple, places.values()))


@pytest.mark.parametrize(("mobility", "foresight"), [(True, 6), (False, 16), (True, 16)])
@pytest.mark.parametrize("name", ["classic", *seldom("torus_square")])
def test_numbers_stand_one_to_one_for_the_features_of_the_slow_twin(name: str, mobility: bool, foresight: int) -> None:
    rules = PRESETS[name]
    words, positions = words_of(rules, mobility, foresight), afterstates(rules, 5)
    numbers = [numbers_of(position, words) for position in positions]
    twins = [lines.Afterstate(board(position), position.hand, rules) for position in positions]
    assert occurrences(numbers) == occurrences([lines.features(twin, mobility, foresight) for twin in twins])
    assert len(positions) > 20
    assert all(0 <= number < int(words[STAGE_SIZE]) for found in numbers for number in found)


def image(position: Position, dice: random.Random, rules: Rules) -> Position:
    """The position under a random symmetry of cells and pieces."""
    cells = dice.choice(symmetries(rules).cells.tolist())
    order, flip = dice.sample(range(4), 4), dice.randrange(16)

    def moved(piece: int) -> int:
        return sum((piece >> old & 1) << new for new, old in enumerate(order)) ^ flip

    plies = [(moved(piece), cells[cell]) for cell, piece in enumerate(board(position)) if piece != NONE]
    return from_plies(plies, moved(position.hand))
