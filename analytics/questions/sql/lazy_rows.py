"""Passes rows between DuckDB and Polars while they are read: of results, of frames, and replayed from stored plies.

Replayed rows are not stored: reading and replaying take some nanoseconds a ply.
This module must not import DuckDB. Polars keeps the type of its argument, and with it everything that the type's module
refers to, until the interpreter has ended; DuckDB then reports leaks on the standard error.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.table_files import damaged_file_error
from analytics.tables.derived.boards import (
    BOARDS,
    EXTRA_COLUMNS,
    ORDERED_OPENINGS,
    derive_ordered_openings,
    replay_plies,
)
from quarto.errors import ArenaError


class ArrowStream:
    """Wraps an object with the Arrow PyCapsule interface, and passes on its rows only."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)


class LazyArrowStream:
    """Rows that are made anew, and in parts, each time that DuckDB reads them: a relation to register."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # Lazy: DuckDB also opens a stream to learn the columns, and then nothing may be computed.
        batches: Any = self._frame.collect_batches(lazy=True)
        return batches.__arrow_c_stream__(requested_schema)


# Given the names of columns (None: all) and the most rows that are wanted, of which it may give more.
FrameSource = Callable[[Sequence[str] | None, int | None], Iterator[pl.DataFrame]]


def scan_frames(schema: pl.Schema, frame_source: FrameSource) -> pl.LazyFrame:
    """The rows that ``frame_source`` gives in parts, asked for anew each time that the frame is collected."""

    def read_frames(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        left = most
        for part in frame_source(columns, most) if predicate is None else frame_source(None, None):
            found = part if predicate is None else part.filter(predicate)
            found = found.select(columns or pl.all())
            found = found if left is None else found.head(left)
            yield found
            if left is not None and (left := left - found.height) == 0:
                return

    return register_io_source(read_frames, schema=schema)


# A replay puts the error that ended it here. If the error left the stream, which DuckDB reads from Polars, Python would
# end some questions later by a segmentation fault (DuckDB 2.0, Polars 2.1).
Failures = list[ArenaError]
ReplayScanner = Callable[[ArchiveStore, RunRecord, Failures], pl.LazyFrame]


def scan_boards(
    archive: ArchiveStore, record: RunRecord, failures: Failures, extra_columns: Collection[str]
) -> pl.LazyFrame:
    """The plies of a run with the board before each, by the schema ``BOARDS`` and with some of ``EXTRA_COLUMNS``."""
    schema = pl.Schema({**BOARDS, **{name: kind for name, kind in EXTRA_COLUMNS.items() if name in extra_columns}})
    return _scan_replay(
        archive,
        record.run_id,
        lambda plies: replay_plies(plies, record, extra_columns).select(*schema),
        schema,
        failures,
    )


def scan_ordered_openings(archive: ArchiveStore, record: RunRecord, failures: Failures) -> pl.LazyFrame:
    """The first plies of each game of a run, in order and up to symmetry, by the schema ``ORDERED_OPENINGS``."""
    return _scan_replay(
        archive, record.run_id, lambda plies: derive_ordered_openings(plies, record.rules), ORDERED_OPENINGS, failures
    )


def _scan_replay(
    archive: ArchiveStore,
    run_id: str,
    replay: Callable[[pl.DataFrame], pl.DataFrame],
    schema: pl.Schema,
    failures: Failures,
) -> pl.LazyFrame:
    ranges = archive.list_effective_ranges(run_id)

    def read(stored: StoredRange) -> pl.DataFrame:
        plies = read_rows(archive, run_id, stored, "plies")
        try:
            return _copy_to_polars(replay(plies))
        except ValueError as error:
            raise damaged_file_error(archive.find_path("plies", run_id, stored), error) from error

    return scan_frames(schema, lambda _columns, _most: _stop_at_failure(_read_ahead(read, ranges), failures))


def _stop_at_failure(frames: Iterator[pl.DataFrame], failures: Failures) -> Iterator[pl.DataFrame]:
    try:
        yield from frames
    except ArenaError as error:
        failures.append(error)


def _copy_to_polars(rows: pl.DataFrame) -> pl.DataFrame:
    """A copy in memory of Polars. Columns made of arrays borrow the memory of NumPy.

    DuckDB's threads free the last rows of a stream. Where that meant to free an array, Python ended by a segmentation
    fault now and then (DuckDB 2.0, Polars 2.1).
    """
    return rows[pl.int_range(rows.height, eager=True)]


def _read_ahead(read: Callable[[StoredRange], pl.DataFrame], ranges: Sequence[StoredRange]) -> Iterator[pl.DataFrame]:
    """The ranges in order, as many read at once as there are cores. When nobody wants more, no more are read."""
    threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[pl.DataFrame]] = deque()
    try:
        for stored in ranges:
            waiting.append(pool.submit(read, stored))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an iterator that is given up may end in one of its threads
