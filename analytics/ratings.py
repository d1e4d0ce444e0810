"""One joint fit over all games chosen: how strong each agent is, what the first seat is worth, how often games draw.

The model is Davidson's extension of Bradley-Terry to draws, with an order effect: of agents with strengths a in seat 0
and b in seat 1, in natural units,

    P(seat 0 wins) : P(draw) : P(seat 1 wins) = exp(a + s) : exp(d + (a + s + b) / 2) : exp(b)

with one seat parameter s and one draw parameter d for all. R. A. Bradley and M. E. Terry, "Rank analysis of incomplete
block designs", Biometrika 39 (1952); R. R. Davidson, "On extending the Bradley-Terry model to accommodate ties", JASA
65 (1970); R. R. Davidson and R. J. Beaver, "On extending the Bradley-Terry model to incorporate within-pair order
effects", Biometrics 33 (1977). It is a multinomial logit, so the likelihood has one maximum: Newton's method finds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analytics.statistics import CONFIDENCE, Estimate
from analytics.tally import DRAW, LOSS, WIN, Tally
from quarto.errors import RequestError

ELO = 400 / math.log(10)  # Elo points for one natural unit
ROUNDS = 100
PRECISION = 1e-10  # natural units
FIRM = (
    1e-9  # added to the diagonal of the information: directions about which the games say nothing stay where they are
)
SAMPLES = 200

Meetings = Mapping[tuple[str, str], Tally]  # by first and second agent


@dataclass(frozen=True)
class Rating:
    """One agent's place."""

    agent: str
    elo: Estimate  # over the anchor's; its interval is the bootstrap's
    games: int
    group: int  # agents of different groups never met, not even through others: their ratings cannot be compared
    bounded: bool  # False: it won, or lost, all its games against the rest of its group, so its rating has no bound


@dataclass(frozen=True)
class Ratings:
    """The fit. Agents best first within each group, larger groups first."""

    ratings: tuple[Rating, ...]
    seat: Estimate  # what seat 0 is worth, in Elo
    draws: Estimate  # share of draws between equals
    superiority: NDArray[np.float64]  # [A, A] in the order of ``ratings``: how sure it is that row is above column

    @property
    def groups(self) -> int:
        return len({rating.group for rating in self.ratings})


@dataclass(frozen=True)
class _Games:
    """Counts of games by the agents of seat 0 and 1 and the result of seat 0."""

    zero: NDArray[np.int64]  # [M] agents' numbers
    one: NDArray[np.int64]  # [M]
    counts: NDArray[np.float64]  # [M, 3] LOSS, DRAW, WIN of seat 0


def rate(
    meetings: Meetings,
    anchor: str | None = None,
    anchor_elo: float = 0.0,
    confidence: float = CONFIDENCE,
    samples: int = SAMPLES,
    seed: int = 1,
) -> Ratings:
    """Fit all meetings together; intervals from ``samples`` bootstrap samples of pairs.

    Ratings are those over ``anchor``, which has ``anchor_elo``; a group without it has mean ``anchor_elo``. Raises
    ``RequestError`` for an anchor that did not play, and when nobody met anybody else.
    """
    meetings = {agents: tally for agents, tally in meetings.items() if agents[0] != agents[1] and tally.games}
    agents = sorted({agent for pair in meetings for agent in pair})
    if not agents:
        raise RequestError("there are no games between different agents: choose others, or play some")
    if anchor is not None and anchor not in agents:
        raise RequestError(f"anchor {anchor!r} played none of the games chosen: name one of {', '.join(agents)}")
    numbers = {agent: number for number, agent in enumerate(agents)}
    games = _games(meetings, numbers)
    groups = _groups(len(agents), games)
    centres = _centres(groups, numbers.get(anchor) if anchor else None)
    fitted = _fit(len(agents), games)
    dice = np.random.default_rng(seed)
    resampled = [_fit(len(agents), _games(sample, numbers), fitted) for sample in _samples(meetings, samples, dice)]
    drawn = np.array([_elos(each, groups, centres) for each in resampled]).reshape(samples, len(agents))
    elos = _elos(fitted, groups, centres)
    order = _order(elos, groups)
    played = _played(len(agents), games)
    bounded = _bounded(groups, games)
    spread = np.quantile(drawn, _tails(confidence), axis=0) if samples else np.stack([elos, elos])
    found = [
        Rating(
            agents[i],
            Estimate(*(float(value) + anchor_elo for value in (elos[i], spread[0, i], spread[1, i]))),
            int(played[i]),
            int(groups[i]),
            bool(bounded[i]),
        )
        for i in order
    ]
    above = (drawn[:, :, None] > drawn[:, None, :]).mean(axis=0) if samples else np.sign(elos[:, None] - elos) / 2 + 0.5
    above[np.diag_indices(len(agents))] = 0.5
    return Ratings(
        tuple(found),
        _estimate(fitted[-2] * ELO, [each[-2] * ELO for each in resampled], confidence),
        _estimate(_share_of_draws(fitted[-1]), [_share_of_draws(each[-1]) for each in resampled], confidence),
        above[np.ix_(order, order)],
    )


def _games(meetings: Meetings, numbers: Mapping[str, int]) -> _Games:
    """Each meeting as the games in which its first agent held seat 0 and those in which the second one did."""
    rows, counts = [], []
    for (first, second), tally in meetings.items():
        losses, draws, wins = tally.results(1)
        rows += [(numbers[first], numbers[second]), (numbers[second], numbers[first])]
        counts += [tally.results(0), (wins, draws, losses)]
    pairs = np.array(rows, np.int64)
    return _Games(pairs[:, 0], pairs[:, 1], np.array(counts, np.float64))


