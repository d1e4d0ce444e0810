"""Breeders of the studies' genetic players: the first genes, and the operators that make offspring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.genetic.population import CROSSOVER2, MUTATION, Population, gaussians, tournament, units
from quarto.rng import Streams
from quarto.rules import NONE

# Where an individual's words begin: a tournament may be of any size. Below them are the words that breeders name.
FIRST_TOURNAMENT, SECOND_TOURNAMENT = 1 << 20, 2 << 20


class Offspring(NamedTuple):
    """``n`` individuals made from a population."""

    operator: NDArray[np.int8]  # [n] index into OPERATORS
    parents: NDArray[np.int64]  # [n, 2] indices into the population, NONE where there is no second parent
    genes: NDArray[np.float64]  # [n, G]


class Breeder(Protocol):
    """The operators of a study. ``words`` holds a stream for each individual that is to be made."""

    @property
    def genes(self) -> tuple[str, ...]:
        """Their names, which are parameters of the player."""
        ...

    @property
    def writes_into_parents(self) -> bool:
        """Whether an individual shares its genes with all of its line, so that all of them change with each other."""
        ...

    def initial(self, words: Streams) -> NDArray[np.float64]:
        """The first genes: [n, G]."""
        ...

    def offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        """The offspring of a population sorted by fitness in a ``generation``; the first one is 1."""
        ...


@dataclass(frozen=True)
class FiveGenes:
    """Study A's operator (``lorenzobellino/quarto-player``): every gene of a tournament's winner is mutated.

    Words of an individual: 0 to 4, one for each gene. The study's code mutates the parent itself, not a copy. With
    ``writes_into_parents`` an individual therefore shares its genes with all of its line.
    """

    tournament: int = 5
    reach: float = 10.0  # genes begin uniform between -reach and reach
    scale: float = 20.0  # standard deviation of a gene's mutation in the first generation; in the n-th, scale / n
    writes_into_parents: bool = False

    @property
    def genes(self) -> tuple[str, ...]:
        return ("alpha", "beta", "gamma", "delta", "epsilon")

    def initial(self, words: Streams) -> NDArray[np.float64]:
        return self.reach * (2.0 * units(self._words(words)) - 1.0)

    def offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        chosen = tournament(population, self.tournament, words, FIRST_TOURNAMENT)
        change = self.scale / generation * gaussians(self._words(words))
        if self.writes_into_parents:
            genes = _one_after_the_other(population, chosen, change)
        else:
            genes = population.genes[chosen] + change
        parents = np.stack([chosen, np.full(len(chosen), NONE)], axis=1)
        return Offspring(np.full(len(chosen), MUTATION, np.int8), parents, genes)

    def _words(self, words: Streams) -> NDArray[np.uint64]:
        return np.stack([words.draw(gene) for gene in range(len(self.genes))], axis=1)


def _one_after_the_other(
    population: Population, chosen: NDArray[np.int64], change: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[n, G] the genes of each of the offspring when it is made, where a mutation changes all of its parent's line."""
    held, genes = population.genes.copy(), np.empty_like(change)
    for i, parent in enumerate(chosen):
        genes[i] = held[parent] + change[i]
        held[population.ancestor == population.ancestor[parent]] = genes[i]
    return genes


@dataclass(frozen=True)
class TwoGenes:
    """Study B's operators (``quarto_ci_2022_2023``): mutation, crossover, crossover with a shift of both genes.

    The operator is drawn with probabilities that depend on the stage of the evolution: ``early`` in its first half,
    then ``stuck`` while the best is less than ``margin`` fitter than the mean of the best five, else ``late``. Genes
    stay between 0 and 1. Words of an individual: 0 chooses the operator, 1 the gene that is mutated, 2 whether genes go
    up or down. For an individual of the first population, words 0 and 1 are its genes. ``only_shifts_up`` follows the
    study's code, where the draw that chose the operator decides whether genes go up.
    """

    generations: int = 100
    tournament: int = 3
    early: tuple[float, ...] = (0.3, 0.5, 0.2)  # probabilities of mutation, crossover and crossover2
    stuck: tuple[float, ...] = (0.1, 0.45, 0.45)
    late: tuple[float, ...] = (0.6, 0.2, 0.2)
    margin: float = 0.05
    step: float = 0.1  # by which a mutation changes a gene
    shift: float = 0.3  # by which crossover2 changes both
    decimals: int = 1
    only_shifts_up: bool = False

    @property
    def genes(self) -> tuple[str, ...]:
        return ("alpha", "beta")

    @property
    def writes_into_parents(self) -> bool:
        return False

    def initial(self, words: Streams) -> NDArray[np.float64]:
        return self._rounded(np.stack([units(words.draw(gene)) for gene in range(2)], axis=1))

    def probabilities(self, population: Population, generation: int) -> tuple[float, ...]:
        """Those of mutation, crossover and crossover2 in a generation."""
        if 2 * (generation - 1) < self.generations:
            return self.early
        fitness = population.fitness[:, 0]
        return self.stuck if fitness[0] - fitness[:5].mean() < self.margin else self.late

    def offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        probabilities = self.probabilities(population, generation)
        which = MUTATION + np.searchsorted(np.cumsum(probabilities)[:2], units(words.draw(0)), side="right")
        first, second = (
            tournament(population, self.tournament, words, start) for start in (FIRST_TOURNAMENT, SECOND_TOURNAMENT)
        )
        genes = population.genes[first]
        crossed = which != MUTATION
        genes[crossed, 1] = population.genes[second[crossed], 1]
        genes += self._change(which, words)
        parents = np.stack([first, np.where(crossed, second, NONE)], axis=1)
        return Offspring(which.astype(np.int8), parents, self._rounded(genes.clip(0.0, 1.0)))

    def _change(self, which: NDArray[np.int64], words: Streams) -> NDArray[np.float64]:
        """[n, 2] what is added to the genes."""
        up = units(words.draw(2)) >= 0.5
        change = np.zeros((len(which), 2))
        mutated, shifted = which == MUTATION, which == CROSSOVER2
        change[mutated, words.below(1, 2)[mutated]] = np.where(up, self.step, -self.step)[mutated]
        change[shifted] = np.where(up | self.only_shifts_up, self.shift, -self.shift)[shifted, None]
        return change

    def _rounded(self, genes: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.round(genes, self.decimals)
