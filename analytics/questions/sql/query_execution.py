"""The execution of one query in DuckDB: checked to be read-only, answered at once or in parts, in types of Polars.

``QueryLimits`` bound the memory, the disk space and the time that a query takes.
"""

from __future__ import annotations

import math
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, BinaryIO, NamedTuple, TypeVar

import duckdb
import polars as pl
from duckdb.sqltypes import DuckDBPyType
from polars.datatypes import DataTypeClass

from analytics.questions.sql.lazy_rows import ArrowStream
from analytics.questions.sql.syntax import PIVOT_KINDS, SELECT_KINDS, ParsedQuery
from analytics.questions.sql.views import DERIVED_TABLE_VIEWS, VIEWS
from analytics.store.files.backend import parse_size
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError, suggest_valid_names

AnswerT = TypeVar("AnswerT")

# Consumes rows once. To end early, it calls the second argument and consumes the rest, because a thread of Polars reads
# ahead.
RowConsumer = Callable[[pl.LazyFrame, Callable[[], None]], None]
_FROM_POLARS = "got external error: "  # Polars' prefix of an error that DuckDB raises between two chunks

# Polars cannot read the first two, lets whole seconds overflow, and would show the others as bytes or without their
# time zone.
_UNSUPPORTED_TYPES = ("interval", "union", "timestamp_s", "variant", "bignum", "geometry", "bit", "time with time zone")
_NESTED_TYPES = ("list", "array", "struct", "tuple", "map")


class QueryFailure(NamedTuple):
    """The failure of a query, with the message of DuckDB or Polars."""

    text: str
    is_fatal: bool  # whether the connection can answer no more questions

    @staticmethod
    def from_error(error: BaseException) -> QueryFailure:
        text = str(error).removeprefix(_FROM_POLARS).strip()
        if not isinstance(error, (duckdb.Error, pl.exceptions.PolarsError)):  # C++'s and Rust's own
            text = f"DuckDB cannot carry this out ({text or type(error).__name__})"
        return QueryFailure(text, isinstance(error, (duckdb.InternalException, duckdb.FatalException)))

    @property
    def is_unknown_name(self) -> bool:
        """Whether the query names a table or function that DuckDB does not know."""
        return self.text.startswith("Catalog Error")


class QueryResult:
    """The rows of the answer to a query, which can be read once. Whole numbers have 64 bits if they fit."""

    def __init__(self, relation: duckdb.DuckDBPyRelation, stop: Callable[[], None]) -> None:
        """Wrap a relation of DuckDB. ``stop`` interrupts the query on the relation's connection."""
        self._relation = relation
        self._stop = stop
        self.is_open = False  # whether unread rows occupy the connection, which can then do nothing else

    def read_frame(self) -> pl.DataFrame:
        """Read all rows into a frame."""
        return _read_frame(self._relation)

    def read_first_rows(self, rows: int) -> pl.DataFrame:
        """Read the first ``rows`` rows; DuckDB computes only what these rows require."""
        return _read_frame(self._relation.limit(rows))

    def stream(self, write: RowConsumer, folder: Path | None) -> None:
        """Pass the rows in parts to ``write``, together with a function that stops the query early.

        Whether 128-bit numbers fit into 64 bits is known only after the last row. Rows with such numbers are therefore
        first stored in ``folder``; without a folder, these numbers stay decimals.
        """
        self.is_open = True
        rows = pl.scan_arrow_c_stream(ArrowStream(self._relation))
        self._write_rows_spooling_wide_integers(rows, write, folder)
        self.is_open = False

    def _write_rows_spooling_wide_integers(self, rows: pl.LazyFrame, write: RowConsumer, folder: Path | None) -> None:
        if folder is None or all(_to_64_bit_integer_type(kind) == kind for kind in rows.collect_schema().values()):
            write(rows, self._stop)
            return
        path = folder / f"{uuid.uuid4().hex}.parquet"
        try:
            rows.sink_parquet(path, compression="lz4")
            write(pl.scan_parquet(path).with_columns(_list_lossless_integer_casts(pl.scan_parquet(path))), self._stop)
        finally:
            path.unlink(missing_ok=True)


