"""minimax plays study A's text without pruning or memory, or its code."""

from __future__ import annotations

import pytest

from agents.minimax import Minimax
from quarto.rules import CLASSIC, Rules
from tests.naive_players import minimax as naive_minimax
from tests.naive_players.agreement import (
    LONG_GAMES,
    OPPONENT_CHOOSES,
    assert_same_games,
    assert_same_turns,
    endgames,
)

CASES = [  # depth, empty cells that the slow twin can look through, rules
    pytest.param(depth, most_empty, rules, id=f"{depth} {rules.name}", marks=[pytest.mark.slow] if depth == 3 else [])
    for depth, most_empty in ((1, 9), (2, 6), (3, 5), (4, 4), (16, 4))
    for rules in (OPPONENT_CHOOSES if depth == 1 else LONG_GAMES)
]


@pytest.mark.parametrize(("depth", "most_empty", "rules"), CASES)
def test_turns_by_the_text_are_those_of_the_slow_twin(depth: int, most_empty: int, rules: Rules) -> None:
    assert_same_turns(Minimax(depth), naive_minimax.Minimax(depth), rules, endgames(rules, most_empty, 40))


@pytest.mark.parametrize(("depth", "most_empty", "rules"), CASES)
def test_turns_by_the_code_are_those_of_the_slow_twin(depth: int, most_empty: int, rules: Rules) -> None:
    twin = naive_minimax.FaithfulMinimax(depth)
    assert_same_turns(Minimax(depth, faithful=True), twin, rules, endgames(rules, most_empty, 40))


@pytest.mark.slow
def test_whole_games_are_those_of_the_slow_twin() -> None:
    assert_same_games(Minimax(), naive_minimax.Minimax(), CLASSIC, pairs=8, opening_plies=5)
    assert_same_games(Minimax(faithful=True), naive_minimax.FaithfulMinimax(), CLASSIC, pairs=8, opening_plies=5)
