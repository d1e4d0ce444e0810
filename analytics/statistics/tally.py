"""Tallies: counts of how pairs of games ended. They add up. Win rates, mean scores and their intervals follow.

All games that begin with the same opening are one cluster: they are not independent. A pair of games can end in 15
ways. Each way is a cell. Cells are in the order of ``Tally``: ``pairs`` row by row, then ``singles`` row by row. The
variance of a mean over clusters of different sizes follows from the counts of cells by cluster (L. Kish, "Survey
Sampling", 1965, section 6.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, Block
from quarto.jit import kernel

Key = TypeVar("Key")

LOSS, DRAW, WIN = range(3)
FORFEITS = ("illegal", "errors", "late")  # the fields of a tally that count them

Count = Annotated[int, msgspec.Meta(ge=0)]
ResultCounts = tuple[Count, Count, Count]
NO_PAIRS: tuple[ResultCounts, ResultCounts, ResultCounts] = ((0, 0, 0), (0, 0, 0), (0, 0, 0))
NO_SINGLES: tuple[ResultCounts, ResultCounts] = ((0, 0, 0), (0, 0, 0))


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts of how the pairs of one pairing ended; ``a + b`` is the tally of both sets of pairs.

    "First" stands for the first agent of the pairing.
    """

    pairs: tuple[ResultCounts, ResultCounts, ResultCounts] = (
        NO_PAIRS  # [first's result in game 0][in game 1], each LOSS, DRAW or WIN
    )
    singles: tuple[ResultCounts, ResultCounts] = (
        NO_SINGLES  # pairs of one game, where seats are fixed: [first's seat][first's result]
    )
    illegal: tuple[Count, Count] = (0, 0)  # games forfeited by an illegal turn, by agent: first, second
    errors: tuple[Count, Count] = (0, 0)  # games forfeited by an exception, by agent: first, second
    plies: Count = 0  # of all games
    late: tuple[Count, Count] = (0, 0)  # games forfeited by a turn that took too long, by agent: first, second

    def __add__(self, other: Tally) -> Tally:
        return sum_tallies((self, other))

    @property
    def pair_count(self) -> int:
        return sum(map(sum, (*self.pairs, *self.singles)))

    @property
    def games(self) -> int:
        return self.pair_count + sum(map(sum, self.pairs))

    @property
    def is_uniform(self) -> bool:
        """Whether all pairs (at least two) ended in the same way, which suggests that they are copies of one pair."""
        return self.pair_count > 1 and self.pair_count in {*sum(self.pairs, ()), *sum(self.singles, ())}

    def losses_draws_wins_in_game(self, game: int) -> ResultCounts:
        """Return the numbers of games that the first agent lost, drew and won in one game of each pair: game 0 or 1.

        In game 0, the first agent holds seat 0.
        """
        columns = self.pairs if game == 0 else tuple(zip(*self.pairs, strict=True))
        losses, draws, wins = (sum(row) + alone for row, alone in zip(columns, self.singles[game], strict=True))
        return losses, draws, wins

    @property
    def losses_draws_wins(self) -> ResultCounts:
        """The numbers of games that the first agent lost, drew and won, in this order."""
        losses, draws, wins = (
            a + b for a, b in zip(self.losses_draws_wins_in_game(0), self.losses_draws_wins_in_game(1), strict=True)
        )
        return losses, draws, wins

    @property
    def losses(self) -> int:
        return self.losses_draws_wins[LOSS]

    @property
    def draws(self) -> int:
        return self.losses_draws_wins[DRAW]

    @property
    def wins(self) -> int:
        return self.losses_draws_wins[WIN]

    @property
    def pentanomial(self) -> tuple[int, int, int, int, int]:
        """The numbers of pairs of two games in which the first agent scored 0, 1/2, 1, 3/2 and 2 points."""
        counts = [0] * 5
        for in_game_0, row in enumerate(self.pairs):
            for in_game_1, count in enumerate(row):
                counts[in_game_0 + in_game_1] += count
        return counts[0], counts[1], counts[2], counts[3], counts[4]

    @property
    def with_agents_swapped(self) -> Tally:
        """The same pairs from the second agent's point of view. Games 0 and 1 of each pair are exchanged too."""
        (ll, ld, lw), (dl, dd, dw), (wl, wd, ww) = self.pairs
        of_seat_0, of_seat_1 = self.singles
        return Tally(
            ((ww, dw, lw), (wd, dd, ld), (wl, dl, ll)),
            (of_seat_1[::-1], of_seat_0[::-1]),
            self.illegal[::-1],
            self.errors[::-1],
            self.plies,
            self.late[::-1],
        )

    @property
    def forfeits(self) -> tuple[int, int]:
        """The numbers of games that the first and the second agent forfeited.

        Games forfeited by an illegal turn, an exception or a late turn are counted; resignations are not.
        """
        first, second = map(sum, zip(self.illegal, self.errors, self.late, strict=True))
        return first, second


