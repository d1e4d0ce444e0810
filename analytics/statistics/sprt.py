"""A sequential probability ratio test over pairs of games: it decides which of two agents is the stronger.

Pairs, not games, are the unit (the pentanomial model): the two games of a pair share their opening, so they are not
independent. Strength is normalised Elo, the mean score over its standard deviation a game, times 800 / ln 10. The
number of games that shows a difference depends on it alone, not on how many games are drawn. Methods: M. Van den Bergh,
"Comments on normalized Elo" (2020) and "A practical introduction to the GSPRT" (2021), as used for chess engines. The
bounds of the log-likelihood ratio are A. Wald's, "Sequential tests of statistical hypotheses" (1945).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from analytics.statistics.tally import Estimate, normal_quantile
from quarto.errors import RequestError

PAIR_SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of both games of a pair together: LL, LD, DD or WL, WD, WW
EVEN_SCORE = 0.5
ELO_SCALE = 800 / math.log(10)  # normalised Elo for one standard deviation a game
GAMES_A_PAIR = 2
MAX_ELO = 500  # bound of both hypotheses: up to it, maxima agree with another optimiser; beyond it, they may be local
MAX_PAIRS = 10**15  # counts are added up as floating-point numbers, which are exact up to this number
PSEUDO_COUNT = 1e-3  # in place of 0, so that no outcome has probability 0
ROUNDS, PRECISION = 100, 1e-12
KEPT_SHARE = 0.9  # share of a distribution that stays where it is in a step to a stronger one
PAIRS_A_LOOK = 32  # pairs between two interim looks at the ratio, or, if that is more,
LOOK_DIVISOR = 32  # the pairs seen so far divided by this: a longer test looks less often

PairCounts = Sequence[float]  # of pairs, by PAIR_SCORES


class Hypotheses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The two hypotheses of a test, in normalised Elo: the strength is at most ``elo0``, or at least ``elo1``.

    ``alpha`` is the probability of accepting elo1 although elo0 is true, and ``beta`` is the probability of accepting
    elo0 although elo1 is true. Raises ``RequestError`` unless elo0 < elo1, both are within 500 of 0, ``alpha`` and
    ``beta`` are above 0, and their sum is below 1.
    """

    elo0: float = 0.0
    elo1: float = 10.0
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.elo0) and math.isfinite(self.elo1) and self.elo0 < self.elo1):
            raise RequestError(f"elo0={self.elo0:g} and elo1={self.elo1:g}: elo0 must be less than elo1")
        if max(-self.elo0, self.elo1) > MAX_ELO:
            raise RequestError(f"elo0={self.elo0:g} and elo1={self.elo1:g}: neither may be beyond {MAX_ELO} nElo")
        if not (self.alpha > 0 and self.beta > 0 and self.alpha + self.beta < 1):
            raise RequestError(
                f"alpha={self.alpha:g} and beta={self.beta:g}: both must be above 0 and their sum below 1"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratios at which the test accepts elo0 and elo1, respectively."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)


@dataclass(frozen=True)
class Strength:
    """Estimates of the first agent's strength from the outcomes of pairs of games."""

    pairs: int
    normalised_elo: Estimate
    elo: Estimate  # logistic
    superiority: float  # probability that the first agent is the stronger one, given the counts


def check_counts(counts: PairCounts) -> tuple[int, ...]:
    """Return five counts of pairs as integers.

    Raises ``RequestError`` unless ``counts`` has five whole numbers, none below 0, with a sum of at most ``MAX_PAIRS``.
    """
    text = ",".join(f"{count:g}" for count in counts)
    if len(counts) != len(PAIR_SCORES) or any(count < 0 or count != int(count) for count in counts):
        raise RequestError(f"counts {text}: five whole numbers are needed, of pairs that went LL,LD,DD,WD,WW")
    if sum(counts) > MAX_PAIRS:
        raise RequestError(f"counts {text}: more than {MAX_PAIRS:,} pairs")
    return tuple(int(count) for count in counts)


def log_likelihood_ratio(counts: PairCounts, hypotheses: Hypotheses) -> float:
    """Return the log-likelihood ratio of elo1 to elo0, or 0 if there are no pairs.

    Each hypothesis is represented by its most likely distribution of outcomes.
    """
    if not sum(counts):
        return 0.0
    shares, pairs = _outcome_shares(counts)
    zero, one = (
        _most_likely_distribution(shares, elo / ELO_SCALE * math.sqrt(GAMES_A_PAIR))
        for elo in (hypotheses.elo0, hypotheses.elo1)
    )
    return pairs * sum(p * math.log(b / a) for p, a, b in zip(shares, zero, one, strict=True))


def find_hypothesis_from_counts(counts: PairCounts, hypotheses: Hypotheses) -> str | None:
    """Return the accepted hypothesis, ``elo0`` or ``elo1``, or None if these counts of pairs do not decide the test."""
    return find_accepted_hypothesis(log_likelihood_ratio(counts, hypotheses), hypotheses)


def find_accepted_hypothesis(ratio: float, hypotheses: Hypotheses) -> str | None:
    """Return ``elo0`` or ``elo1`` if the log-likelihood ratio has reached the bound of that hypothesis, else None."""
    lower, upper = hypotheses.bounds
    return "elo1" if ratio >= upper else "elo0" if ratio <= lower else None


def pair_counts_at_looks(max_pairs: int) -> Iterator[int]:
    """Yield the numbers of pairs after which a test looks at the ratio.

    These are 32, 64, 96 and so on. From 1,024 pairs on, the next look comes after another 1/32 of the pairs seen so
    far, rounded down. The last number is ``max_pairs``.

    The numbers are fixed, so the decision depends on the games alone and not on threads or the sizes of blocks. Looking
    less often makes neither error more likely, because a hypothesis is still accepted only if the ratio is at or beyond
    its bound.
    """
    pairs = 0
    while pairs < max_pairs:
        pairs = min(max_pairs, pairs + max(PAIRS_A_LOOK, pairs // LOOK_DIVISOR))
        yield pairs


def pair_outcomes(winner: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return an index into ``PAIR_SCORES`` for each pair of games, [P].

    ``winner`` [2 P] has the winning seats (-1: draw) of the games, with the two games of each pair next to each other.
    The first agent holds seat 0 in the first game of each pair and seat 1 in the second.
    """
    seats = np.array([[0, 1]])
    games = winner.reshape(-1, 2)
    points: NDArray[np.int8] = np.where(games < 0, 1, np.where(games == seats, 2, 0)).sum(axis=1).astype(np.int8)
    return points


class SequentialTest:
    """A running test, which takes pairs in the order of their numbers and ignores the pairs that come after its end."""

    def __init__(self, hypotheses: Hypotheses, max_pairs: int) -> None:
        self.hypotheses = hypotheses
        self.most = max_pairs
        self.counts = (0, 0, 0, 0, 0)  # of the pairs seen
        self.accepted: str | None = None  # elo0 or elo1
        self.ratio = 0.0  # at the last look
        self._looks = pair_counts_at_looks(max_pairs)
        self.horizon = next(self._looks)  # number of pairs at the next look; once ended, at the last one

    @property
    def pairs(self) -> int:
        return sum(self.counts)

    @property
    def ended(self) -> bool:
        """Whether a hypothesis has been accepted, or the largest number of pairs has been reached."""
        return self.accepted is not None or self.pairs == self.most

    def add_outcomes(self, outcomes: NDArray[np.int8]) -> None:
        """Add the outcomes of the next pairs, in the form that ``pair_outcomes`` returns, until the test ends."""
        while len(outcomes) and not self.ended:
            room = self.horizon - self.pairs
            seen, outcomes = outcomes[:room], outcomes[room:]
            more = np.bincount(seen, minlength=len(PAIR_SCORES)).tolist()
            ll, ld, dd, wd, ww = (a + b for a, b in zip(self.counts, more, strict=True))
            self.counts = ll, ld, dd, wd, ww
            if self.pairs == self.horizon:
                self._update_ratio_and_schedule_look()

    def _update_ratio_and_schedule_look(self) -> None:
        self.ratio = log_likelihood_ratio(self.counts, self.hypotheses)
        self.accepted = find_accepted_hypothesis(self.ratio, self.hypotheses)
        if not self.ended:
            self.horizon = next(self._looks)


def estimate_strength(counts: PairCounts) -> Strength:
    """Estimate the first agent's strength with intervals, which assume that the number of pairs was fixed in advance.

    Raises ``RequestError`` if there are no pairs.
    """
    if not sum(counts):
        raise RequestError("counts 0,0,0,0,0: strength cannot be estimated without pairs")
    shares, pairs = _outcome_shares(counts)
    mean, variance = _mean_and_variance(shares)
    error = math.sqrt(variance / pairs)
    deviation = math.sqrt(variance * GAMES_A_PAIR)  # of a game's score, if the games of a pair were independent
    reach = normal_quantile() * error
    scores = (mean, mean - reach, mean + reach)
    return Strength(
        int(sum(counts)),
        Estimate(*((score - EVEN_SCORE) / deviation * ELO_SCALE for score in scores)),
        Estimate(*map(_logistic_elo, scores)),
        NormalDist().cdf((mean - EVEN_SCORE) / error),
    )


def _outcome_shares(counts: PairCounts) -> tuple[list[float], float]:
    """Return the shares of the five outcomes, all of them above 0, and the sum of the counts behind these shares.

    An outcome that did not occur is counted as ``PSEUDO_COUNT`` pairs.
    """
    smoothed = [count or PSEUDO_COUNT for count in counts]
    return [count / sum(smoothed) for count in smoothed], sum(smoothed)


def _mean_and_variance(shares: Sequence[float]) -> tuple[float, float]:
    mean = sum(p * score for p, score in zip(shares, PAIR_SCORES, strict=True))
    return mean, sum(p * (score - mean) ** 2 for p, score in zip(shares, PAIR_SCORES, strict=True))


def _most_likely_distribution(shares: Sequence[float], strength_a_pair: float) -> list[float]:
    """Return the distribution, of those with a given strength, under which the observed ``shares`` are most likely.

    A distribution gives each outcome of a pair a probability. Its strength, which must be ``strength_a_pair``, is the
    distance of its mean score from 1/2, in standard deviations of the score.
    """
    maxima = [_find_local_maximum(shares, strength_a_pair, start) for start in _list_starts(strength_a_pair)]
    return max(maxima, key=lambda maximum: sum(p * math.log(q) for p, q in zip(shares, maximum, strict=True)))


def _find_local_maximum(shares: Sequence[float], strength_a_pair: float, start: list[float]) -> list[float]:
    """Return the local maximum of the likelihood that Van den Bergh's iteration reaches from ``start``.

    The constraint on the strength is not linear in the distribution. Each round therefore replaces the constraint with
    its tangent at the latest distribution, until the distribution no longer changes.
    """
    distribution = start
    for _ in range(ROUNDS):
        slopes = _slopes(distribution, strength_a_pair)
        multiplier = _lagrange_multiplier(shares, slopes)
        before, distribution = (
            distribution,
            [p / (1 + multiplier * slope) for p, slope in zip(shares, slopes, strict=True)],
        )
        if max(abs(a - b) for a, b in zip(before, distribution, strict=True)) < PRECISION:
            break
    return distribution


def _slopes(distribution: Sequence[float], strength_a_pair: float) -> list[float]:
    """Return each outcome's coefficient in the linear constraint that is tangent to the strength constraint.

    The two constraints touch at ``distribution``.
    """
    mean, variance = _mean_and_variance(distribution)
    deviation = math.sqrt(variance)
    return [
        score - EVEN_SCORE - strength_a_pair * deviation * (1 + ((mean - score) / deviation) ** 2) / 2
        for score in PAIR_SCORES
    ]


def _list_starts(strength_a_pair: float) -> list[list[float]]:
    """List the distributions from which the iteration starts.

    Usually, the only start is the uniform distribution. But if the required strength is very far from 0, no
    distribution satisfies the linear constraint that is tangent to the strength constraint at the uniform distribution.
    There are then several starts, which have been shifted towards one end of the scores until some distribution
    satisfies the tangent constraint. As the standard deviation is concave, any such distribution has a strength at
    least as far from 0 as required, and the tangent constraint there can be satisfied again. The iteration therefore
    always finds another distribution to move to. There are several starts because the likelihood may then have several
    maxima, and different starts may lead to different ones.
    """
    uniform = [1 / len(PAIR_SCORES)] * len(PAIR_SCORES)
    if _has_both_signs(_slopes(uniform, strength_a_pair)):
        return [uniform]
    near_one = [[0.8 if i == k else 0.05 for i in range(len(PAIR_SCORES))] for k in range(len(PAIR_SCORES))]
    return [_shift_until_slopes_change_sign(start, strength_a_pair) for start in (uniform, *near_one)]


def _shift_until_slopes_change_sign(start: list[float], strength_a_pair: float) -> list[float]:
    """Shift the distribution ``start`` towards one end of the scores until the iteration can begin there."""
    end, distribution = -1 if strength_a_pair > 0 else 0, start
    while not _has_both_signs(_slopes(distribution, strength_a_pair)):
        distribution = [p * KEPT_SHARE for p in distribution]
        distribution[end] += 1 - KEPT_SHARE
    return distribution


def _has_both_signs(slopes: Sequence[float]) -> bool:
    return min(slopes) < 0 < max(slopes)


def _lagrange_multiplier(shares: Sequence[float], slopes: Sequence[float]) -> float:
    """Return the Lagrange multiplier of one round of ``_find_local_maximum``.

    It is the root x of sum p s / (1 + x s) = 0 between the nearest poles on either side of 0, where ``shares`` are the
    p and ``slopes`` the s. The sum falls as x grows, so bisection finds the root.
    """
    low, high = -1 / max(slopes), -1 / min(slopes)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        excess = sum(p * slope / (1 + middle * slope) for p, slope in zip(shares, slopes, strict=True))
        low, high = (middle, high) if excess > 0 else (low, middle)
    return (low + high) / 2


def _logistic_elo(score: float) -> float:
    """Return the Elo difference at which the logistic curve expects ``score``; infinite for a score of 0 or 1."""
    if score <= 0 or score >= 1:
        return math.copysign(math.inf, score - EVEN_SCORE)
    return -400 * math.log10(1 / score - 1)
