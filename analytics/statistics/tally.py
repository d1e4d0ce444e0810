"""Tallies: counts of how pairs of games ended. They add up, and every statistic of a result follows from them.

All games that begin with the same opening are one cluster: they are not independent. A pair of games can end in 15
ways. Each way is a cell. Cells are in the order of ``Tally``: ``pairs`` row by row, then ``singles`` row by row. The
variance of a mean over clusters of different sizes follows from the counts of cells by cluster (L. Kish, "Survey
Sampling", 1965, section 6.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, Block
from quarto.jit import kernel

Key = TypeVar("Key")

LOSS, DRAW, WIN = range(3)

Count = Annotated[int, msgspec.Meta(ge=0)]
Row = tuple[Count, Count, Count]
NO_PAIRS: tuple[Row, Row, Row] = ((0, 0, 0), (0, 0, 0), (0, 0, 0))
NO_SINGLES: tuple[Row, Row] = ((0, 0, 0), (0, 0, 0))


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts over pairs of one pairing; ``a + b`` is the tally of both sets. "First" is the pairing's first agent."""

    pairs: tuple[Row, Row, Row] = NO_PAIRS  # [first's result in game 0][in game 1], each LOSS, DRAW or WIN
    singles: tuple[Row, Row] = NO_SINGLES  # pairs of one game, where seats are fixed: [first's seat][first's result]
    illegal: tuple[Count, Count] = (0, 0)  # games forfeited by an illegal turn, by agent: first, second
    errors: tuple[Count, Count] = (0, 0)  # games forfeited by an exception, by agent: first, second
    plies: Count = 0  # of all games
    late: tuple[Count, Count] = (0, 0)  # games forfeited by a turn that took too long, by agent: first, second

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(_added, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))

    @property
    def pair_count(self) -> int:
        return sum(map(sum, (*self.pairs, *self.singles)))

    @property
    def games(self) -> int:
        return self.pair_count + sum(map(sum, self.pairs))

    @property
    def is_uniform(self) -> bool:
        """Whether all pairs, two or more, ended in the same way: perhaps they are copies of one."""
        return self.pair_count > 1 and self.pair_count in {*sum(self.pairs, ()), *sum(self.singles, ())}

    def results(self, game: int) -> Row:
        """The first agent's (losses, draws, wins) in game 0 of the pairs, where it holds seat 0, or in game 1."""
        columns = self.pairs if game == 0 else tuple(zip(*self.pairs, strict=True))
        losses, draws, wins = (sum(row) + alone for row, alone in zip(columns, self.singles[game], strict=True))
        return losses, draws, wins

    @property
    def trinomial(self) -> Row:
        """The first agent's (losses, draws, wins) over all games."""
        losses, draws, wins = (a + b for a, b in zip(self.results(0), self.results(1), strict=True))
        return losses, draws, wins

    @property
    def losses(self) -> int:
        return self.trinomial[LOSS]

    @property
    def draws(self) -> int:
        return self.trinomial[DRAW]

    @property
    def wins(self) -> int:
        return self.trinomial[WIN]

    @property
    def pentanomial(self) -> tuple[int, int, int, int, int]:
        """Pairs of two games by the first agent's points in them: 0, 1/2, 1, 3/2, 2."""
        counts = [0] * 5
        for in_game_0, row in enumerate(self.pairs):
            for in_game_1, count in enumerate(row):
                counts[in_game_0 + in_game_1] += count
        return counts[0], counts[1], counts[2], counts[3], counts[4]

    @property
    def swapped(self) -> Tally:
        """The same pairs from the second agent's point of view: it holds seat 0 in what was game 1."""
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
        """Games forfeited in any of the three ways, by agent: first, second."""
        first, second = map(sum, zip(self.illegal, self.errors, self.late, strict=True))
        return first, second


def _added(mine: Any, other: Any) -> Any:
    """The sums of counts, or of tuples of the same form."""
    return tuple(map(_added, mine, other)) if isinstance(mine, tuple) else mine + other


def summed(tallies: Iterable[tuple[Key, Tally]]) -> dict[Key, Tally]:
    """The sum of the tallies with each key, in the order in which the keys come first."""
    totals: dict[Key, Tally] = {}
    for key, each in tallies:
        totals[key] = totals.get(key, Tally()) + each
    return totals


@kernel()
def _count(
    winner: NDArray[np.int8],
    ending: NDArray[np.int8],
    plies: NDArray[np.int8],
    games_a_pair: int,
    out: NDArray[np.int64],
) -> None:
    """Add the counts of a block to ``out`` [16].

    9 of ``pairs`` (or 3 of ``singles``), 2 illegal, 2 errors, 2 late, plies.
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


def tally_of(block: Block) -> Tally:
    """The tally of one block."""
    games, counts = block.games, np.zeros(16, np.int64)
    _count(games.winner, games.ending, games.plies, block.games_a_pair, counts)
    pairs = counts[:9].reshape(3, 3).tolist()
    played = {"pairs": pairs} if block.swapped else {"singles": [pairs[0], NO_SINGLES[1]]}
    forfeits = dict(zip(("illegal", "errors", "late"), counts[9:15].reshape(3, 2).tolist(), strict=True))
    return msgspec.convert({**played, **forfeits, "plies": int(counts[15])}, Tally)


def tally(blocks: Iterable[Block]) -> dict[int, Tally]:
    """The tally of each pairing in ``blocks``, in constant memory."""
    return summed((block.pairing, tally_of(block)) for block in blocks)


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
