"""Compaction: the files of neighbouring ranges are merged into one file, which readers then use instead of them.

A parent holds an aligned range whose units its children hold, or the rest of the run. It is written like any file, by
any number of processes at once, because all of them write the same bytes. The files that it replaces are removed later
(``remove_replaced_files``), because a listing is no snapshot. Small files are merged automatically. Larger files are
merged when a user asks for it.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.store.archive import GAMES_FOLDER, ArchiveStore
from analytics.store.game_tables import ROW_GROUP_ROWS, GameRows, TableBytes, encode_games_table
from analytics.store.parquet.encoder import allocate_buffer
from analytics.store.range_files import write_slices, write_table
from analytics.store.ranges import Range, Ranges, StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import PLIES_SCHEMA, TABLE_SCHEMAS
from analytics.store.table_files import VERIFY_REMEDY, read_file_in_parts
from analytics.tables.derived.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.tables.derived.definitions import (
    DERIVED_TABLES,
    EVALUATIONS_TABLE,
    FIRST_PLIES_TABLE,
    POSITIONS_TABLE,
    TALLIES_TABLE,
)
from analytics.tables.derived.range_table import RangeTable, compute_rows_per_table, list_extents_greatest_first
from analytics.tables.derived.threads import run_on_threads
from analytics.tables.upkeep.garbage import GRACE_SECONDS, remove_replaced_files
from quarto.errors import FailureError

MIN_SIBLINGS = 64  # the least number of files of rows that are merged automatically
MIN_SUM_FILES = 8  # the same for files of sums and for parts of an annotation, because queries read all of them
SMALL_GAMES = 1 << 18  # the most games in a range to which files are merged automatically
SUM_BYTES = 1280 << 20  # the most bytes of files that are summed into one, because the sum is made in memory
COMPACTION_BYTES = 128 << 20  # the most bytes of files that are merged into one when a user asks for compaction
LARGE_FILE_SHARE = 8  # a file larger than one eighth of its parent waits for more files of its size


def _encode_games(parts: Iterator[pl.DataFrame], record: RunRecord, span: Range) -> TableBytes:
    rows = (GameRows(*(part[name].to_physical().to_numpy().copy() for name in GameRows._fields)) for part in parts)
    # The pairings that have games in the range; where units are numbered through all of them, all: any may have.
    spans = enumerate(record.unit_line.pair_range(pairing, *span) for pairing in range(len(record.pairings)))
    used = [pairing for pairing, (first, end) in spans if first < end]
    return encode_games_table(rows, used, record.pairings, allocate_buffer(ROW_GROUP_ROWS))


PLIES_TABLE = RangeTable("plies", PLIES_SCHEMA, key=("ply", "game_id"))
GAMES_TABLE = RangeTable(GAMES_FOLDER, TABLE_SCHEMAS[GAMES_FOLDER], key=("game_id",), encode=_encode_games)
STORED_TABLES = PLIES_TABLE, GAMES_TABLE

GroupCondition = Callable[[Ranges], bool]  # whether to merge some neighbouring files without gaps between them


class CompactionGroup(NamedTuple):
    """Files of neighbouring ranges, the children, that are to be merged into one file, the parent."""

    parent: StoredRange
    children: Ranges


def list_compaction_groups(
    ranges: Ranges, end_unit: int, fits: GroupCondition, max_files: int
) -> Iterator[CompactionGroup]:
    """Yield, in order, the groups of files to merge: each has at most ``max_files`` files, and ``fits`` accepts it.

    The file that replaces a group is its parent. It covers a range without gaps. The number of units in the range is a
    power of two, and the range begins at a multiple of this number; only the last parent may end early, at
    ``end_unit``, the end of the run. Where a larger parent is possible, it is preferred to several smaller ones.
    """
    size = 1
    while len(ranges) and size < int(ranges.ends[-1]):
        size *= 2
    yield from _GroupSearch(ranges, end_unit, fits, max_files).list_groups((0, size), 0, len(ranges))


class _GroupSearch:
    """The search for compaction groups among ``ranges``, by halving a span until its files can be merged."""

    def __init__(self, ranges: Ranges, end_unit: int, fits: GroupCondition, max_files: int) -> None:
        self._ranges, self._end_unit, self._fits, self._max_files = ranges, end_unit, fits, max_files
        self._firsts, self._ends = ranges.firsts.tolist(), ranges.ends.tolist()

    def list_groups(self, span: Range, low: int, high: int) -> Iterator[CompactionGroup]:
        """Yield the compaction groups within ``span``.

        The number of units in ``span`` is a power of two, and ``span`` begins at a multiple of this number. The ranges
        that overlap it have the indices from ``low`` up to but not including ``high``. They are copied only once they
        are few, so that the time of the search hardly grows faster than the number of ranges.
        """
        if high - low < 2:
            return
        if high - low <= self._max_files and (group := self._build_group_if_mergeable(span, low, high)) is not None:
            yield group
            return
        first, end = span
        middle = (first + end) // 2
        yield from self.list_groups((first, middle), low, bisect_left(self._firsts, middle, low, high))
        yield from self.list_groups((middle, end), bisect_right(self._ends, middle, low, high), high)

    def _build_group_if_mergeable(self, span: Range, low: int, high: int) -> CompactionGroup | None:
        (first, end), inside = span, Ranges(self._ranges[low:high])
        last = self._end_unit if first < self._end_unit < end and self._ends[high - 1] == self._end_unit else end
        is_whole = (self._firsts[low], self._ends[high - 1], inside.units) == (first, last, last - first)
        # There are slices if another writer has just written a file that overlaps others.
        are_files = all(child.is_file for child in inside)
        if not (is_whole and are_files and self._fits(inside)):
            return None
        return CompactionGroup(StoredRange(first, last, inside.fingerprint, extent=inside[0].extent), inside)


def compact_tables(
    archive: ArchiveStore,
    record: RunRecord,
    tables: Sequence[RangeTable],
    fits: GroupCondition,
    progress: Callable[[CompactionGroup], None] = lambda _group: None,
    threads: int = 1,
    on_wait: Callable[[], None] = lambda: None,
    max_groups_at_once: int | None = None,
) -> int:
    """Merge files of neighbouring ranges into larger files, and return how many groups of files were merged.

    All of ``tables`` have files for the same ranges, and the files of every table are merged in the same groups. The
    last table determines which ranges exist, because its files are written last. ``progress`` is called with each group
    that was merged, and ``on_wait`` several times per second. An exception that one of these two functions raises ends
    the work. If fewer groups are merged at the same time than there are ``threads``, because there are no more or
    because of ``max_groups_at_once``, several threads merge one group; the files are the same. Raises ``FailureError``
    if a file is damaged or cannot be written.
    """
    parent_count, most = 0, min(table.max_merged_files for table in tables)

    def count_group(group: CompactionGroup | None) -> None:
        nonlocal parent_count
        if group is not None:
            parent_count += 1
            progress(group)

    for extent in list_extents_greatest_first(archive, record.run_id, tables[-1]):
        before = -1
        while parent_count > before:  # parents become children
            before = parent_count
            archive.forget_cached_listings()
            ranges = archive.list_effective_ranges(record.run_id, tables[-1].name, partial(operator.eq, extent))
            groups = [*list_compaction_groups(ranges, record.end_unit, fits, most)]
            at_once = max(1, min(threads, len(groups), max_groups_at_once or threads))
            jobs = (partial(_write_parents, archive, record, tables, family, threads // at_once) for family in groups)
            run_on_threads(jobs, at_once, count_group, on_wait=on_wait)
    return parent_count


def _write_parents(
    archive: ArchiveStore, record: RunRecord, tables: Sequence[RangeTable], group: CompactionGroup, threads: int
) -> CompactionGroup | None:
    """Write the parent file of each table for a group, and return the group.

    Returns None if another process has made the parent already and removed the children.
    """
    run_id, parent = record.run_id, group.parent
    try:
        first = encode_parent_table(archive, record, tables[0], group, tables[-1], threads)
        stored = write_table(archive, run_id, tables[0].name, parent, first, parent.extent)
        for table in tables[1:]:
            content = encode_parent_table(archive, record, table, group, tables[-1], threads)
            write_table(archive, run_id, table.name, parent, content, parent.extent)
    except FileNotFoundError as error:
        counting = {*archive.list_effective_ranges(run_id, tables[-1].name, partial(operator.eq, parent.extent))}
        if counting.issuperset(group.children):
            raise FailureError(f"{error.filename or error} is missing: {VERIFY_REMEDY}") from error
        return None
    if archive.backend.status(archive.folder(tables[0].name, run_id) / stored.name) is None:
        # This process stood still for so long that the file was taken for garbage.
        write_table(archive, run_id, tables[0].name, parent, first, parent.extent)
    return group


def encode_parent_table(
    archive: ArchiveStore,
    record: RunRecord,
    table: RangeTable,
    group: CompactionGroup,
    naming_table: RangeTable,
    threads: int = 1,
) -> TableBytes:
    """Encode the parent file of a table from the files of its children.

    The children in ``group`` are files of ``naming_table``. If ``table`` is another table, its own files for the same
    ranges are read. Raises ``FailureError`` if a file is damaged, and ``FileNotFoundError`` if it is missing.
    """
    run_id, rows = record.run_id, compute_rows_per_table(len(group.children))

    def read_child(child: StoredRange) -> Iterator[pl.DataFrame]:
        if table is naming_table:
            return table.read_frames(archive, run_id, child, rows)
        return read_file_in_parts(
            archive.backend, archive.find_path_of_containing_file(table.name, run_id, child), table.schema, rows
        )

    return table.build_parent([read_child(child) for child in group.children], record, group.parent[:2], threads)


def build_many_similar_files_condition(siblings: int, most_units: int | None = None) -> GroupCondition:
    """Build the condition under which small files are merged automatically.

    There must be at least ``siblings`` files, with at most ``most_units`` units in total. If a single file holds more
    than ``1 / LARGE_FILE_SHARE`` of these units, there must be at least ``2 * siblings`` files.
    """

    def are_many_similar_files(children: Ranges) -> bool:
        if len(children) < siblings or (most_units is not None and children.units > most_units):
            return False
        return (
            LARGE_FILE_SHARE * max(child.units for child in children) <= children.units or len(children) >= 2 * siblings
        )

    return are_many_similar_files


def build_all_or_none_annotated_condition(archive: ArchiveStore, run_id: str, fits: GroupCondition) -> GroupCondition:
    """Build a condition on files of games: they meet ``fits``, and all or none of them have annotations or evaluations.

    Once files are merged, exact values and evaluations are used only if the whole merged file has them, and making the
    missing ones takes hours.
    """
    extents = map(AnnotationExtent.from_text_or_empty, list_extents_greatest_first(archive, run_id, DECISIONS_TABLE))
    annotated = [
        archive.list_effective_ranges(run_id, DECISIONS_TABLE.name, extent.is_included_in) for extent in extents
    ]
    annotated.append(archive.list_effective_ranges(run_id, EVALUATIONS_TABLE.name))

    def are_all_or_none_annotated(children: Ranges) -> bool:
        first, end = children[0].first, children[-1].end
        held = (sum(stored.units for stored in ranges.select_overlapping(first, end)) for ranges in annotated)
        return fits(children) and all(covered == 0 or covered >= end - first for covered in held)

    return are_all_or_none_annotated


def build_size_condition(archive: ArchiveStore, run_id: str, tables: Sequence[RangeTable], size: int) -> GroupCondition:
    """Build the condition that a group's files have at most ``size`` bytes in total, summed over all of ``tables``."""
    bytes_by_stem = dict[str, int]()  # by the name, but for the check

    def is_within_size(children: Ranges) -> bool:
        stems = [_strip_checksum_and_suffix(child.name) for child in children]
        if not bytes_by_stem.keys() >= set(stems):  # some are new
            bytes_by_stem.clear()
            for table in tables:
                for name, status in archive.list_file_statuses(table.name, run_id).items():
                    bytes_by_stem[_strip_checksum_and_suffix(name)] = (
                        bytes_by_stem.get(_strip_checksum_and_suffix(name), 0) + status.bytes
                    )
        return sum(bytes_by_stem.get(stem, 0) for stem in stems) <= size

    return is_within_size


