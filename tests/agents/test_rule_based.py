"""rule_based plays study A's code in both of its versions; its text is compared in test_twins.py."""

from __future__ import annotations

import pytest

from agents.dumb import Dumb
from agents.ga5 import Ga5
from agents.rule_based import RuleBased
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.marks import seldom
from tests.naive_players.agreement import OPPONENT_CHOOSES, assert_same_games, assert_same_match, assert_same_turns
from tests.naive_players.ga5 import FaithfulGa5
from tests.naive_players.study_a import FaithfulRuleBased
from tests.positions import asked

VERSIONS = ["last", "earlier"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_a_first_turn_is_that_of_the_slow_twin(rules: Rules, version: str) -> None:
    agent, twin = RuleBased(faithful=True, version=version), FaithfulRuleBased(version)
    assert assert_same_turns(agent, twin, rules, asked(rules, 20)) > 300


@pytest.mark.parametrize("version", ["last", *seldom("earlier")])
def test_whole_games_are_those_of_the_slow_twin(version: str) -> None:
    one = RuleBased(faithful=True, version=version), FaithfulRuleBased(version)
    assert_same_games(*one, CLASSIC, pairs=60)
    assert_same_games(*one, CLASSIC, pairs=30, opening_plies=5)
    assert_same_match(one, (Dumb(), naive.Dumb()), CLASSIC, pairs=60)
    assert_same_match(one, (Ga5(faithful=True), FaithfulGa5()), CLASSIC, pairs=60)
