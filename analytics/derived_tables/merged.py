"""Merges tables that are sorted by the same key. Of each table only a part is in memory.

A step takes, from all tables, the rows up to the least of the last keys in memory: what is read later comes after
these. So memory does not grow with the tables, and the same rows give the same parts.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

ROWS_IN_MEMORY = 1 << 20  # of so many tables together, about 50 bytes each
LEAST_ROWS = 1 << 12  # of each table: a step costs more than its rows if these are few

Key = tuple[Any, ...]
Totals = Mapping[str, np.ufunc]  # by column: how the values of rows with the same key become one


def rows_at_once(tables: int) -> int:
    """The number of rows of each of so many tables in memory: read the tables in parts of that size."""
    return max(LEAST_ROWS, min(1 << 16, ROWS_IN_MEMORY // tables))


def merged(
    tables: Sequence[Iterator[pl.DataFrame]], key: Sequence[str], group_rows: int, totals: Totals | None = None
) -> Iterator[pl.DataFrame]:
    """The rows of all tables by their key, in parts of ``group_rows``, the last one smaller; no part is empty.

    A table comes as its rows in order, in parts. With ``totals`` rows of the same key become one, and each table has a
    key once. Columns that are neither in the key nor in ``totals`` follow from the key.
    """
    waiting, rows = list[pl.DataFrame](), 0
    for found in _steps([_Rows(table, key) for table in tables]):
        found.sort(key=lambda rows: _key(rows, key, 0))
        step = pl.concat(found)
        if any(_key(one, key, -1) >= _key(other, key, 0) for one, other in itertools.pairwise(found)):
            step = by_key(step, key)
            step = added_up(step, key, totals) if totals else step
        waiting.append(step)
        rows += len(step)
        while rows >= group_rows:
            whole = pl.concat(waiting)
            yield whole[:group_rows]
            waiting, rows = [whole[group_rows:]], rows - group_rows
    if rows:
        yield pl.concat(waiting)


def _key(rows: pl.DataFrame, key: Sequence[str], row: int) -> Key:
    return rows.select(key).row(row)


def by_key(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Rows in the order of their key, whose columns are whole numbers.

    Neighbouring columns share a word of 63 bits if their values fit: one word is sorted many times as fast as seven
    columns.
    """
    words, room = list[pl.Series](), 0
    for name in key:
        column, least, most = rows[name].to_numpy(), int(rows[name].min()), int(rows[name].max())  # type: ignore[arg-type]
        bits = (most - least).bit_length()
        values = column.astype(np.int64) - (least if bits < 64 else 0)
        if words and bits <= room:
            words[-1] = words[-1] * (1 << bits) + pl.Series(values)
            room -= bits
        else:
            words.append(pl.Series(values))
            room = 63 - bits
    names = [f"word {number}" for number in range(len(words))]
    return rows.with_columns(**dict(zip(names, words, strict=True))).sort(names).drop(names)


def added_up(rows: pl.DataFrame, key: Sequence[str], totals: Totals) -> pl.DataFrame:
    """Rows in the order of their key, of which those with the same one become one. There is at least one."""
    begins = np.zeros(len(rows), np.bool_)
    begins[0] = True
    for name in key:
        column = rows[name].to_numpy()
        begins[1:] |= column[1:] != column[:-1]
    sums = {name: pl.Series(of.reduceat(rows[name].to_numpy(), np.flatnonzero(begins))) for name, of in totals.items()}
    return rows.filter(pl.Series(begins)).with_columns(**sums)


class _Rows:
    """The rows of one table that are in memory and not merged yet."""

    def __init__(self, parts: Iterator[pl.DataFrame], key: Sequence[str]) -> None:
        self._parts, self._key = parts, key
        self._frame, self._keys = pl.DataFrame(), pl.DataFrame()
        self._size = 0  # of the last part
        self.is_ended = False  # all are in memory
        self.read()

    def read(self) -> None:
        """Read the next part if less than half of one is left."""
        while not self.is_ended and 2 * len(self._frame) <= self._size:
            part = next(self._parts, None)
            self.is_ended = part is None
            if part is not None and len(part):
                self._size = len(part)
                self._frame = pl.concat([self._frame, part]) if len(self._frame) else part
        if len(self._keys) < len(self._frame):
            self._keys = self._frame.select(self._key)

    def __len__(self) -> int:
        return len(self._frame)

    def key(self, row: int) -> Key:
        """The key of a row in memory."""
        return self._keys.row(row)

    def taken(self, limit: Key | None) -> pl.DataFrame:
        """The rows in memory up to a key, or all of them; they are gone from here then."""
        end = len(self)
        if limit is not None and end and self.key(-1) > limit:
            end = bisect_right(range(end), limit, key=self.key) if self.key(0) <= limit else 0
        found, self._frame = self._frame[:end], self._frame[end:]
        if end:
            self._keys = self._keys[end:]
            self.read()
        return found


def _steps(tables: Sequence[_Rows]) -> Iterator[list[pl.DataFrame]]:
    """Rows of several tables; what comes in a step is before all that comes in later ones."""
    while True:
        limit = min((each.key(-1) for each in tables if not each.is_ended), default=None)
        if (
            limit is not None and len(limit) > 1
        ):  # of plies one at a time: then tables of different games do not overlap
            least = min(each.key(0)[0] for each in tables if len(each))
            limit = limit if limit[0] == least else (least, math.inf)
        found = [rows for each in tables if len(rows := each.taken(limit))]
        if found:
            yield found
        if limit is None:
            return