def _samples(meetings: Meetings, samples: int, dice: np.random.Generator) -> Iterator[Meetings]:
    """The meetings anew, with as many pairs drawn with replacement from each."""
    for _ in range(samples):
        yield {agents: _redrawn(tally, dice) for agents, tally in meetings.items()}


def _redrawn(tally: Tally, dice: np.random.Generator) -> Tally:
    """A bootstrap sample of a tally's pairs, or of its games where they come alone."""
    cells = np.array([count for row in (*tally.pairs, *tally.singles) for count in row], np.float64)
    drawn = dice.multinomial(int(cells.sum()), cells / cells.sum()).reshape(5, 3).tolist()
    rows = [(loss, draw, win) for loss, draw, win in drawn]
    return Tally(pairs=(rows[0], rows[1], rows[2]), singles=(rows[3], rows[4]))


def _fit(agents: int, games: _Games, start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Strengths, then the seat's and the draws' parameter: [A + 2] float64, in natural units."""
    fitted = np.zeros(agents + 2) if start is None else start.copy()
    features = _features(agents, games)
    total = games.counts.sum(axis=1)
    for _ in range(ROUNDS):
        utilities = features @ fitted  # [M, 3]
        shares = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        mean = np.einsum("mo,mop->mp", shares, features)
        slope = np.einsum("mo,mop->p", games.counts, features) - total @ mean
        around = features - mean[:, None, :]
        information = np.einsum("m,mo,mop,moq->pq", total, shares, around, around, optimize=True)
        step = np.linalg.solve(information + FIRM * total.sum() * np.eye(agents + 2), slope)
        step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))  # far from the maximum Newton's step may be wild
        fitted += step
        if np.abs(step).max() < PRECISION:
            break
    return fitted


def _features(agents: int, games: _Games) -> NDArray[np.float64]:
    """[M, 3, A + 2]: what each outcome's utility takes of each parameter."""
    features, meeting = np.zeros((len(games.zero), 3, agents + 2)), np.arange(len(games.zero))
    for outcome, of_zero, of_one in ((WIN, 1.0, 0.0), (DRAW, 0.5, 0.5), (LOSS, 0.0, 1.0)):
        features[meeting, outcome, games.zero] += of_zero
        features[meeting, outcome, games.one] += of_one
        features[:, outcome, agents] = of_zero
    features[:, DRAW, agents + 1] = 1.0
    return features


def _groups(agents: int, games: _Games) -> NDArray[np.int64]:
    """The number of each agent's group, 0 the largest: agents joined by games, directly or through others."""
    met = np.eye(agents, dtype=np.bool_)
    met[games.zero, games.one] = met[games.one, games.zero] = True
    reached = _reachable(met)
    roots = reached.argmax(axis=1)
    sizes = np.bincount(roots, minlength=agents)
    by_size = sorted(set(roots.tolist()), key=lambda root: (-sizes[root], root))
    return np.array([by_size.index(root) for root in roots.tolist()])


def _reachable(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which agents are joined by paths of ``edges`` [A, A], each with itself."""
    while True:
        longer = (edges.astype(np.int64) @ edges.astype(np.int64)) > 0
        if (longer == edges).all():
            return edges
        edges = longer


def _bounded(groups: NDArray[np.int64], games: _Games) -> NDArray[np.bool_]:
    """Whether an agent has a bound: chains of points lead from it to most of its group and back (L. R. Ford)."""
    scored = np.eye(len(groups), dtype=np.bool_)
    some = games.counts > 0
    zero_scored, one_scored = some[:, WIN] | some[:, DRAW], some[:, LOSS] | some[:, DRAW]
    scored[games.zero[zero_scored], games.one[zero_scored]] = True
    scored[games.one[one_scored], games.zero[one_scored]] = True
    both = _reachable(scored)
    both &= both.T
    largest = np.array([max(both[groups == group].sum(axis=1)) for group in groups])
    bounded: NDArray[np.bool_] = both.sum(axis=1) == largest
    return bounded


def _centres(groups: NDArray[np.int64], anchor: int | None) -> list[NDArray[np.int64]]:
    """The agents of each group whose mean rating is the anchor's."""
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    return [np.array([anchor]) if anchor is not None and anchor in group else group for group in members]


def _elos(
    fitted: NDArray[np.float64], groups: NDArray[np.int64], centres: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Each agent's strength over the centre of its group: [A] Elo."""
    strengths = fitted[:-2] * ELO
    middle = np.array([strengths[centre].mean() for centre in centres])
    elos: NDArray[np.float64] = strengths - middle[groups]
    return elos


def _order(elos: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.lexsort((-elos, groups))


def _played(agents: int, games: _Games) -> NDArray[np.int64]:
    total = games.counts.sum(axis=1)
    played = np.bincount(games.zero, total, agents) + np.bincount(games.one, total, agents)
    return played.astype(np.int64)


def _tails(confidence: float) -> tuple[float, float]:
    return (1 - confidence) / 2, (1 + confidence) / 2


def _estimate(value: float, samples: Sequence[float], confidence: float) -> Estimate:
    low, high = np.quantile(samples, _tails(confidence)) if samples else (value, value)
    return Estimate(float(value), float(low), float(high))


def _share_of_draws(parameter: float) -> float:
    """The share of draws between equals if the seat made no difference."""
    return math.exp(parameter) / (2 + math.exp(parameter))
