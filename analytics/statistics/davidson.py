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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.tally import DRAW, LOSS, WIN

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
PRODUCTS = np.einsum("op,oq->opq", SHARES, SHARES).reshape(3, 16)


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
    indices = np.stack([zero, one, np.full_like(zero, agents), np.full_like(zero, agents + 1)], axis=1)
    start = np.zeros(agents + 2)
    losses, draws, wins = counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        start[-1] = np.clip(np.log(2 * draws) - np.log(losses + wins), -EXTREME_DRAWS, EXTREME_DRAWS)
    if near is not None and np.isfinite([near.seat, near.draws]).all() and abs(start[-1]) < EXTREME_DRAWS:
        start = np.array([*near.strengths, near.seat, near.draws])
    found = _newton(indices, counts, start, _penalty(above, counts.sum()))
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


def _newton(
    indices: NDArray[np.int64], counts: NDArray[np.float64], start: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method from ``start``. ``indices`` [M, 4]: the indices of the four parameters of each row of games."""
    found, (likelihood, shares) = start, _likelihood(indices, counts, start)
    for _ in range(ROUNDS):
        step = _step(indices, counts, shares, penalty)
        step *= min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        ahead, then = _likelihood(indices, counts, found + step)
        while ahead < likelihood - 1e-9 * abs(likelihood) and np.abs(step).max() > PRECISION:
            step /= 2
            ahead, then = _likelihood(indices, counts, found + step)
        found, likelihood, shares = found + step, ahead, then
        if np.abs(step).max() < PRECISION or np.abs(found[:-1]).max() > FAR + LONGEST_STEP:
            break
    return found


def _likelihood(
    indices: NDArray[np.int64], counts: NDArray[np.float64], at: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The log-likelihood, and the probability of each result, [M, 3]."""
    utilities = np.einsum("mp,op->mo", at[indices], SHARES)
    utilities -= utilities.max(axis=1, keepdims=True)
    weights = np.exp(utilities)
    total = weights.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = weights / total
    return float((counts * (utilities - np.log(total))).sum()), shares


def _step(
    indices: NDArray[np.int64], counts: NDArray[np.float64], shares: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A step of Newton's method: the gradient of the log-likelihood over its curvature."""
    size, games = len(penalty), counts.sum(axis=1, keepdims=True)
    # einsum, not @: for so few columns it is faster than waking the threads of a linear algebra library.
    mean = np.einsum("mo,op->mp", shares, SHARES)
    slopes = np.einsum("mo,op->mp", counts - games * shares, SHARES)
    curvatures = games * (
        np.einsum("mo,op->mp", shares, PRODUCTS) - np.einsum("mp,mq->mpq", mean, mean).reshape(-1, 16)
    )
    cells = (indices[:, :, None] * size + indices[:, None, :]).ravel()
    slope = np.bincount(indices.ravel(), slopes.ravel(), size).astype(np.float64)
    information = np.bincount(cells, curvatures.ravel(), size * size).astype(np.float64).reshape(size, size)
    return _solve(information + penalty, slope)


def _solve(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x with ``matrix`` x = ``right``, for a positive definite matrix.

    It uses Cholesky's factors: LAPACK's general solver wakes threads, which takes forty times as long on a busy one.
    """
    factor, found = np.linalg.cholesky(matrix), right.astype(np.float64)
    for i in range(len(found)):
        found[i] = (found[i] - factor[i, :i] @ found[:i]) / factor[i, i]
    for i in reversed(range(len(found))):
        found[i] = (found[i] - factor[i + 1 :, i] @ found[i + 1 :]) / factor[i, i]
    return found
