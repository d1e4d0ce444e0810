"""One question to DuckDB: checked to be read-only, answered as a frame with types that Polars has."""

from __future__ import annotations

import re
from collections import Counter

import duckdb
import polars as pl
from duckdb.sqltypes import DuckDBPyType
from polars.datatypes import DataTypeClass

from analytics.query.arrow_stream import Stream
from analytics.query.views import VIEWS
from quarto.errors import RequestError, nearest

_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?", re.IGNORECASE)
_FROM_POLARS = "got external error: "  # Polars' prefix of an error that DuckDB raises between two chunks

# Polars cannot read the first two, and would show the others as bytes or without their time zone.
_FOREIGN = ("interval", "union", "variant", "bignum", "geometry", "bit", "time with time zone")
_NESTED = ("list", "array", "struct", "tuple", "map")


def ask(connection: duckdb.DuckDBPyConnection, text: str) -> pl.DataFrame | str:
    """The answer to a question, or DuckDB's error message. Whole numbers have 64 bits if they fit.

    Raises ``RequestError`` unless ``text`` is one question whose answer a frame can hold.
    """
    try:
        _check(text)
        connection.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may contain an INSERT
        try:
            relation = connection.sql(text)
            _check_columns(relation.columns, relation.types)
            return _with_whole_numbers(pl.DataFrame(Stream(relation)))
        finally:
            connection.execute("ROLLBACK")
    except (duckdb.Error, pl.exceptions.PolarsError) as error:
        return str(error).removeprefix(_FROM_POLARS)


def explained(complaint: str) -> RequestError:
    """The error for DuckDB's message without its excerpt of the question; for an unknown table, the nearest view."""
    missing = re.match(r"Catalog Error: Table with name (\S+) does not exist!", complaint)
    if missing:
        return RequestError(f"SQL: there is no table {missing[1]!r}{nearest(missing[1], VIEWS)}")
    if complaint.startswith("Out of Memory Error"):
        return RequestError("SQL: the question needs more memory than it may use: raise the limit (--memory 4GiB)")
    lines = [line.strip() for line in complaint.partition("\nLINE ")[0].splitlines()]
    return RequestError("SQL: " + " ".join(line for line in lines if line))


def _check(text: str) -> None:
    """Raise ``RequestError`` unless ``text`` is one SELECT, or one EXPLAIN of a SELECT."""
    kinds = _kinds(text)
    explains = _EXPLAIN.match(text)
    if kinds == ["EXPLAIN"] and explains:
        kinds = _kinds(text[explains.end() :])  # EXPLAIN ANALYZE runs what it explains
    if kinds == ["MULTI"]:
        _check_pivot(text)
    elif kinds != ["SELECT"]:
        found = "; ".join(kinds) or "nothing"
        raise RequestError(f"SQL here is one SELECT that only reads (this is: {found}); views: {', '.join(VIEWS)}")


def _check_pivot(text: str) -> None:
    """Raise ``RequestError`` unless a statement that DuckDB splits into several is a question as a whole.

    DuckDB splits a PIVOT without its values, to find them first. It also splits a COPY of such a PIVOT; but a COPY is
    a syntax error in brackets after FROM, where the grammar allows questions only.
    """
    try:
        reads = _kinds(f"FROM (\n{text}\n)") == ["MULTI"]
    except duckdb.Error:
        reads = False
    if not reads:
        raise RequestError(
            "SQL: PIVOT without its values only works in one SELECT that only reads: name them, as in "
            "PIVOT games ON ending IN ('line', 'full_board') USING count(*)"
        )


def _kinds(text: str) -> list[str]:
    return [statement.type.name for statement in duckdb.extract_statements(text)]


def _check_columns(names: list[str], kinds: list[DuckDBPyType]) -> None:
    """Raise ``RequestError`` for columns that no frame can hold."""
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestError(
                f"SQL: {count} columns of the answer are named {name!r}: rename them with AS, or leave one out"
            )
    for name, kind in zip(names, kinds, strict=True):
        if _is_foreign(kind):
            raise RequestError(
                f"SQL: column {name!r} of the answer is of type {kind}, which Polars does not have: "
                "cast it, for instance to VARCHAR"
            )


def _is_foreign(kind: DuckDBPyType) -> bool:
    if kind.id not in _NESTED:
        return kind.id in _FOREIGN
    return any(_is_foreign(child) for _, child in kind.children if isinstance(child, DuckDBPyType))


def _with_whole_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast decimals without fraction, as DuckDB's 128-bit sums arrive, to 64-bit integers where they fit."""
    for name, kind in frame.schema.items():
        whole = _whole(kind)
        if whole != kind:
            try:
                frame = frame.with_columns(pl.col(name).cast(whole))
            except pl.exceptions.InvalidOperationError:
                continue
    return frame


def _whole(kind: pl.DataType | DataTypeClass) -> pl.DataType | DataTypeClass:
    match kind:
        case pl.Decimal(scale=0):
            return pl.Int64()
        case pl.List():
            return pl.List(_whole(kind.inner))
        case pl.Struct():
            return pl.Struct({field.name: _whole(field.dtype) for field in kind.fields})
    return kind
