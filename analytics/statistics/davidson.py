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
from quarto.jit import kernel

ROUNDS = 100
PRECISION = 1e-6  # natural units, of the last step; near the maximum, the remaining error is about its square
LONGEST_STEP = 2.0  # natural units: far from the maximum, a step of Newton's method may be far too long
RIDGE = 1e-12  # times the number of games, on the diagonal: what the games do not determine keeps its start
FARTHEST_FINITE = (
    20.0  # natural units; a parameter beyond counts as infinite: fewer than one game in 10^8 contradicts it
)
EXTREME_DRAWS = 50.0  # minus the draw parameter if no game was drawn, or the draw parameter if all were drawn

_NUMBERS, _VECTOR, _MATRIX = types.int64[::1], types.float64[::1], types.float64[:, ::1]


class SeatCounts(NamedTuple):
    """Counts of games in ``M`` rows, each with the agent in seat 0, the agent in seat 1, and the results for seat 0."""

    zero: NDArray[np.int64]  # [M] index of the agent in seat 0
    one: NDArray[np.int64]  # [M] index of the agent in seat 1, a different one
    counts: NDArray[np.float64]  # [M, 3] LOSS, DRAW, WIN of seat 0


class DavidsonFit(NamedTuple):
    """The most likely parameters of Davidson's model, in natural units (logits, not Elo).

    Strengths can be compared only within a component: a set of agents in which a chain of points leads from every agent
    to every other one. In a chain of points, each agent scored at least half a point against the next one.
    """

    strengths: NDArray[np.float64]  # [A]
    seat: float  # infinite if seat 0 took all points or none; NaN if no game counts
    draws: float  # within EXTREME_DRAWS; NaN if no game counts
    above: NDArray[np.bool_]  # [A, A] whether a chain of points leads from row to column; both ways within a component

    @property
    def seat_decides(self) -> bool:
        """Whether the same seat wins every game, so that the games say nothing about the strengths."""
        return bool(np.isinf(self.seat) and self.draws < 0)


def fit_davidson(agent_count: int, games: SeatCounts, initial_fit: DavidsonFit | None = None) -> DavidsonFit:
    """Fit a strength for each agent, one seat parameter and one draw parameter by maximum likelihood.

    Strengths can be compared only within a component (see ``DavidsonFit``). The search starts at ``initial_fit``, a fit
    to similar games, if this is given. This saves time and does not change the result.
    """
    above = _find_point_chains(agent_count, games)
    within = (above & above.T)[games.zero, games.one]
    zero, one, counts = games.zero[within], games.one[within], games.counts[within]
    if not counts.sum():
        return DavidsonFit(np.zeros(agent_count), np.nan, np.nan, above)
    start = np.zeros(agent_count + 2)
    losses, draws, wins = counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        start[-1] = np.clip(np.log(2 * draws) - np.log(losses + wins), -EXTREME_DRAWS, EXTREME_DRAWS)
    if (
        initial_fit is not None
        and np.isfinite([initial_fit.seat, initial_fit.draws]).all()
        and abs(start[-1]) < EXTREME_DRAWS
    ):
        start = np.array([*initial_fit.strengths, initial_fit.seat, initial_fit.draws])
    parameters = _maximize_by_newton(SeatCounts(zero, one, counts), start, _mean_penalty(above, counts.sum()))
    seat = parameters[-2] if abs(parameters[-2]) <= FARTHEST_FINITE else np.copysign(np.inf, parameters[-2])
    return DavidsonFit(parameters[:-2], float(seat), float(parameters[-1]), above)


