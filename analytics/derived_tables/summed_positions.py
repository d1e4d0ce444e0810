"""Adds up the positions of many shards: the rows that differ in their counts alone become one.

The keys are those by which ``positions`` sorts a shard's turns, so a sum is sorted in the same way, and the same shards
give the same bytes. Rows are added batch by batch, in memory that depends on the number of different rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.positions import (
    CELL_AT,
    MASK_AT,
    PAIRING_AT,
    SECOND_AT,
    Counts,
    Keys,
    frame_of,
    sort,
)
from quarto.bits import popcount
from quarto.jit import int64, kernel, uint64
from quarto.rules import Rules
from quarto.symmetry import Symmetries, symmetries

BATCH = 1 << 20  # rows that are added at once, or few more


class Sums(NamedTuple):
    """The keys and counts of rows; ``sample`` is the least of the samples."""

    board: NDArray[np.uint64]  # [R] as in ``Keys``
    choice: NDArray[np.uint64]  # [R] as in ``Keys``
    counts: NDArray[np.int64]  # [4, R] games, wins, draws, sample


COUNTED = ("games", "wins", "draws", "sample")


@kernel()
def _choices(
    occupied: NDArray[np.int64], pairing: NDArray[np.int32], small: NDArray[np.int8], tables: Symmetries
) -> NDArray[np.uint64]:
    """``Keys.choice`` of rows; ``small`` [3, R] are second, cell and piece."""
    choice = np.empty(occupied.shape[0], np.uint64)
    for row in range(occupied.shape[0]):
        second, cell, piece = int64(small[0, row]), int64(small[1, row]), int64(small[2, row])
        word = (piece + 1) | cell << CELL_AT | second << SECOND_AT | int64(pairing[row]) << PAIRING_AT
        choice[row] = uint64(word) | uint64(tables.number[occupied[row]]) << uint64(MASK_AT)
    return choice


@kernel()
def _add(keys: Keys, source: NDArray[np.int64], target: Sums) -> int:
    """Write a row for each group of equal ``keys``, which are sorted, into ``target``; returns how many there are."""
    at = int64(-1)
    for i in range(keys.row.shape[0]):
        row = keys.row[i]
        if i == 0 or keys.choice[i] != keys.choice[i - 1] or keys.board[i] != keys.board[i - 1]:
            at += 1
            target.board[at], target.choice[at] = keys.board[i], keys.choice[i]
            for count in range(4):
                target.counts[count, at] = source[count, row]
            continue
        for count in range(3):
            target.counts[count, at] += source[count, row]
        target.counts[3, at] = min(target.counts[3, at], source[3, row])
    return at + 1


@kernel()
def _columns(sums: Sums, counts: Counts, of_plies: NDArray[np.int64], tables: Symmetries) -> None:
    """Fill ``counts`` with the columns of sums, and ``of_plies`` [17] with the number of rows of each ply."""
    for row in range(sums.board.shape[0]):
        choice = sums.choice[row]
        occupied = int64(tables.masks[int64(choice >> uint64(MASK_AT))])
        counts.occupied[row], counts.board[row] = occupied, int64(sums.board[row])
        counts.pairing[row] = int64(choice >> uint64(PAIRING_AT)) & ((1 << 31) - 1)
        counts.second[row] = int64(choice >> uint64(SECOND_AT)) & 1
        counts.cell[row] = int64(choice >> uint64(CELL_AT)) & 15
        counts.piece[row] = int64(choice & uint64(31)) - 1
        counts.games[row], counts.wins[row] = sums.counts[0, row], sums.counts[1, row]
        counts.draws[row], counts.sample[row] = sums.counts[2, row], sums.counts[3, row]
        of_plies[int64(popcount(occupied))] += 1


def summed_positions(tables: Iterable[pl.DataFrame], rules: Rules, opening: int, end_ply: int) -> pl.DataFrame:
    """The sum of tables ``positions`` of the shards of one run, of the plies before ``end_ply``, by the same schema.

    ``opening`` is how many plies were imposed.
    """
    symmetry = symmetries(rules)
    sums = Sums(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty((4, 0), np.int64))
    for batch in _batches(table.filter(pl.col("ply") < end_ply) for table in tables):
        sums = _sum(sums, batch, symmetry)
    counts, of_plies = Counts.empty(len(sums.board)), np.zeros(17, np.int64)
    _columns(sums, counts, of_plies, symmetry)
    return frame_of(counts, range(end_ply), of_plies[:end_ply], opening)


def _batches(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Tables one behind the other, so many that they have ``BATCH`` rows; the last ones may have fewer."""
    waiting: list[pl.DataFrame] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= BATCH:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _sum(sums: Sums, rows: pl.DataFrame, symmetry: Symmetries) -> Sums:
    """The sum of rows and of those of a table."""
    small = np.stack([rows[name].to_numpy() for name in ("second", "cell", "piece")])
    choice = _choices(rows["occupied"].to_numpy().copy(), rows["pairing"].to_numpy().copy(), small, symmetry)
    board = np.concatenate([sums.board, rows["board"].to_numpy().view(np.uint64)])
    keys = Keys(board, np.concatenate([sums.choice, choice]), np.arange(len(board), dtype=np.int32))
    counts = np.concatenate([sums.counts, np.stack([rows[name].to_numpy() for name in COUNTED])], axis=1)
    spare = Keys.empty(len(board))
    keys, spare = (spare, keys) if sort(keys, spare) else (keys, spare)
    target = Sums(spare.board, spare.choice, np.empty_like(counts))
    end = _add(keys, counts, target)
    return Sums(target.board[:end].copy(), target.choice[:end].copy(), target.counts[:, :end].copy())
