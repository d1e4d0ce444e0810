"""Populations of genomes: the record of each individual, and selection by fitness.

Everything here is a pure function of words of randomness that are passed in. So an evolution can be repeated from a
seed and the recorded fitnesses.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.jit import uint64
from quarto.rng import Streams, stream
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

    def part(self, which: slice | NDArray[np.integer]) -> Population:
        """Some of the individuals, in the order given."""
        return Population(*(field[which] for field in self))  # type: ignore[arg-type]  # each keeps its own type

    def joined(self, others: Population) -> Population:
        """These and then the others."""
        return Population(*map(np.concatenate, zip(self, others, strict=True)))  # type: ignore[arg-type]


def initial(genes: NDArray[np.float64], opponents: int) -> Population:
    """Individuals without parents, numbered from 0, with these genes [N, G]."""
    numbers = np.arange(len(genes))
    return Population(
        numbers,
        numbers,
        np.full(len(genes), INITIAL, np.int8),
        np.full((len(genes), 2), NONE),
        genes,
        np.full((len(genes), opponents), np.nan),
    )


def streams_of(seed: int, numbers: NDArray[np.int64]) -> Streams:
    """The randomness that makes each individual: its own stream, by its number."""
    return Streams(np.array([stream(uint64(seed), int(number), BREEDING) for number in numbers], np.uint64))


def units(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """``quarto.rng.unit`` of many words: float64 in [0, 1) with 53 random bits, of the same shape."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def gaussians(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A standard normal number for each word, of the same shape, by inversion.

    The inverse is that of Wichura ("The percentage points of the normal distribution", Applied Statistics 37, 1988), as
    the standard library has it. The middles of 2^52 intervals are inverted, so the result is always finite. It has
    twelve decimals, so it does not depend on the last bit of a machine's logarithm.
    """
    inverse = NormalDist().inv_cdf
    middles = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.array([round(inverse(middle), 12) for middle in middles.ravel().tolist()]).reshape(words.shape)


def by_fitness(population: Population) -> Population:
    """The same individuals, best first; those of equal fitness keep their order."""
    return population.part(np.lexsort([-column for column in population.fitness.T[::-1]]))


def ranks(population: Population) -> NDArray[np.int64]:
    """[N] the number of different fitnesses above each individual's, in a population sorted by fitness."""
    worse = (population.fitness[1:] != population.fitness[:-1]).any(axis=1)
    return np.concatenate([[0], np.cumsum(worse)])


def tournament(population: Population, size: int, words: Streams, first: int) -> NDArray[np.int64]:
    """[n] one index into a sorted population for each stream: the best of ``size`` picked with replacement.

    Of equally good ones, the first that was picked. Reads the words from ``first`` to before ``first + size``.
    """
    picks = np.stack([words.below(first + i, population.size) for i in range(size)], axis=1)
    best = ranks(population)[picks].argmin(axis=1)
    chosen: NDArray[np.int64] = picks[np.arange(len(picks)), best]
    return chosen
