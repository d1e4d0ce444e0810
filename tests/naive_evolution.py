"""The slow twins of both evolutions: individuals one by one, as the studies' texts and codes have them.

Only the words of randomness are the project's: an individual's stream is that of its number, "game" 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist

from tests.naive import below, draw, stream

BREEDING, JUDGING = 3, 4
FIRST, SECOND = 1 << 20, 2 << 20  # the words of the two tournaments

Fitness = tuple[float, ...]


def unit(word: int) -> float:
    return (word >> 11) / 2**53


def gaussian(word: int) -> float:
    return round(NormalDist().inv_cdf(((word >> 12) + 0.5) / 2**52), 12)


def run_seed(seed: int, generation: int, games: int) -> int:
    return stream(stream(seed, generation, JUDGING), games, JUDGING) >> 1


@dataclass(eq=False)
class Individual:
    number: int
    genes: list[float]  # the very list of its parent, where study A's code changes both
    operator: str = "initial"
    parents: list[int] = field(default_factory=list)
    fitness: Fitness = ()


@dataclass
class Study:
    """The common part of both studies; ``judge`` gets a generation and its individuals, and returns their fitnesses."""

    seed: int
    size: int
    offspring: int
    generations: int
    tournament: int
    judge: Callable[[int, list[Individual]], list[Fitness]]
    again: bool = False
    faithful: bool = False
    start: Sequence[Sequence[float]] = ()

    def evolve(self) -> list[list[Individual]]:
        """Return everybody of each generation, best first, as it was then."""
        population = [Individual(number, self.first_genes(number)) for number in range(self.size)]
        for individual, genes in zip(population, self.start, strict=False):
            individual.genes = list(genes)
        self.judge_all(0, population, population)
        population = sort_by_fitness(population)
        history = [copy_population(population)]
        self.occurrences: list[tuple[tuple[float, ...], Fitness]] = []
        for generation in range(1, self.generations + 1):
            children: list[Individual] = []
            judged: list[Individual] = []
            for i in range(self.offspring):
                children.append(self.child(self.size + (generation - 1) * self.offspring + i, generation, population))
                judged += copy_population(children[-1:])  # before a later one changes it
            self.judge_all(
                generation, [*copy_population(population), *judged] if self.again else judged, [*population, *children]
            )
            everybody = sort_by_fitness([*population, *children])
            population = everybody[: self.size]
            history.append(copy_population(everybody))
            self.occurrences += [(tuple(individual.genes), individual.fitness) for individual in population]
        return history

    def judge_all(self, generation: int, judged: list[Individual], everybody: list[Individual]) -> None:
        """Set the fitness of every judged individual."""
        fitnesses = dict(zip([individual.number for individual in judged], self.judge(generation, judged), strict=True))
        for individual in everybody:
            individual.fitness = fitnesses.get(individual.number, individual.fitness)

    def best_on_average(self) -> tuple[float, ...]:
        def mean(genes: tuple[float, ...]) -> list[Fraction]:
            fitnesses = [fitness for others, fitness in self.occurrences if others == genes]
            return [sum(map(Fraction, column), Fraction()) / len(fitnesses) for column in zip(*fitnesses, strict=True)]

        return max(dict(self.occurrences), key=mean)

    def winner(self, population: list[Individual], words: int, first: int) -> Individual:
        picked = [population[below(draw(words, first + i), len(population))] for i in range(self.tournament)]
        return max(picked, key=lambda individual: individual.fitness)

    def first_genes(self, number: int) -> list[float]:
        raise NotImplementedError

    def child(self, number: int, generation: int, population: list[Individual]) -> Individual:
        raise NotImplementedError


def sort_by_fitness(population: list[Individual]) -> list[Individual]:
    return sorted(population, key=lambda individual: individual.fitness, reverse=True)


def copy_population(population: list[Individual]) -> list[Individual]:
    return [replace(individual, genes=list(individual.genes)) for individual in population]


@dataclass
class StudyA(Study):
    reach: float = 10.0
    scale: float = 20.0

    def first_genes(self, number: int) -> list[float]:
        words = stream(self.seed, number, BREEDING)
        return [self.reach * (2 * unit(draw(words, gene)) - 1) for gene in range(5)]

    def child(self, number: int, generation: int, population: list[Individual]) -> Individual:
        words = stream(self.seed, number, BREEDING)
        parent = self.winner(population, words, FIRST)
        genes = parent.genes if self.faithful else list(parent.genes)
        for gene in range(5):
            genes[gene] += self.scale / generation * gaussian(draw(words, gene))
        return Individual(number, genes, "mutation", [parent.number])


@dataclass
class StudyB(Study):
    early: Sequence[float] = (0.3, 0.5, 0.2)
    stuck: Sequence[float] = (0.1, 0.45, 0.45)
    late: Sequence[float] = (0.6, 0.2, 0.2)
    margin: float = 0.05
    step: float = 0.1
    shift: float = 0.3

    def first_genes(self, number: int) -> list[float]:
        words = stream(self.seed, number, BREEDING)
        return [round(10 * unit(draw(words, gene))) / 10 for gene in range(2)]

    def probabilities(self, generation: int, population: list[Individual]) -> Sequence[float]:
        if (generation - 1) / self.generations < 0.5:
            return self.early
        fitness = [individual.fitness[0] for individual in population]
        top = fitness[:5]
        return self.stuck if fitness[0] - sum(top) / len(top) < self.margin else self.late

    def child(self, number: int, generation: int, population: list[Individual]) -> Individual:
        words = stream(self.seed, number, BREEDING)
        mutation, crossover, _ = self.probabilities(generation, population)
        which, up = unit(draw(words, 0)), unit(draw(words, 2)) >= 0.5
        one, other = self.winner(population, words, FIRST), self.winner(population, words, SECOND)
        if which < mutation:
            gene = below(draw(words, 1), 2)
            genes = list(one.genes)
            genes[gene] += self.step if up else -self.step
            return Individual(number, self.clip_genes(genes), "mutation", [one.number])
        genes, parents = [one.genes[0], other.genes[1]], [one.number, other.number]
        if which < mutation + crossover:
            return Individual(number, self.clip_genes(genes), "crossover", parents)
        shift = self.shift if up or self.faithful else -self.shift
        return Individual(number, self.clip_genes([gene + shift for gene in genes]), "crossover2", parents)

    def clip_genes(self, genes: list[float]) -> list[float]:
        return [round(10 * min(max(gene, 0.0), 1.0)) / 10 for gene in genes]
