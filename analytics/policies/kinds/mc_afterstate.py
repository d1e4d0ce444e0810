"""The kind 'mc_afterstate': the mean outcome of the games in which a turn was made.

Afterstates are grouped by the number of pieces on the board. Level n of a game is its afterstate with n pieces on the
board and the piece of ply n in hand. Most afterstates with more than six pieces are met once, so the keys of a level
are sorted instead of kept in a map.

The key of a canonical form with n pieces has at most 62 bits. The lowest 4 n bits are the form's four lanes, squeezed
to the occupied cells, with lane 0 lowest. Above them is the rank of the form's mask among the canonical masks of n
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.parameters import check_integer
from agents.learning.policy import Policy
from agents.policy import MC_AFTERSTATE
from analytics.policies.kinds.dataset import Dataset, map_spans
from quarto.batch import Games
from quarto.bits import piece_to_lanes
from quarto.canonical import canonical_lanes_and_occupied, squeeze_lanes, unsqueeze_lanes
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.rules import ATTRIBUTES, CELLS, Rules
from quarto.symmetry import Symmetries, build_symmetries
from quarto.threats import winning_cells

MAX_LEAST = 1 << 31


class McAfterstate:
    """Monte Carlo estimates of afterstates (R. Sutton and A. Barto, Reinforcement Learning, 2nd edition, 5.1 and 6.8).

    Each row is an afterstate in its canonical form: the board after a placement, with the gift in the opponent's hand.
    Imposed turns do not count, because no agent chose them. Afterstates that fewer than ``least`` games met are left
    out: most afterstates are that rare, and their means are noise.

    Columns, with rows ascending by the first two:

    - ``lanes`` int64: the pieces on the board, as four masks of 16 cells, one mask for each attribute;
    - ``occupied`` int32: the mask of the occupied cells;
    - ``count`` int64: the number of games;
    - ``mean`` float64: the mean outcome for the player who made the turn (1 won, 0 drawn, -1 lost).
    """

    def __init__(self, least: int = 2) -> None:
        self.least = check_integer("least", least, 1, MAX_LEAST)

    def derive(self, dataset: Dataset, threads: int) -> Policy:
        boards, parts = GameBoards.empty(len(dataset.game_id)), []
        for pieces in range(CELLS):
            parts.append(self._average_level(dataset, pieces, boards, threads))
            add_or_remove_ply_everywhere(add_ply, dataset.games, pieces, boards, threads)
        return Policy(MC_AFTERSTATE, table=build_sorted_afterstate_table(parts, "mean"))

    def _average_level(
        self, dataset: Dataset, pieces: int, boards: GameBoards, threads: int
    ) -> tuple[NDArray[Any], ...]:
        """Return the columns of the afterstates with ``pieces`` pieces on the board, each as an array [K].

        The columns are ``lanes``, ``occupied``, ``count`` and ``mean``: see ``McAfterstate``. Afterstates that fewer
        than ``least`` games met are left out.
        """
        level = build_level(dataset.rules, pieces)
        keys, counts, totals = sum_games_and_wins_less_losses(encode_sorted_outcomes(dataset, level, boards, threads))
        kept = counts >= self.least
        lanes, occupied = decode_lanes_and_occupied(keys[kept], level)
        return lanes, occupied, counts[kept], totals[kept] / counts[kept]


def build_sorted_afterstate_table(
    levels: Sequence[tuple[NDArray[Any], ...]], value_column: str
) -> dict[str, NDArray[Any]]:
    """Build one table from the afterstates of all levels, with rows sorted by ``lanes`` and then by ``occupied``.

    Each level is a tuple of the columns ``lanes``, ``occupied``, ``count`` and a column of values, which the table
    names ``value_column``.
    """
    lanes, occupied, *value_columns = (np.concatenate(column) for column in zip(*levels, strict=True))
    order = np.lexsort((occupied, lanes))
    columns = zip(("lanes", "occupied", "count", value_column), (lanes, occupied, *value_columns), strict=True)
    return {name: column[order] for name, column in columns}


NO_KEY = (1 << 64) - 1  # the key of a game that ends before the level


class GameBoards(NamedTuple):
    """The boards of ``G`` games, each after the same number of plies."""

    lanes: NDArray[np.uint64]  # [G]
    occupied: NDArray[np.uint16]  # [G]

    @staticmethod
    def empty(size: int) -> GameBoards:
        """Return ``size`` empty boards, which are the boards before the first ply."""
        return GameBoards(np.zeros(size, np.uint64), np.zeros(size, np.uint16))


class AfterstateLevel(NamedTuple):
    """A level: all afterstates with the same number of pieces on the board, and the symmetry tables for their keys.

    Kernels receive the integer fields as int64.
    """

    pieces: int  # on the board
    first_mask: int  # number of the first canonical mask of this many cells
    tables: Symmetries


def build_level(rules: Rules, pieces: int) -> AfterstateLevel:
    """Build the level of the afterstates with ``pieces`` pieces on the board."""
    tables = build_symmetries(rules)
    counts = np.bitwise_count(tables.masks)
    return AfterstateLevel(pieces, int(np.searchsorted(counts, pieces)), tables)


@inline_function
def encode_afterstate(lanes: int, occupied: int, gift: int, level: AfterstateLevel) -> int:
    """Encode an afterstate of this level as a key (uint64) that is the same for all symmetric afterstates."""
    least, minimal = canonical_lanes_and_occupied(lanes, occupied, gift, level.tables)
    word = squeeze_lanes(least, minimal, level.tables)
    rank = int64(level.tables.number[minimal]) - level.first_mask
    return word | uint64(rank) << uint64(ATTRIBUTES * level.pieces)


@kernel()
def decode_lanes_and_occupied(
    keys: NDArray[np.uint64], level: AfterstateLevel
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Decode keys [K] to the boards of the afterstates in canonical form: their lanes [K] and occupied cells [K].

    The lanes are the pieces on the board, as four masks of 16 cells, one mask for each attribute. The occupied cells
    are a mask, too.
    """
    lanes, occupied = np.empty(keys.shape[0], np.int64), np.empty(keys.shape[0], np.int32)
    for i in range(keys.shape[0]):
        mask = int64(level.tables.masks[int64(keys[i] >> uint64(ATTRIBUTES * level.pieces)) + level.first_mask])
        lanes[i], occupied[i] = int64(unsqueeze_lanes(keys[i], mask)), mask
    return lanes, occupied