def transitive_closure(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, as an array [A, A], whether a path of ``edges`` [A, A] leads from the row's agent to the column's agent.

    Each agent reaches itself. The algorithm is Warshall's ("A theorem on Boolean matrices", JACM 9, 1962). Rows are
    packed into bytes of eight agents each.
    """
    agents = len(edges)
    if _reaches_all_from_first(edges) and _reaches_all_from_first(edges.T):  # all meet: nearly every sample of games
        return np.ones((agents, agents), np.bool_)
    rows = np.packbits(edges | np.eye(agents, dtype=np.bool_), axis=1)
    for agent in range(agents):
        through = rows[:, agent // 8] & (128 >> agent % 8) != 0
        rows[through] |= rows[agent]
    return np.unpackbits(rows, axis=1, count=agents).astype(np.bool_)


def _reaches_all_from_first(edges: NDArray[np.bool_]) -> bool:
    """Return whether paths of ``edges`` [A, A] lead from the first agent to all others, or there is no agent."""
    reached = np.zeros(len(edges), np.bool_)
    newest = np.arange(len(edges)) == 0
    while newest.any():
        reached |= newest
        newest = edges[newest].any(axis=0) & ~reached
    return bool(reached.all())


def _find_point_chains(agent_count: int, games: SeatCounts) -> NDArray[np.bool_]:
    """Return, as an array [A, A], whether a chain of points leads from the row's agent to the column's agent.

    In a chain of points, each agent scored against the next one.
    """
    scored = np.zeros((agent_count, agent_count), np.bool_)
    some = games.counts > 0
    for results, scorer, other in (((WIN, DRAW), games.zero, games.one), ((LOSS, DRAW), games.one, games.zero)):
        did = some[:, results].any(axis=1)
        scored[scorer[did], other[did]] = True
    return transitive_closure(scored)


def _mean_penalty(above: NDArray[np.bool_], games: float) -> NDArray[np.float64]:
    """Return a penalty matrix [A + 2, A + 2] that fixes the mean strength of each component.

    The penalty is needed because the likelihood does not depend on these means. ``above`` is ``DavidsonFit.above``,
    which determines the components (see ``DavidsonFit``), and ``games`` is the number of games.
    """
    size = len(above) + 2
    penalty = RIDGE * games * np.eye(size)
    penalty[:-2, :-2] += games / len(above) * (above & above.T)
    return penalty


def _maximize_by_newton(
    games: SeatCounts, start: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Maximize the log-likelihood by Newton's method from ``start``, and return the parameters [A + 2].

    The parameters are the strengths of the A agents, the seat parameter and the draw parameter. ``penalty`` [A + 2, A +
    2] is added to the negative Hessian, but not to the gradient. It therefore keeps steps finite in directions that the
    games do not determine, and does not move the maximum.
    """
    parameters, slope, curvature = start, np.empty(len(start)), np.empty_like(penalty)
    least_pivot = RIDGE * games.counts.sum()  # no eigenvalue of the curvature is less than that of the ridge

    def evaluate(parameters: NDArray[np.float64]) -> float:
        slope[:], curvature[:] = 0, penalty
        return float(_add_log_likelihood(games.zero, games.one, games.counts, parameters, slope, curvature))

    likelihood = evaluate(parameters)
    for _ in range(ROUNDS):
        step = slope.copy()
        _solve_symmetric(curvature, step, least_pivot)
        step *= min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        ahead = evaluate(parameters + step)
        while ahead < likelihood - 1e-9 * abs(likelihood) and np.abs(step).max() > PRECISION:
            step /= 2
            ahead = evaluate(parameters + step)
        parameters, likelihood = parameters + step, ahead
        if np.abs(step).max() < PRECISION or np.abs(parameters[:-1]).max() > FARTHEST_FINITE + LONGEST_STEP:
            break
    return parameters


@kernel(types.void(_MATRIX, _VECTOR, types.float64))
def _solve_symmetric(matrix: NDArray[np.float64], vector: NDArray[np.float64], least_pivot: float) -> None:
    """Replace ``vector`` [N] by the solution x of ``matrix`` x = ``vector``, and overwrite the matrix [N, N].

    The matrix is symmetric, and only its diagonal and the half below are read. All its eigenvalues, and so all pivots,
    are at least ``least_pivot``, which is above 0; a pivot that rounding made smaller is raised to it.

    This is a decomposition L D L^T (G. H. Golub and C. F. Van Loan, "Matrix Computations", section 4.1.2). NumPy's own
    solver divides the work between threads, which wait for each other in a loop: on a busy machine a step for a hundred
    agents took 0.2 s instead of 0.2 ms. This one also gives the same digits on every machine.
    """
    size = len(vector)
    column = np.empty(size)
    for at in range(size):
        pivot = max(matrix[at, at], least_pivot)
        matrix[at, at] = pivot
        for row in range(at + 1, size):
            column[row] = matrix[row, at]
        for row in range(at + 1, size):
            factor = column[row] / pivot
            matrix[row, at] = factor
            vector[row] -= factor * vector[at]
            for other in range(at + 1, row + 1):
                matrix[row, other] -= factor * column[other]
    for at in range(size - 1, -1, -1):
        vector[at] /= matrix[at, at]
        for row in range(at + 1, size):
            vector[at] -= matrix[row, at] * vector[row]


@kernel(types.float64(_NUMBERS, _NUMBERS, _MATRIX, _VECTOR, _VECTOR, _MATRIX))
def _add_log_likelihood(
    zero: NDArray[np.int64],
    one: NDArray[np.int64],
    counts: NDArray[np.float64],
    parameters: NDArray[np.float64],
    slope: NDArray[np.float64],
    curvature: NDArray[np.float64],
) -> float:
    """Return the log-likelihood; add its gradient to ``slope`` and its negative Hessian to ``curvature``.

    ``zero``, ``one`` and ``counts`` are the fields of ``SeatCounts``. ``parameters`` [A + 2] has the strengths of the A
    agents, the seat parameter and the draw parameter d. Only the diagonal of ``curvature`` and the half below the
    diagonal are written.

    If x is half of seat 0's advantage, the probabilities of a win of seat 1, a draw and a win of seat 0 have the ratio
    exp(-x) : exp(d) : exp(x), so each row of counts needs only one exponential and one logarithm. The derivative with
    respect to the strength of seat 0 equals the derivative with respect to the seat parameter, and is the negative of
    the derivative with respect to the strength of seat 1.
    """
    seat, draws, total = len(parameters) - 2, len(parameters) - 1, 0.0
    drawn = math.exp(parameters[draws])
    for row in range(len(counts)):
        first, second = zero[row], one[row]
        losses, drawings, wins = counts[row, LOSS], counts[row, DRAW], counts[row, WIN]
        games, ahead = losses + drawings + wins, (parameters[first] - parameters[second] + parameters[seat]) / 2
        winning = math.exp(ahead)
        normaliser = 1 / winning + drawn + winning
        win, draw = winning / normaliser, drawn / normaliser
        total += (wins - losses) * ahead + drawings * parameters[draws] - games * math.log(normaliser)
        points = win + draw / 2  # that seat 0 expects
        rise, draw_rise = wins + drawings / 2 - games * points, drawings - games * draw
        slope[first] += rise
        slope[second] -= rise
        slope[seat] += rise
        slope[draws] += draw_rise
        bend, mixed = games * (win + draw / 4 - points * points), games * draw * (0.5 - points)
        curvature[first, first] += bend
        curvature[second, second] += bend
        curvature[max(first, second), min(first, second)] -= bend
        curvature[seat, first] += bend
        curvature[seat, second] -= bend
        curvature[seat, seat] += bend
        curvature[draws, first] += mixed
        curvature[draws, second] -= mixed
        curvature[draws, seat] += mixed
        curvature[draws, draws] += games * draw * (1 - draw)
    return total
