"""Features of lines are those of the slow twin under every rules, and the same for symmetric afterstates."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from agents.learning.line_boards import BOARD, STAGE_SIZE, compute_lines, survey_board
from agents.learning.line_features import (
    DRAWN_AFTER,
    FEATURES,
    LOST_AFTER,
    MAX_FEATURES,
    WON_AFTER,
    build_feature_words,
    compute_features,
)
from quarto.jit import kernel, uint64
from quarto.position import Position, board, position_from_plies
from quarto.rules import CLASSIC, Rules
from quarto.solver.solver import Solver
from quarto.symmetry import build_symmetries
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS
from tests.naive_policies import lines
from tests.positions import asked


@kernel()
def _features(lanes: int, occupied: int, gift: int, left: int, words: Any, found: Any) -> int:
    state = np.empty((4, BOARD), np.int64)
    compute_lines(lanes, occupied, words, state[0])
    survey_board(occupied, words, state[0])
    return compute_features(occupied, gift, left, words, state[0], state[1:], found)


def counted(position: Position, words: Any) -> tuple[int, list[int]]:
    """The number that ``compute_features`` returns, and the features."""
    found = np.empty(MAX_FEATURES, np.int64)
    lanes = uint64(position.lanes)
    count = _features(lanes, position.occupied, position.hand, position.available, words, found)
    return int(count), [int(number) for number in found[: max(count, 0)]]


def numbers_of(position: Position, words: Any) -> list[int]:
    """The features of an afterstate, none if its replies show how the game ends."""
    return counted(position, words)[1]


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


@pytest.mark.parametrize("name", ["classic", *seldom("torus_square")])
def test_numbers_stand_one_to_one_for_the_features_of_the_slow_twin(name: str) -> None:
    rules = PRESETS[name]
    words, positions = build_feature_words(rules), afterstates(rules, 5)
    found = [counted(position, words) for position in positions]
    twins = [lines.Afterstate(board(position), position.hand, rules) for position in positions]
    ends = {LOST_AFTER: lines.LOST, DRAWN_AFTER: lines.DRAWN, WON_AFTER: lines.WON}
    assert [ends.get(count) for count, _ in found] == [lines.decided(twin) for twin in twins]
    open_ = [number for number, (count, _) in enumerate(found) if count > 0]
    numbers = [found[number][1] for number in open_]
    assert occurrences(numbers) == occurrences([lines.features(twins[number]) for number in open_])
    assert len(open_) > 20
    assert len(open_) < len(positions)
    assert all(0 <= number < int(words[STAGE_SIZE]) for each in numbers for number in each)


def test_features_have_the_numbers_that_stored_policies_mean() -> None:
    sizes = {name: int(build_feature_words(rules)[STAGE_SIZE]) for name, rules in PRESETS.items()}
    known = {"classic": 112641, "square": 119185, "torus": 112497, "torus_square": 114097, "own_piece": 112641}
    assert (FEATURES, sizes) == (4, known)  # other numbers: raise FEATURES, which refuses the policies of before


def test_what_the_replies_show_is_the_exact_value() -> None:
    words, solver, met = build_feature_words(CLASSIC), Solver(CLASSIC, 1.0), Counter[int]()
    for position in afterstates(CLASSIC, 60):
        count, _ = counted(position, words)
        if count < 0:
            met[count] += 1
            assert -solver.value(position) == {LOST_AFTER: -1, DRAWN_AFTER: 0, WON_AFTER: 1}[count]
        assert count < 0 or position.occupied.bit_count() < 11
    assert min(met[LOST_AFTER], met[DRAWN_AFTER], met[WON_AFTER]) > 3


def image(position: Position, dice: random.Random, rules: Rules) -> Position:
    """The position under a random symmetry of cells and pieces."""
    cells = dice.choice(build_symmetries(rules).cells.tolist())
    order, flip = dice.sample(range(4), 4), dice.randrange(16)

    def moved(piece: int) -> int:
        return sum((piece >> old & 1) << new for new, old in enumerate(order)) ^ flip

    plies = [(moved(piece), cells[cell]) for cell, piece in enumerate(board(position)) if piece != NONE]
    return position_from_plies(plies, moved(position.hand))
