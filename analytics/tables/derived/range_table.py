"""Tables with a file for each range: their columns, the order of their rows, and how children become a parent.

A derived table holds facts that follow from the games of each range. Its files have the names of the games' files, so
the missing files are the difference of two sets of ranges. A parent holds the rows of its children (decisions) or their
sums (positions, first plies). Readers use it by the same rule as a parent of games.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import ArchiveStore, ExtentFilter
from analytics.store.game_tables import ROW_GROUP_ROWS, TableBytes
from analytics.store.parquet.encoder import encode_parquet
from analytics.store.range_files import write_table
from analytics.store.ranges import FileSlice, Range, Ranges, StoredRange, list_gaps, split_into_files
from analytics.store.records import RunRecord
from analytics.store.table_files import read_file_in_parts
from analytics.tables.derived.sorted_runs import MergedOrder, merge_sorted_runs
from analytics.tables.derived.threads import map_in_order_on_threads

Extent = TypeVar("Extent")
RowDeriver = Callable[[pl.DataFrame, RunRecord, str], pl.DataFrame]  # (source rows, record, extent) to a table's rows


@dataclass(frozen=True, eq=False)
class RangeTable:
    """The definition of a table that has one file for each range of units.

    The name of a file may have an extent, which says how much was derived from the games: for example, up to which ply.
    A file that replaces files of smaller ranges is their parent, and they are its children.
    """

    name: str  # also the name of the folder with its files
    schema: pl.Schema
    key: tuple[str, ...]  # the columns by which the rows are sorted
    totals: Totals | None = None  # how columns of sums are combined; None: the table has no sums
    max_merged_files: int = 256  # the most files that are merged at a time: all are open and partly in memory
    command: str = ""  # the command that makes missing files; empty: they are written with the games
    group_rows: int = ROW_GROUP_ROWS  # rows in a row group of a file
    parent_rows: Callable[[int], int] = lambda _units: ROW_GROUP_ROWS  # the same for a parent, by its number of units
    extents: str = ""  # a regular expression for the extents that files may have
    includes: Callable[[str, str], bool] = operator.eq  # whether the first extent holds all that the second one holds
    source_table: str = "plies"  # the table from whose rows the rows are derived
    derive_rows: RowDeriver | None = None  # derives the rows; None: they are made elsewhere
    # Encodes the rows of a parent's file, which come in parts; None: all columns are integers.
    encode: Callable[[Iterator[pl.DataFrame], RunRecord, Range], TableBytes] | None = None

    def is_extent(self, extent: str) -> bool:
        """Return whether ``extent`` is a valid extent in the name of a file of this table."""
        return re.fullmatch(self.extents, extent) is not None

    @property
    def damaged_file_remedy(self) -> str:
        """The advice to the user on what to do about a damaged file of this table."""
        return f"remove it and run '{self.command}'" if self.command else "remove it, it follows from the games"

    def read_frames(
        self, archive: ArchiveStore, run_id: str, stored: StoredRange, rows: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a stored file in parts of ``rows`` rows, or as one part if ``rows`` is None.

        Raises ``FailureError`` if the file is damaged.
        """
        path = archive.folder(self.name, run_id) / stored.name
        return read_file_in_parts(archive.backend, path, self.schema, rows)

    def write(
        self, archive: ArchiveStore, run_id: str, games: StoredRange, frame: pl.DataFrame, extent: str = ""
    ) -> StoredRange:
        """Write ``frame`` as this table's file for a range of games, and return the range of the new file.

        Raises ``FailureError`` if the file cannot be written.
        """
        return self.write_groups(archive, run_id, games, frame.iter_slices(self.group_rows), extent)

    def write_groups(
        self, archive: ArchiveStore, run_id: str, games: StoredRange, groups: Iterable[pl.DataFrame], extent: str = ""
    ) -> StoredRange:
        """Write this table's file for a range of games from its row groups, and return the range of the new file.

        Raises ``FailureError`` if the file cannot be written.
        """
        return write_table(archive, run_id, self.name, games, encode_parquet(groups, self.schema), extent)

    def merge_child_rows(
        self, children: Sequence[Iterator[pl.DataFrame]], units: int, threads: int = 1
    ) -> Iterator[pl.DataFrame]:
        """Merge the rows of child files, which hold neighbouring ranges, into the rows of one parent file.

        ``units`` is the number of units of the parent. The rows of each child are passed as an iterator over parts, and
        the merged rows are yielded in parts. The number of ``threads`` does not change them.
        """
        return merge_sorted_tables(children, self.key, self.parent_rows(units), self.totals, threads)

    def build_parent(
        self, children: Sequence[Iterator[pl.DataFrame]], record: RunRecord, span: Range, threads: int = 1
    ) -> TableBytes:
        """Build the content of the file for the range of units ``span``, which replaces files of smaller ranges.

        ``children`` holds the rows of each of these files, in parts. The number of ``threads`` does not change the
        content.
        """
        rows = self.merge_child_rows(children, span[1] - span[0], threads)
        return encode_parquet(rows, self.schema) if self.encode is None else self.encode(rows, record, span)


