"""The agent 'policy' plays any kind, turn for turn as the player of that kind."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from agents.ga2 import Ga2
from agents.ga5 import Ga5
from agents.learning.gifts import Gifts
from agents.learning.policy import GENOME, GIFT, MC_AFTERSTATE, READERS, Policy
from agents.policy import KINDS
from agents.policy import Policy as Agent
from agents.q_placement import QPlacement, QPlacementLearner
from agents.rl_encoded import EncodedLearner, RlEncoded
from agents.rl_tabular import RlTabular, TabularLearner
from agents.semi_random import SemiRandom
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.naive_players.agreement import assert_same_turns
from tests.positions import asked


def table_of(kind: str, **columns: tuple[type[Any], list[Any]]) -> Policy:
    return Policy(kind, table={name: np.array(values, type_) for name, (type_, values) in columns.items()})


def means(lanes: list[int], occupied: list[int], mean: list[float]) -> Policy:
    return table_of(MC_AFTERSTATE, lanes=(np.int64, lanes), occupied=(np.int32, occupied), mean=(np.float64, mean))


def risks(pieces: list[int], wins: list[int], risk: list[float]) -> Policy:
    zeros = (np.int8, [0] * len(pieces))
    columns = {"pieces": (np.int8, pieces), "wins": (np.int8, wins), "safe": zeros, "dangers": zeros}
    return table_of(GIFT, **columns, risk=(np.float64, risk))


def untrained(learner: EncodedLearner | QPlacementLearner | TabularLearner) -> Policy:
    return learner.policy(learner.knowledge(CLASSIC))


def test_every_kind_that_somebody_reads_has_a_player() -> None:
    assert set(KINDS) == set(READERS)


@pytest.mark.parametrize(
    ("policy", "player"),
    [
        (untrained(EncodedLearner()), RlEncoded),
        (untrained(QPlacementLearner()), QPlacement),
        (untrained(TabularLearner()), RlTabular),
        (Policy(GENOME, {"alpha": 0.25, "beta": 0.75}), Ga2),
        (Policy(GENOME, dict.fromkeys(("alpha", "beta", "gamma", "delta", "epsilon"), 0.5)), Ga5),
        (means([0], [0], [0.5]), Agent),
        (risks([0], [0], [0.5]), Gifts),
        (None, Agent),
    ],
)
def test_each_kind_is_played_by_its_player(policy: Policy | None, player: type[Any]) -> None:
    assert type(Agent(policy)) is player


def test_the_genes_of_a_genome_reach_its_player() -> None:
    player = Agent(Policy(GENOME, {"beta": 0.75}))
    assert (player.alpha, player.beta) == (0.1, 0.75)


@pytest.mark.parametrize("fallback", ["semi_random", "random"])
def test_without_a_policy_the_fallback_plays_but_wins_are_taken(fallback: str) -> None:
    class Twin:
        def turn(self, view: naive.View, seed: int) -> tuple[int, int]:
            wins = view.hand != naive.NONE and naive.winning_cells(view.board, view.hand, view.rules)
            player = naive.SemiRandom() if wins or fallback == "semi_random" else naive.Random()
            return player.turn(view, seed)

    assert assert_same_turns(Agent(None, fallback), Twin(), CLASSIC, asked(CLASSIC, 10)) > 100


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("mine", "policy='mine' is no policy"),
        (Policy("gifts"), "policy of kind 'gifts' has no player here; did you mean 'gift'"),
        (Policy(GENOME, {"omega": 1.0}), "has genes that no player has: omega"),
        (Policy(MC_AFTERSTATE), "has no column 'lanes'"),
        (means([1], [1], [1.5]), "mean 1.5 in row 0 of a policy is not from -1 to 1"),
        (means([0], [1], [0.5]), "lanes 0 in row 0 of a policy has the piece in hand on the board"),
        (means([1, 1], [1, 1], [0.0, 0.0]), "has the same lanes, occupied as the row before"),
        (risks([0], [17], [0.5]), "wins 17 in row 0 of a policy is not from 0 to 16"),
        (risks([0], [0], [1.5]), "risk 1.5 in row 0 of a policy is not from 0 to 1"),
        (risks([1, 0], [0, 0], [0.5, 0.5]), "pieces 0 in row 1 of a policy comes too late"),
    ],
)
def test_a_policy_that_nobody_can_play_by_is_refused(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Agent(policy)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fallback": "dumb"}, "fallback='dumb' is not one of random, semi_random"),
        ({"unknown": float("nan")}, "unknown=nan is not a finite number"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Agent(None, **parameters)


def test_afterstates_of_other_rules_are_refused() -> None:
    inner = means([1 << 5], [1 << 5], [0.5])  # an inner cell is the image of a corner under classic rules only
    with pytest.raises(ValueError, match="is no afterstate's canonical form under rules 'classic'"):
        Agent(inner).knowledge(CLASSIC)


def test_it_plays_only_where_the_opponent_chooses() -> None:
    assert Agent(None).choosers == SemiRandom.choosers[:1] == (Rules().chooser,)
