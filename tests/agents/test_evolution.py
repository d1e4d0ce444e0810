"""Evolutions are those of the studies: the same individuals as the slow twins', from the same words and fitnesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.evolution import (
    OPERATORS,
    Breeder,
    Evolution,
    FiveGeneBreeder,
    Population,
    TwoGeneBreeder,
    compute_run_seed,
)
from quarto.rules import NONE
from tests import naive, naive_evolution
from tests.naive_evolution import Fitness, Individual, Study, StudyA, StudyB

SEEDS = st.integers(0, (1 << 63) - 1)


def build_fitness(individual: Individual, generation: int, opponents: int) -> Fitness:
    """Return a fitness that depends on everything it may, coarse enough for many to be equal."""
    word = naive.mix(individual.number * 1000 + generation)
    near = sum(abs(gene) for gene in individual.genes) < 10
    return tuple((naive.mix(word + i) % 3 + near) / 4 for i in range(opponents))


def gone_through(breeder: Breeder, twin: Study, opponents: int) -> tuple[list[Population], Evolution]:
    """Return the evolution that the twin describes: all individuals of each generation."""
    start = np.array(twin.start) if twin.start else None
    evolution = Evolution(breeder, twin.seed, twin.size, twin.offspring, opponents, twin.again, start)
    history = []
    for generation in range(twin.generations + 1):
        due = evolution.begin_generation()
        judged = [Individual(int(n), genes.tolist()) for n, genes in zip(due.number, due.genes, strict=True)]
        history.append(evolution.end_generation_and_rank_all(np.array(twin.judge(generation, judged))))
    return history, evolution


def individuals(population: Population) -> list[tuple[Any, ...]]:
    return [
        (
            int(population.number[i]),
            OPERATORS[population.operator[i]],
            [int(parent) for parent in population.parents[i] if parent != NONE],
            population.genes[i].tolist(),
            population.fitness[i].tolist(),
        )
        for i in range(population.size)
    ]


def assert_same_evolution(breeder: Breeder, twin: Study, opponents: int) -> None:
    history, evolution = gone_through(breeder, twin, opponents)
    expected = twin.evolve()
    assert [individuals(everybody) for everybody in history] == [
        [(i.number, i.operator, i.parents, i.genes, list(i.fitness)) for i in everybody] for everybody in expected
    ]
    assert list(evolution.choose_genome("best")) == expected[-1][0].genes
    assert evolution.choose_genome("mean") == twin.best_on_average()


TWINS = {
    "study": st.sampled_from([StudyA, StudyB]),
    "seed": SEEDS,
    "size": st.integers(1, 8),
    "offspring": st.integers(1, 6),
    "generations": st.integers(1, 12),
    "tournament": st.integers(1, 4),
    "again": st.booleans(),
    "faithful": st.booleans(),
}


@given(opponents=st.integers(1, 3), started=st.integers(0, 10), **TWINS)
def test_an_evolution_is_that_of_its_slow_twin(
    study: Callable[..., Study], opponents: int, started: int, **parameters: Any
) -> None:
    def judge(generation: int, judged: list[Individual]) -> list[Fitness]:
        return [build_fitness(individual, generation, opponents) for individual in judged]

    start = [[0.125 * (gene + i) for gene in range(5 if study is StudyA else 2)] for i in range(started)]
    twin = study(judge=judge, start=start, **parameters)
    if isinstance(twin, StudyA):
        breeder: Breeder = FiveGeneBreeder(twin.tournament, writes_into_parents=twin.faithful)
    else:
        breeder = TwoGeneBreeder(twin.generations, twin.tournament, only_shifts_up=twin.faithful)
    assert_same_evolution(breeder, twin, opponents)


@given(SEEDS, st.integers(0, 100), st.integers(1, 1 << 30))
def test_the_seed_of_a_run_is_its_twins_and_one_of_its_own(seed: int, generation: int, games: int) -> None:
    run_seed = compute_run_seed(seed, generation, games)
    assert run_seed == naive_evolution.run_seed(seed, generation, games)
    assert 0 <= run_seed < 1 << 63
    other_seeds = [compute_run_seed(seed, generation + 1, games), compute_run_seed(seed, generation, games + 1)]
    assert run_seed not in other_seeds
