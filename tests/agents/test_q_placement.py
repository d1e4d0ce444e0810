"""q_placement plays and learns by study B's text, or its code."""

from __future__ import annotations

from typing import Any

import pytest

from agents.ga2 import Ga2
from agents.q_placement import QPlacement, QPlacementLearner
from quarto.rules import CLASSIC, Rules
from tests.marks import seldom
from tests.naive_players import ga as naive_ga2
from tests.naive_players import q_placement as naive_q_placement
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
from tests.naive_players.q_placement import entries_of, policy_of
from tests.positions import asked

PLAYERS: dict[bool, Any] = {False: naive_q_placement.QPlacement, True: naive_q_placement.FaithfulQPlacement}
LEARNERS: dict[bool, Any] = {
    False: naive_q_placement.QPlacementLearner,
    True: naive_q_placement.FaithfulQPlacementLearner,
}
BOTH = pytest.mark.parametrize("faithful", [False, True])


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES_QUICK, ids=lambda rules: rules.name)
@BOTH
def test_untrained_turns_are_those_of_the_slow_twin(faithful: bool, rules: Rules) -> None:
    for alpha in (0.0, 0.1, 1.0):
        agent, twin = QPlacement(alpha=alpha, faithful=faithful), PLAYERS[faithful](alpha=alpha)
        assert assert_same_turns(agent, twin, rules, asked(rules, games=40)) > 500


@pytest.mark.slow  # the twin takes its time
@pytest.mark.parametrize("turns", [10, 4000])
@BOTH
def test_turns_with_a_policy_are_those_of_the_slow_twin(faithful: bool, turns: int) -> None:
    policy, played = train(QPlacementLearner(exploration=0.5, faithful=faithful), Ga2(), CLASSIC, 1500)
    agent, twin = QPlacement(policy, faithful=faithful), PLAYERS[faithful](entries_of(policy))
    assert assert_same_turns(agent, twin, CLASSIC, met(played, turns)) == turns
    assert_same_turns(agent, twin, CLASSIC, asked(CLASSIC, games=max(turns // 100, 1)))
    assert_same_games(agent, twin, CLASSIC, pairs=max(turns // 100, 1))
    with pytest.raises(AssertionError):
        assert_same_turns(agent, PLAYERS[faithful](), CLASSIC, met(played, 1000))


@pytest.mark.parametrize("games", [250, *seldom(700)])
@pytest.mark.parametrize("seats", ["both", *seldom("1")])
@BOTH
def test_it_learns_what_the_slow_twin_learns(faithful: bool, seats: str, games: int) -> None:
    assert_learns_the_same(games, CLASSIC, seats, faithful)


def assert_learns_the_same(games: int, rules: Rules, seats: str, faithful: bool, **parameters: float) -> None:
    learner, twin = QPlacementLearner(**parameters, faithful=faithful), LEARNERS[faithful](**parameters)
    policy, played = train(learner, Ga2(), rules, games, seats)
    assert played == train_twin(twin, naive_ga2.Ga2(), rules, games, seats)
    assert same_bytes(policy, policy_of(twin.entries()))
    assert same_bytes(relearn(learner, rules, played, seats), policy)
    assert len(policy.table["value"]) > games
