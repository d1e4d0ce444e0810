"""Many positions, many games: structs of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from quarto.position import PackedPosition
from quarto.rules import NONE


class Batch(NamedTuple):
    """``B`` positions that are played in lockstep, with the fields of ``PackedPosition`` as arrays."""

    lanes: NDArray[np.uint64]  # [B]
    occupied: NDArray[np.uint16]  # [B]
    available: NDArray[np.uint16]  # [B]
    hand: NDArray[np.int8]  # [B] piece or NONE
    last_cell: NDArray[np.int8]  # [B] cell or NONE

    @staticmethod
    def allocate(size: int) -> Batch:
        """Allocate a batch of ``size`` positions whose contents are undefined."""
        return Batch(
            np.empty(size, np.uint64),
            np.empty(size, np.uint16),
            np.empty(size, np.uint16),
            np.empty(size, np.int8),
            np.empty(size, np.int8),
        )

    @staticmethod
    def from_positions(positions: list[PackedPosition]) -> Batch:
        """Build a batch of the given positions, in the same order."""
        if not positions:
            return Batch.allocate(0)
        lanes, occupied, available, hand, last_cell = zip(*positions, strict=True)
        return Batch(
            np.array(lanes, np.uint64),
            np.array(occupied, np.uint16),
            np.array(available, np.uint16),
            np.array(hand, np.int8),
            np.array(last_cell, np.int8),
        )

    def position(self, i: int) -> PackedPosition:
        """Return the position with index ``i`` as Python integers."""
        return PackedPosition(*(int(field[i]) for field in self))

    def list_positions(self) -> list[PackedPosition]:
        """Return all positions, in order, as Python integers.

        This takes a tenth of the time of calling ``position`` for each.
        """
        return [PackedPosition(*fields) for fields in zip(*(field.tolist() for field in self), strict=True)]

    def select_range(self, start: int, end: int) -> Batch:
        """Return views of the positions from ``start`` up to but not including ``end``."""
        return Batch(*(field[start:end] for field in self))  # type: ignore[arg-type]  # each keeps its own type

    def select(self, mask: NDArray[np.bool_]) -> Batch:
        """Return copies of the positions for which ``mask`` [B] is true, in their original order."""
        return Batch(*(field[mask] for field in self))  # type: ignore[arg-type]  # each keeps its own type

    def copy(self) -> Batch:
        """Return a batch of the same positions in new arrays."""
        return Batch(*(np.array(field) for field in self))  # type: ignore[arg-type]  # each keeps its own type


class Turns(NamedTuple):
    """One turn for each of ``B`` positions. A turn whose cell or gift is out of range is illegal."""

    cells: NDArray[np.int8]  # [B]
    gifts: NDArray[np.int8]  # [B]

    @staticmethod
    def allocate(size: int) -> Turns:
        """Allocate ``size`` turns whose contents are undefined."""
        return Turns(np.empty(size, np.int8), np.empty(size, np.int8))


NO_VALUE, NO_VISITS, NO_TURN = -(1 << 31), -1, -1  # in an evaluation: not reported, or no turn was requested
VALUE_UNITS = 1_000_000  # a value of 1 as an evaluation stores it: in millionths


class Evaluations(NamedTuple):
    """Evaluations of one turn in each of ``B`` positions, or of all turns in ``G`` games.

    For games, each array is [17, G], with one row for each turn number.
    """

    value: NDArray[np.int32]  # [..., B] the result that the mover expects, -1 to 1, in millionths; or NO_VALUE
    visits: NDArray[np.int64]  # [..., B] visits of the turn, or nodes searched; or NO_VISITS
    microseconds: NDArray[np.int64]  # [..., B] wall time of the turn; or NO_TURN

    @staticmethod
    def blank(*shape: int) -> Evaluations:
        """Allocate evaluations of the given shape in which nothing is reported."""
        return Evaluations(
            np.full(shape, NO_VALUE, np.int32), np.full(shape, NO_VISITS, np.int64), np.full(shape, NO_TURN, np.int64)
        )

    def select(self, rows: slice | NDArray[np.bool_] | NDArray[np.integer]) -> Evaluations:
        """Return the evaluations of the selected positions or games, as views if ``rows`` is a slice.

        ``rows`` is an index, a slice or a mask along the last axis.
        """
        return Evaluations(self.value[..., rows], self.visits[..., rows], self.microseconds[..., rows])

    def put(self, rows: Any, other: Evaluations) -> None:
        """Replace the evaluations that the index or mask ``rows`` selects with the evaluations ``other``."""
        self.value[rows], self.visits[rows], self.microseconds[rows] = other

    def give_untimed_equal_time_share(self, seconds: float) -> None:
        """Give every turn without a time of its own an equal share of the batch's time.

        The share is ``seconds``, the time of the whole batch, divided by the number of all turns in the batch, which
        includes the turns that have a time of their own.
        """
        untimed = self.microseconds == NO_TURN
        self.microseconds[untimed] = round(1e6 * seconds / max(untimed.size, 1))


class Lockstep(NamedTuple):
    """The games that are still running, stored without gaps.

    All of them are at the same ply, which determines the seat to act.
    """

    batch: Batch  # [B] positions
    slot: NDArray[np.uint32]  # [B] the column of the game in Games
    streams: NDArray[np.uint64]  # [B] the random stream of the game
    turns: Turns  # [B] what was just decided

    @staticmethod
    def allocate(size: int) -> Lockstep:
        """Allocate the state of ``size`` games, with undefined contents."""
        return Lockstep(
            Batch.allocate(size), np.empty(size, np.uint32), np.empty(size, np.uint64), Turns.allocate(size)
        )


# How a game ended; the archive stores the name.
ENDINGS = ("line", "full_board", "forfeit_illegal", "forfeit_error", "forfeit_resigned", "forfeit_time")
LINE, FULL_BOARD, FORFEIT_ILLEGAL, FORFEIT_ERROR, FORFEIT_RESIGNED, FORFEIT_TIME = range(6)


class Games(NamedTuple):
    """``G`` finished games, with one row for each ply.

    In the column of a game, the pieces and cells from row ``plies`` onwards have no meaning.
    """

    pieces: NDArray[np.int8]  # [16, G]
    cells: NDArray[np.int8]  # [16, G]
    plies: NDArray[np.int8]  # [G] number of plies played, openings included
    winner: NDArray[np.int8]  # [G] seat, or NONE for a draw
    ending: NDArray[np.int8]  # [G] index into ENDINGS

    @staticmethod
    def allocate(size: int) -> Games:
        """Allocate ``size`` games in which ``winner`` is NONE and every other number is 0."""
        return Games(
            np.zeros((16, size), np.int8),
            np.zeros((16, size), np.int8),
            np.zeros(size, np.int8),
            np.full(size, NONE, np.int8),
            np.zeros(size, np.int8),
        )


GAME_BITS = 32  # the low bits of a game's id: 2 * pair + s; the pairing is above them


GameColumns = TypeVar("GameColumns", Games, Evaluations)


def concat_game_columns(parts: Sequence[GameColumns]) -> GameColumns:
    """Concatenate the games, or the evaluations of games, of several parts.

    If there is only one part, it is returned as it is.
    """
    if len(parts) == 1:
        return parts[0]
    return type(parts[0])(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


class Block(NamedTuple):
    """The games of consecutive pairs of one pairing.

    The pairing's first agent holds seat 0 in game 0 of a pair, and seat 1 in game 1. Game ``s`` of pair ``first_pair +
    i`` is game ``2 i + s`` of ``games``.

    If ``swapped`` is false, the first agent always holds seat 0, and a pair consists of game 0 alone, which is game
    ``i`` of ``games``.
    """

    pairing: int  # index of the pairing in its run
    first_pair: int  # number of the first pair within the pairing
    opening: int  # number of plies that were imposed on each game
    games: Games  # G = pairs x games_a_pair
    swapped: bool = True  # whether both games of each pair were played
    evaluations: Evaluations | None = None  # [17, G] of the players, a row for each turn, if requested
    seconds: float = 0.0  # the time that one thread took to play the games

    @property
    def games_per_pair(self) -> int:
        return 1 + self.swapped

    @property
    def pairs(self) -> int:
        return len(self.games.plies) // self.games_per_pair
