"""Merges sorted tables of positions: the rows that differ in their counts alone become one.

The keys are those by which ``positions`` sorts the turns of a range. So merged rows are sorted in the same way, and the
same games give the same rows. Only a part of each table is in memory, so memory does not grow with the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.positions import (
    CELL_AT,
    MASK_AT,
    PAIRING_AT,
    POSITIONS,
    SECOND_AT,
    Counts,
    frame_of,
)
from quarto.bits import popcount
from quarto.jit import inlined, int64, kernel, uint64
from quarto.rules import PIECES, Rules
from quarto.symmetry import Symmetries, symmetries

AT_ONCE = 64  # files of positions become one: with more, their parts would take more memory
ROWS_IN_MEMORY = 1 << 20  # of so many tables together, 48 bytes each
GROUP_ROWS = 1 << 18  # of a row group of sums: a question looks at each group, 30 microseconds, and decodes one
ALL_DONE, FULL = -1, -2  # what ``_merge`` returns if no table needs more rows
COUNTED = ("games", "wins", "draws", "sample")


class Heads(NamedTuple):
    """The rows of ``K`` sorted tables that are in memory: at most ``C`` of each."""

    board: NDArray[np.uint64]  # [K, C] as in ``positions.Keys``
    choice: NDArray[np.uint64]  # [K, C] as in ``positions.Keys``
    counts: NDArray[np.int64]  # [K, 4, C] games, wins, draws, sample
    at: NDArray[np.int64]  # [K] the next row
    end: NDArray[np.int64]  # [K] the number of rows in memory

    @staticmethod
    def empty(tables: int, rows: int) -> Heads:
        """Room for so many rows of each table."""
        words = np.empty((2, tables, rows), np.uint64)
        counts = np.empty((tables, 4, rows), np.int64)
        return Heads(words[0], words[1], counts, np.zeros(tables, np.int64), np.zeros(tables, np.int64))


class Sums(NamedTuple):
    """The keys and counts of merged rows; ``sample`` is the least of the samples."""

    board: NDArray[np.uint64]  # [R]
    choice: NDArray[np.uint64]  # [R]
    counts: NDArray[np.int64]  # [4, R] games, wins, draws, sample


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


@inlined
def _before(heads: Heads, one: int, other: int) -> bool:
    """Whether the next row of one table comes before that of another: by mask, board, then the rest."""
    row, theirs = heads.at[one], heads.at[other]
    choice, their_choice = heads.choice[one, row], heads.choice[other, theirs]
    if choice >> uint64(MASK_AT) != their_choice >> uint64(MASK_AT):
        return bool(choice < their_choice)
    if heads.board[one, row] != heads.board[other, theirs]:
        return bool(heads.board[one, row] < heads.board[other, theirs])
    return bool(choice < their_choice)


@inlined
def _sift(heads: Heads, heap: NDArray[np.int64], top: int, size: int) -> None:
    """Move a table down a heap of which the rest is in order."""
    moved = heap[top]
    while True:
        child = 2 * top + 1
        if child >= size:
            break
        if child + 1 < size and _before(heads, heap[child + 1], heap[child]):
            child += 1
        if not _before(heads, heap[child], moved):
            break
        heap[top] = heap[child]
        top = child
    heap[top] = moved


@kernel()
def _merge(heads: Heads, heap: NDArray[np.int64], sums: Sums, state: NDArray[np.int64]) -> int:
    """Merge rows into ``sums`` until they are full, or a table needs more rows: returns its number.

    ``heap`` holds the tables that are not at their end; ``state`` is their number, whether they are in order yet, and
    the number of rows of ``sums``, the last of which may grow. A table that got no more rows is at its end.
    """
    size, rows = state[0], state[2]
    if state[1] == 0:
        for top in range(size // 2 - 1, -1, -1):
            _sift(heads, heap, top, size)
        state[1] = 1
    if size > 0 and heads.at[heap[0]] == heads.end[heap[0]]:
        size -= 1
        heap[0] = heap[size]
    full = False
    while size > 0:
        _sift(heads, heap, 0, size)
        table = heap[0]
        row = heads.at[table]
        board, choice = heads.board[table, row], heads.choice[table, row]
        if rows > 0 and choice == sums.choice[rows - 1] and board == sums.board[rows - 1]:
            for count in range(3):
                sums.counts[count, rows - 1] += heads.counts[table, count, row]
            sums.counts[3, rows - 1] = min(sums.counts[3, rows - 1], heads.counts[table, 3, row])
        elif rows == sums.board.shape[0]:
            full = True
            break
        else:
            sums.board[rows], sums.choice[rows] = board, choice
            for count in range(4):
                sums.counts[count, rows] = heads.counts[table, count, row]
            rows += 1
        heads.at[table] = row + 1
        if row + 1 == heads.end[table]:
            break
    state[0], state[2] = size, rows
    if full:
        return FULL
    return heap[0] if size > 0 else ALL_DONE


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


def rows_at_once(tables: int) -> int:
    """The number of rows of each of so many tables in memory at once: read the tables in parts of that size."""
    return max(ROWS_IN_MEMORY // AT_ONCE, ROWS_IN_MEMORY // tables)


def merged(tables: Sequence[Iterator[pl.DataFrame]], rules: Rules, opening: int) -> Iterator[pl.DataFrame]:
    """The sum of tables ``positions`` of one run, in parts of ``GROUP_ROWS`` rows; no part is empty.

    A table comes as its rows in order, in parts. ``opening`` is how many plies were imposed.
    """
    symmetry, rows = symmetries(rules), rows_at_once(len(tables))
    tables = [_cut(table, rows) for table in tables]
    heads = Heads.empty(len(tables), rows)
    for number, table in enumerate(tables):
        _refill(heads, number, _next(table), symmetry)
    heap = np.flatnonzero(heads.end)
    board, choice = np.empty((2, GROUP_ROWS), np.uint64)
    sums = Sums(board, choice, np.empty((4, GROUP_ROWS), np.int64))
    state = np.array([len(heap), 0, 0])
    while (number := int(_merge(heads, heap, sums, state))) != ALL_DONE:
        if number == FULL:
            yield _frame(sums, symmetry, opening)
            state[2] = 0
        else:
            _refill(heads, number, _next(tables[number]), symmetry)
    rows = int(state[2])
    if rows:
        yield _frame(Sums(sums.board[:rows], sums.choice[:rows], sums.counts[:, :rows].copy()), symmetry, opening)


def _next(table: Iterator[pl.DataFrame]) -> pl.DataFrame:
    """The next rows of a table; none, if it is at its end."""
    part = next(table, None)
    return pl.DataFrame(schema=POSITIONS) if part is None else part


def _refill(heads: Heads, number: int, part: pl.DataFrame, symmetry: Symmetries) -> None:
    """Take the next rows of a table; if there are none, it is at its end."""
    rows = len(part)
    heads.at[number], heads.end[number] = 0, rows
    small = np.stack([part[name].to_numpy() for name in ("second", "cell", "piece")])
    heads.choice[number, :rows] = _choices(
        part["occupied"].to_numpy().copy(), part["pairing"].to_numpy().copy(), small, symmetry
    )
    heads.board[number, :rows] = part["board"].to_numpy().view(np.uint64)
    for count, name in enumerate(COUNTED):
        heads.counts[number, count, :rows] = part[name].to_numpy()


def _frame(sums: Sums, symmetry: Symmetries, opening: int) -> pl.DataFrame:
    counts, of_plies = Counts.empty(len(sums.board)), np.zeros(17, np.int64)
    _columns(sums, counts, of_plies, symmetry)
    return frame_of(counts, range(PIECES), of_plies[:PIECES], opening)


def _cut(parts: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows in parts of at most so many."""
    return (part[first : first + rows] for part in parts for first in range(0, len(part), rows))
