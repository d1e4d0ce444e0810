"""mixed and best_mixed play study A's text, or its code."""

from __future__ import annotations

import pytest

from agents.best_mixed import BestMixed
from agents.dumb import Dumb
from agents.mixed import Mixed
from agents.rule_based import RuleBased
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.marks import seldom
from tests.naive_players import mixed as naive_mixed
from tests.naive_players.agreement import (
    LONG_GAMES,
    OPPONENT_CHOOSES,
    assert_same_games,
    assert_same_match,
    assert_same_turns,
    endgames,
)
from tests.naive_players.study_a import FaithfulRuleBased
from tests.positions import asked


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_it_plays_by_rules_of_thumb_as_long_as_many_pieces_are_unused(rules: Rules) -> None:
    positions = [position for position in asked(rules, 40) if position.available.bit_count() >= 8]
    assert assert_same_turns(Mixed(), naive_mixed.Mixed(), rules, positions) > 300
    assert assert_same_turns(BestMixed(), naive_mixed.Mixed(6, 3), rules, positions) > 300


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
def test_it_searches_when_few_pieces_are_unused(rules: Rules) -> None:
    assert_same_turns(Mixed(), naive_mixed.Mixed(), rules, endgames(rules, 4, 100))
    assert_same_turns(BestMixed(), naive_mixed.Mixed(6, 3), rules, endgames(rules, 5, 100))


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
def test_it_searches_with_fewer_unused_pieces_than_it_is_told(rules: Rules) -> None:
    for few_unused in (0, 5, 7):
        agent, twin = Mixed(few_unused, depth=1), naive_mixed.Mixed(few_unused, depth=1)
        assert_same_turns(agent, twin, rules, endgames(rules, 9, 150))


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
def test_by_the_code_it_searches_deeper_and_takes_the_turn_of_the_leaf(rules: Rules) -> None:
    twin = naive_mixed.FaithfulMixed(8, 5)
    assert_same_turns(BestMixed(faithful=True), twin, rules, endgames(rules, 5, 100))
    few, few_twin = BestMixed(7, 2, faithful=True), naive_mixed.FaithfulMixed(7, 2)
    assert_same_turns(few, few_twin, rules, endgames(rules, 7, 60))
    assert_same_turns(Mixed(faithful=True), naive_mixed.FaithfulMixed(), rules, endgames(rules, 5, 60))


def test_whole_games_are_those_of_the_slow_twin() -> None:
    assert_same_games(Mixed(4, 4), naive_mixed.Mixed(4, 4), CLASSIC, pairs=30, opening_plies=8)
    assert_same_games(BestMixed(4), naive_mixed.Mixed(4, 3), CLASSIC, pairs=30)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["last", *seldom("earlier")])
def test_by_the_code_whole_games_are_those_of_the_slow_twin(version: str) -> None:
    """Its old board, which the search leaves as it was, comes into play when a turn that was found is worth nothing."""
    agent, twin = Mixed(7, 2, True, version), naive_mixed.FaithfulMixed(7, 2, version)
    assert_same_games(agent, twin, CLASSIC, pairs=60)
    assert_same_match((agent, twin), (Dumb(), naive.Dumb()), CLASSIC, pairs=40)
    assert_same_match((agent, twin), (RuleBased(True), FaithfulRuleBased()), CLASSIC, pairs=40, opening_plies=3)
    assert_same_games(BestMixed(5, 4, True, version), naive_mixed.FaithfulMixed(5, 4, version), CLASSIC, pairs=20)


def test_the_defaults_are_the_studys_numbers() -> None:
    assert (Mixed().few_unused, Mixed().depth) == (8, 4)
    assert (Mixed(faithful=True).few_unused, Mixed(faithful=True).depth) == (6, 3)
    assert (BestMixed().few_unused, BestMixed().depth) == (6, 3)
    assert (BestMixed(faithful=True).few_unused, BestMixed(faithful=True).depth) == (8, 5)
