"""ga2 plays study B's text, whatever its genes."""

from __future__ import annotations

import pytest

from agents.ga2 import Ga2
from quarto.rules import CLASSIC, Rules
from tests.naive import PRESETS
from tests.naive_players import ga2 as naive_ga2
from tests.naive_players.agreement import OPPONENT_CHOOSES, assert_same_games, assert_same_turns
from tests.positions import asked

GENOMES = [(0.1, 0.3), (0.0, 0.0), (1.0, 1.0), (0.5, 0.5)]


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
@pytest.mark.parametrize(("alpha", "beta"), GENOMES)
def test_turns_are_those_of_the_slow_twin(alpha: float, beta: float, rules: Rules) -> None:
    assert assert_same_turns(Ga2(alpha, beta), naive_ga2.Ga2(alpha, beta), rules, asked(rules, games=40)) > 500


@pytest.mark.parametrize(("alpha", "beta"), GENOMES)
def test_whole_games_are_those_of_the_slow_twin(alpha: float, beta: float) -> None:
    assert_same_games(Ga2(alpha, beta), naive_ga2.Ga2(alpha, beta), CLASSIC, pairs=60)
    assert_same_games(Ga2(alpha, beta), naive_ga2.Ga2(alpha, beta), PRESETS["torus_square"], pairs=20, opening_plies=3)


def test_the_defaults_are_the_published_genes() -> None:
    assert (Ga2().alpha, Ga2().beta) == (0.1, 0.3)
