"""The agents 'policy' and 'gifts' without a policy, and which they refuse. With one, test_kinds.py compares them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.gifts import GIFT, Gifts
from agents.learning.policy import Policy
from agents.policy import MC_AFTERSTATE, PolicyAgent
from agents.semi_random import SemiRandom
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.naive_players.agreement import assert_same_turns
from tests.naive_policies import gifts as naive_gifts
from tests.positions import list_positions


def test_without_a_policy_all_gifts_are_equal() -> None:
    assert assert_same_turns(Gifts(), naive_gifts.Gifts({(0, 0, 0, 0): 0.5}), CLASSIC, list_positions(CLASSIC, 5)) > 100


@pytest.mark.parametrize("fallback", ["semi_random", "random"])
def test_without_a_policy_the_fallback_plays_but_wins_are_taken(fallback: str) -> None:
    class FallbackTwin:
        def turn(self, view: naive.View, seed: int) -> tuple[int, int]:
            wins = view.hand != naive.NONE and naive.winning_cells(view.board, view.hand, view.rules)
            player = naive.SemiRandom() if wins or fallback == "semi_random" else naive.Random()
            return player.turn(view, seed)

    assert assert_same_turns(PolicyAgent(None, fallback), FallbackTwin(), CLASSIC, list_positions(CLASSIC, 10)) > 100


def test_it_plays_only_where_the_opponent_chooses() -> None:
    assert PolicyAgent(None).choosers == SemiRandom.choosers[:1] == (Rules().chooser,)


def means(lanes: list[int], occupied: list[int], mean: list[float]) -> Policy:
    columns: dict[str, np.ndarray[Any, Any]] = {
        "lanes": np.array(lanes, np.int64),
        "occupied": np.array(occupied, np.int32),
        "mean": np.array(mean),
    }
    return Policy(MC_AFTERSTATE, table=columns)


def risks(pieces: list[int], wins: list[int], risk: list[float]) -> Policy:
    zeros = np.zeros(len(pieces), np.int8)
    columns = {"pieces": np.array(pieces, np.int8), "wins": np.array(wins, np.int8), "safe": zeros, "dangers": zeros}
    return Policy(GIFT, table={**columns, "risk": np.array(risk)})
