"""Davidson's model of paired comparisons with draws and an advantage of the seat, fitted by maximum likelihood.

For agents with strengths a in seat 0 and b in seat 1, in natural units,

    P(seat 0 wins) : P(draw) : P(seat 1 wins) = exp(a + s) : exp(d + (a + s + b) / 2) : exp(b)

with one seat parameter s and one draw parameter d for all. R. A. Bradley and M. E. Terry, "Rank analysis of incomplete
block designs", Biometrika 39 (1952); R. R. Davidson, "On extending the Bradley-Terry model to accommodate ties", JASA
65 (1970); R. R. Davidson and R. J. Beaver, "On extending the Bradley-Terry model to incorporate within-pair order
effects", Biometrics 33 (1977). It is a multinomial logit, so the likelihood has one maximum at most: Newton's method
finds it.

An agent that took every point from others has no finite strength relative to them (L. R. Ford, "Solution of a ranking
problem from binary comparisons", American Mathematical Monthly 64, 1957). Agents are therefore put into components
first: within one, a chain of points leads from each agent to each other one. Games between components are most likely
when the components are infinitely far apart. So they leave the fit and decide only which component is above which.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from analytics.statistics.tally import DRAW, LOSS, WIN
from quarto.jit import inlined, kernel

ROUNDS = 100
PRECISION = 1e-10  # natural units
LONGEST_STEP = 2.0  # natural units: far from the maximum, a step of Newton's method may be far too long
RIDGE = 1e-12  # times the number of games, on the diagonal: what the games do not determine keeps its start
FAR = 20.0  # natural units; a parameter beyond counts as infinite: fewer than one game in 10^8 contradicts it
EXTREME_DRAWS = 50.0  # the draw parameter when no game was drawn, or with the other sign when all were

# The coefficients of the strengths in seats 0 and 1, the seat and the draws in the utility of each result of seat 0.
SHARES = np.zeros((3, 4))
SHARES[LOSS] = 0, 1, 0, 0
SHARES[DRAW] = 0.5, 0.5, 0.5, 1
SHARES[WIN] = 1, 0, 1, 0

_NUMBERS, _VECTOR, _MATRIX = types.int64[::1], types.float64[::1], types.float64[:, ::1]


class SeatGames(NamedTuple):
    """Counts of games by the agents of both seats and the result of seat 0, in ``M`` rows."""

    zero: NDArray[np.int64]  # [M] index of the agent in seat 0
    one: NDArray[np.int64]  # [M] index of the agent in seat 1, a different one
    counts: NDArray[np.float64]  # [M, 3] LOSS, DRAW, WIN of seat 0


class Fit(NamedTuple):
    """The most likely parameters, in natural units; strengths compare within a component only."""

    strengths: NDArray[np.float64]  # [A]
    seat: float  # infinite if seat 0 took all points or none; NaN if no game counts
    draws: float  # within EXTREME_DRAWS; NaN if no game counts
    above: NDArray[np.bool_]  # [A, A] whether a chain of points leads from row to column; both ways within a component

    @property
    def seat_decides(self) -> bool:
        """Whether the seat decides every game, so that all strengths are equally likely."""
        return bool(np.isinf(self.seat) and self.draws < 0)


def fit(agents: int, games: SeatGames, near: Fit | None = None) -> Fit:
    """The maximum of the likelihood: strengths for each component by itself, one seat and one draw parameter for all.

    The search starts at ``near``, a fit to similar games, if it is given: this only saves time.
    """
    above = _points(agents, games)
    within = (above & above.T)[games.zero, games.one]
    zero, one, counts = games.zero[within], games.one[within], games.counts[within]
    if not counts.sum():
        return Fit(np.zeros(agents), np.nan, np.nan, above)
    start = np.zeros(agents + 2)
    losses, draws, wins = counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        start[-1] = np.clip(np.log(2 * draws) - np.log(losses + wins), -EXTREME_DRAWS, EXTREME_DRAWS)
    if near is not None and np.isfinite([near.seat, near.draws]).all() and abs(start[-1]) < EXTREME_DRAWS:
        start = np.array([*near.strengths, near.seat, near.draws])
    found = _newton(zero, one, counts, start, _penalty(above, counts.sum()))
    seat = found[-2] if abs(found[-2]) <= FAR else np.copysign(np.inf, found[-2])
    return Fit(found[:-2], float(seat), float(found[-1]), above)


def reachable(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[A, A] whether a path of ``edges`` [A, A] leads from row to column; every agent reaches itself."""
    joined: NDArray[np.bool_] = edges | np.eye(len(edges), dtype=np.bool_)
    while True:
        steps = joined.astype(np.float32)
        longer = steps @ steps > 0
        if (longer == joined).all():
            return joined
        joined = longer


