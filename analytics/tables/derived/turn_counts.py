"""Counted turns in memory: sorted tables of the turns of one ply, and how two of them become one.

The keys of a row fill two machine words, so a merge compares words instead of columns. The merge has no branches that
depend on the rows, because a processor cannot predict from which table the next row comes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.jit import inline_function, int64, kernel, uint64

# The lowest bits of the fields in a word of ``TurnCounts.choice``. The sort has digits of 11 bits; the mask begins one.
CELL_SHIFT, SECOND_SHIFT, PAIRING_SHIFT, MASK_SHIFT = 5, 9, 10, 44


class TurnCounts(NamedTuple):
    """How often each turn was taken in each position of one ply; sorted by mask, then by board, then by choice."""

    board: NDArray[np.uint64]  # [R] ``CanonicalTurn.board``
    choice: NDArray[np.uint64]  # [R] from the lowest bit: piece + 1, cell, second, pairing, number of the mask
    games: NDArray[np.int32]  # [R] fewer than 2^31, as the games that one task counts are
    wins: NDArray[np.int32]  # [R]
    draws: NDArray[np.int32]  # [R]
    sample: NDArray[np.uint32]  # [R] number in its pairing of the first of the games

    @staticmethod
    def empty(rows: int) -> TurnCounts:
        """Allocate uninitialised counts with ``rows`` rows."""
        words, numbers = np.empty((2, rows), np.uint64), np.empty((3, rows), np.int32)
        return TurnCounts._make([*words, *numbers, np.empty(rows, np.uint32)])

    def slice_rows(self, start: int, end: int) -> TurnCounts:
        """Return views of the rows from ``start`` up to but not including ``end``."""
        return TurnCounts._make(column[start:end] for column in self)

    def copy_head(self, rows: int) -> TurnCounts:
        """Return copies of the first ``rows`` rows."""
        return TurnCounts._make(column[:rows].copy() for column in self)


@inline_function
def _copy_rows(source: TurnCounts, first: int, target: TurnCounts, at: int) -> int:
    """Copy the rows of ``source`` from ``first`` on to ``target`` from ``at`` on; return the row after the last one."""
    end: int = at + source.board.shape[0] - first
    target.board[at:end], target.choice[at:end] = source.board[first:], source.choice[first:]
    target.games[at:end], target.wins[at:end] = source.games[first:], source.wins[first:]
    target.draws[at:end], target.sample[at:end] = source.draws[first:], source.sample[first:]
    return end


@kernel()
def _merge_rows(one: TurnCounts, other: TurnCounts, merged: TurnCounts) -> int:
    """Merge two sorted tables into ``merged``, and return the number of its rows; rows with equal keys become one."""
    i, j, at = int64(0), int64(0), int64(0)
    while i < one.board.shape[0] and j < other.board.shape[0]:
        board, other_board = one.board[i], other.board[j]
        choice, other_choice = one.choice[i], other.choice[j]
        mask, other_mask = choice >> uint64(MASK_SHIFT), other_choice >> uint64(MASK_SHIFT)
        is_equal = int64((board == other_board) & (choice == other_choice))
        is_after = int64(
            (mask > other_mask)
            | ((mask == other_mask) & ((board > other_board) | ((board == other_board) & (choice > other_choice))))
        )
        takes_one, takes_other = 1 - is_after, is_after | is_equal
        merged.board[at] = other_board if is_after else board
        merged.choice[at] = other_choice if is_after else choice
        merged.games[at] = one.games[i] * takes_one + other.games[j] * takes_other
        merged.wins[at] = one.wins[i] * takes_one + other.wins[j] * takes_other
        merged.draws[at] = one.draws[i] * takes_one + other.draws[j] * takes_other
        least = min(one.sample[i], other.sample[j]) if is_equal else one.sample[i]
        merged.sample[at] = other.sample[j] if is_after else least
        i, j, at = i + takes_one, j + takes_other, at + 1
    at = _copy_rows(one, i, merged, at)
    return int(_copy_rows(other, j, merged, at))


def sum_turn_counts(files: Sequence[Sequence[TurnCounts]]) -> Iterator[TurnCounts]:
    """Yield the sums of several files' counts, ply by ply; each file has a table for each ply.

    Two tables at a time become one, so each row is moved as often as the number of files can be halved. A sum is valid
    until the next one is requested, because all plies use the same memory.
    """
    tables_by_ply = [*zip(*files, strict=True)]
    rows = max(sum(len(table.board) for table in tables) for tables in tables_by_ply) if len(files) > 1 else 0
    rooms = TurnCounts.empty(rows), TurnCounts.empty(rows)
    for of_ply in tables_by_ply:
        tables, (room, spare) = list(of_ply), rooms
        while len(tables) > 1:
            tables, room, spare = _merge_pairs(tables, room), spare, room
        yield tables[0]


def _merge_pairs(tables: Sequence[TurnCounts], room: TurnCounts) -> list[TurnCounts]:
    """Merge each table with the next one into ``room``; a last table without a partner is copied."""
    merged, at = list[TurnCounts](), 0
    for one, other in itertools.zip_longest(tables[::2], tables[1::2], fillvalue=room.slice_rows(0, 0)):
        end = at + _merge_rows(one, other, room.slice_rows(at, len(room.board)))
        merged.append(room.slice_rows(at, end))
        at = end
    return merged
