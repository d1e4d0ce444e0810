"""rl_encoded plays and learns by study C's text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.learning.policy import Policy
from agents.rl_encoded import CODES, EncodedLearner, RlEncoded, first_values
from agents.semi_random import SemiRandom
from quarto.jit import uint64
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import rl_encoded as naive_rl_encoded
from tests.naive_players.agreement import (
    OPPONENT_CHOOSES_QUICK,
    assert_same_games,
    assert_same_turns,
    relearn,
    same_bytes,
    train,
    train_twin,
)
from tests.positions import asked

GIFT_RULES = ["mean", "min_max"]


def policy_of(values: dict[int, float]) -> Policy:
    """A policy that says this of some codes and nothing new of the others."""
    table = first_values(uint64(0))
    table[list(values)] = list(values.values())
    return Policy("encoded_values", table={"code": np.arange(CODES, dtype=np.int32), "value": table})


def some_values() -> dict[int, float]:
    """Every eighth code is worth one of three values: ties abound."""
    return {code: code // 8 % 3 - 1.0 for code in range(0, CODES, 8)}


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES_QUICK, ids=lambda rules: rules.name)
@pytest.mark.parametrize("gift_rule", GIFT_RULES)
def test_untrained_turns_are_those_of_the_slow_twin(gift_rule: str, rules: Rules) -> None:
    agent, twin = RlEncoded(gift_rule=gift_rule, values_seed=5), naive_rl_encoded.RlEncoded(None, gift_rule, 5)
    assert assert_same_turns(agent, twin, rules, asked(rules, games=3)) > 25


@pytest.mark.parametrize(("games", "least"), [(5, 70), *seldom((100, 2000))])
@pytest.mark.parametrize("gift_rule", GIFT_RULES)
def test_turns_are_those_of_the_slow_twin(gift_rule: str, games: int, least: int) -> None:
    agent = RlEncoded(policy_of(some_values()), gift_rule)
    twin = naive_rl_encoded.RlEncoded(some_values(), gift_rule)
    assert assert_same_turns(agent, twin, CLASSIC, asked(CLASSIC, games)) > least


def test_whole_games_are_those_of_the_slow_twin() -> None:
    assert_same_games(RlEncoded(), naive_rl_encoded.RlEncoded(), CLASSIC, pairs=4)
    learned, twin = RlEncoded(policy_of(some_values())), naive_rl_encoded.RlEncoded(some_values())
    assert_same_games(learned, twin, PRESETS["torus_square"], pairs=2, opening_plies=3)


def assert_learns_the_same(games: int, rules: Rules, **parameters: Any) -> None:
    twin = naive_rl_encoded.EncodedLearner(**parameters)
    if "rewards" in parameters:
        parameters["rewards"] = [parameters["rewards"][key] for key in ("win", "loss", "draw", "else")]
    learner = EncodedLearner(**parameters)
    policy, played = train(learner, SemiRandom(), rules, games)
    assert played == train_twin(twin, naive.SemiRandom(), rules, games)
    values = first_values(uint64(parameters.get("values_seed", 0)))
    values[list(twin.values)] = list(twin.values.values())
    expected = Policy("encoded_values", table={"code": np.arange(CODES, dtype=np.int32), "value": values})
    assert same_bytes(policy, expected)
    assert same_bytes(relearn(learner, rules, played), expected)
    assert not same_bytes(learner.policy(learner.knowledge(rules)), expected)


@pytest.mark.parametrize("games", [40, *seldom(300)])
def test_it_learns_what_the_slow_twin_learns(games: int) -> None:
    assert_learns_the_same(games, CLASSIC)
    rewards = {"win": 2.5, "loss": -1.0, "draw": 0.5, "else": 0.125}
    assert_learns_the_same(  # exploration ends after the fourth game
        8, PRESETS["square"], learning_rate=0.3, discount=0.9, exploration=0.7, exploration_step=0.2,
        rewards=rewards, gift_rule="min_max", values_seed=3,
    )  # fmt: skip
