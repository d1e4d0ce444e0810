"""An evolution of genomes, generation by generation: populations, the studies' breeders, selection by fitness.

Everything here is a pure function of words of randomness that are passed in. So an evolution can be repeated from a
seed and the recorded fitnesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist, mean
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quarto.jit import uint64
from quarto.rng import Streams, stream, unit_floats
from quarto.rules import NONE

# How an individual was made: an index into these.
OPERATORS = ("initial", "mutation", "crossover", "crossover2")
INITIAL, MUTATION, CROSSOVER, CROSSOVER2 = range(4)

# The "games" whose streams make individuals and number the games that judge them. In a run, 0 and 1 are the games of a
# pair and 2 draws its opening.
BREEDING, JUDGING = 3, 4


class Population(NamedTuple):
    """``N`` individuals of ``G`` genes; fitness is against each of ``F`` opponents."""

    number: NDArray[np.int64]  # [N] in the order they were made, from 0
    ancestor: NDArray[np.int64]  # [N] number of the initial individual at the beginning of the line of first parents
    operator: NDArray[np.int8]  # [N] index into OPERATORS
    parents: NDArray[np.int64]  # [N, 2] numbers, NONE where there is no parent
    genes: NDArray[np.float64]  # [N, G]
    fitness: NDArray[np.float64]  # [N, F] compared lexicographically; NaN until judged

    @property
    def size(self) -> int:
        return len(self.number)

    def select(self, rows: slice | NDArray[np.integer]) -> Population:
        """Select some of the individuals, in the order given."""
        return Population(*(field[rows] for field in self))  # type: ignore[arg-type]  # each keeps its own type

    def concat(self, other: Population) -> Population:
        """Concatenate these individuals and other ones."""
        return Population(*map(np.concatenate, zip(self, other, strict=True)))  # type: ignore[arg-type]


def build_initial_population(genes: NDArray[np.float64], opponents: int) -> Population:
    """Build individuals without parents, numbered from 0, with these genes [N, G]."""
    numbers = np.arange(len(genes))
    return Population(
        numbers,
        numbers,
        np.full(len(genes), INITIAL, np.int8),
        np.full((len(genes), 2), NONE),
        genes,
        np.full((len(genes), opponents), np.nan),
    )


def individual_streams(seed: int, numbers: NDArray[np.int64]) -> Streams:
    """Return the stream that makes each individual, by its number."""
    return Streams(np.array([stream(uint64(seed), int(number), BREEDING) for number in numbers], np.uint64))


def normal_numbers(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a standard normal number for each word, by inversion, in the same shape.

    The inverse is that of Wichura ("The percentage points of the normal distribution", Applied Statistics 37, 1988), as
    the standard library has it. The middles of 2^52 intervals are inverted, so the result is always finite. It has
    twelve decimals, so it does not depend on the last bit of a machine's logarithm.
    """
    inverse = NormalDist().inv_cdf
    middles = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.array([round(inverse(middle), 12) for middle in middles.ravel().tolist()]).reshape(words.shape)


def sort_by_fitness(population: Population) -> Population:
    """Sort the individuals, best first. Those of equal fitness keep their order."""
    return population.select(np.lexsort([-column for column in population.fitness.T[::-1]]))


def rank_by_fitness(population: Population) -> NDArray[np.int64]:
    """Count, for each individual of a population sorted by fitness, the different fitnesses above its own: [N]."""
    worse = (population.fitness[1:] != population.fitness[:-1]).any(axis=1)
    return np.concatenate([[0], np.cumsum(worse)])


def hold_tournaments(population: Population, size: int, words: Streams, first_word: int) -> NDArray[np.int64]:
    """Run a tournament for each stream: return an index into a sorted population, [n].

    It is the best of ``size`` individuals picked with replacement, and the first that was picked among equally good
    ones. Reads the words from ``first_word`` to before ``first_word + size``.
    """
    picks = np.stack([words.integers(first_word + i, population.size) for i in range(size)], axis=1)
    best = rank_by_fitness(population)[picks].argmin(axis=1)
    chosen: NDArray[np.int64] = picks[np.arange(len(picks)), best]
    return chosen


