"""Davidson's model of paired comparisons with draws and a seat: its likelihood, the maximum, and what has none.

Of agents with strengths a in seat 0 and b in seat 1, in natural units,

    P(seat 0 wins) : P(draw) : P(seat 1 wins) = exp(a + s) : exp(d + (a + s + b) / 2) : exp(b)

with one seat parameter s and one draw parameter d for all. R. A. Bradley and M. E. Terry, "Rank analysis of incomplete
block designs", Biometrika 39 (1952); R. R. Davidson, "On extending the Bradley-Terry model to accommodate ties", JASA
65 (1970); R. R. Davidson and R. J. Beaver, "On extending the Bradley-Terry model to incorporate within-pair order
effects", Biometrics 33 (1977). It is a multinomial logit, so the likelihood has one maximum at most: Newton's method
finds it.

Who took every point from others has no finite strength over them (L. R. Ford, "Solution of a ranking problem from
binary comparisons", American Mathematical Monthly 64, 1957). Agents are therefore put into components first: within
one, chains of points lead from everybody to everybody. Games between components are as likely as can be once the
components are infinitely far apart, so they leave the fit and decide only who is above whom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.tally import DRAW, LOSS, WIN

ROUNDS = 100
PRECISION = 1e-10  # natural units
BOLD = 2.0  # natural units: the longest step, since far from the maximum Newton's may be wild
FIRM = 1e-12  # of all games, on the diagonal: a direction about which they say nothing stays where it is
FAR = 20.0  # natural units; a parameter beyond is on its way to infinity: fewer than one game in 10^8 goes against it
NEVER = 50.0  # the draw parameter when no game was drawn, or with the other sign when all were

# What the utility of each result of seat 0 takes of the strengths in seat 0 and seat 1, the seat's and the draws'.
SHARES = np.zeros((3, 4))
SHARES[LOSS] = 0, 1, 0, 0
SHARES[DRAW] = 0.5, 0.5, 0.5, 1
SHARES[WIN] = 1, 0, 1, 0
PRODUCTS = np.einsum("op,oq->opq", SHARES, SHARES).reshape(3, 16)


class SeatGames(NamedTuple):
    """Counts of games by the agents of both seats and the result of seat 0; ``M`` such meetings."""

    zero: NDArray[np.int64]  # [M] number of the agent in seat 0
    one: NDArray[np.int64]  # [M] and in seat 1, another one
    counts: NDArray[np.float64]  # [M, 3] LOSS, DRAW, WIN of seat 0


class Fit(NamedTuple):
    """The most likely parameters, in natural units; strengths compare within a component only."""

    strengths: NDArray[np.float64]  # [A]
    seat: float  # infinite if seat 0 took every point that counts, or none; NaN if no game says anything about it
    draws: float  # within NEVER; NaN if no game says anything about it
    above: NDArray[np.bool_]  # [A, A] a chain of points leads from row to column; both ways within a component

    @property
    def seat_decides(self) -> bool:
        """Whether the seat decides every game: then any strengths are as likely. How often games draw would tell."""
        return bool(np.isinf(self.seat) and self.draws < 0)


def fit(agents: int, games: SeatGames, near: Fit | None = None) -> Fit:
    """The maximum of the likelihood, for each component by itself with the seat and the draws in common.

    ``near``, a fit to similar games, is where the search begins: it only saves time.
    """
    above = _points(agents, games)
    within = (above & above.T)[games.zero, games.one]
    zero, one, counts = games.zero[within], games.one[within], games.counts[within]
    if not counts.sum():
        return Fit(np.zeros(agents), np.nan, np.nan, above)
    places = np.stack([zero, one, np.full_like(zero, agents), np.full_like(zero, agents + 1)], axis=1)
    start = np.zeros(agents + 2)
    losses, draws, wins = counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        start[-1] = np.clip(np.log(2 * draws) - np.log(losses + wins), -NEVER, NEVER)
    if near is not None and np.isfinite([near.seat, near.draws]).all() and abs(start[-1]) < NEVER:
        start = np.array([*near.strengths, near.seat, near.draws])
    found = _climb(places, counts, start, _pins(above, counts.sum()))
    seat = found[-2] if abs(found[-2]) <= FAR else np.copysign(np.inf, found[-2])
    return Fit(found[:-2], float(seat), float(found[-1]), above)


def reachable(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which agents are joined by paths of ``edges`` [A, A], each with itself."""
    joined: NDArray[np.bool_] = edges | np.eye(len(edges), dtype=np.bool_)
    while True:
        steps = joined.astype(np.float32)
        longer = steps @ steps > 0
        if (longer == joined).all():
            return joined
        joined = longer


