"""mixed_rl plays study A's text, or its code."""

from __future__ import annotations

import pytest

from agents.mixed_rl import MixedRl
from agents.rl_tabular import TabularLearner
from agents.rule_based import RuleBased
from quarto.rules import CLASSIC, Rules
from tests.naive_players import mixed_rl as naive_mixed_rl
from tests.naive_players.agreement import (
    LONG_GAMES,
    OPPONENT_CHOOSES,
    assert_same_games,
    assert_same_turns,
    endgames,
)
from tests.naive_players.learning import met, train
from tests.naive_players.mixed import FaithfulMixedRl
from tests.naive_players.rl_tabular import counters_of
from tests.positions import asked


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_it_plays_what_it_learned_as_long_as_many_pieces_are_unused(rules: Rules) -> None:
    policy, played = train(TabularLearner(0.5, 0.0), RuleBased(), rules, 200)
    agent, twin = MixedRl(policy), naive_mixed_rl.MixedRl(counters_of(policy))
    early = [position for position in met(played, 1200) if position.available.bit_count() >= 7][:300]
    assert assert_same_turns(agent, twin, rules, early) == 300
    with pytest.raises(AssertionError):
        assert_same_turns(agent, naive_mixed_rl.MixedRl(), rules, early)


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_untrained_it_mirrors_the_opponent(rules: Rules) -> None:
    early = [position for position in asked(rules, 20) if position.available.bit_count() >= 7]
    assert assert_same_turns(MixedRl(), naive_mixed_rl.MixedRl(), rules, early) > 150


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
def test_it_searches_when_few_pieces_are_unused(rules: Rules) -> None:
    assert_same_turns(MixedRl(), naive_mixed_rl.MixedRl(), rules, endgames(rules, 4, 100))


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


@pytest.mark.slow
def test_whole_games_are_those_of_the_slow_twin() -> None:
    policy, _ = train(TabularLearner(0.5, 0.0), RuleBased(), CLASSIC, 300)
    agent, twin = MixedRl(policy, 6, 2), naive_mixed_rl.MixedRl(counters_of(policy), 6, 2)
    assert_same_games(agent, twin, CLASSIC, pairs=30)
    assert_same_games(MixedRl(few_unused=5), naive_mixed_rl.MixedRl(few_unused=5), CLASSIC, pairs=20)


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
def test_by_the_code_it_searches_as_mixed_and_recognises_no_board(rules: Rules) -> None:
    agent, twin = MixedRl(few_unused=7, depth=2, faithful=True), FaithfulMixedRl(7, 2)
    assert_same_turns(agent, twin, rules, endgames(rules, 7, 60))
    assert_same_games(agent, twin, rules, pairs=20)


def test_the_defaults_are_the_studys_numbers() -> None:
    assert MixedRl().knowledge(CLASSIC).params.tolist() == [7.0, 4.0, 60.0]
    assert MixedRl(faithful=True).knowledge(CLASSIC).params.tolist() == [6.0, 3.0, 60.0, 0.0]