GENOME_CHOICES = ("best", "mean")


def compute_run_seed(seed: int, generation: int, games: int) -> int:
    """Compute the seed of the run that judges a generation by so many games, from 0 to 2^63 - 1.

    The seed depends on the number of games, because otherwise asking for more games would extend the run of fewer.
    """
    return int(stream(uint64(stream(uint64(seed), generation, JUDGING)), games, JUDGING)) >> 1


class Evolution:
    """A pure function of its parameters and of the fitnesses given to ``end_generation``.

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
        genes = breeder.sample_initial_genes(individual_streams(seed, np.arange(size)))
        if start is not None:
            genes[: len(start)] = start[:size]
        self._newcomers = build_initial_population(genes, opponents)
        self.population = self._newcomers.select(slice(0))  # who goes on, best first
        self._fitnesses: dict[tuple[float, ...], list[NDArray[np.float64]]] = {}

    def begin_generation(self) -> Population:
        """Begin the next generation (the first is 0); return the individuals to judge, with their genes."""
        self.generation += 1
        if self.generation:
            self._newcomers = self._build_offspring()
        newcomers = self._newcomers
        if self._breeder.writes_into_parents:
            self._write_into_parents()
        return self.population.concat(newcomers) if self._again else newcomers

    def end_generation(self, fitness: NDArray[np.float64]) -> Population:
        """End a generation: return all of its individuals, best first. The first ``size`` go on.

        ``fitness`` [n, F] is that of the individuals which ``begin_generation`` returned, in their order.
        """
        individuals = self.population.concat(self._newcomers)
        individuals.fitness[-len(fitness) :] = fitness
        individuals = sort_by_fitness(individuals)
        self.population = individuals.select(slice(self._size))
        if self.generation:
            for genes, genome_fitness in zip(self.population.genes.tolist(), self.population.fitness, strict=True):
                self._fitnesses.setdefault(tuple(genes), []).append(genome_fitness)
        return individuals

    def choose_genome(self, criterion: str) -> tuple[float, ...]:
        """Return the best genome so far, after at least one generation.

        ``best``: the fittest that goes on from the last generation. ``mean``: the genome of the best mean fitness, the
        first on ties. This mean is over all individuals with these genes, and over all generations from which each went
        on.
        """
        if criterion == "best":
            return tuple(self.population.genes[0].tolist())
        means = {
            genes: tuple(mean(column.tolist()) for column in np.transpose(fitnesses))
            for genes, fitnesses in self._fitnesses.items()
        }
        return max(means, key=lambda genes: means[genes])

    def _write_into_parents(self) -> None:
        """Write the genes of each new individual into its whole line, whatever genes the others were judged by."""
        individuals, parents = self.population.concat(self._newcomers), self.population.size
        for ancestor, genes in zip(self._newcomers.ancestor, self._newcomers.genes, strict=True):
            individuals.genes[individuals.ancestor == ancestor] = genes
        self.population, self._newcomers = individuals.select(slice(parents)), individuals.select(slice(parents, None))

    def _build_offspring(self) -> Population:
        parents = self.population
        numbers = self._size + self._offspring * (self.generation - 1) + np.arange(self._offspring)
        offspring = self._breeder.build_offspring(parents, self.generation, individual_streams(self._seed, numbers))
        return Population(
            numbers,
            parents.ancestor[offspring.parents[:, 0]],
            offspring.operator,
            np.where(offspring.parents == NONE, NONE, parents.number[offspring.parents]),
            offspring.genes,
            np.full((len(numbers), parents.fitness.shape[1]), np.nan),
        )


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
    def gene_names(self) -> tuple[str, ...]:
        """Their names, which are parameters of the player."""
        ...

    @property
    def writes_into_parents(self) -> bool:
        """Whether an individual shares its genes with all of its line, so that all of them change with each other."""
        ...

    def sample_initial_genes(self, words: Streams) -> NDArray[np.float64]:
        """Sample the first genes: [n, G]."""
        ...

    def build_offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        """Build the offspring of a population sorted by fitness in a ``generation``; the first one is 1."""
        ...


@dataclass(frozen=True)
class FiveGeneBreeder:
    """Study A's operator (``lorenzobellino/quarto-player``): every gene of a tournament's winner is mutated.

    Words of an individual: 0 to 4, one for each gene. The study's code mutates the parent itself, not a copy. With
    ``writes_into_parents`` an individual therefore shares its genes with all of its line.
    """

    tournament: int = 5
    reach: float = 10.0  # genes begin uniform between -reach and reach
    scale: float = 20.0  # standard deviation of a gene's mutation in the first generation; in the n-th, scale / n
    writes_into_parents: bool = False

    @property
    def gene_names(self) -> tuple[str, ...]:
        return ("alpha", "beta", "gamma", "delta", "epsilon")

    def sample_initial_genes(self, words: Streams) -> NDArray[np.float64]:
        return self.reach * (2.0 * unit_floats(self._draw_gene_words(words)) - 1.0)

    def build_offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        chosen = hold_tournaments(population, self.tournament, words, FIRST_TOURNAMENT)
        change = self.scale / generation * normal_numbers(self._draw_gene_words(words))
        if self.writes_into_parents:
            genes = _mutate_one_by_one(population, chosen, change)
        else:
            genes = population.genes[chosen] + change
        parents = np.stack([chosen, np.full(len(chosen), NONE)], axis=1)
        return Offspring(np.full(len(chosen), MUTATION, np.int8), parents, genes)

    def _draw_gene_words(self, words: Streams) -> NDArray[np.uint64]:
        return np.stack([words.draw(gene) for gene in range(len(self.gene_names))], axis=1)


def _mutate_one_by_one(
    population: Population, chosen: NDArray[np.int64], change: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the genes of each of the offspring when it is made: [n, G].

    A mutation changes all of its parent's line.
    """
    parent_genes, genes = population.genes.copy(), np.empty_like(change)
    for i, parent in enumerate(chosen):
        genes[i] = parent_genes[parent] + change[i]
        parent_genes[population.ancestor == population.ancestor[parent]] = genes[i]
    return genes


