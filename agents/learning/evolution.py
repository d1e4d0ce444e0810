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
    """A population of ``N`` individuals with ``G`` genes each; they are judged against ``F`` opponents."""

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
        """Return a population of the individuals at ``rows``, in the order of ``rows``."""
        return Population(*(field[rows] for field in self))  # type: ignore[arg-type]  # each keeps its own type

    def concat(self, other: Population) -> Population:
        """Return a population of these individuals followed by the individuals of ``other``."""
        return Population(*map(np.concatenate, zip(self, other, strict=True)))  # type: ignore[arg-type]


def build_initial_population(genes: NDArray[np.float64], opponent_count: int) -> Population:
    """Build a population of ``N`` individuals without parents, numbered from 0, with the genes ``genes`` [N, G].

    ``opponent_count`` is the number of opponents against which individuals will be judged.
    """
    numbers = np.arange(len(genes))
    return Population(
        numbers,
        numbers,
        np.full(len(genes), INITIAL, np.int8),
        np.full((len(genes), 2), NONE),
        genes,
        np.full((len(genes), opponent_count), np.nan),
    )


def individual_streams(seed: int, numbers: NDArray[np.int64]) -> Streams:
    """Return, for each individual in ``numbers`` [n], the random stream from which it is made."""
    return Streams(np.array([stream(uint64(seed), int(number), BREEDING) for number in numbers], np.uint64))


