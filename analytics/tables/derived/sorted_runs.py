"""Merges sorted runs of rows, two at a time, which takes a fifth of the time of sorting the rows anew.

A merge has no branches that depend on the rows, because a processor cannot predict from which run the next row comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from analytics.store.parquet.packing import READONLY_INT64
from quarto.jit import inline_function, int64, kernel, uint64

READONLY_ORDER = types.Array(types.uint32, 1, "C", readonly=True)


class MergedOrder(NamedTuple):
    """The order of the rows of several sorted runs; neighbouring rows with the same key are a group."""

    rows: NDArray[np.uint32]  # [R] indices of rows, in ascending order of key; of equal keys, the earlier run first
    begins: NDArray[np.bool_]  # [R] whether a group begins at this place in ``rows``
    first_rows: NDArray[np.int64]  # [G] the first row of each group


def merge_sorted_runs(words: NDArray[np.int64], run_starts: NDArray[np.int64]) -> MergedOrder:
    """Find the order of rows that are sorted within each of several runs.

    Args:
        words: The keys, [W, R] with R < 2^32: rows are compared by word 0, then by word 1, and so on.
        run_starts: The first row of each run, and the number of rows, [N + 1].

    """
    rows, spare = np.arange(words.shape[1], dtype=np.uint32), np.empty(words.shape[1], np.uint32)
    begins, first_rows = np.empty(words.shape[1], np.bool_), np.empty(words.shape[1], np.int64)
    if _merge_runs_in_pairs(words, run_starts.copy(), rows, spare):
        rows = spare
    return MergedOrder(rows, begins, first_rows[: _fill_groups(words, rows, begins, first_rows)])


@inline_function
def _merge_two_runs(
    words: NDArray[np.int64],
    rows: NDArray[np.uint32],
    start: int,
    middle: int,
    end: int,
    merged: NDArray[np.uint32],
) -> None:
    """Merge the rows from ``start`` to ``middle`` with those from ``middle`` to ``end``, into the same places."""
    i, j, at = uint64(start), uint64(middle), uint64(start)  # unsigned: negative indices need not be looked for
    while i < uint64(middle) and j < uint64(end):
        row, other = uint64(rows[i]), uint64(rows[j])
        is_after = uint64(words[uint64(0), row] > words[uint64(0), other])
        is_equal = uint64(words[uint64(0), row] == words[uint64(0), other])
        for word in range(uint64(1), uint64(words.shape[0])):
            is_after |= is_equal & uint64(words[word, row] > words[word, other])
            is_equal &= uint64(words[word, row] == words[word, other])
        merged[at] = other if is_after else row
        i, j, at = i + (uint64(1) - is_after), j + is_after, at + uint64(1)
    for rest in range(i, uint64(middle)):
        merged[at] = rows[rest]
        at += uint64(1)
    for rest in range(j, uint64(end)):
        merged[at] = rows[rest]
        at += uint64(1)


@kernel()
def _merge_runs_in_pairs(
    words: NDArray[np.int64], run_starts: NDArray[np.int64], rows: NDArray[np.uint32], spare: NDArray[np.uint32]
) -> bool:
    """Merge each run with the next one until one is left; return whether it is in ``spare``, not in ``rows``.

    ``run_starts`` is overwritten.
    """
    runs, total, is_in_spare = run_starts.shape[0] - 1, rows.shape[0], False
    while runs > 1:
        source, target = (spare, rows) if is_in_spare else (rows, spare)
        for run in range(0, runs, 2):
            end = run_starts[min(run + 2, runs)]  # a last run without a partner is copied
            _merge_two_runs(words, source, run_starts[run], run_starts[run + 1], end, target)
            run_starts[run // 2] = run_starts[run]
        runs, is_in_spare = (runs + 1) // 2, not is_in_spare
        run_starts[runs] = total
    return is_in_spare


@kernel()
def _fill_groups(
    words: NDArray[np.int64], rows: NDArray[np.uint32], begins: NDArray[np.bool_], first_rows: NDArray[np.int64]
) -> int:
    """Fill ``begins`` and the first rows of the groups, and return the number of groups."""
    groups = uint64(0)
    for at in range(uint64(rows.shape[0])):
        row, previous = uint64(rows[at]), uint64(rows[at - uint64(at > uint64(0))])
        is_new = at == uint64(0)
        for word in range(uint64(words.shape[0])):
            is_new |= words[word, row] != words[word, previous]
        begins[at] = is_new
        first_rows[groups] = row  # is overwritten later unless a group begins here
        groups += uint64(is_new)
    return int(groups)


def sum_groups(values: NDArray[np.int64], order: MergedOrder) -> NDArray[np.int64]:
    """Sum the ``values`` [R] of the rows of each group, and return the sums [G]."""
    return _combine_groups(values, order, False)


def find_least_of_groups(values: NDArray[np.int64], order: MergedOrder) -> NDArray[np.int64]:
    """Find the least of the ``values`` [R] of the rows of each group, and return an array [G]."""
    return _combine_groups(values, order, True)


def _combine_groups(values: NDArray[np.int64], order: MergedOrder, takes_least: bool) -> NDArray[np.int64]:
    combined = np.empty(len(order.first_rows), np.int64)
    _fill_combined(values, order.rows, order.begins, takes_least, combined)
    return combined


@kernel(types.void(READONLY_INT64, READONLY_ORDER, types.boolean[::1], types.boolean, types.int64[::1]))
def _fill_combined(
    values: NDArray[np.int64],
    rows: NDArray[np.uint32],
    begins: NDArray[np.bool_],
    takes_least: bool,
    combined: NDArray[np.int64],
) -> None:
    """Fill ``combined`` with the least value of each group if ``takes_least``, otherwise with their sum."""
    group, result = uint64(0), int64(0)
    for at in range(uint64(rows.shape[0])):
        value = values[uint64(rows[at])]
        group += uint64(begins[at])
        together = min(result, value) if takes_least else result + value
        result = value if begins[at] else together
        combined[group - uint64(1)] = result