def sink_parquet(rows: pl.LazyFrame, out: Path | BinaryIO, **options: Any) -> None:
    """Write rows as Parquet to ``out``, in parts.

    Raises ``RequestError`` for dates that Polars cannot represent, and ``OSError`` if writing fails.
    """
    if any(True for kind in rows.collect_schema().values() for _ in _iterate_times(pl.Series(dtype=kind))):
        rows = rows.map_batches(check_times, streamable=True)
    try:
        rows.sink_parquet(out, **options)
    except pl.exceptions.PolarsError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _read_frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    frame = check_times(pl.DataFrame(ArrowStream(relation)))
    return frame.with_columns(_list_lossless_integer_casts(frame.lazy()))


def run_query(
    connection: duckdb.DuckDBPyConnection,
    query: ParsedQuery,
    parameters: Any,
    consume_result: Callable[[QueryResult], AnswerT],
    limits: AbstractContextManager[None],
) -> AnswerT | QueryFailure:
    """Run a query, and return what ``consume_result`` returns for its result, or DuckDB's failure.

    Args:
        connection: A connection whose views are filled.
        query: The query.
        parameters: The values of the query's placeholders, in order or by name, or None if it has no placeholders.
        consume_result: A function that reads the rows of the result.
        limits: A context that may interrupt the query.

    Raises:
        RequestError: ``query`` is not a single query whose answer a frame can hold.

    """
    _check_single_select(query)
    if query.error:
        return QueryFailure(f"Parser Error: {query.error}", is_fatal=False)
    try:
        connection.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may contain an INSERT
        answer = None
        try:
            with limits:
                with_parameters = {} if parameters is None else {"params": parameters}
                relation = connection.sql(query.text, **with_parameters)
                _check_columns(relation.columns, relation.types)
                answer = QueryResult(relation, connection.interrupt)
                return consume_result(answer)
        finally:
            if answer is None or not answer.is_open:
                connection.execute("ROLLBACK")
    except (duckdb.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException, RuntimeError, MemoryError) as error:
        return QueryFailure.from_error(error)


def build_query_error(message: str) -> RequestError:
    """Build the error for a DuckDB message: drop DuckDB's excerpt of the query, and suggest suitable views."""
    unknown_table = re.match(r"Catalog Error: Table with name (\S+) does not exist!", message)
    if unknown_table:
        return RequestError(
            f"SQL: there is no table {unknown_table[1]!r}{suggest_valid_names(unknown_table[1], VIEWS)}"
        )
    lines = [line.strip() for line in message.partition("\nLINE ")[0].splitlines()]
    column = re.search(r'Referenced column "(\w+)" not found', message)
    views_with_column = [
        view for view in sorted(VIEWS, key=DERIVED_TABLE_VIEWS.__contains__) if column and column[1] in VIEWS[view]
    ]
    hint = ""
    if column:
        text = f"; if it is a text, write it in single quotes, '{column[1]}'"
        hint = f"; column {column[1]} is in the views {', '.join(views_with_column)}" if views_with_column else text
    return RequestError("SQL: " + " ".join(line for line in lines if line) + hint)


def _check_single_select(query: ParsedQuery) -> None:
    """Raise ``RequestError`` unless a query is one SELECT, or one EXPLAIN of a SELECT, and only reads data.

    A query with a syntax error passes, because DuckDB describes the error better.
    """
    if not query.text.isascii() and query.text.encode(errors="replace").decode() != query.text:
        raise RequestError("SQL: the question holds bytes that are not UTF-8: write it in UTF-8")
    if query.error or (query.is_read_only and query.kinds == SELECT_KINDS):
        return
    if query.kinds != PIVOT_KINDS:
        kinds = "; ".join(query.kinds) or "nothing"
        change = "" if query.is_read_only or query.kinds != SELECT_KINDS else " that writes"
        raise RequestError(
            f"SQL here is one SELECT that only reads (this is: {kinds}{change}); views: {', '.join(VIEWS)}"
        )
    if query.explains or not query.is_read_only:
        raise RequestError(
            "SQL: PIVOT without its values only works in one SELECT that only reads: name them, as in "
            "PIVOT games ON ending IN ('line', 'full_board') USING count(*)"
        )