def _points(agents: int, games: SeatGames) -> NDArray[np.bool_]:
    """Between whom a chain of points leads, from row to column."""
    scored = np.zeros((agents, agents), np.bool_)
    some = games.counts > 0
    for results, scorer, other in (((WIN, DRAW), games.zero, games.one), ((LOSS, DRAW), games.one, games.zero)):
        did = some[:, results].any(axis=1)
        scored[scorer[did], other[did]] = True
    return reachable(scored)


def _pins(above: NDArray[np.bool_], games: float) -> NDArray[np.float64]:
    """What holds the mean of each component: the likelihood does not depend on it. [A + 2, A + 2]."""
    size = len(above) + 2
    pins = FIRM * games * np.eye(size)
    pins[:-2, :-2] += games / len(above) * (above & above.T)
    return pins


def _climb(
    places: NDArray[np.int64], counts: NDArray[np.float64], start: NDArray[np.float64], pins: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method from ``start``. ``places`` [M, 4]: where a meeting's four parameters are."""
    found, (likelihood, shares) = start, _likelihood(places, counts, start)
    for _ in range(ROUNDS):
        step = _step(places, counts, shares, pins)
        step *= min(1.0, BOLD / max(np.abs(step).max(), 1e-300))
        ahead, then = _likelihood(places, counts, found + step)
        while ahead < likelihood - 1e-9 * abs(likelihood) and np.abs(step).max() > PRECISION:
            step /= 2
            ahead, then = _likelihood(places, counts, found + step)
        found, likelihood, shares = found + step, ahead, then
        if np.abs(step).max() < PRECISION or np.abs(found[:-1]).max() > FAR + BOLD:
            break
    return found


def _likelihood(
    places: NDArray[np.int64], counts: NDArray[np.float64], at: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The logarithm of the likelihood, and how likely each result is: [M, 3]."""
    utilities = np.einsum("mp,op->mo", at[places], SHARES)
    utilities -= utilities.max(axis=1, keepdims=True)
    weights = np.exp(utilities)
    total = weights.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = weights / total
    return float((counts * (utilities - np.log(total))).sum()), shares


def _step(
    places: NDArray[np.int64], counts: NDArray[np.float64], shares: NDArray[np.float64], pins: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's: the slope of the logarithm of the likelihood over its curvature."""
    size, games = len(pins), counts.sum(axis=1, keepdims=True)
    # einsum and not @: products with so few columns only wake the threads of a linear algebra library.
    mean = np.einsum("mo,op->mp", shares, SHARES)
    slopes = np.einsum("mo,op->mp", counts - games * shares, SHARES)
    curvatures = games * (
        np.einsum("mo,op->mp", shares, PRODUCTS) - np.einsum("mp,mq->mpq", mean, mean).reshape(-1, 16)
    )
    cells = (places[:, :, None] * size + places[:, None, :]).ravel()
    slope = np.bincount(places.ravel(), slopes.ravel(), size).astype(np.float64)
    information = np.bincount(cells, curvatures.ravel(), size * size).astype(np.float64).reshape(size, size)
    return _solved(information + pins, slope)


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x with ``matrix`` x = ``right``, for a positive definite matrix.

    By Cholesky's factors: LAPACK's general solver wakes threads, which cost forty times the work on a busy machine.
    """
    factor, found = np.linalg.cholesky(matrix), right.astype(np.float64)
    for i in range(len(found)):
        found[i] = (found[i] - factor[i, :i] @ found[:i]) / factor[i, i]
    for i in reversed(range(len(found))):
        found[i] = (found[i] - factor[i + 1 :, i] @ found[i + 1 :]) / factor[i, i]
    return found
