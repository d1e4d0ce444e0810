"""A result on its way from DuckDB to Polars.

In a module of its own, which must not import DuckDB: Polars remembers the type of whatever it was given until the
interpreter has ended, with all that its module refers to, and DuckDB then complains about leaks on the standard error.
"""

from __future__ import annotations

from typing import Protocol


class Streamable(Protocol):
    """Anything that hands out its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Stream:
    """Passes on the rows of another object, and nothing else of it."""

    def __init__(self, source: Streamable) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)
