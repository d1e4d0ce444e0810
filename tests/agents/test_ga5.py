"""ga5 plays study A's text, or its code, whatever its genes."""

from __future__ import annotations

import pytest

from agents.ga5 import Ga5
from quarto.rules import CLASSIC, Rules
from tests.naive_players import ga5 as naive_ga5
from tests.naive_players.agreement import OPPONENT_CHOOSES, assert_same_games, assert_same_turns
from tests.positions import asked

GENOMES = [naive_ga5.PUBLISHED, naive_ga5.OTHER_PUBLISHED, (0.0, 0.0, 0.0, 0.0, 0.0), (1.0, -1.0, 0.5, 2.0, -3.0)]


def genetic(genes: tuple[float, ...], faithful: bool) -> Ga5:
    return Ga5(**dict(zip(("alpha", "beta", "gamma", "delta", "epsilon"), genes, strict=True)), faithful=faithful)


def twin_of(genes: tuple[float, ...], faithful: bool) -> naive_ga5.Ga5:
    return (naive_ga5.FaithfulGa5 if faithful else naive_ga5.Ga5)(genes)


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("genes", GENOMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_turns_are_those_of_the_slow_twin(genes: tuple[float, ...], faithful: bool, rules: Rules) -> None:
    agent, twin = genetic(genes, faithful), twin_of(genes, faithful)
    assert assert_same_turns(agent, twin, rules, asked(rules, games=30)) > 400


@pytest.mark.parametrize("genes", GENOMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_whole_games_are_those_of_the_slow_twin(genes: tuple[float, ...], faithful: bool) -> None:
    assert_same_games(genetic(genes, faithful), twin_of(genes, faithful), CLASSIC, pairs=30)


def test_the_defaults_are_the_published_genome() -> None:
    assert tuple(Ga5().genes.values()) == naive_ga5.PUBLISHED