def _check_columns(names: list[str], kinds: list[DuckDBPyType]) -> None:
    """Raise ``RequestError`` for columns that no frame can hold."""
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestError(
                f"SQL: {format_count_with_noun(count, 'column')} of the answer are named "
                f"{name!r}: rename them with AS, or leave one out"
            )
    for name, kind in zip(names, kinds, strict=True):
        if _is_unsupported_type(kind):
            raise RequestError(
                f"SQL: column {name!r} of the answer is of type {kind}, which Polars does not have: "
                "cast it, for instance to VARCHAR"
            )


def _is_unsupported_type(kind: DuckDBPyType) -> bool:
    if kind.id not in _NESTED_TYPES:
        return kind.id in _UNSUPPORTED_TYPES
    return any(_is_unsupported_type(child) for _, child in kind.children if isinstance(child, DuckDBPyType))


def _list_lossless_integer_casts(rows: pl.LazyFrame) -> list[pl.Expr]:
    """List the casts that bring columns of whole numbers in ``rows`` from 128 to 64 bits without losing a number.

    Such columns exist because DuckDB computes sums with 128 bits. A column with a number that does not fit has no cast.
    """
    casts = []
    for name, kind in rows.collect_schema().items():
        integer_kind = _to_64_bit_integer_type(kind)
        if integer_kind != kind:
            try:
                for _ in rows.select(pl.col(name).cast(integer_kind)).collect_batches():
                    pass
            except pl.exceptions.InvalidOperationError:
                continue
            casts.append(pl.col(name).cast(integer_kind))
    return casts


def _to_64_bit_integer_type(kind: pl.DataType | DataTypeClass) -> pl.DataType | DataTypeClass:
    match kind:
        case pl.Decimal(scale=0):
            return pl.Int64()
        case pl.List():
            return pl.List(_to_64_bit_integer_type(kind.inner))
        case pl.Struct():
            return pl.Struct({field.name: _to_64_bit_integer_type(field.dtype) for field in kind.fields})
    return kind


_DAYS = (-719_162, 2_932_896)  # of the years 1 to 9999, from 1970 on
_DAY_SECONDS = 86_400
# The least and the largest date (by None) and time (by unit). DuckDB's infinities are the ends of 64 bits.
_TIME_BOUNDS = {
    None: _DAYS,
    "ms": (_DAYS[0] * _DAY_SECONDS * 10**3, (_DAYS[1] + 1) * _DAY_SECONDS * 10**3 - 1),
    "us": (_DAYS[0] * _DAY_SECONDS * 10**6, (_DAYS[1] + 1) * _DAY_SECONDS * 10**6 - 1),
    "ns": (2 - 2**63, 2**63 - 2),
}


