"""Merges sorted runs of rows: finds their order by a heap of runs, since sorting the rows anew takes twice as long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.jit import inline_function, int64, kernel


class MergedOrder(NamedTuple):
    """The order of the rows of several sorted runs, and where the rows with another key begin."""

    rows: NDArray[np.int64]  # [R] indices of rows, in ascending order of key; of equal keys, the earlier run first
    starts: NDArray[np.int64]  # [K] indices into ``rows`` of the first row with each key


def merge_sorted_runs(words: NDArray[np.int64], run_starts: NDArray[np.int64]) -> MergedOrder:
    """Find the order of rows that are sorted within each of several runs.

    Args:
        words: The keys, [W, R]: rows are compared by word 0, then by word 1, and so on.
        run_starts: The first row of each run, and the number of rows, [N + 1]. No run is empty.

    """
    rows, begins = np.empty(words.shape[1], np.int64), np.empty(words.shape[1], np.bool_)
    _fill_merged_order(words, run_starts, rows, begins)
    return MergedOrder(rows, np.flatnonzero(begins))


@inline_function
def _is_before(words: NDArray[np.int64], row: int, other: int) -> bool:
    """Return whether a row sorts before another one; of equal keys, the row with the smaller index."""
    for word in range(words.shape[0]):
        if words[word, row] != words[word, other]:
            return bool(words[word, row] < words[word, other])
    return row < other


@inline_function
def _sift_down(words: NDArray[np.int64], heap: NDArray[np.int64], size: int, row: int, run: int) -> None:
    """Put a row into the place at the top of a heap of ``size`` pairs (row, run), so that the least row is on top."""
    place = int64(0)
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(words, heap[child + 1, 0], heap[child, 0]):
            child += 1
        if not _is_before(words, heap[child, 0], row):
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place = child
    heap[place, 0], heap[place, 1] = row, run


@kernel()
def _fill_merged_order(
    words: NDArray[np.int64], run_starts: NDArray[np.int64], rows: NDArray[np.int64], begins: NDArray[np.bool_]
) -> None:
    """Fill ``rows`` with the order of the rows, and ``begins`` with whether a row has another key than the one before.

    The heap holds the next row of each run. Its runs are first put in order by insertion.
    """
    size = int64(run_starts.shape[0] - 1)
    heap = np.empty((size, 2), np.int64)
    for run in range(size):
        place = int64(run)
        while place > 0 and _is_before(words, run_starts[run], heap[place - 1, 0]):
            heap[place, 0], heap[place, 1] = heap[place - 1, 0], heap[place - 1, 1]
            place -= 1
        heap[place, 0], heap[place, 1] = run_starts[run], run
    for at in range(rows.shape[0]):
        row, run = heap[0, 0], heap[0, 1]
        rows[at] = row
        begins[at] = at == 0
        if at > 0:
            for word in range(words.shape[0]):
                begins[at] |= words[word, row] != words[word, rows[at - 1]]
        if row + 1 < run_starts[run + 1]:
            _sift_down(words, heap, size, row + 1, run)
        else:
            size -= 1
            _sift_down(words, heap, size, heap[size, 0], heap[size, 1])