def list_extents_greatest_first(archive: ArchiveStore, run_id: str, table: RangeTable) -> list[str]:
    """List the distinct extents of a run's files of a table, the greatest first."""
    every = {file.extent for file in archive.list_files(table.name, run_id)}
    return sorted(filter(table.is_extent, every), reverse=True)


def select_ranges_with_most_units(archive: ArchiveStore, run_id: str, table: RangeTable) -> Ranges:
    """Select the ranges of a derived table for a query that names no extent.

    For each extent, the units in the files with at least this extent are counted. The ranges of these files are
    returned for the extent with the most units or, on a tie, for the greatest such extent.
    """
    extents = list_extents_greatest_first(archive, run_id, table)
    enough = [extents[: number + 1] for number in range(len(extents))]
    every = [archive.list_effective_ranges(run_id, table.name, sufficient.__contains__) for sufficient in enough]
    return max(every, key=lambda ranges: ranges.units, default=Ranges())


def count_lost_units(archive: ArchiveStore, record: RunRecord, table: RangeTable) -> int:
    """Count the units of a run that a derived table had when the run's record was written but lacks now."""
    return max(
        0, record.recorded_units(table.name) - select_ranges_with_most_units(archive, record.run_id, table).units
    )


def describe_loss(record: RunRecord, table: RangeTable, units: int) -> str:
    """Describe the loss of ``units`` units from a run's derived table, and the remedy.

    The text continues a sentence that begins with the table's folder.
    """
    return (
        f"lacks {units} of {record.recorded_units(table.name)} units, which were there: restore the files from a copy, "
        f"or run '{table.command}' again"
    )


def record_increased_derived_units(archive: ArchiveStore, run_id: str, tables: Iterable[RangeTable]) -> None:
    """Store in a run's record how many units each of ``tables`` holds, so that the loss of a file is noticed.

    If the record already has a greater number, that number stays, so that a loss is reported until the lost files are
    made again.

    Raises:
        FailureError: The record cannot be written.

    """
    units = {table.name: select_ranges_with_most_units(archive, run_id, table).units for table in tables}
    record = archive.find_run(run_id)
    if record is not None and any(record.recorded_units(name) < count for name, count in units.items()):
        archive.update_run_and_unit_count(run_id, lambda run: run and run.with_raised_derived_units(units))


def list_missing_ranges(
    archive: ArchiveStore, run_id: str, table: RangeTable, is_sufficient_extent: ExtentFilter
) -> list[StoredRange]:
    """List the ranges of games of a run for which a derived table has no file of a sufficient extent."""
    covered = archive.list_effective_ranges(run_id, table.name, is_sufficient_extent)
    return archive.list_effective_ranges(run_id).select_beginning_outside(covered)


class Chunk(NamedTuple, Generic[Extent]):
    """A slice of a run's games that one task works on, and the extent to which it processes these games."""

    run_id: str
    games: FileSlice
    extent: Extent  # how much the task derives from the games


def group_files_by_missing_range(
    archive: ArchiveStore, run_id: str, table: RangeTable, missing_ranges: Sequence[StoredRange]
) -> Iterator[list[StoredRange]]:
    """Yield a list for each of ``missing_ranges``, in order: the table's files that cover parts of this range."""
    ranges, partial_files = Ranges(missing_ranges), {file: list[StoredRange]() for file in missing_ranges}
    for file in archive.list_files(table.name, run_id) if missing_ranges else ():
        games = ranges.find_range(file.first)
        if games is not None and file.end <= games.end and table.is_extent(file.extent):
            partial_files[games].append(file)
    return iter(partial_files.values())


