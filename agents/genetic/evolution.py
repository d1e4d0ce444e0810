"""An evolution, generation by generation: it hands out the individuals to judge and takes their fitness."""

from __future__ import annotations

from statistics import mean

import numpy as np
from numpy.typing import NDArray

from agents.genetic.breeders import Breeder
from agents.genetic.population import JUDGING, Population, by_fitness, initial, streams_of
from quarto.jit import uint64
from quarto.rng import stream
from quarto.rules import NONE

ANSWERS = ("best", "mean")


def seed_of_games(seed: int, generation: int, games: int) -> int:
    """The seed of the run that judges a generation by so many games, from 0 to 2^63 - 1.

    The number of games is part of it, since asking for more of them would extend the run of a smaller number.
    """
    return int(stream(uint64(stream(uint64(seed), generation, JUDGING)), games, JUDGING)) >> 1


class Evolution:
    """A pure function of its parameters and of the fitnesses given to ``judge``.

    ``size`` individuals go on from each generation, after ``offspring`` were added to them: plus-selection, the fittest
    of both. With ``again`` the individuals that go on are judged again in every generation, not only when they are
    made. ``start`` [n, G] are the genes to begin with, filled up with new ones if they are fewer than ``size``.
    """

    def __init__(
        self,
        breeder: Breeder,
        seed: int,
        size: int,
        offspring: int,
        opponents: int,
        again: bool = False,
        start: NDArray[np.float64] | None = None,
    ) -> None:
        self.generation = -1  # the one that was bred last
        self._breeder = breeder
        self._seed = seed
        self._size = size
        self._offspring = offspring
        self._again = again
        genes = breeder.initial(streams_of(seed, np.arange(size)))
        if start is not None:
            genes[: len(start)] = start[:size]
        self._made = initial(genes, opponents)
        self.population = self._made.part(slice(0))  # who goes on, best first
        self._fitnesses: dict[tuple[float, ...], list[NDArray[np.float64]]] = {}

    def breed(self) -> Population:
        """Begin the next generation (the first is 0): the individuals to judge, with their genes."""
        self.generation += 1
        if self.generation:
            self._made = self._bred()
        made = self._made
        if self._breeder.writes_into_parents:
            self._write_into_parents()
        return self.population.joined(made) if self._again else made

    def judge(self, fitness: NDArray[np.float64]) -> Population:
        """All individuals of this generation, best first: the first ``size`` go on.

        ``fitness`` [n, F] is that of the individuals which ``breed`` returned, in their order.
        """
        everybody = self.population.joined(self._made)
        everybody.fitness[-len(fitness) :] = fitness
        everybody = by_fitness(everybody)
        self.population = everybody.part(slice(self._size))
        if self.generation:
            for genes, found in zip(self.population.genes.tolist(), self.population.fitness, strict=True):
                self._fitnesses.setdefault(tuple(genes), []).append(found)
        return everybody

    def answer(self, which: str) -> tuple[float, ...]:
        """The genome found so far, after at least one generation.

        ``best``: the fittest that goes on from the last generation. ``mean``: the genome of the best mean fitness, the
        first on ties. This mean is over all individuals with these genes, and over all generations from which each went
        on.
        """
        if which == "best":
            return tuple(self.population.genes[0].tolist())
        means = {
            genes: tuple(mean(column.tolist()) for column in np.transpose(found))
            for genes, found in self._fitnesses.items()
        }
        return max(means, key=lambda genes: means[genes])

    def _write_into_parents(self) -> None:
        """Each new individual changes the genes of all of its line, whatever genes they were judged by."""
        everybody, parents = self.population.joined(self._made), self.population.size
        for ancestor, genes in zip(self._made.ancestor, self._made.genes, strict=True):
            everybody.genes[everybody.ancestor == ancestor] = genes
        self.population, self._made = everybody.part(slice(parents)), everybody.part(slice(parents, None))

    def _bred(self) -> Population:
        parents = self.population
        numbers = self._size + self._offspring * (self.generation - 1) + np.arange(self._offspring)
        bred = self._breeder.offspring(parents, self.generation, streams_of(self._seed, numbers))
        return Population(
            numbers,
            parents.ancestor[bred.parents[:, 0]],
            bred.operator,
            np.where(bred.parents == NONE, NONE, parents.number[bred.parents]),
            bred.genes,
            np.full((len(numbers), parents.fitness.shape[1]), np.nan),
        )
