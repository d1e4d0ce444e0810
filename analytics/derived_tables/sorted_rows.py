"""Merges sorted tables of different games. Only a part of each table is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np
import polars as pl
from numpy.typing import NDArray

VALUES = 16  # of a column that comes before ``game_id`` in the order: plies and kinds


class _Rows:
    """The rows of one table that are in memory and not merged yet."""

    def __init__(self, number: int, parts: Iterator[pl.DataFrame], columns: Sequence[str]) -> None:
        self._number = number
        self._parts = parts
        self._columns = columns
        self._frame, self._at = pl.DataFrame(), 0
        self._major: NDArray[np.int64] = np.empty(0, np.int64)  # [R] the columns before ``game_id`` as one number
        self._game_id: NDArray[np.int64] = np.empty(0, np.int64)  # [R]

    def next_key(self) -> tuple[int, int, int] | None:
        """The index of the next row in the order, and the number of the table; None at its end."""
        while self._at == len(self._frame):
            part = next(self._parts, None)
            if part is None:
                return None
            self._frame, self._at = part, 0
            self._game_id = part["game_id"].to_numpy()
            self._major = np.zeros(len(part), np.int64)
            for name in self._columns:
                self._major = self._major * VALUES + part[name].to_numpy()
        return int(self._major[self._at]), int(self._game_id[self._at]), self._number

    def taken_before(self, limit: tuple[int, int, int] | None) -> pl.DataFrame:
        """The next rows: those in memory that come before ``limit``, and at least one."""
        start, end = self._at, len(self._frame)
        if limit is not None:
            first, last = np.searchsorted(self._major, (limit[0], limit[0] + 1)).tolist()
            end = first + int(np.searchsorted(self._game_id[first:last], limit[1]))
        self._at = max(start + 1, end)
        return self._frame[start : self._at]


def merged_rows(
    tables: Sequence[Iterator[pl.DataFrame]], columns: Sequence[str], group_rows: int
) -> Iterator[pl.DataFrame]:
    """The rows of all tables in parts of ``group_rows``, the last one smaller; no part is empty.

    All are sorted by ``columns``, small numbers, then ``game_id``. A table comes as its rows in order, in parts.
    """
    waiting: list[pl.DataFrame] = []
    rows = 0
    for part in _in_order(tables, columns):
        waiting.append(part)
        rows += len(part)
        while rows >= group_rows:
            whole = pl.concat(waiting)
            yield whole[:group_rows]
            waiting, rows = [whole[group_rows:]], rows - group_rows
    if rows:
        yield pl.concat(waiting)


def _in_order(tables: Sequence[Iterator[pl.DataFrame]], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    every = [_Rows(number, table, columns) for number, table in enumerate(tables)]
    heap: list[tuple[int, int, int]] = []
    for rows in every:
        if key := rows.next_key():
            heappush(heap, key)
    while heap:
        rows = every[heappop(heap)[2]]
        yield rows.taken_before(heap[0] if heap else None)
        if key := rows.next_key():
            heappush(heap, key)