def list_missing_slices(
    games: StoredRange, existing_files: Iterable[StoredRange], max_units: int
) -> Iterator[FileSlice]:
    """Yield the slices of a range of games for which a table has no file.

    The number of units in a slice is a power of two, at most ``max_units``, and a slice begins at a multiple of this
    number; only a slice at the end of the range may have fewer units. Units in ``existing_files`` are not missing, even
    if these files do not make up the whole range yet. The function is called only for ranges without valid files. So if
    ``existing_files`` nevertheless cover all units, some of them must have been made from other games, and the whole
    range is yielded.
    """
    gaps = list_gaps(sorted((file.first, file.end) for file in existing_files), games.end, games.first)
    if not gaps:  # yet they do not count: some are of other games
        yield FileSlice.whole(games)
    for first, end in gaps:
        for low, high in split_into_files(first, end, games.end, max_units):
            yield FileSlice(games, low, high)


# Merging: tables that are sorted by the same key become one table. Only a part of each table is in memory. A step looks
# at the first rows of all tables and takes those up to the least of the last keys that it sees; all other rows sort
# after these rows. So memory does not grow with the tables, and the same rows give the same parts.

ROWS_IN_MEMORY = 1 << 21  # rows of all tables together, of about 50 bytes each
MIN_ROWS = 1 << 12  # rows of each table that are read at a time
MAX_ROWS = 1 << 18  # rows of each table: a part of a row group costs as much to read as the whole group
STEP_ROWS = 1 << 18  # rows of all tables together that a step looks at: what is computed from more leaves the cache
MIN_STEP_ROWS = 1 << 14  # rows of each table: with fewer rows, a step would cost more than the rows themselves

RowKey = tuple[Any, ...]
# By column: how the values of rows with the same key become one.
Totals = Mapping[str, Callable[[NDArray[np.int64], MergedOrder], NDArray[np.int64]]]


