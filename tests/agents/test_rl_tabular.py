"""rl_tabular plays and learns by study A's text."""

from __future__ import annotations

import pytest

from agents.learning.policy import Policy
from agents.rl_tabular import RlTabular, TabularLearner
from agents.rule_based import RuleBased
from quarto.rules import Rules
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import rl_tabular as naive_rl_tabular
from tests.naive_players.agreement import (
    OPPONENT_CHOOSES_QUICK,
    assert_same_games,
    assert_same_turns,
    met,
    relearn,
    same_bytes,
    train,
    train_twin,
)
from tests.naive_players.rl_tabular import counters_of, policy_of
from tests.positions import asked


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES_QUICK, ids=lambda rules: rules.name)
def test_untrained_and_by_the_code_it_plays_at_random(rules: Rules) -> None:
    policy, played = train(TabularLearner(), RuleBased(), rules, 50)
    for agent in (RlTabular(), RlTabular(faithful=True), RlTabular(policy, faithful=True)):
        assert assert_same_turns(agent, naive.Random(), rules, asked(rules, games=20)) > 200
        assert_same_turns(agent, naive.Random(), rules, met(played, 200))


@pytest.mark.parametrize("turns", [300, *seldom(1500)])  # the twin takes its time
@pytest.mark.parametrize("rules", OPPONENT_CHOOSES_QUICK, ids=lambda rules: rules.name)
def test_turns_with_a_policy_are_those_of_the_slow_twin(rules: Rules, turns: int) -> None:
    policy, played = train(TabularLearner(0.5, 0.0), RuleBased(), rules, 300)
    agent, twin = RlTabular(policy), naive_rl_tabular.RlTabular(counters_of(policy))
    assert_same_turns(agent, twin, rules, met(played, turns))
    assert_same_turns(agent, twin, rules, asked(rules, games=turns // 75))
    assert_same_games(agent, twin, rules, pairs=turns // 150)
    with pytest.raises(AssertionError):
        assert_same_turns(agent, naive.Random(), rules, met(played, 1000))


def assert_learns_the_same(games: int, rules: Rules, **parameters: float) -> Policy:
    learner, twin = TabularLearner(**parameters), naive_rl_tabular.TabularLearner(**parameters)
    policy, played = train(learner, RuleBased(), rules, games)
    assert played == train_twin(twin, naive.RuleBased(), rules, games)
    assert same_bytes(policy, policy_of(twin.counters))
    assert same_bytes(relearn(learner, rules, played), policy)
    return policy


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classic", *seldom("square")])
def test_it_learns_from_many_games_what_the_slow_twin_learns(name: str) -> None:
    learned = assert_learns_the_same(250, PRESETS[name], exploration=0.8, exploration_step=0.0005)
    assert len(learned.table["count"]) > 500
    assert 0 in learned.table["count"]
