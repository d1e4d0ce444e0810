"""Rows that pass between DuckDB and Polars while they are read: of results, of frames, and replayed from stored plies.

Replayed rows are not stored, because reading and replaying take only some nanoseconds a ply.

This module must not import DuckDB. Polars keeps the type of its argument, and with it everything that the type's module
refers to, until the interpreter has ended; DuckDB would then report leaks on the standard error.
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
    derive_canonical_first_plies,
    replay_plies,
)
from quarto.errors import ArenaError


class ArrowStream:
    """A wrapper that exposes only the rows of an object, through the Arrow PyCapsule interface."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)


class LazyArrowStream:
    """A lazy frame in a form that DuckDB can register; its rows are computed each time that DuckDB reads them."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # Lazy: DuckDB also opens a stream to learn the columns, and then nothing may be computed.
        batches: Any = self._frame.collect_batches(lazy=True)
        return batches.__arrow_c_stream__(requested_schema)


# Takes the names of columns (None: all) and the number of rows that are needed (None: all), and may yield more rows.
FrameSource = Callable[[Sequence[str] | None, int | None], Iterator[pl.DataFrame]]


def scan_frames(schema: pl.Schema, frame_source: FrameSource) -> pl.LazyFrame:
    """Return a lazy frame whose rows ``frame_source`` yields in parts, anew each time the frame is collected."""

    def read_frames(
        columns: list[str] | None, predicate: pl.Expr | None, max_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        remaining_rows = max_rows
        for frame in frame_source(columns, max_rows) if predicate is None else frame_source(None, None):
            rows = frame if predicate is None else frame.filter(predicate)
            rows = rows.select(columns or pl.all())
            rows = rows if remaining_rows is None else rows.head(remaining_rows)
            yield rows
            if remaining_rows is not None and (remaining_rows := remaining_rows - rows.height) == 0:
                return

    return register_io_source(read_frames, schema=schema)


# A replay adds the error that ended it to this list. If the error left the stream, which DuckDB reads from Polars,
# Python would end some questions later by a segmentation fault (DuckDB 2.0, Polars 2.1).
Failures = list[ArenaError]
ReplayScanner = Callable[[ArchiveStore, RunRecord, Failures], pl.LazyFrame]


def scan_boards_before_plies(
    archive: ArchiveStore, record: RunRecord, failures: Failures, extra_columns: Collection[str]
) -> pl.LazyFrame:
    """Scan the plies of a run, each with the board before it, which follows from a replay of the games.

    The rows have the schema ``BOARDS``, and the columns of ``EXTRA_COLUMNS`` that ``extra_columns`` names. An error
    that ends the replay is added to ``failures``.
    """
    schema = pl.Schema({**BOARDS, **{name: kind for name, kind in EXTRA_COLUMNS.items() if name in extra_columns}})
    return _scan_replay(
        archive,
        record.run_id,
        lambda plies: replay_plies(plies, record, extra_columns).select(*schema),
        schema,
        failures,
    )


def scan_canonical_ordered_openings(archive: ArchiveStore, record: RunRecord, failures: Failures) -> pl.LazyFrame:
    """Scan the first plies of each game of a run, in the order of play and up to symmetry, by replaying the games.

    The rows have the schema ``ORDERED_OPENINGS``. An error that ends the replay is added to ``failures``.
    """
    return _scan_replay(
        archive,
        record.run_id,
        lambda plies: derive_canonical_first_plies(plies, record.rules),
        ORDERED_OPENINGS,
        failures,
    )


def _scan_replay(
    archive: ArchiveStore,
    run_id: str,
    replay: Callable[[pl.DataFrame], pl.DataFrame],
    schema: pl.Schema,
    failures: Failures,
) -> pl.LazyFrame:
    ranges = archive.list_effective_ranges(run_id)

    def replay_range(stored: StoredRange) -> pl.DataFrame:
        plies = read_rows(archive, run_id, stored, "plies")
        try:
            return _copy_numpy_rows_to_polars(replay(plies))
        except ValueError as error:
            raise damaged_file_error(archive.find_path_of_containing_file("plies", run_id, stored), error) from error

    return scan_frames(
        schema, lambda _columns, _max_rows: _stop_at_failure(_read_ahead(replay_range, ranges), failures)
    )


def _stop_at_failure(frames: Iterator[pl.DataFrame], failures: Failures) -> Iterator[pl.DataFrame]:
    try:
        yield from frames
    except ArenaError as error:
        failures.append(error)


def _copy_numpy_rows_to_polars(rows: pl.DataFrame) -> pl.DataFrame:
    """Copy rows into memory that Polars owns, because columns made from arrays borrow the memory of NumPy.

    DuckDB's threads free the last rows of a stream. When they freed a NumPy array, Python sometimes ended with a
    segmentation fault (DuckDB 2.0, Polars 2.1).
    """
    return rows[pl.int_range(rows.height, eager=True)]


def _read_ahead(
    read_range: Callable[[StoredRange], pl.DataFrame], ranges: Sequence[StoredRange]
) -> Iterator[pl.DataFrame]:
    """Yield the rows of each range, in order, while reading as many ranges in parallel as there are cores.

    If the consumer stops, no further ranges are read.
    """
    threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[pl.DataFrame]] = deque()
    try:
        for stored in ranges:
            waiting.append(pool.submit(read_range, stored))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an abandoned iterator may end in one of its threads
