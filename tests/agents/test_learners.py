"""Learners, and the agents that play by their knowledge: all is as with the twins of studies A to C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.base.agent import KernelAgent
from agents.ga2 import Ga2
from agents.learning.learner import Learner
from agents.learning.policy import Policy
from agents.mixed_rl import MixedRl
from agents.q_placement import QPlacement, QPlacementLearner
from agents.q_table import QTableLearner
from agents.rl_encoded import CODES, EncodedLearner, RlEncoded, sample_initial_values
from agents.rl_tabular import RlTabular, TabularLearner
from agents.rule_based import RuleBased
from agents.semi_random import SemiRandom
from quarto.jit import uint64
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import ga, q_placement, rl_encoded, rl_tabular, study_a
from tests.naive_players.agreement import (
    OPPONENT_CHOOSES,
    OPPONENT_CHOOSES_QUICK,
    NaiveLearner,
    assert_same_games,
    assert_same_turns,
    list_endgames,
    list_last_positions,
    relearn,
    same_bytes,
    train,
    train_twin,
)
from tests.naive_policies.afterstates import q_table
from tests.naive_policies.games import Game
from tests.positions import list_positions

QUICK = pytest.mark.parametrize("rules", OPPONENT_CHOOSES_QUICK, ids=lambda rules: rules.name)
FAITHFUL = pytest.mark.parametrize("faithful", [False, True])


def played_by_both(
    learners: tuple[Learner, NaiveLearner],
    opponents: tuple[KernelAgent, naive.Player],
    rules: Rules,
    games: int,
    seats: str = "both",
) -> Policy:
    """Return the knowledge of a learner whose games are those of its twin, and whose log gives the same again."""
    policy, played = train(learners[0], opponents[0], rules, games, seats)
    assert played == train_twin(learners[1], opponents[1], rules, games, seats)
    assert same_bytes(relearn(learners[0], rules, played, seats), policy)
    return policy


# Study A: rl_tabular and mixed_rl.


@QUICK
def test_rl_tabular_untrained_and_by_the_code_plays_at_random(rules: Rules) -> None:
    policy, played = train(TabularLearner(), RuleBased(), rules, 50)
    for agent in (RlTabular(), RlTabular(faithful=True), RlTabular(policy, faithful=True)):
        assert assert_same_turns(agent, naive.Random(), rules, list_positions(rules, games=20)) > 200
        assert_same_turns(agent, naive.Random(), rules, list_last_positions(played, 200))


@pytest.mark.parametrize("turns", [300, *seldom(1500)])  # the twin takes its time
@QUICK
def test_rl_tabular_plays_by_a_policy_as_its_twin(rules: Rules, turns: int) -> None:
    policy, played = train(TabularLearner(0.5, 0.0), RuleBased(), rules, 300)
    agent, twin = RlTabular(policy), rl_tabular.RlTabular(rl_tabular.counters_of(policy))
    assert_same_turns(agent, twin, rules, list_last_positions(played, turns))
    assert_same_turns(agent, twin, rules, list_positions(rules, games=turns // 75))
    assert_same_games(agent, twin, rules, pairs=turns // 150)
    with pytest.raises(AssertionError):
        assert_same_turns(agent, naive.Random(), rules, list_last_positions(played, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classic", "square"])
def test_rl_tabular_learns_from_many_games_what_its_twin_learns(name: str) -> None:
    schedule = {"exploration": 0.8, "exploration_step": 0.0005}
    twin, opponents = rl_tabular.TabularLearner(**schedule), (RuleBased(), naive.RuleBased())
    learned = played_by_both((TabularLearner(**schedule), twin), opponents, PRESETS[name], 250)
    assert same_bytes(learned, rl_tabular.policy_of(twin.counters))
    assert len(learned.table["count"]) > 500
    assert 0 in learned.table["count"]


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
def test_mixed_rl_plays_what_it_learned_as_long_as_many_pieces_are_unused(rules: Rules) -> None:
    policy, played = train(TabularLearner(0.5, 0.0), RuleBased(), rules, 120)
    agent, twin = MixedRl(policy), study_a.MixedRl(rl_tabular.counters_of(policy))
    early = [position for position in list_last_positions(played, 800) if position.available.bit_count() >= 7][:200]
    assert assert_same_turns(agent, twin, rules, early) == 200
    with pytest.raises(AssertionError):
        assert_same_turns(agent, study_a.MixedRl(), rules, early)


@pytest.mark.slow
def test_mixed_rl_accepts_what_is_worth_more_than_it_is_told() -> None:
    policy, played = train(TabularLearner(0.9, 0.0), RuleBased(), CLASSIC, 200)
    late = [position for position in list_last_positions(played, 2500) if position.available.bit_count() < 9][:30]
    counters = rl_tabular.counters_of(policy)
    for few_unused, above in ((9, 0), (9, 50), (9, 60), (9, 75), (8, 100), (0, 0)):
        agent = MixedRl(policy, few_unused, depth=1, above=above)
        twin = study_a.MixedRl(counters, few_unused, depth=1, above=above)
        assert assert_same_turns(agent, twin, CLASSIC, late) == 30
        assert_same_turns(agent, twin, CLASSIC, list_endgames(CLASSIC, 7, 20))


# Study B: q_placement.

PLAYERS: dict[bool, Any] = {False: q_placement.QPlacement, True: q_placement.FaithfulQPlacement}
LEARNERS: dict[bool, Any] = {False: q_placement.QPlacementLearner, True: q_placement.FaithfulQPlacementLearner}


@QUICK
@FAITHFUL
def test_q_placement_untrained_plays_as_its_twin(faithful: bool, rules: Rules) -> None:
    for alpha in (0.0, 0.1, 1.0):
        agent, twin = QPlacement(alpha=alpha, faithful=faithful), PLAYERS[faithful](alpha=alpha)
        assert assert_same_turns(agent, twin, rules, list_positions(rules, games=40)) > 500


@pytest.mark.slow  # the twin takes its time
@pytest.mark.parametrize("turns", [10, 4000])
@FAITHFUL
def test_q_placement_plays_by_a_policy_as_its_twin(faithful: bool, turns: int) -> None:
    policy, played = train(QPlacementLearner(exploration=0.5, faithful=faithful), Ga2(), CLASSIC, 1500)
    agent, twin = QPlacement(policy, faithful=faithful), PLAYERS[faithful](q_placement.entries_of(policy))
    assert assert_same_turns(agent, twin, CLASSIC, list_last_positions(played, turns)) == turns
    assert_same_turns(agent, twin, CLASSIC, list_positions(CLASSIC, games=max(turns // 100, 1)))
    assert_same_games(agent, twin, CLASSIC, pairs=max(turns // 100, 1))
    with pytest.raises(AssertionError):
        assert_same_turns(agent, PLAYERS[faithful](), CLASSIC, list_last_positions(played, 1000))


@pytest.mark.parametrize(("seats", "games"), [("both", 120), *seldom(("both", 700), ("1", 250), ("1", 700))])
@FAITHFUL
def test_q_placement_learns_what_its_twin_learns(faithful: bool, seats: str, games: int) -> None:
    twin = LEARNERS[faithful]()
    policy = played_by_both((QPlacementLearner(faithful=faithful), twin), (Ga2(), ga.Ga2()), CLASSIC, games, seats)
    assert same_bytes(policy, q_placement.policy_of(twin.entries()))
    assert len(policy.table["value"]) > games


# Study C: rl_encoded.

GIFT_RULES = pytest.mark.parametrize("gift_rule", ["mean", "min_max"])
SOME_VALUES = {code: code // 8 % 3 - 1.0 for code in range(0, CODES, 8)}  # one of three: ties abound


def policy_of(values: dict[int, float], seed: int = 0) -> Policy:
    """Return a policy that says this of some codes and nothing new of the others."""
    table = sample_initial_values(uint64(seed))
    table[list(values)] = list(values.values())
    return Policy("encoded_values", table={"code": np.arange(CODES, dtype=np.int32), "value": table})


@QUICK
@GIFT_RULES
def test_rl_encoded_untrained_plays_as_its_twin(gift_rule: str, rules: Rules) -> None:
    agent, twin = RlEncoded(gift_rule=gift_rule, values_seed=5), rl_encoded.RlEncoded(None, gift_rule, 5)
    assert assert_same_turns(agent, twin, rules, list_positions(rules, games=3)) > 25


@pytest.mark.parametrize(("games", "least"), [(5, 70), *seldom((100, 2000))])
@GIFT_RULES
def test_rl_encoded_plays_by_a_policy_as_its_twin(gift_rule: str, games: int, least: int) -> None:
    agent, twin = RlEncoded(policy_of(SOME_VALUES), gift_rule), rl_encoded.RlEncoded(SOME_VALUES, gift_rule)
    assert assert_same_turns(agent, twin, CLASSIC, list_positions(CLASSIC, games)) > least


def test_rl_encoded_plays_whole_games_as_its_twin() -> None:
    assert_same_games(RlEncoded(), rl_encoded.RlEncoded(), CLASSIC, pairs=4)
    learned, twin = RlEncoded(policy_of(SOME_VALUES)), rl_encoded.RlEncoded(SOME_VALUES)
    assert_same_games(learned, twin, PRESETS["torus_square"], pairs=2, opening_plies=3)


@pytest.mark.parametrize("games", [20, *seldom(300)])
def test_rl_encoded_learns_what_its_twin_learns(games: int) -> None:
    rewards = {"win": 2.5, "loss": -1.0, "draw": 0.5, "else": 0.125}
    more = {"learning_rate": 0.3, "discount": 0.9, "exploration": 0.7, "exploration_step": 0.2}  # ends after game 4
    settings: dict[str, Any] = {**more, "gift_rule": "min_max", "values_seed": 3}
    for learner, twin, rules, number in (
        (EncodedLearner(), rl_encoded.EncodedLearner(), CLASSIC, games),
        (
            EncodedLearner(rewards=list(rewards.values()), **settings),
            rl_encoded.EncodedLearner(rewards=rewards, **settings),
            PRESETS["square"],
            8,
        ),
    ):
        policy = played_by_both((learner, twin), (SemiRandom(), naive.SemiRandom()), rules, number)
        assert same_bytes(policy, policy_of(twin.values, 3 if number == 8 else 0))
        assert not same_bytes(learner.to_policy(learner.knowledge(rules)), policy)


# Q-learning of turns, without a study.


@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["square"]], ids=lambda rules: rules.name)
def test_q_table_learns_what_a_dictionary_learns(rules: Rules) -> None:
    learner = QTableLearner(0.3, 0.9, exploration=0.5)
    policy, played = train(learner, SemiRandom(), rules, 20)
    table = {name: column.tolist() for name, column in policy.table.items()}
    keys = list(zip(table["lanes"], table["occupied"], strict=True))
    games = [Game(list(zip(game.pieces, game.cells, strict=True)), game.winner, 0) for game in played]
    assert dict(zip(keys, table["value"], strict=True)) == q_table(games, rules, 0.3, 0.9)
    assert keys == sorted(keys)
    assert same_bytes(relearn(learner, rules, played), policy)