@dataclass(frozen=True)
class TwoGeneBreeder:
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
    def gene_names(self) -> tuple[str, ...]:
        return ("alpha", "beta")

    @property
    def writes_into_parents(self) -> bool:
        return False

    def sample_initial_genes(self, words: Streams) -> NDArray[np.float64]:
        genes: NDArray[np.float64] = np.stack([unit_floats(words.draw(gene)) for gene in range(2)], axis=1)
        return np.round(genes, self.decimals)

    def operator_probabilities(self, population: Population, generation: int) -> tuple[float, ...]:
        """Return the probabilities of mutation, crossover and crossover2 in a generation."""
        if 2 * (generation - 1) < self.generations:
            return self.early
        fitness = population.fitness[:, 0]
        return self.stuck if fitness[0] - fitness[:5].mean() < self.margin else self.late

    def build_offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        probabilities = self.operator_probabilities(population, generation)
        which = MUTATION + np.searchsorted(np.cumsum(probabilities)[:2], unit_floats(words.draw(0)), side="right")
        first, second = (
            hold_tournaments(population, self.tournament, words, start)
            for start in (FIRST_TOURNAMENT, SECOND_TOURNAMENT)
        )
        genes = population.genes[first]
        crossed = which != MUTATION
        genes[crossed, 1] = population.genes[second[crossed], 1]
        genes += self._sample_gene_changes(which, words)
        parents = np.stack([first, np.where(crossed, second, NONE)], axis=1)
        return Offspring(which.astype(np.int8), parents, np.round(genes.clip(0.0, 1.0), self.decimals))

    def _sample_gene_changes(self, which: NDArray[np.int64], words: Streams) -> NDArray[np.float64]:
        """Sample what is added to the genes: [n, 2]."""
        up = unit_floats(words.draw(2)) >= 0.5
        change = np.zeros((len(which), 2))
        mutated, shifted = which == MUTATION, which == CROSSOVER2
        change[mutated, words.integers(1, 2)[mutated]] = np.where(up, self.step, -self.step)[mutated]
        change[shifted] = np.where(up | self.only_shifts_up, self.shift, -self.shift)[shifted, None]
        return change
