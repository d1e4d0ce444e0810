"""The agent 'policy' plays any kind, turn for turn as the player of that kind."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from agents.learning.policy import Policy
from agents.policy import MC_AFTERSTATE, PolicyAgent
from agents.semi_random import SemiRandom
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.naive_players.agreement import assert_same_turns
from tests.positions import asked


def means(lanes: list[int], occupied: list[int], mean: list[float]) -> Policy:
    columns: dict[str, np.ndarray[Any, Any]] = {
        "lanes": np.array(lanes, np.int64),
        "occupied": np.array(occupied, np.int32),
        "mean": np.array(mean),
    }
    return Policy(MC_AFTERSTATE, table=columns)


@pytest.mark.parametrize("fallback", ["semi_random", "random"])
def test_without_a_policy_the_fallback_plays_but_wins_are_taken(fallback: str) -> None:
    class Twin:
        def turn(self, view: naive.View, seed: int) -> tuple[int, int]:
            wins = view.hand != naive.NONE and naive.winning_cells(view.board, view.hand, view.rules)
            player = naive.SemiRandom() if wins or fallback == "semi_random" else naive.Random()
            return player.turn(view, seed)

    assert assert_same_turns(PolicyAgent(None, fallback), Twin(), CLASSIC, asked(CLASSIC, 10)) > 100


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy("gift"), "policy of kind 'gift' is for other players; policy reads 'mc_afterstate'"),
        (means([1], [1], [1.5]), "mean 1.5 in row 0 of a policy is not from -1 to 1"),
        (means([0], [1], [0.5]), "lanes 0 in row 0 of a policy has the piece in hand on the board"),
    ],
)
def test_a_policy_that_nobody_can_play_by_is_refused(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        PolicyAgent(policy)


def test_afterstates_of_other_rules_are_refused() -> None:
    inner = means([1 << 5], [1 << 5], [0.5])  # an inner cell is the image of a corner under classic rules only
    with pytest.raises(ValueError, match="is no afterstate's canonical form under rules 'classic'"):
        PolicyAgent(inner).knowledge(CLASSIC)


def test_it_plays_only_where_the_opponent_chooses() -> None:
    assert PolicyAgent(None).choosers == SemiRandom.choosers[:1] == (Rules().chooser,)