def compute_rows_per_table(tables: int) -> int:
    """Compute how many rows of each table to read at a time when ``tables`` tables are merged in memory.

    This is a power of two, as the number of rows in a row group is, so that few groups are read twice.
    """
    return max(MIN_ROWS, min(MAX_ROWS, 1 << ((ROWS_IN_MEMORY // tables).bit_length() - 1)))


def merge_sorted_tables(
    tables: Sequence[Iterator[pl.DataFrame]],
    key: Sequence[str],
    group_rows: int,
    totals: Totals | None = None,
    threads: int = 1,
) -> Iterator[pl.DataFrame]:
    """Merge tables that are sorted by ``key``, and yield the merged rows in parts of ``group_rows`` rows.

    Only the last part may be smaller, and no part is empty. Each table is an iterator over parts of its rows, in order.
    With ``totals``, rows with the same key are combined into one; no table may then have a key twice. Columns that are
    neither in ``key`` nor in ``totals`` must be determined by the key. The ``threads`` merge as many steps at the same
    time, while the calling thread reads the next one.
    """

    def merge_step(overlapping: list[pl.DataFrame]) -> pl.DataFrame:
        overlapping.sort(key=lambda rows: _key_at(rows, key, 0))
        if any(_key_at(one, key, -1) >= _key_at(other, key, 0) for one, other in itertools.pairwise(overlapping)):
            return _merge_overlapping(overlapping, key, totals)
        return pl.concat(overlapping)

    waiting, rows = list[pl.DataFrame](), 0
    step_rows = max(MIN_STEP_ROWS, STEP_ROWS // max(1, len(tables)))
    steps = _iterate_merge_steps([_MergeCursor(table, key, step_rows) for table in tables])
    for step in map_in_order_on_threads(merge_step, steps, threads):
        waiting.append(step)
        rows += len(step)
        while rows >= group_rows:
            collected = pl.concat(waiting)
            yield collected[:group_rows]
            waiting, rows = [collected[group_rows:]], rows - group_rows
    if rows:
        yield pl.concat(waiting)


def _merge_overlapping(tables: Sequence[pl.DataFrame], key: Sequence[str], totals: Totals | None) -> pl.DataFrame:
    """Merge tables that are sorted by ``key`` and not empty; with ``totals``, combine rows with the same key."""
    names = tables[0].columns if totals else key
    # As arrays, because NumPy's memory is used again for the next step; that of Polars is mapped anew, page by page.
    columns = {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}
    order = merge_sorted_runs(np.stack(_build_key_words(columns, key)), np.cumsum([0, *map(len, tables)]))
    if not totals:
        return pl.concat(tables, rechunk=True)[order.rows]  # rows are picked from one chunk several times faster
    merged = {
        name: totals[name](column, order) if name in totals else column[order.first_rows]
        for name, column in columns.items()
    }
    return pl.DataFrame(merged, schema=tables[0].schema)


def _key_at(rows: pl.DataFrame, key: Sequence[str], row: int) -> RowKey:
    return tuple(rows.get_column(name)[row] for name in key)  # a selection of columns takes twenty times as long


def _build_key_words(columns: Mapping[str, NDArray[np.integer]], key: Sequence[str]) -> list[NDArray[np.int64]]:
    """Build words whose order, word by word, is that of the columns of ``key``, which hold whole numbers.

    Neighbouring columns are combined into a word of 63 bits if their values fit, because fewer words are compared
    faster.
    """
    words, room = list[NDArray[np.int64]](), 0
    for name in key:
        column, least = columns[name], int(columns[name].min())
        bits = (int(column.max()) - least).bit_length()
        if words and bits <= room:
            if bits:  # most columns of a step hold one value
                words[-1] <<= bits
                words[-1] += column
                words[-1] -= least
            room -= bits
        else:
            words.append(column.astype(np.int64) - (least if bits < 64 else 0))
            room = 63 - bits
    return words


class _MergeCursor:
    """A table that is being merged, with those of its rows that are in memory but not yet merged."""

    def __init__(self, parts: Iterator[pl.DataFrame], key: Sequence[str], step_rows: int) -> None:
        self._parts, self._key, self._step_rows = parts, key, step_rows
        self._frame, self._keys = pl.DataFrame(), pl.DataFrame()
        self._size = 0  # rows of the part read last
        self.is_exhausted = False  # no part is left to read
        self.refill_if_nearly_empty()

    def refill_if_nearly_empty(self) -> None:
        """Read the next part of the table if few rows remain: one step's, and at most half of the part read last."""
        while not self.is_exhausted and len(self._frame) <= min(self._size // 2, self._step_rows):
            part = next(self._parts, None)
            self.is_exhausted = part is None
            if part is not None and len(part):
                self._size = len(part)
                self._frame = pl.concat([self._frame, part]) if len(self._frame) else part
        if len(self._keys) < len(self._frame):
            self._keys = self._frame.select(self._key)

    def __len__(self) -> int:
        return len(self._frame)

    def last_key_of_step(self) -> RowKey | None:
        """Return the last key that the next step may merge, or None if it may merge the rest of the table."""
        if self.is_exhausted and len(self) <= self._step_rows:
            return None
        return self.key_at(min(len(self), self._step_rows) - 1)

    def key_at(self, row: int) -> RowKey:
        """Return the key of the row with index ``row`` in memory."""
        return self._keys.row(row)

    def pop_up_to(self, limit: RowKey | None) -> pl.DataFrame:
        """Remove and return the rows in memory whose key is at most ``limit``.

        If ``limit`` is None, all rows in memory are removed and returned.
        """
        end = len(self)
        if limit is not None and end and self.key_at(-1) > limit:
            end = bisect_right(range(end), limit, key=self.key_at) if self.key_at(0) <= limit else 0
        popped, self._frame = self._frame[:end], self._frame[end:]
        if end:
            self._keys = self._keys[end:]
            self.refill_if_nearly_empty()
        return popped


def _iterate_merge_steps(tables: Sequence[_MergeCursor]) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of several tables in steps, such that the rows of a step sort before the rows of all later steps.

    A step is a list of frames, one for each table that has rows in the step.
    """
    while True:
        limit = min((key for cursor in tables if (key := cursor.last_key_of_step()) is not None), default=None)
        if limit is not None and len(limit) > 1:  # one ply at a time: then tables of different games do not overlap
            least = min(cursor.key_at(0)[0] for cursor in tables if len(cursor))
            limit = limit if limit[0] == least else (least, math.inf)
        parts = [rows for cursor in tables if len(rows := cursor.pop_up_to(limit))]
        if parts:
            yield parts
        if limit is None:
            return