def check_times(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` unchanged. Raises ``RequestError`` for a date or time that Polars cannot represent."""
    for column in frame.iter_columns():
        for times in _iterate_times(column):
            earliest, latest = _TIME_BOUNDS[times.dtype.time_unit if isinstance(times.dtype, pl.Datetime) else None]
            if not times.to_physical().is_between(earliest, latest).all():
                raise RequestError(
                    f"SQL: column {column.name!r} of the answer has a date outside of the years 1 to 9999, such as "
                    "infinity: cast it, for instance to VARCHAR"
                )
    return frame


def _iterate_times(column: pl.Series) -> Iterator[pl.Series]:
    """Yield the dates and times in a column, including those inside lists and structs."""
    match column.dtype:
        case pl.Date() | pl.Datetime():
            yield column
        case pl.List() | pl.Array():
            yield from _iterate_times(column.explode())
        case pl.Struct():
            for child in column.struct.unnest().iter_columns():
                yield from _iterate_times(child)


DEFAULT_MEMORY = "70%"  # of the machine's; a larger question spills to the temporary folder
_MEMORY_SHARE = re.compile(r"[0-9.]*[1-9][0-9.]*%")  # of the machine's memory
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class QueryLimits:
    """Limits of memory, disk space and time for a query.

    Raises ``RequestError`` for a limit that is malformed.
    """

    memory: str = DEFAULT_MEMORY  # such as 1GiB or 70%; a question that needs more spills to the disk
    spill: str | None = None  # such as 10GiB; None: nine tenths of the free space
    seconds: float | None = None  # None: no limit
    stop_event: Event | None = None  # any thread may set it, to end the question and all later ones
    options: bool = True  # whether errors name the options of the command line

    def __post_init__(self) -> None:
        if not _MEMORY_SHARE.fullmatch(self.memory):
            parse_size(self.memory, "memory ", ", or a share of the machine's, 70%")
        if self.spill is not None:
            parse_size(self.spill, "spill ")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise RequestError(f"timeout {self.seconds:g} is not a time: write a number of seconds above 0")

    @contextmanager
    def enforce(
        self, connection: duckdb.DuckDBPyConnection, spill_folder: Path, errors: list[RequestError]
    ) -> Iterator[None]:
        """Interrupt the connection if a query in this context exceeds a limit, and append the error to ``errors``.

        The spill folder is measured twenty times a second, because DuckDB 2.0 does not obey its own setting
        ``max_temp_directory_size``: a query spilled 740 MB although only 5 MB were allowed.
        """
        if self.seconds is None and self.spill is None and self.stop_event is None:
            yield
            return
        is_done = Event()
        watcher = Thread(target=self._interrupt_at_limit, args=(connection, spill_folder, is_done, errors), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_done.set()
            watcher.join()

    def _interrupt_at_limit(
        self, connection: duckdb.DuckDBPyConnection, spill_folder: Path, is_done: Event, errors: list[RequestError]
    ) -> None:
        end = math.inf if self.seconds is None else time.monotonic() + self.seconds
        max_bytes = math.inf if self.spill is None else parse_size(self.spill)
        while not is_done.wait(min(_POLL_SECONDS, max(0.0, end - time.monotonic()) or _POLL_SECONDS)):
            if not errors and time.monotonic() >= end:
                errors.append(self.build_timeout_error())
            if not errors and max_bytes < math.inf and _measure_folder(spill_folder) > max_bytes:
                hint = self._format_option_hint("allow more (--spill), or more memory (--memory), or ")
                errors.append(
                    RequestError(
                        f"SQL: the question spills more than {self.spill} to the disk: {hint}ask about fewer games"
                    )
                )
            if not errors and self.stop_event is not None and self.stop_event.is_set():
                errors.append(RequestError("SQL: the question was stopped"))
            if errors:
                connection.interrupt()  # repeated, because an interrupt between two statements has no effect

    def build_timeout_error(self) -> RequestError:
        """Build the error for a query that took too long."""
        return RequestError(
            f"SQL: the question took longer than {self.seconds:g} seconds: "
            f"{self._format_option_hint('allow more (--timeout), or ')}ask about fewer games"
        )

    def build_memory_error(self, message: str) -> RequestError | None:
        """Return the error for a query that needs too much memory, or None if DuckDB's message is not about memory."""
        if not message.startswith("Out of Memory Error"):
            return None
        remedy = self._format_option_hint("raise the limit (--memory 4GiB), or ")
        return RequestError(f"SQL: the question needs more memory than it may use: {remedy}ask about fewer games")

    def _format_option_hint(self, remedy: str) -> str:
        return remedy if self.options else ""


def _measure_folder(folder: Path) -> int:
    """Return the total size, in bytes, of the files in a folder, or 0 if the folder does not exist."""
    total = 0
    with suppress(OSError):  # files come and go
        for file in folder.iterdir():
            total += file.stat().st_blocks * 512
    return total


NO_LIMITS = QueryLimits()  # except for memory
