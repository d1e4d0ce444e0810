"""rl_tabular plays and learns by study A's text."""

from __future__ import annotations

import numpy as np
import pytest

from agents.learning.policy import Policy
from agents.lift import lift
from agents.rl_tabular import RlTabular, TabularLearner
from agents.rule_based import RuleBased
from quarto.errors import RequestError
from quarto.rules import CLASSIC, Rules
from runners.hosting.guarded_agent import GuardedAgent
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


ONE_PIECE = (1, 0)  # the canonical form of all boards with a piece on an outer cell
GOOD = policy_of({ONE_PIECE: {("cell", 1): 2, ("cell", 5): -1, ("gift", 1): 7}})


def changed(column: str, row: int, value: float) -> Policy:
    values = GOOD.table[column].copy()
    values[row] = value
    return Policy(GOOD.kind, table={**GOOD.table, column: values})


WRONG_POLICIES = [
    (
        Policy("encoded_values"),
        "policy of kind 'encoded_values' is for other players; rl_tabular reads 'counters'",
    ),
    (
        Policy(GOOD.kind, table={**GOOD.table, "count": np.zeros(3)}),
        r"column 'count' of a policy is float64 \(3,\), not one row of integers",
    ),
    (changed("lanes", 1, 4), "lanes 4 in row 1 of a policy has a piece where no cell is occupied"),
    (changed("occupied", 1, 3), "lanes 0 in row 1 of a policy has a piece twice"),
    (changed("cell", 2, 16), "cell 16 in row 2 of a policy is not from -1 to 15"),
    (changed("gift", 0, -2), "gift -2 in row 0 of a policy is not from -1 to 15"),
    (changed("gift", 1, 4), "cell 1 in row 1 of a policy contradicts the gift: one of them is -1, the other is not"),
    (changed("gift", 0, -1), "cell -1 in row 0 of a policy contradicts the gift: one of them is -1, the other is not"),
    (changed("cell", 1, 0), "cell 0 in row 1 of a policy is occupied"),
    (changed("gift", 0, 0), "gift 0 in row 0 of a policy is on the board"),
    (changed("cell", 2, 1), "lanes 0 in row 2 of a policy has the same lanes, occupied, cell, gift as the row before"),
    (changed("cell", 1, 6), "lanes 0 in row 2 of a policy comes too late: rows ascend by lanes, occupied, cell, gift"),
]


@pytest.mark.parametrize(("policy", "message"), WRONG_POLICIES)
def test_a_policy_that_it_cannot_play_by_is_refused(policy: Policy, message: str) -> None:
    RlTabular(GOOD)
    with pytest.raises(ValueError, match=f"^{message}$"):
        RlTabular(policy)


def test_a_policy_of_other_rules_is_refused_when_it_shall_play() -> None:
    policy, _ = train(TabularLearner(), RuleBased(), PRESETS["square"], 20)
    lift(RlTabular(policy), PRESETS["square"], "rl_tabular")
    with pytest.raises(RequestError, match="is no board's canonical form under rules 'classic': it was learned under"):
        GuardedAgent(RlTabular(policy), "rl_tabular", CLASSIC)