def normal_numbers(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Convert each word to a standard normal number, by inversion. The shape stays the same.

    The inverse of the distribution function is by Wichura ("The percentage points of the normal distribution", Applied
    Statistics 37, 1988), as implemented in the standard library. The argument of the inverse is the middle of one of
    2^52 intervals, so that the result is always finite. The result is rounded to twelve decimals, so that it does not
    depend on the last bit of a machine's logarithm.
    """
    inverse = NormalDist().inv_cdf
    middles = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.array([round(inverse(middle), 12) for middle in middles.ravel().tolist()]).reshape(words.shape)


def sort_by_fitness(population: Population) -> Population:
    """Sort the individuals by fitness, best first. Individuals of equal fitness keep their order."""
    return population.select(np.lexsort([-column for column in population.fitness.T[::-1]]))


def rank_sorted_population(population: Population) -> NDArray[np.int64]:
    """Count, for each individual of a sorted population, the distinct better fitnesses: [N] int64.

    Individuals with equal fitness have equal ranks, and ranks have no gaps.
    """
    worse = (population.fitness[1:] != population.fitness[:-1]).any(axis=1)
    return np.concatenate([[0], np.cumsum(worse)])


def hold_tournaments(population: Population, size: int, words: Streams, first_word: int) -> NDArray[np.int64]:
    """Hold one tournament for each stream, and return the index of each winner in the population: [n] int64.

    The population must be sorted by fitness. A tournament picks ``size`` individuals with replacement; the best of
    them wins, and on ties the one that was picked first. Each tournament reads the words of its stream from
    ``first_word`` up to but not including ``first_word + size``.
    """
    picks = np.stack([words.integers(first_word + i, population.size) for i in range(size)], axis=1)
    best = rank_sorted_population(population)[picks].argmin(axis=1)
    chosen: NDArray[np.int64] = picks[np.arange(len(picks)), best]
    return chosen


GENOME_CHOICES = ("best", "mean")


def compute_run_seed(seed: int, generation: int, games: int) -> int:
    """Compute the seed, from 0 to 2^63 - 1, of the run that judges a generation.

    ``games`` is the number of games in the run. The seed depends on it because the id of a run does not: with the same
    seed, a later request for more games would extend the earlier run instead of starting a new one.
    """
    return int(stream(uint64(stream(uint64(seed), generation, JUDGING)), games, JUDGING)) >> 1


class Evolution:
    """An evolution of genomes that is determined by its parameters and the fitnesses of its individuals.

    The caller passes the fitnesses to ``end_generation_and_rank_all``. Each generation adds ``offspring`` individuals,
    and the ``size`` fittest of the old and the new individuals survive (plus-selection). With ``again``, the survivors
    are judged again in every generation, not only when they are made. ``start`` [n, G] holds the genes of the first
    individuals; if there are fewer than ``size``, the rest is sampled.
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
        self.generation = -1  # number of the generation that was bred last
        self._breeder = breeder
        self._seed = seed
        self._size = size
        self._offspring = offspring
        self._again = again
        genes = breeder.sample_initial_genes(individual_streams(seed, np.arange(size)))
        if start is not None:
            genes[: len(start)] = start[:size]
        self._newcomers = build_initial_population(genes, opponents)
        self.population = self._newcomers.select(slice(0))  # the survivors, best first
        self._fitnesses: dict[tuple[float, ...], list[NDArray[np.float64]]] = {}

    def begin_generation(self) -> Population:
        """Begin the next generation, and return the individuals to judge. The first generation is 0."""
        self.generation += 1
        if self.generation:
            self._newcomers = self._build_offspring()
        newcomers = self._newcomers
        if self._breeder.writes_into_parents:
            self._share_new_genes_within_lines()
        return self.population.concat(newcomers) if self._again else newcomers

    def end_generation_and_rank_all(self, fitness: NDArray[np.float64]) -> Population:
        """End a generation, and return all of its individuals, best first. The first ``size`` of them survive.

        ``fitness`` [n, F] is the fitness of the individuals that ``begin_generation`` returned, in the same order.
        """
        individuals = self.population.concat(self._newcomers)
        individuals.fitness[-len(fitness) :] = fitness
        individuals = sort_by_fitness(individuals)
        self.population = individuals.select(slice(self._size))
        if self.generation:
            for genes, genome_fitness in zip(self.population.genes.tolist(), self.population.fitness, strict=True):
                self._fitnesses.setdefault(tuple(genes), []).append(genome_fitness)
        return individuals

    def choose_genome(self, best_or_mean: str) -> tuple[float, ...]:
        """Return the best genome so far, by the criterion ``best_or_mean``.

        With ``best``, it is the genome of the fittest survivor of the last generation, which may be generation 0. With
        ``mean``, it is the genome with the best mean fitness, the first on ties. Every individual with a genome
        contributes its fitness to the mean once for each generation that it survived, from generation 1 on. ``mean``
        therefore requires that generation 1 has ended.
        """
        if best_or_mean == "best":
            return tuple(self.population.genes[0].tolist())
        means = {
            genes: tuple(mean(column.tolist()) for column in np.transpose(fitnesses))
            for genes, fitnesses in self._fitnesses.items()
        }
        return max(means, key=lambda genes: means[genes])

    def _share_new_genes_within_lines(self) -> None:
        """Write the genes of each new individual into all individuals with the same ancestor.

        This happens even if the other individuals were judged with different genes.
        """
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
    """The ``n`` individuals that a breeder makes from a population."""

    operator: NDArray[np.int8]  # [n] index into OPERATORS
    parents: NDArray[np.int64]  # [n, 2] indices into the population, NONE where there is no second parent
    genes: NDArray[np.float64]  # [n, G]


class Breeder(Protocol):
    """The interface of a study's genetic operators.

    The argument ``words`` of its methods has one random stream for each individual to make.
    """

    @property
    def gene_names(self) -> tuple[str, ...]:
        """The names of the genes, which are parameters of the player."""
        ...

    @property
    def writes_into_parents(self) -> bool:
        """Whether individuals with the same ancestor share their genes, so that a mutation changes all of them."""
        ...

    def sample_initial_genes(self, words: Streams) -> NDArray[np.float64]:
        """Sample the genes of the first population: [n, G] float64."""
        ...

    def build_offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        """Build the offspring of a population that is sorted by fitness.

        ``generation`` is the number of the generation to which the offspring belongs, from 1.
        """
        ...


@dataclass(frozen=True)
class FiveGeneBreeder:
    """Study A's operator (``lorenzobellino/quarto-player``), which mutates every gene of a tournament's winner.

    Words 0 to 4 of an individual are for its five genes. The study's code mutates the parent itself, not a copy of it.
    With ``writes_into_parents``, all individuals with the same ancestor therefore share their genes.
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
    """Return the genes that each of the offspring has when it is made: [n, G] float64.

    Offspring are made one after the other, by adding ``change`` [n, G] to the genes of the parents ``chosen`` [n].
    Each mutation also changes the genes of all individuals with the parent's ancestor.
    """
    parent_genes, genes = population.genes.copy(), np.empty_like(change)
    for i, parent in enumerate(chosen):
        genes[i] = parent_genes[parent] + change[i]
        parent_genes[population.ancestor == population.ancestor[parent]] = genes[i]
    return genes


@dataclass(frozen=True)
class TwoGeneBreeder:
    """Study B's operators (``quarto_ci_2022_2023``): mutation, crossover, and crossover with a shift of both genes.

    The operator is drawn with the probabilities ``early`` in the first half of the evolution. Later it is drawn with
    ``stuck`` in generations where the best fitness exceeds the mean of the best five by less than ``margin``, otherwise
    with ``late``. Genes stay between 0 and 1. Word 0 of an individual chooses the operator, word 1 the gene that is
    mutated, and word 2 whether genes go up or down. For an individual of the first population, words 0 and 1 are its
    genes. With ``only_shifts_up``, crossover with a shift always raises the genes, as in the study's code, where the
    draw that chooses the operator also decides the direction.
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

    def mutation_and_crossover_probabilities(self, population: Population, generation: int) -> tuple[float, ...]:
        """Return the probabilities of mutation, crossover and crossover with a shift in this generation."""
        if 2 * (generation - 1) < self.generations:
            return self.early
        fitness = population.fitness[:, 0]
        return self.stuck if fitness[0] - fitness[:5].mean() < self.margin else self.late

    def build_offspring(self, population: Population, generation: int, words: Streams) -> Offspring:
        probabilities = self.mutation_and_crossover_probabilities(population, generation)
        which = MUTATION + np.searchsorted(np.cumsum(probabilities)[:2], unit_floats(words.draw(0)), side="right")
        first, second = (
            hold_tournaments(population, self.tournament, words, start)
            for start in (FIRST_TOURNAMENT, SECOND_TOURNAMENT)
        )
        genes = population.genes[first]
        crossed = which != MUTATION
        genes[crossed, 1] = population.genes[second[crossed], 1]
        genes += self._draw_signed_gene_steps(which, words)
        parents = np.stack([first, np.where(crossed, second, NONE)], axis=1)
        return Offspring(which.astype(np.int8), parents, np.round(genes.clip(0.0, 1.0), self.decimals))

    def _draw_signed_gene_steps(self, operators: NDArray[np.int64], words: Streams) -> NDArray[np.float64]:
        """Sample the changes that the ``operators`` [n] make to the two genes: [n, 2] float64.

        Each operator is an index into ``OPERATORS``.
        """
        up = unit_floats(words.draw(2)) >= 0.5
        change = np.zeros((len(operators), 2))
        mutated, shifted = operators == MUTATION, operators == CROSSOVER2
        change[mutated, words.integers(1, 2)[mutated]] = np.where(up, self.step, -self.step)[mutated]
        change[shifted] = np.where(up | self.only_shifts_up, self.shift, -self.shift)[shifted, None]
        return change
