"""``alpha_beta`` and ``mcts`` by a learned policy: the turns of their slow twins, and what they refuse."""

from __future__ import annotations

from functools import cache

import pytest

from agents.alpha_beta import BREADTH, AlphaBeta
from agents.learning.policy import Policy
from agents.mcts import Mcts
from agents.search import puct
from quarto.rules import CLASSIC
from tests.agents.test_line_values import random_policy, value_of
from tests.naive import PRESETS
from tests.naive_players import valued
from tests.naive_players.agreement import assert_same_turns, endgames
from tests.naive_policies.lines import Afterstate

UNITS = 2
POSITIONS = endgames(CLASSIC, 6, 24)
random_values = cache(random_policy)  # when they are needed: each worker collects this file


def policy() -> Policy:
    return random_values(CLASSIC, UNITS)[0]


def learned(after: Afterstate) -> float:
    return value_of(after, random_values(CLASSIC, UNITS)[1], UNITS, 0.5)


@pytest.mark.parametrize(("depth", "exact_from"), [(1, 16), (2, 16), (3, 13), (2, 12)])
def test_turns_of_alpha_beta_are_those_of_the_slow_twin(depth: int, exact_from: int) -> None:
    twin = valued.AlphaBeta(learned, exact_from, depth, BREADTH)
    assert_same_turns(AlphaBeta(depth, policy(), exact_from), twin, CLASSIC, POSITIONS)


@pytest.mark.parametrize(("iterations", "c", "exact_from"), [(2, 2.0, 16), (30, 1.0, 16), (30, 0.2, 13)])
def test_turns_of_mcts_are_those_of_the_slow_twin(iterations: int, c: float, exact_from: int) -> None:
    twin = valued.Puct(learned, exact_from)
    twin.iterations, twin.c, twin.breadth, twin.temperature = iterations, c, puct.BREADTH, puct.TEMPERATURE
    assert_same_turns(Mcts(iterations, c, value=policy(), exact_from=exact_from), twin, CLASSIC, POSITIONS)


def test_what_has_no_meaning_with_a_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="reuse=True is for playouts, and value=POLICY has none: leave out one"):
        Mcts(value=policy(), reuse=True)
    with pytest.raises(ValueError, match="exact_from=4 is not a whole number from 5 to 16"):
        AlphaBeta(value=policy(), exact_from=4)
    with pytest.raises(ValueError, match="'gift'"):
        AlphaBeta(value=Policy("gift"))
    with pytest.raises(ValueError, match="other lines than those of rules 'torus'"):
        AlphaBeta(value=policy()).knowledge(PRESETS["torus"])
    with pytest.raises(ValueError, match="where the mover chooses the piece"):
        Mcts(value=policy()).knowledge(PRESETS["own_piece"])
