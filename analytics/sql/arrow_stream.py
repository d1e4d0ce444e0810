"""Passes results from DuckDB to Polars.

This module must not import DuckDB. Polars keeps the type of its argument, and with it everything that the type's module
refers to, until the interpreter has ended; DuckDB then reports leaks on the standard error.
"""

from __future__ import annotations

from typing import Protocol


class Streamable(Protocol):
    """An object with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Stream:
    """Wraps an object and passes on its rows only."""

    def __init__(self, source: Streamable) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)
