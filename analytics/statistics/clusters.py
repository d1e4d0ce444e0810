"""The variance of results whose games come in clusters: all games that begin with the same opening are one cluster.

A pair of games can end in 15 ways. Each way is a cell. Cells are in the order of ``Tally``: ``pairs`` row by row, then
``singles`` row by row. The variance of a mean over clusters of different sizes follows from the counts of cells by
cluster (L. Kish, "Survey Sampling", 1965, section 6.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.tally import DRAW, LOSS, WIN, Tally

CELLS = 15
_PAIRS = 9  # the first of them, 3 * result in game 0 + result in game 1; then 3 * seat + result of single games

# How many games of a cell the first agent held each seat in, and ended so: [15, seat, result].
SEAT_RESULTS = np.zeros((CELLS, 2, 3), np.int64)
for _one in (LOSS, DRAW, WIN):
    for _seat in range(2):
        SEAT_RESULTS[_PAIRS + 3 * _seat + _one, _seat, _one] += 1
    for _two in (LOSS, DRAW, WIN):
        SEAT_RESULTS[3 * _one + _two, 0, _one] += 1
        SEAT_RESULTS[3 * _one + _two, 1, _two] += 1

# The cell in which the second agent sees the pair: it holds seat 0 in what was game 1.
SWAPPED = np.array(
    [3 * (WIN - _two) + WIN - _one for _one in range(3) for _two in range(3)]
    + [_PAIRS + 3 * (1 - _seat) + WIN - _one for _seat in range(2) for _one in range(3)]
)


class ClusterSums(NamedTuple):
    """Sums over independent clusters, each of n values that add up to y. The variance of the mean follows from them."""

    clusters: int
    n: int
    y: float
    n_n: int  # of n squared
    n_y: float  # of n * y
    y_y: float  # of y squared

    @property
    def mean(self) -> float:
        return self.y / self.n

    @property
    def variance(self) -> float:
        """The variance of the mean, a ratio of two sums over clusters; 0 for one cluster, which says nothing of it."""
        spread = self.y_y - 2 * self.mean * self.n_y + self.mean**2 * self.n_n
        return max(0.0, spread) * self.clusters / max(1, self.clusters - 1) / self.n**2


class Clusters(NamedTuple):
    """Independent clusters of games."""

    points: ClusterSums  # a win is a point, a draw half of one
    wins: ClusterSums


def cells_of(tally: Tally) -> NDArray[np.int64]:
    """[15] the counts of a tally by cell."""
    return np.array([*sum(tally.pairs, ()), *sum(tally.singles, ())], np.int64)


def clusters(grouped: NDArray[np.int64], alone: NDArray[np.int64], seat: int | None = None) -> Clusters:
    """The clusters of ``grouped`` [G, 15], each a row of counts, and of ``alone`` [15], where each pair is a cluster.

    With ``seat``, of the games in which the first agent held it; clusters without such a game do not count.
    """
    results = SEAT_RESULTS.sum(axis=1) if seat is None else SEAT_RESULTS[:, seat]
    of_clusters = np.concatenate([grouped @ results, results])  # [G + 15, result]
    times = np.concatenate([np.ones(len(grouped), np.int64), alone])
    games = of_clusters.sum(axis=1)
    times[games == 0] = 0

    def sums(scored: NDArray[np.float64]) -> ClusterSums:
        number, n, n_n = (int(times @ each) for each in (np.ones_like(games), games, games * games))
        y, n_y, y_y = (float(times @ each) for each in (scored, games * scored, scored * scored))
        return ClusterSums(number, n, y, n_n, n_y, y_y)

    wins = of_clusters[:, WIN].astype(np.float64)
    return Clusters(sums(wins + of_clusters[:, DRAW] / 2), sums(wins))
