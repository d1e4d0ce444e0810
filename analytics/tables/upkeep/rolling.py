"""Rolling up: the files of neighbouring ranges become one file, which then counts instead of them.

A parent holds an aligned range whose units its children hold, or the rest of the run. It is written like any file, by
any number of processes at once: they write the same. The files that it replaced are removed later
(``remove_replaced``), since a listing is no snapshot. Small files roll up by themselves, larger ones when somebody asks
for it: that is compaction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.store.archive import GAMES, Archive
from analytics.store.blocks import ROW_GROUP_ROWS, GameRows, TableBytes, games_table
from analytics.store.parquet.encoder import buffer_for
from analytics.store.range_files import store_table, write_slices
from analytics.store.ranges import Range, Ranges, StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import PLIES, TABLES
from analytics.store.table_files import VERIFY, file_parts
from analytics.tables.derived.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.tables.derived.derived_table import RangeTable, extents_found, rows_at_once
from analytics.tables.derived.jobs import run_jobs
from analytics.tables.derived.tables import DERIVED, FIRST_PLIES_TABLE, POSITIONS_TABLE, TALLIES_TABLE, THOUGHTS_TABLE
from analytics.tables.upkeep.garbage import remove_replaced
from quarto.errors import FailureError

SIBLINGS = 64  # files of rows that become one by themselves
SUMMED = 8  # files of sums, and of parts of an annotation, that do: questions read all of them
SMALL_GAMES = 1 << 18  # of a range that grows by itself, at most
SUM_BYTES = 1280 << 20  # of the files that become one sum, at most: the sum is made in memory
COMPACTED_BYTES = 128 << 20  # bytes of the files of a range, at most, that become one as somebody asks
SHARE = 8  # a file that is larger than this part of its parent waits for more of its size


def _games(parts: Iterator[pl.DataFrame], record: RunRecord, span: Range) -> TableBytes:
    rows = (GameRows(*(part[name].to_physical().to_numpy().copy() for name in GameRows._fields)) for part in parts)
    # The pairings that have games in the range; where units are numbered through all of them, all: any may have.
    spans = enumerate(record.line.pairs(pairing, *span) for pairing in range(len(record.pairings)))
    used = [pairing for pairing, (first, end) in spans if first < end]
    return games_table(rows, used, record.pairings, buffer_for(ROW_GROUP_ROWS))


PLIES_TABLE = RangeTable("plies", PLIES, key=("ply", "game_id"))
GAMES_TABLE = RangeTable(GAMES, TABLES[GAMES], key=("game_id",), encode=_games)
STORED = PLIES_TABLE, GAMES_TABLE

Fits = Callable[[Ranges], bool]  # whether some files, neighbours without holes, are to become one


class Family(NamedTuple):
    """Files of neighbouring ranges that become one."""

    parent: StoredRange
    children: Ranges


def families(ranges: Ranges, end_unit: int, fits: Fits, most: int) -> Iterator[Family]:
    """The largest parents that can be made of at most so many files, from left to right: aligned, and without holes.

    The last one may end at ``end_unit``, the run's last unit.
    """
    size = 1
    while len(ranges) and size < int(ranges.ends[-1]):
        size *= 2
    yield from _families(ranges, (0, size), end_unit, fits, most)


def _families(known: Ranges, span: Range, end_unit: int, fits: Fits, most: int) -> Iterator[Family]:
    """Those in an aligned range."""
    first, end = span
    inside = known.inside(first, end)
    if len(inside) < 2:
        return
    last = end_unit if first < end_unit < end and int(inside.ends[-1]) == end_unit else end
    whole = (int(inside.firsts[0]), int(inside.ends[-1]), inside.units) == (first, last, last - first)
    are_files = all(child.is_file for child in inside)  # no slices of files that another writer has just made overlap
    if whole and are_files and len(inside) <= most and fits(inside):
        yield Family(StoredRange(first, last, inside.fingerprint, extent=inside[0].extent), inside)
        return
    middle = (first + end) // 2
    for half in ((first, middle), (middle, end)):
        yield from _families(known, half, end_unit, fits, most)


def roll_up(
    archive: Archive,
    record: RunRecord,
    tables: Sequence[RangeTable],
    fits: Fits,
    progress: Callable[[Family], None] = lambda _family: None,
    threads: int = 1,
    on_wait: Callable[[], None] = lambda: None,
) -> int:
    """Make parents of the files of tables that hold the same ranges; returns how many were made.

    The last table says which ranges there are: files of games are written last. ``progress`` is called with each
    family whose parent is made, ``on_wait`` several times a second: an exception in one of them ends the work. Raises
    ``FailureError`` for a file that is damaged, and one that cannot be written.
    """
    made, most = 0, min(table.most for table in tables)

    def done(family: Family | None) -> None:
        nonlocal made
        if family is not None:
            made += 1
            progress(family)

    for extent in extents_found(archive, record.run_id, tables[-1]):
        before = -1
        while made > before:  # parents become children
            before = made
            archive.refresh()
            ranges = archive.ranges(record.run_id, tables[-1].name, partial(operator.eq, extent))
            found = [*families(ranges, record.end_unit, fits, most)]
            jobs = (partial(_make_parents, archive, record, tables, family) for family in found)
            run_jobs(jobs, threads, done, on_wait=on_wait)
    return made


def _make_parents(archive: Archive, record: RunRecord, tables: Sequence[RangeTable], family: Family) -> Family | None:
    """Write the files of a parent; None: another process was quicker, and the children are removed already."""
    run_id, parent = record.run_id, family.parent
    try:
        first = parent_table(archive, record, tables[0], family, tables[-1])
        stored = store_table(archive, run_id, tables[0].name, parent, first, parent.extent)
        for table in tables[1:]:
            content = parent_table(archive, record, table, family, tables[-1])
            store_table(archive, run_id, table.name, parent, content, parent.extent)
    except FileNotFoundError as error:
        counting = {*archive.ranges(run_id, tables[-1].name, partial(operator.eq, parent.extent))}
        if counting.issuperset(family.children):
            raise FailureError(f"{error.filename or error} is missing: {VERIFY}") from error
        return None
    if archive.backend.status(archive.folder(tables[0].name, run_id) / stored.name) is None:
        # This process stood still for so long that the file was taken for garbage.
        store_table(archive, run_id, tables[0].name, parent, first, parent.extent)
    return family


def parent_table(
    archive: Archive, record: RunRecord, table: RangeTable, family: Family, listed: RangeTable
) -> TableBytes:
    """A parent's table from those of its children, which are named as the files of the table ``listed``.

    Raises ``FailureError`` for a damaged file, ``FileNotFoundError`` for one that is not there.
    """
    run_id, rows = record.run_id, rows_at_once(len(family.children))

    def parts(child: StoredRange) -> Iterator[pl.DataFrame]:
        if table is listed:
            return table.parts(archive, run_id, child, rows)
        return file_parts(archive.backend, archive.path(table.name, run_id, child), table.schema, rows)

    return table.parent([parts(child) for child in family.children], record, family.parent[:2])


def small(siblings: int, most_units: int | None = None) -> Fits:
    """Whether files should become one by themselves: many, none of them large beside the others."""

    def fits(children: Ranges) -> bool:
        if len(children) < siblings or (most_units is not None and children.units > most_units):
            return False
        return SHARE * max(child.units for child in children) <= children.units or len(children) >= 2 * siblings

    return fits


def kept_apart(archive: Archive, run_id: str, fits: Fits) -> Fits:
    """The same for files of games, but those that are annotated, or have thoughts, do not join those that are not.

    Exact values of a part of a file count only when those of the rest are there, and so do thoughts. They take hours.
    """
    extents = map(AnnotationExtent.of_text, extents_found(archive, run_id, DECISIONS_TABLE))
    known = [archive.ranges(run_id, DECISIONS_TABLE.name, extent.is_in) for extent in extents]
    known.append(archive.ranges(run_id, THOUGHTS_TABLE.name))

    def alike(children: Ranges) -> bool:
        first, end = children[0].first, children[-1].end
        held = (sum(each.units for each in ranges.inside(first, end)) for ranges in known)
        return fits(children) and all(covered == 0 or covered >= end - first for covered in held)

    return alike


def of_size(archive: Archive, run_id: str, tables: Sequence[RangeTable], size: int) -> Fits:
    """Whether files have at most so many bytes together, in all tables that hold the same ranges."""
    known = dict[str, int]()  # by the name, but for the check

    def fits(children: Ranges) -> bool:
        stems = [_stem(child.name) for child in children]
        if not known.keys() >= set(stems):  # some are new
            known.clear()
            for table in tables:
                for name, status in archive.statuses(table.name, run_id).items():
                    known[_stem(name)] = known.get(_stem(name), 0) + status.bytes
        return sum(known.get(stem, 0) for stem in stems) <= size

    return fits


def _stem(name: str) -> str:
    return name.rpartition(".parquet")[0].rpartition(".")[0]


def roll_up_small(archive: Archive, run_id: str) -> None:
    """Make parents of the many small files of a run, as they come from slow agents, and of many tallies."""
    record = archive.run(run_id)
    if record is None:
        return
    most = SMALL_GAMES // record.line.games_a_pair
    roll_up(archive, record, STORED, kept_apart(archive, run_id, small(SIBLINGS, most)))
    roll_up(archive, record, (TALLIES_TABLE,), small(SUMMED))
    roll_up(archive, record, (DECISIONS_TABLE,), small(SUMMED, most))
    roll_up(archive, record, (THOUGHTS_TABLE,), small(SIBLINGS, most))


def add_up(archive: Archive, run_id: str, threads: int = 1, on_wait: Callable[[], None] = lambda: None) -> int:
    """Make parents of the positions and first plies of a run; returns how many were made.

    ``on_wait`` is called several times a second; it may end the work by an exception.
    """
    record = archive.known_run(run_id)
    many = small(SUMMED)

    def up_to(most: int) -> Fits:
        not_large = of_size(archive, run_id, (POSITIONS_TABLE,), most)
        return lambda children: many(children) and not_large(children)

    made = roll_up(archive, record, (FIRST_PLIES_TABLE,), many, on_wait=on_wait)
    made += roll_up(archive, record, (POSITIONS_TABLE,), up_to(SUM_BYTES // 4), threads=threads, on_wait=on_wait)
    # The largest sums one at a time: several would need memory for each.
    return made + roll_up(archive, record, (POSITIONS_TABLE,), up_to(SUM_BYTES), on_wait=on_wait)


# Compaction: the games of many small files in few large ones, while others read and write.


class Compacted(NamedTuple):
    """Counts of what a compaction did."""

    files: int = 0  # of games, that became larger ones
    by: int = 0  # as many larger ones
    removed: int = 0  # files of all tables that were replaced long ago


def _compactable(archive: Archive, run_id: str, size: int) -> Fits:
    """Whether files of games may become one that has at most so many bytes."""
    return kept_apart(archive, run_id, of_size(archive, run_id, STORED, size))


def files_to_compact(archive: Archive, run_id: str, size: int = COMPACTED_BYTES) -> int:
    """The number of files of games of a run that can become larger ones of at most ``size`` bytes."""
    ranges, fits = archive.ranges(run_id), _compactable(archive, run_id, size)
    found = families(ranges, archive.known_run(run_id).end_unit, fits, GAMES_TABLE.most)
    return sum(len(family.children) for family in found)


def compact(
    archive: Archive, run_id: str, size: int = COMPACTED_BYTES, progress: Callable[[int], None] = lambda _files: None
) -> Compacted:
    """Make large files of the small ones of a run; ``progress`` is called with how many files of games became one.

    Files that were replaced long ago are removed. May be stopped at any time. Raises ``FailureError`` for a run without
    a record, for a file that is damaged, and one that cannot be written.
    """
    record = archive.known_run(run_id)
    write_slices(archive, run_id)
    before = set(archive.ranges(run_id))

    def made(family: Family) -> None:
        progress(len(before.intersection(family.children)))

    roll_up(archive, record, STORED, _compactable(archive, run_id, size), made)
    for table in DERIVED.values():
        roll_up(archive, record, (table,), of_size(archive, run_id, (table,), size))
    after = archive.ranges(run_id)
    gone = before.difference(after)
    larger = {after.at(each.first) for each in gone}  # others may have added games meanwhile
    return Compacted(len(gone), len(larger), remove_replaced(archive, run_id))