@kernel()
def add_ply(games: Games, ply: int, boards: GameBoards, span: tuple[int, int]) -> None:
    """Add the placement of ply ``ply`` to the boards of those games in ``span`` that have this ply.

    The boards are changed in place.
    """
    for game in range(span[0], span[1]):
        if ply < games.plies[game]:
            cell = int64(games.cells[ply, game])
            boards.lanes[game] |= piece_to_lanes(int64(games.pieces[ply, game])) << uint64(cell)
            boards.occupied[game] |= int64(1) << cell


@kernel()
def remove_ply(games: Games, ply: int, boards: GameBoards, span: tuple[int, int]) -> None:
    """Remove the placement of ply ``ply`` from the boards of those games in ``span`` that have this ply.

    The boards are changed in place.
    """
    for game in range(span[0], span[1]):
        if ply < games.plies[game]:
            cell = int64(games.cells[ply, game])
            boards.lanes[game] &= ~(piece_to_lanes(int64(games.pieces[ply, game])) << uint64(cell))
            boards.occupied[game] &= ~(int64(1) << cell)


def add_or_remove_ply_everywhere(
    step: Callable[..., None], games: Games, ply: int, boards: GameBoards, threads: int
) -> None:
    """Apply ``step``, which is ``add_ply`` or ``remove_ply``, to the boards of all games, on several threads."""
    map_spans(lambda first, last: step(games, ply, boards, (first, last)), 0, len(boards.lanes), threads)