def _points(agents: int, games: SeatGames) -> NDArray[np.bool_]:
    """[A, A] whether a chain of points leads from row to column."""
    scored = np.zeros((agents, agents), np.bool_)
    some = games.counts > 0
    for results, scorer, other in (((WIN, DRAW), games.zero, games.one), ((LOSS, DRAW), games.one, games.zero)):
        did = some[:, results].any(axis=1)
        scored[scorer[did], other[did]] = True
    return reachable(scored)


def _penalty(above: NDArray[np.bool_], games: float) -> NDArray[np.float64]:
    """[A + 2, A + 2] a penalty that fixes the mean of each component, on which the likelihood does not depend."""
    size = len(above) + 2
    penalty = RIDGE * games * np.eye(size)
    penalty[:-2, :-2] += games / len(above) * (above & above.T)
    return penalty


@kernel(_VECTOR(_NUMBERS, _NUMBERS, _MATRIX, _VECTOR, _MATRIX))
def _newton(
    zero: NDArray[np.int64],
    one: NDArray[np.int64],
    counts: NDArray[np.float64],
    start: NDArray[np.float64],
    penalty: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The parameters [A + 2] that Newton's method finds from ``start``; ``penalty`` is added to the curvature."""
    found, likelihood = start, _likelihood(zero, one, counts, start)
    for _ in range(ROUNDS):
        slope, curvature = np.zeros(len(start)), penalty.copy()
        for row in range(len(counts)):
            _add_row(zero[row], one[row], counts[row], found, slope, curvature)
        _solve(curvature, slope)
        step = slope * min(1.0, LONGEST_STEP / max(np.abs(slope).max(), 1e-300))
        ahead = _likelihood(zero, one, counts, found + step)
        while ahead < likelihood - 1e-9 * abs(likelihood) and np.abs(step).max() > PRECISION:
            step = step / 2
            ahead = _likelihood(zero, one, counts, found + step)
        found, likelihood = found + step, ahead
        if np.abs(step).max() < PRECISION or np.abs(found[:-1]).max() > FAR + LONGEST_STEP:
            break
    return found


@inlined
def _chances(at: NDArray[np.float64], zero: int, one: int) -> tuple[float, float, float]:
    """The probabilities that seat 0 loses, draws and wins."""
    low, high, draws = at[one], at[zero] + at[-2], at[-1]
    most = max(low, high, (low + high) / 2 + draws)
    loss, draw, win = math.exp(low - most), math.exp((low + high) / 2 + draws - most), math.exp(high - most)
    return loss / (loss + draw + win), draw / (loss + draw + win), win / (loss + draw + win)


@inlined
def _likelihood(
    zero: NDArray[np.int64], one: NDArray[np.int64], counts: NDArray[np.float64], at: NDArray[np.float64]
) -> float:
    """The logarithm of the likelihood."""
    total = 0.0
    for row in range(len(counts)):
        chances = _chances(at, zero[row], one[row])
        for result in range(3):
            if counts[row, result] > 0:
                total += counts[row, result] * math.log(chances[result])
    return total


@inlined
def _add_row(
    zero: int,
    one: int,
    counts: NDArray[np.float64],
    at: NDArray[np.float64],
    slope: NDArray[np.float64],
    curvature: NDArray[np.float64],
) -> None:
    """Add what the games of two agents give to the gradient of the log-likelihood and to its negative curvature."""
    indices, chances, games = (zero, one, len(at) - 2, len(at) - 1), _chances(at, zero, one), counts.sum()
    for p in range(4):
        mean = chances[0] * SHARES[0, p] + chances[1] * SHARES[1, p] + chances[2] * SHARES[2, p]
        for result in range(3):
            slope[indices[p]] += (counts[result] - games * chances[result]) * SHARES[result, p]
        for q in range(4):
            for result in range(3):
                share = SHARES[result, q] * games * chances[result]
                curvature[indices[p], indices[q]] += share * (SHARES[result, p] - mean)


@inlined
def _solve(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Replace ``right`` by the x with ``matrix`` x = ``right``, and a positive definite ``matrix`` by its factor.

    The factor is Cholesky's, below the diagonal and on it. LAPACK would need SciPy in a kernel.
    """
    for i in range(len(right)):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(rest) if i == j else rest / matrix[j, j]
        for k in range(i):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    for i in range(len(right) - 1, -1, -1):
        for k in range(i + 1, len(right)):
            right[i] -= matrix[k, i] * right[k]
        right[i] /= matrix[i, i]
