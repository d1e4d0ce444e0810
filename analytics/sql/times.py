"""Dates and times that DuckDB has and Polars has not: Polars panics when it shows one."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from quarto.errors import RequestError

_DAYS = (-719_162, 2_932_896)  # of the years 1 to 9999, from 1970 on
_DAY_SECONDS = 86_400
# The least and the largest date (by None) and time (by unit). DuckDB's infinities are the ends of 64 bits.
_RANGES = {
    None: _DAYS,
    "ms": (_DAYS[0] * _DAY_SECONDS * 10**3, (_DAYS[1] + 1) * _DAY_SECONDS * 10**3 - 1),
    "us": (_DAYS[0] * _DAY_SECONDS * 10**6, (_DAYS[1] + 1) * _DAY_SECONDS * 10**6 - 1),
    "ns": (2 - 2**63, 2**63 - 2),
}


def checked_times(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame. Raises ``RequestError`` for a date or time that DuckDB has and Polars has not."""
    for column in frame.iter_columns():
        for times in _times(column):
            least, most = _RANGES[times.dtype.time_unit if isinstance(times.dtype, pl.Datetime) else None]
            if not times.to_physical().is_between(least, most).all():
                raise RequestError(
                    f"SQL: column {column.name!r} of the answer has a date outside of the years 1 to 9999, such as "
                    "infinity: cast it, for instance to VARCHAR"
                )
    return frame


def holds_times(kind: pl.DataType) -> bool:
    """Whether values of a type are, or hold, dates or times."""
    return any(True for _ in _times(pl.Series(dtype=kind)))


def _times(column: pl.Series) -> Iterator[pl.Series]:
    """The dates and times in a column, also those in lists and structs."""
    match column.dtype:
        case pl.Date() | pl.Datetime():
            yield column
        case pl.List() | pl.Array():
            yield from _times(column.explode())
        case pl.Struct():
            for child in column.struct.unnest().iter_columns():
                yield from _times(child)