msgspec.json.Decoder(
    Tally
)  # reads the declarations of its fields before threads need them, see ``records.preload_msgspec_type``


def sum_tallies(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of several tallies.

    The counts of all tallies are added up at once, not tally by tally, because there may be thousands of tallies.
    """
    counts = [sum(column) for column in zip(*map(_tally_to_counts, tallies), strict=True)]
    if not counts:
        return Tally()
    rows: list[ResultCounts] = [
        (counts[first], counts[first + 1], counts[first + 2]) for first in range(0, TALLY_CELLS, 3)
    ]
    illegal, errors, late = ((counts[first], counts[first + 1]) for first in range(TALLY_CELLS, TALLY_CELLS + 6, 2))
    return Tally((rows[0], rows[1], rows[2]), (rows[3], rows[4]), illegal, errors, counts[-1], late)


def _tally_to_counts(tally: Tally) -> tuple[int, ...]:
    """Return all counts of a tally in one sequence.

    The sequence has the counts of pairs in the 15 cells; the forfeits of the first and of the second agent for illegal
    turns, then those for exceptions, then those for late turns; and the number of plies.
    """
    (one, two, three), (zero, last) = tally.pairs, tally.singles
    return (*one, *two, *three, *zero, *last, *tally.illegal, *tally.errors, *tally.late, tally.plies)


def sum_tallies_by_key(tallies: Iterable[tuple[Key, Tally]]) -> dict[Key, Tally]:
    """Sum the tallies that have the same key; the result has the keys in the order of their first occurrence."""
    totals: dict[Key, Tally] = {}
    for key, tally in tallies:
        totals[key] = totals[key] + tally if key in totals else tally
    return totals


@kernel()
def _add_block_counts(
    winner: NDArray[np.int8],
    ending: NDArray[np.int8],
    plies: NDArray[np.int8],
    games_a_pair: int,
    out: NDArray[np.int64],
) -> None:
    """Add the counts of a block to ``out`` [16].

    ``winner``, ``ending`` and ``plies`` have an element for each game, with the games of a pair next to each other. The
    counts of pairs come first: 9 elements for pairs of two games, or 3 for pairs of one game. Elements 9 to 14 are the
    forfeits of the first and of the second agent for illegal turns, then those for exceptions, then those for late
    turns. Element 15 is the number of plies.
    """
    for pair in range(winner.shape[0] // games_a_pair):
        cell = np.int64(0)
        for game in range(games_a_pair):
            i = games_a_pair * pair + game
            # In game 0 the first agent holds seat 0, in game 1 seat 1.
            result = np.int64(1) if winner[i] < 0 else np.int64(2) * np.int64(winner[i] == game)
            cell = 3 * cell + result
            out[15] += plies[i]
            if ending[i] == FORFEIT_ILLEGAL or ending[i] == FORFEIT_ERROR or ending[i] == FORFEIT_TIME:
                loser_is_second = np.int64(result == 2)
                kind = np.int64(ending[i] == FORFEIT_ERROR) + 2 * np.int64(ending[i] == FORFEIT_TIME)
                out[9 + 2 * kind + loser_is_second] += 1
        out[cell] += 1


def tally_block(block: Block) -> Tally:
    """Return the tally of the pairs in one block."""
    games, counts = block.games, np.zeros(16, np.int64)
    _add_block_counts(games.winner, games.ending, games.plies, block.games_per_pair, counts)
    pairs = counts[:9].reshape(3, 3).tolist()
    played = {"pairs": pairs} if block.swapped else {"singles": [pairs[0], NO_SINGLES[1]]}
    return build_tally(played, counts[9:15].reshape(3, 2).tolist(), int(counts[15]))


def build_tally(results: Mapping[str, Any], forfeits: Iterable[Sequence[int]], plies: int) -> Tally:
    """Build a tally from the counts of results and of forfeits, and the number of plies.

    ``results`` has the fields ``pairs`` and ``singles`` of ``Tally``, or one of them. ``forfeits`` has two counts, the
    first and the second agent's, for illegal turns, for exceptions and for late turns, in this order. Raises
    ``msgspec.ValidationError`` for a value that is not a count.
    """
    named = dict(zip(FORFEITS, forfeits, strict=True))
    return msgspec.convert({**results, **named, "plies": plies}, Tally)


def tally_by_pairing(blocks: Iterable[Block]) -> dict[int, Tally]:
    """Count the results in ``blocks`` by pairing; the memory needed does not depend on the number of blocks."""
    return sum_tallies_by_key((block.pairing, tally_block(block)) for block in blocks)


TALLY_CELLS = 15
_PAIR_CELLS = 9  # the first of them, 3 * result in game 0 + result in game 1; then 3 * seat + result of single games

# The number of games in one pair of a cell in which the first agent has a seat and a result: [15, seat, result].
SEAT_RESULTS = np.zeros((TALLY_CELLS, 2, 3), np.int64)
for _one in (LOSS, DRAW, WIN):
    for _seat in range(2):
        SEAT_RESULTS[_PAIR_CELLS + 3 * _seat + _one, _seat, _one] += 1
    for _two in (LOSS, DRAW, WIN):
        SEAT_RESULTS[3 * _one + _two, 0, _one] += 1
        SEAT_RESULTS[3 * _one + _two, 1, _two] += 1

# The cell in which the second agent sees the pair: it holds seat 0 in what was game 1.
SWAPPED_CELLS = np.array(
    [3 * (WIN - _two) + WIN - _one for _one in range(3) for _two in range(3)]
    + [_PAIR_CELLS + 3 * (1 - _seat) + WIN - _one for _seat in range(2) for _one in range(3)]
)


class ClusterSums(NamedTuple):
    """Sums over independent clusters, from which the variance of a mean follows.

    Each cluster has n values, which add up to y.
    """

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
        """The variance of the mean, which is a ratio of two sums over clusters.

        The variance is 0 if there is only one cluster, because one cluster does not show how clusters differ.
        """
        spread = self.y_y - 2 * self.mean * self.n_y + self.mean**2 * self.n_n
        return max(0.0, spread) * self.clusters / max(1, self.clusters - 1) / self.n**2


class Clusters(NamedTuple):
    """Sums of points and sums of wins over independent clusters of games."""

    points: ClusterSums  # a win is a point, a draw half of one
    wins: ClusterSums


def tally_to_cells(tally: Tally) -> NDArray[np.int64]:
    """Return the counts of pairs in a tally as an array [15], one element for each way in which a pair can end."""
    return np.array([*sum(tally.pairs, ()), *sum(tally.singles, ())], np.int64)


def build_clusters(
    cluster_counts: NDArray[np.int64], single_pair_counts: NDArray[np.int64], seat: int | None = None
) -> Clusters:
    """Build clusters from the counts of pairs by cell, one of the 15 ways in which a pair can end.

    Each row of ``cluster_counts`` [G, 15] is one cluster. In ``single_pair_counts`` [15], each pair is a cluster of its
    own. With ``seat``, only games in which the first agent held this seat are counted; clusters without such games are
    left out.
    """
    results = SEAT_RESULTS.sum(axis=1) if seat is None else SEAT_RESULTS[:, seat]
    of_clusters = np.concatenate([cluster_counts @ results, results])  # [G + 15, result]
    times = np.concatenate([np.ones(len(cluster_counts), np.int64), single_pair_counts])
    games = of_clusters.sum(axis=1)
    times[games == 0] = 0

    def sum_clusters(scored: NDArray[np.float64]) -> ClusterSums:
        number, n, n_n = (int(times @ values) for values in (np.ones_like(games), games, games * games))
        y, n_y, y_y = (float(times @ values) for values in (scored, games * scored, scored * scored))
        return ClusterSums(number, n, y, n_n, n_y, y_y)

    wins = of_clusters[:, WIN].astype(np.float64)
    return Clusters(sum_clusters(wins + of_clusters[:, DRAW] / 2), sum_clusters(wins))


CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """Return half the width of a two-sided interval of the normal distribution, in standard errors.

    It is 1.96 for a ``confidence`` of 0.95.
    """
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """Return Wilson's score interval (low, high) for a proportion; ``n`` may be an effective number that is not whole.

    The interval is (0, 1) if ``n`` is 0. E. B. Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927) 209-212; without continuity correction, as method 3 of R. G. Newcombe, Statistics in
    Medicine 17 (1998) 857-872.
    """
    if n <= 0:
        return 0.0, 1.0
    z = normal_quantile()
    share = successes / n
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and 1 the bound is exact, but rounding may move it slightly.
    low = 0.0 if successes <= 0 else max(0.0, (centre - reach) / scale)
    high = 1.0 if successes >= n else min(1.0, (centre + reach) / scale)
    return low, high


def wilson_bounds(successes: Iterable[float], n: Iterable[float]) -> tuple[list[float], list[float]]:
    """Return two lists, the lower and the upper bounds of Wilson's intervals for many proportions."""
    intervals = [wilson_interval(*proportion) for proportion in zip(successes, n, strict=True)]
    return [low for low, _ in intervals], [high for _, high in intervals]