def _strip_checksum_and_suffix(name: str) -> str:
    return name.rpartition(".parquet")[0].rpartition(".")[0]


def compact_small_files(archive: ArchiveStore, run_id: str) -> None:
    """Merge the small files of a run if there are many of them, in all tables except those of the index.

    Slow agents leave many small files.
    """
    record = archive.find_run(run_id)
    if record is None:
        return
    most = SMALL_GAMES // record.unit_line.games_a_pair
    compact_tables(
        archive,
        record,
        STORED_TABLES,
        build_all_or_none_annotated_condition(archive, run_id, build_many_similar_files_condition(MIN_SIBLINGS, most)),
    )
    compact_tables(archive, record, (TALLIES_TABLE,), build_many_similar_files_condition(MIN_SUM_FILES))
    compact_tables(archive, record, (DECISIONS_TABLE,), build_many_similar_files_condition(MIN_SUM_FILES, most))
    compact_tables(archive, record, (EVALUATIONS_TABLE,), build_many_similar_files_condition(MIN_SIBLINGS, most))


def compact_positions_and_first_plies(
    archive: ArchiveStore,
    run_id: str,
    threads: int = 1,
    on_wait: Callable[[], None] = lambda: None,
    progress: Callable[[CompactionGroup], None] = lambda _group: None,
) -> int:
    """Merge a run's files of positions and of first plies, and return the number of parents that were made.

    ``progress`` is called with each group of files that was merged. ``on_wait`` is called several times per second; it
    may end the work by raising an exception.
    """
    record = archive.load_run(run_id)
    many = build_many_similar_files_condition(MIN_SUM_FILES)

    def build_sum_condition(max_bytes: int) -> GroupCondition:
        not_large = build_size_condition(archive, run_id, (POSITIONS_TABLE,), max_bytes)
        return lambda children: many(children) and not_large(children)

    parent_count = compact_tables(archive, record, (FIRST_PLIES_TABLE,), many, progress, on_wait=on_wait)
    parent_count += compact_tables(
        archive, record, (POSITIONS_TABLE,), build_sum_condition(SUM_BYTES // 4), progress, threads, on_wait
    )
    # The largest sums one at a time, on all threads: several would need memory for each.
    return parent_count + compact_tables(
        archive,
        record,
        (POSITIONS_TABLE,),
        build_sum_condition(SUM_BYTES),
        progress,
        threads,
        on_wait,
        max_groups_at_once=1,
    )


# Compaction: the games of many small files in few large ones, while others read and write.


class CompactionSummary(NamedTuple):
    """The numbers of files that a compaction merged, made and removed."""

    files: int = 0  # files of games that were merged into larger files
    larger_files: int = 0  # larger files that were made of them
    removed: int = 0  # files of any table that were replaced long ago, and are removed now


def _build_games_condition(archive: ArchiveStore, run_id: str, size: int) -> GroupCondition:
    """Build the condition under which files of games are merged into one file of at most ``size`` bytes."""
    return build_all_or_none_annotated_condition(
        archive, run_id, build_size_condition(archive, run_id, STORED_TABLES, size)
    )


def count_compactable_files(archive: ArchiveStore, run_id: str, size: int = COMPACTION_BYTES) -> int:
    """Count the files of a run's games that can be merged into larger files of at most ``size`` bytes each."""
    ranges, fits = archive.list_effective_ranges(run_id), _build_games_condition(archive, run_id, size)
    groups = list_compaction_groups(ranges, archive.load_run(run_id).end_unit, fits, GAMES_TABLE.max_merged_files)
    return sum(len(family.children) for family in groups)


def compact_run(
    archive: ArchiveStore,
    run_id: str,
    size: int = COMPACTION_BYTES,
    progress: Callable[[int], None] = lambda _files: None,
    min_age: float = GRACE_SECONDS,
) -> CompactionSummary:
    """Merge a run's small files into large ones, and remove files that were replaced at least ``min_age`` seconds ago.

    Merged files have at most ``size`` bytes. Each time files of games have been merged into one file, ``progress`` is
    called with their number. The function may be stopped at any time. Raises ``FailureError`` if the run has no record,
    or if a file is damaged or cannot be written.
    """
    record = archive.load_run(run_id)
    write_slices(archive, run_id)
    before = set(archive.list_effective_ranges(run_id))

    def report_group(group: CompactionGroup) -> None:
        progress(len(before.intersection(group.children)))

    compact_tables(archive, record, STORED_TABLES, _build_games_condition(archive, run_id, size), report_group)
    for table in DERIVED_TABLES.values():
        compact_tables(archive, record, (table,), build_size_condition(archive, run_id, (table,), size))
    after = archive.list_effective_ranges(run_id)
    gone = before.difference(after)
    larger = {after.find_range(file.first) for file in gone}  # others may have added games meanwhile
    return CompactionSummary(len(gone), len(larger), remove_replaced_files(archive, run_id, min_age))
