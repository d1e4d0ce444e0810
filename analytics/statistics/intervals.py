"""Win rates and mean scores with their intervals: pure functions of counts, each with its source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import NamedTuple

from analytics.statistics.tally import WIN, Clusters, ClusterSums, Tally

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float


def quantile(confidence: float = CONFIDENCE) -> float:
    """The half-width of a two-sided normal interval in standard errors: 1.96 for 0.95. ``confidence`` is in (0, 1)."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Wilson's score interval (low, high) for a proportion; ``n`` may be an effective number and need not be whole.

    (0, 1) when ``n`` is 0. E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA
    22 (1927) 209-212; without continuity correction, as method 3 of R. G. Newcombe, Statistics in Medicine 17 (1998)
    857-872.
    """
    if n <= 0:
        return 0.0, 1.0
    z = quantile()
    share = successes / n
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and 1 the bound is exact, but rounding may move it slightly.
    low = 0.0 if successes <= 0 else max(0.0, (centre - reach) / scale)
    high = 1.0 if successes >= n else min(1.0, (centre + reach) / scale)
    return low, high


def wilson_bounds(successes: Iterable[float], n: Iterable[float]) -> tuple[list[float], list[float]]:
    """Wilson's intervals of many proportions: all lower bounds, all upper bounds."""
    intervals = [wilson(*each) for each in zip(successes, n, strict=True)]
    return [low for low, _ in intervals], [high for _, high in intervals]


def design_effect(tally: Tally) -> float:
    """The variance of the win rate, as a multiple of its variance if all games were independent.

    The two games of a pair share an opening, so the pair is the unit, as is a game that comes alone. The effect is the
    variance of wins over games, divided by p (1 - p) / n, the variance of n independent games. The first variance is
    that of a ratio over units of one or two games. The effect is above 1 when openings decide games, below 1 when
    swapping the seats balances them. L. Kish, "Survey Sampling" (1965), sections 5.4 and 6.3.

    It is 1 for fewer than two units. It is also 1 when the units do not differ, as the pairs of two deterministic
    agents without random openings. Then the sample says nothing about its variance, and the games count as independent.
    """
    units: dict[tuple[int, int], int] = {}  # by games and wins
    for cells, games in ((tally.pairs, 2), (tally.singles, 1)):
        for i, row in enumerate(cells):
            for result, count in enumerate(row):
                wins = (result == WIN) + (games == 2 and i == WIN)
                units[games, wins] = units.get((games, wins), 0) + count
    number = sum(units.values())
    rate = tally.wins / tally.games if number else 0.0
    spread = sum(count * (wins - games * rate) ** 2 for (games, wins), count in units.items())
    if number < 2 or spread == 0:
        return 1.0
    return number / (number - 1) * spread / (tally.games * rate * (1 - rate))


def win_rate(tally: Tally, by_pairs: bool, clusters: Clusters | None = None) -> Estimate:
    """The first agent's share of games won with Wilson's interval, over the effective number of games.

    That is the number of games, by pairs divided by ``design_effect``, or as many as ``clusters`` are worth.
    """
    if clusters is not None:
        return share_over_clusters(clusters.wins)
    rate = tally.wins / tally.games if tally.games else 0.0
    games = tally.games / design_effect(tally) if by_pairs else float(tally.games)
    return Estimate(rate, *wilson(rate * games, games))


def mean_score(counts: Sequence[int]) -> Estimate:
    """The mean of a score from 0 to 1 and its normal interval, cut to [0, 1]; (0.5, 0, 1) when there are no counts.

    ``counts[i]`` units scored ``i / (len(counts) - 1)``. Counts are of losses, draws and wins of games, or the five
    counts of pairs (the pentanomial model: M. Van den Bergh, "Comments on normalized Elo", 2020). The variance is the
    sample's own. If all units scored 0, or all 1, it is 0 and the interval is Wilson's. If all scored the same in
    between, as the pairs of deterministic agents do, the interval is their mean.
    """
    n = sum(counts)
    if not n:
        return Estimate(0.5, 0.0, 1.0)
    top = len(counts) - 1
    mean = sum(count * i / top for i, count in enumerate(counts)) / n
    variance = sum(count * (i / top - mean) ** 2 for i, count in enumerate(counts)) / n
    return _estimate(mean, variance / n, n)


def score(tally: Tally, by_pairs: bool, clusters: Clusters | None = None) -> Estimate:
    """The first agent's mean score (win 1, draw 1/2) and its interval; by pairs, over pairs instead of games.

    By pairs, a game that comes alone is a unit too. The mean is then a ratio over units of one or two games. Its
    variance is that of such a ratio (L. Kish, "Survey Sampling", 1965, section 6.3). With ``clusters`` they are the
    units.
    """
    if clusters is not None:
        return mean_over_clusters(clusters.points, 1.0)
    if not by_pairs:
        return mean_score(tally.trinomial)
    if not any(map(sum, tally.singles)):
        return mean_score(tally.pentanomial)
    alone = [a + b for a, b in zip(*tally.singles, strict=True)]
    mean = mean_score(tally.trinomial).mean
    spread = sum(count * (i / 2 - 2 * mean) ** 2 for i, count in enumerate(tally.pentanomial))
    spread += sum(count * (i / 2 - mean) ** 2 for i, count in enumerate(alone))
    return _estimate(mean, spread / tally.games**2, tally.pair_count)


def mean_over_clusters(sums: ClusterSums, most: float) -> Estimate:
    """The mean of values from 0 to ``most`` and its normal interval over clusters, cut to [0, ``most``].

    If all values are 0, or all ``most``, the variance is 0 and the interval is Wilson's over the clusters. It is
    (0, ``most``) for a single cluster, which says nothing about the variance.
    """
    if sums.mean in (0, most):
        low, high = wilson(sums.clusters * sums.mean / most, sums.clusters)
        return Estimate(sums.mean, most * low, most * high)
    if sums.clusters < 2:
        return Estimate(sums.mean, 0.0, most)
    reach = quantile() * math.sqrt(sums.variance)
    return Estimate(sums.mean, max(0.0, sums.mean - reach), min(most, sums.mean + reach))


def share_over_clusters(sums: ClusterSums) -> Estimate:
    """The share of values that are 1, not 0, with Wilson's interval over the effective number of values.

    The effective number follows from the variance over clusters. If all clusters are alike, it is their number.
    """
    share, variance = sums.mean, sums.variance
    effective = share * (1 - share) / variance if variance else float(sums.clusters)
    return Estimate(share, *wilson(share * effective, effective))


def _estimate(mean: float, variance: float, units: int) -> Estimate:
    """The estimate for a mean with a variance over independent units; see ``mean_score`` for means of 0 and 1."""
    if mean in (0, 1):
        return Estimate(mean, *wilson(mean * units, units))
    reach = quantile() * math.sqrt(variance)
    return Estimate(mean, max(0.0, mean - reach), min(1.0, mean + reach))