def design_effect(tally: Tally) -> float:
    """Return the variance of the win rate, as a multiple of the variance that it would have if games were independent.

    The two games of a pair share an opening, so the variance is computed over pairs; a single game is a pair of its
    own. As a pair has one or two games, the win rate is treated as a ratio of two sums over pairs, the games won and
    the games played. The effect is the variance of this ratio, divided by p (1 - p) / n, the variance for n independent
    games. The effect is above 1 if openings decide games, and below 1 if swapping the seats balances the openings. L.
    Kish, "Survey Sampling" (1965), sections 5.4 and 6.3.

    The effect is 1 if there are fewer than two pairs, or if all pairs ended alike, as happens with two deterministic
    agents without random openings. The sample then says nothing about its variance, and the games are taken as
    independent.
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
    """Return the first agent's share of games won, with Wilson's interval over the effective number of games.

    With ``clusters``, the effective number follows from the variance over the clusters. Otherwise, the effective number
    is the number of games, divided by ``design_effect`` if ``by_pairs`` is set.
    """
    if clusters is not None:
        return share_over_clusters(clusters.wins)
    rate = tally.wins / tally.games if tally.games else 0.0
    games = tally.games / design_effect(tally) if by_pairs else float(tally.games)
    return Estimate(rate, *wilson_interval(rate * games, games))


def mean_score(counts: Sequence[int]) -> Estimate:
    """Return the mean of a score from 0 to 1, with an interval from the normal approximation.

    ``counts[i]`` observations scored ``i / (len(counts) - 1)``. The counts are the losses, draws and wins of games, or
    the five counts of pairs (the pentanomial model: M. Van den Bergh, "Comments on normalized Elo", 2020). The variance
    is the variance of the sample, and the interval is clipped to [0, 1]. If all counts are 0, the mean is 0.5 and the
    interval is (0, 1). If all observations scored 0, or all scored 1, the variance is 0 and the interval is Wilson's.
    If all observations scored the same value in between, as pairs of deterministic agents do, the interval is a single
    point, the mean.
    """
    n = sum(counts)
    if not n:
        return Estimate(0.5, 0.0, 1.0)
    top = len(counts) - 1
    mean = sum(count * i / top for i, count in enumerate(counts)) / n
    variance = sum(count * (i / top - mean) ** 2 for i, count in enumerate(counts)) / n
    return _build_normal_or_wilson_estimate(mean, variance / n, n)


def score(tally: Tally, by_pairs: bool, clusters: Clusters | None = None) -> Estimate:
    """Return the first agent's mean score (win 1, draw 1/2), with an interval from the normal approximation.

    With ``clusters``, the variance is computed over clusters, whatever ``by_pairs`` is. Otherwise, the variance is
    computed over pairs if ``by_pairs`` is set, and over games if not. A game without a partner is a pair of its own. As
    a pair has one or two games, the mean by pairs is a ratio of two sums over pairs, the points and the games, and the
    variance is the variance of such a ratio (L. Kish, "Survey Sampling", 1965, section 6.3).
    """
    if clusters is not None:
        return mean_over_clusters(clusters.points, 1.0)
    if not by_pairs:
        return mean_score(tally.losses_draws_wins)
    if not any(map(sum, tally.singles)):
        return mean_score(tally.pentanomial)
    alone = [a + b for a, b in zip(*tally.singles, strict=True)]
    mean = mean_score(tally.losses_draws_wins).mean
    spread = sum(count * (i / 2 - 2 * mean) ** 2 for i, count in enumerate(tally.pentanomial))
    spread += sum(count * (i / 2 - mean) ** 2 for i, count in enumerate(alone))
    return _build_normal_or_wilson_estimate(mean, spread / tally.games**2, tally.pair_count)


def mean_over_clusters(sums: ClusterSums, max_value: float) -> Estimate:
    """Return the mean of values from 0 to ``max_value``, with an interval from the normal approximation over clusters.

    The interval is clipped to the range of the values. If all values are 0, or all are ``max_value``, the variance is 0
    and the interval is Wilson's over the clusters. For a single cluster, which says nothing about the variance, the
    interval is (0, ``max_value``).
    """
    if sums.mean in (0, max_value):
        low, high = wilson_interval(sums.clusters * sums.mean / max_value, sums.clusters)
        return Estimate(sums.mean, max_value * low, max_value * high)
    if sums.clusters < 2:
        return Estimate(sums.mean, 0.0, max_value)
    reach = normal_quantile() * math.sqrt(sums.variance)
    return Estimate(sums.mean, max(0.0, sums.mean - reach), min(max_value, sums.mean + reach))


def share_over_clusters(sums: ClusterSums) -> Estimate:
    """Return the share of the values (each 0 or 1) that are 1, with Wilson's interval over their effective number.

    The effective number of values follows from the variance over clusters. If all clusters are alike, it is the number
    of clusters.
    """
    share, variance = sums.mean, sums.variance
    effective = share * (1 - share) / variance if variance else float(sums.clusters)
    return Estimate(share, *wilson_interval(share * effective, effective))


def _build_normal_or_wilson_estimate(mean: float, variance: float, units: int) -> Estimate:
    """Build the estimate of a mean that lies between 0 and 1, given its variance.

    ``units`` is the number of independent observations. If the mean is exactly 0 or exactly 1, the interval is
    Wilson's; otherwise it is that of the normal approximation.
    """
    if mean in (0, 1):
        return Estimate(mean, *wilson_interval(mean * units, units))
    reach = normal_quantile() * math.sqrt(variance)
    return Estimate(mean, max(0.0, mean - reach), min(1.0, mean + reach))
