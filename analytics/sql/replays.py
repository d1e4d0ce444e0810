"""Rows that are replayed from the plies of a run, range by range, while they are read.

Nothing is stored: reading and replaying take some nanoseconds a ply. Ranges are read ahead on all cores.
Like ``arrow_stream``, this module must not import DuckDB.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import polars as pl

from analytics.derived_tables.boards import BOARDS, ORDERS, boards_of, orders_of
from analytics.sql.arrow_stream import lazily
from analytics.store.archive import Archive
from analytics.store.range_files import damaged, read_rows
from analytics.store.range_names import StoredRange
from quarto.errors import FailureError
from quarto.rules import Rules

Replay = Callable[[pl.DataFrame], pl.DataFrame]


def boards(archive: Archive, run_id: str) -> pl.LazyFrame:
    """The plies of a run with the board before each, by the schema ``BOARDS``."""
    return _replayed(archive, run_id, archive.ranges(run_id), boards_of, BOARDS)


def orders(archive: Archive, run_id: str) -> pl.LazyFrame:
    """The first plies of each game of a run, in order and up to symmetry, by the schema ``ORDERS``.

    Raises ``FailureError`` for a run without a record: its rules are not known.
    """
    rules = _rules_of(archive, run_id)
    return _replayed(archive, run_id, archive.ranges(run_id), lambda plies: orders_of(plies, rules), ORDERS)


def _rules_of(archive: Archive, run_id: str) -> Rules:
    record = archive.run(run_id)
    if record is None:
        raise FailureError(f"run {run_id} has games and no record, so its rules are not known: restore its record")
    return record.rules


def _replayed(
    archive: Archive, run_id: str, ranges: Sequence[StoredRange], replay: Replay, schema: pl.Schema
) -> pl.LazyFrame:
    def read(stored: StoredRange) -> pl.DataFrame:
        plies = read_rows(archive, run_id, stored, "plies")
        try:
            return replay(plies)
        except ValueError as error:
            raise damaged(archive.path("plies", run_id, stored), error) from error

    return lazily(schema, lambda _columns, _most: _ahead(read, ranges))


def _ahead(read: Callable[[StoredRange], pl.DataFrame], ranges: Sequence[StoredRange]) -> Iterator[pl.DataFrame]:
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
