"""mixed_rl plays study A's text, or its code."""

from __future__ import annotations

import pytest

from agents.mixed_rl import MixedRl
from agents.rl_tabular import TabularLearner
from agents.rule_based import RuleBased
from quarto.rules import CLASSIC, Rules
from tests.naive_players import study_a as naive_mixed_rl
from tests.naive_players.agreement import (
    OPPONENT_CHOOSES,
    assert_same_turns,
    endgames,
    met,
    train,
)
from tests.naive_players.rl_tabular import counters_of


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_it_plays_what_it_learned_as_long_as_many_pieces_are_unused(rules: Rules) -> None:
    policy, played = train(TabularLearner(0.5, 0.0), RuleBased(), rules, 120)
    agent, twin = MixedRl(policy), naive_mixed_rl.MixedRl(counters_of(policy))
    early = [position for position in met(played, 800) if position.available.bit_count() >= 7][:200]
    assert assert_same_turns(agent, twin, rules, early) == 200
    with pytest.raises(AssertionError):
        assert_same_turns(agent, naive_mixed_rl.MixedRl(), rules, early)


@pytest.mark.slow
def test_it_accepts_what_is_worth_more_than_it_is_told() -> None:
    policy, played = train(TabularLearner(0.9, 0.0), RuleBased(), CLASSIC, 200)
    late = [position for position in met(played, 2500) if position.available.bit_count() < 9][:30]
    counters = counters_of(policy)
    for few_unused, above in ((9, 0), (9, 50), (9, 60), (9, 75), (8, 100), (0, 0)):
        agent = MixedRl(policy, few_unused, depth=1, above=above)
        twin = naive_mixed_rl.MixedRl(counters, few_unused, depth=1, above=above)
        assert assert_same_turns(agent, twin, CLASSIC, late) == 30
        assert_same_turns(agent, twin, CLASSIC, endgames(CLASSIC, 7, 20))