@kernel()
def fill_outcome_words(
    games: Games,
    opening: NDArray[np.int8],
    level: AfterstateLevel,
    boards: GameBoards,
    words: NDArray[np.uint64],
    span: tuple[int, int],
) -> int:
    """Write a word for each game in ``span`` with a gift at this level that was not imposed; return their number.

    A word is the key of the game's afterstate, followed by two bits with the outcome for the player who made the turn:
    2 won, 1 drawn, 0 lost. The first word is written to ``words[span[0]]``.
    """
    index = span[0]
    for game in range(span[0], span[1]):
        if opening[game] <= level.pieces < games.plies[game]:
            key = encode_afterstate(
                boards.lanes[game], int64(boards.occupied[game]), int64(games.pieces[level.pieces, game]), level
            )
            winner = int64(games.winner[game])
            outcome = 1 if winner < 0 else 2 if winner == level.pieces & 1 else 0
            words[index] = key << uint64(2) | uint64(outcome)
            index += 1
    return index - span[0]


@kernel()
def fill_keys_and_wins(
    games: Games,
    level: AfterstateLevel,
    boards: GameBoards,
    rules: np.void,
    keys: NDArray[np.uint64],
    wins: NDArray[np.bool_],
    span: tuple[int, int],
) -> None:
    """Fill ``keys`` [G] and ``wins`` [G] for the games in ``span``.

    A game's key is that of its afterstate at this level, or NO_KEY if the game ends before this level. ``wins`` says
    whether the piece in hand can finish a line in this afterstate.
    """
    for game in range(span[0], span[1]):
        keys[game], wins[game] = uint64(NO_KEY), False
        if level.pieces < games.plies[game]:
            lanes, occupied, gift = boards.lanes[game], int64(boards.occupied[game]), games.pieces[level.pieces, game]
            keys[game] = encode_afterstate(lanes, occupied, int64(gift), level)
            wins[game] = winning_cells(lanes, occupied, int64(gift), rules) != 0


class OutcomeSums(NamedTuple):
    """The number of games and the sum of outcomes for each of ``K`` afterstates; all arrays are [K]."""

    keys: NDArray[np.uint64]
    games: NDArray[np.int64]
    wins_less_losses: NDArray[np.int64]


@kernel()
def sum_games_and_wins_less_losses(words: NDArray[np.uint64]) -> OutcomeSums:
    """Sum the outcomes for each key; ``words`` has the words of ``fill_outcome_words``, sorted."""
    different = int64(words.shape[0] > 0)
    for i in range(1, words.shape[0]):
        different += int64(words[i] >> uint64(2) != words[i - 1] >> uint64(2))
    keys = np.empty(different, np.uint64)
    counts, totals = np.zeros(different, np.int64), np.zeros(different, np.int64)
    index = int64(-1)
    for i in range(words.shape[0]):
        if index < 0 or words[i] >> uint64(2) != keys[index]:
            index += 1
            keys[index] = words[i] >> uint64(2)
        counts[index] += 1
        totals[index] += int64(words[i] & uint64(3)) - 1
    return OutcomeSums(keys, counts, totals)


def encode_sorted_outcomes(
    dataset: Dataset, level: AfterstateLevel, boards: GameBoards, threads: int
) -> NDArray[np.uint64]:
    """Return the words of ``fill_outcome_words`` for all games, in ascending order."""
    size = len(dataset.game_id)
    words = np.empty(size, np.uint64)

    def encode_span(first: int, last: int) -> NDArray[np.uint64]:
        count = fill_outcome_words(dataset.games, dataset.opening, level, boards, words, (first, last))
        return words[first : first + count]

    filled_words = np.concatenate(map_spans(encode_span, 0, size, threads))
    filled_words.sort()
    return filled_words
