"""Tallies: counts of how pairs of games ended. They add up, and every statistic of a result follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

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
