"""Passes results from DuckDB to Polars, and frames of Polars to DuckDB.

This module must not import DuckDB. Polars keeps the type of its argument, and with it everything that the type's module
refers to, until the interpreter has ended; DuckDB then reports leaks on the standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import polars as pl
from polars.io.plugins import register_io_source


class Streamable(Protocol):
    """An object with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Stream:
    """Wraps an object and passes on its rows only."""

    def __init__(self, source: Streamable) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)


class LazyRows:
    """Rows that are made anew, and in parts, each time that DuckDB reads them: a relation to register."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # Lazy: DuckDB also opens a stream to learn the columns, and then nothing may be computed.
        batches: Streamable = self._frame.collect_batches(lazy=True)
        return batches.__arrow_c_stream__(requested_schema)


# Given the names of columns (None: all) and the most rows that are wanted, of which it may give more.
Ask = Callable[[Sequence[str] | None, int | None], Iterator[pl.DataFrame]]


def lazily(schema: pl.Schema, ask: Ask) -> pl.LazyFrame:
    """The rows that ``ask`` gives in parts, asked for anew each time that the frame is collected."""

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        left = most
        for part in ask(columns, most) if predicate is None else ask(None, None):
            found = part if predicate is None else part.filter(predicate)
            found = found.select(columns or pl.all())
            found = found if left is None else found.head(left)
            yield found
            if left is not None and (left := left - found.height) == 0:
                return

    return register_io_source(rows, schema=schema)
