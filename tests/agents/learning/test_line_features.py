"""Features of lines are those of the slow twin under every rules, and the same for symmetric afterstates."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from agents.learning.line_boards import BOARD, STAGE_SIZE, fill_board_survey, fill_line_states
from agents.learning.line_features import (
    DRAWN_AFTER,
    FEATURES,
    LOST_AFTER,
    MAX_FEATURES,
    WON_AFTER,
    build_feature_words,
    fill_features_returning_count_or_outcome,
)
from quarto.jit import kernel, uint64
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import CLASSIC, Rules
from quarto.solver.solver import Solver
from quarto.symmetry import build_symmetries
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS
from tests.naive_policies import lines
from tests.positions import list_positions


@kernel()
def _features(lanes: int, occupied: int, gift: int, pieces_left: int, words: Any, features: Any) -> int:
    state = np.empty((4, BOARD), np.int64)
    fill_line_states(lanes, occupied, words, state[0])
    fill_board_survey(occupied, words, state[0])
    return fill_features_returning_count_or_outcome(occupied, gift, pieces_left, words, state[0], state[1:], features)


def compute_count_and_features(position: PackedPosition, words: Any) -> tuple[int, list[int]]:
    """Return the number that ``fill_features_returning_count_or_outcome`` returns, and the features."""
    numbers = np.empty(MAX_FEATURES, np.int64)
    lanes = uint64(position.lanes)
    count = _features(lanes, position.occupied, position.hand, position.available, words, numbers)
    return int(count), [int(number) for number in numbers[: max(count, 0)]]


def numbers_of(position: PackedPosition, words: Any) -> list[int]:
    """Return the features of an afterstate, none if its replies show how the game ends."""
    return compute_count_and_features(position, words)[1]


def afterstates(rules: Rules, games: int) -> list[PackedPosition]:
    """List positions with a gift that finishes no line."""
    return [
        position
        for position in list_positions(rules, games)
        if position.hand != NONE and not naive.winning_cells(board(position), position.hand, rules)
    ]


def occurrences(feature_lists: list[list[Any]]) -> Counter[tuple[tuple[int, int], ...]]:
    """Count how often each pattern of occurrence is that of a feature.

    The pattern of a feature has the places where it was found, and how often there.
    """
    places: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for place, features in enumerate(feature_lists):
        for feature, count in Counter(features).items():
            places[feature].append((place, count))
    return Counter(map(tuple, places.values()))


@pytest.mark.parametrize("name", ["classic", *seldom("torus_square")])
def test_numbers_stand_one_to_one_for_the_features_of_the_slow_twin(name: str) -> None:
    rules = PRESETS[name]
    words, positions = build_feature_words(rules), afterstates(rules, 5)
    results = [compute_count_and_features(position, words) for position in positions]
    twins = [lines.Afterstate(board(position), position.hand, rules) for position in positions]
    ends = {LOST_AFTER: lines.LOST, DRAWN_AFTER: lines.DRAWN, WON_AFTER: lines.WON}
    assert [ends.get(count) for count, _ in results] == [lines.decided(twin) for twin in twins]
    open_ = [number for number, (count, _) in enumerate(results) if count > 0]
    numbers = [results[number][1] for number in open_]
    assert occurrences(numbers) == occurrences([lines.features(twins[number]) for number in open_])
    assert len(open_) > 20
    assert len(open_) < len(positions)
    assert all(0 <= number < int(words[STAGE_SIZE]) for features in numbers for number in features)


def test_features_have_the_numbers_that_stored_policies_mean() -> None:
    sizes = {name: int(build_feature_words(rules)[STAGE_SIZE]) for name, rules in PRESETS.items()}
    expected = {"classic": 112641, "square": 119185, "torus": 112497, "torus_square": 114097, "own_piece": 112641}
    assert (FEATURES, sizes) == (4, expected)  # other numbers: raise FEATURES, which refuses the policies of before


def test_what_the_replies_show_is_the_exact_value() -> None:
    words, solver, end_counts = build_feature_words(CLASSIC), Solver(CLASSIC, 1.0), Counter[int]()
    for position in afterstates(CLASSIC, 60):
        count, _ = compute_count_and_features(position, words)
        if count < 0:
            end_counts[count] += 1
            assert -solver.value(position) == {LOST_AFTER: -1, DRAWN_AFTER: 0, WON_AFTER: 1}[count]
        assert count < 0 or position.occupied.bit_count() < 11
    assert min(end_counts[LOST_AFTER], end_counts[DRAWN_AFTER], end_counts[WON_AFTER]) > 3


def image(position: PackedPosition, dice: random.Random, rules: Rules) -> PackedPosition:
    """Return the position under a random symmetry of cells and pieces."""
    cells = dice.choice(build_symmetries(rules).cells.tolist())
    order, flip = dice.sample(range(4), 4), dice.randrange(16)

    def map_piece(piece: int) -> int:
        return sum((piece >> old & 1) << new for new, old in enumerate(order)) ^ flip

    plies = [(map_piece(piece), cells[cell]) for cell, piece in enumerate(board(position)) if piece != NONE]
    return position_from_plies(plies, map_piece(position.hand))
