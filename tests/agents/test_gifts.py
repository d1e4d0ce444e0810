"""The agent `gifts`: which policies it refuses. Its turns are compared with its twin's in test_kinds.py."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from agents.gifts import GIFT, Gifts
from agents.learning.policy import Policy
from quarto.rules import CLASSIC
from tests.naive_players.agreement import assert_same_turns
from tests.naive_policies import gifts as naive_gifts
from tests.positions import asked


def risks(pieces: list[int], wins: list[int], risk: list[float]) -> Policy:
    zeros = np.zeros(len(pieces), np.int8)
    columns = {"pieces": np.array(pieces, np.int8), "wins": np.array(wins, np.int8), "safe": zeros, "dangers": zeros}
    return Policy(GIFT, table={**columns, "risk": np.array(risk)})


def test_without_a_policy_all_gifts_are_equal() -> None:
    assert assert_same_turns(Gifts(), naive_gifts.Gifts({(0, 0, 0, 0): 0.5}), CLASSIC, asked(CLASSIC, 5)) > 100


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy("gifts"), "policy of kind 'gifts' is for other players; gifts reads 'gift'"),
        (risks([0], [17], [0.5]), "wins 17 in row 0 of a policy is not from 0 to 16"),
        (risks([0], [0], [1.5]), "risk 1.5 in row 0 of a policy is not from 0 to 1"),
    ],
)
def test_a_policy_that_nobody_can_play_by_is_refused(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Gifts(policy)
