"""Rolling up: the files of neighbouring ranges become one file, which then counts in their place.

A parent holds an aligned range whose units its children hold, or the rest of the run. It is written like any file, by
any number of processes at once: they write the same. What it replaced is removed later (``remove_replaced``), since a
listing is no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from analytics.derived_tables.decisions import DECISIONS_TABLE
from analytics.derived_tables.derived_table import Parts, RangeTable
from analytics.derived_tables.first_plies import FIRST_PLIES_TABLE
from analytics.derived_tables.merged_positions import rows_at_once
from analytics.derived_tables.position_index import POSITIONS_TABLE
from analytics.derived_tables.sorted_rows import merged_rows
from analytics.parquet.encoder import buffer_for
from analytics.store.archive import GAMES, Archive
from analytics.store.blocks import ROW_GROUP_ROWS, EncodedTable, GameRows, games_table, integer_table, table_of
from analytics.store.range_files import store_table
from analytics.store.range_names import MODULUS, Ranges, StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import PLIES
from analytics.store.tallies import tallies_frame, tallies_of
from analytics.store.units import Range

SIBLINGS = 64  # files of rows that become one by themselves
SUMMED = 8  # files of sums, and of parts of an annotation, that do: questions read all of them
SMALL_GAMES = 1 << 18  # of a range that grows by itself, at most
SUM_BYTES = 640 << 20  # of the files that become one sum, at most: the sum is made in memory
SHARE = 8  # a file that is larger than this part of its parent waits for more of its size


def _games(parts: Parts, record: RunRecord, span: Range) -> EncodedTable:
    rows = (_game_rows(part) for part in merged_rows(parts, (), ROW_GROUP_ROWS))
    del span
    return games_table(rows, range(len(record.pairings)), record.pairings, buffer_for(ROW_GROUP_ROWS))


def _game_rows(frame: pl.DataFrame) -> GameRows:
    return GameRows(*(frame[name].to_physical().to_numpy().copy() for name in GameRows._fields))


def _plies(parts: Parts, record: RunRecord, span: Range) -> EncodedTable:
    del record, span
    return integer_table(merged_rows(parts, ("ply",), ROW_GROUP_ROWS), PLIES)


def _tallies(parts: Parts, record: RunRecord, span: Range) -> EncodedTable:
    del record, span
    return table_of(tallies_frame(tallies_of(pl.concat(each for table in parts for each in table))))


PLIES_TABLE = RangeTable("plies", _plies)
TALLIES_TABLE = RangeTable("tallies", _tallies, sums=True)
GAMES_TABLE = RangeTable(GAMES, _games)
# What follows from the games: each rolls up by itself.
DERIVED = (TALLIES_TABLE, DECISIONS_TABLE, POSITIONS_TABLE, FIRST_PLIES_TABLE)


class Family(NamedTuple):
    """Files of neighbouring ranges that become one."""

    parent: StoredRange
    children: Sequence[StoredRange]


def families(
    ranges: Sequence[StoredRange], end_unit: int, fits: Callable[[Sequence[StoredRange], int], bool]
) -> Iterator[Family]:
    """The largest parents that can be made of files, from left to right: aligned, and without holes.

    The last one may end at ``end_unit``, the run's last unit. ``fits(children, units)`` says whether they should become
    one file.
    """
    known = Ranges(ranges)
    size = 1
    while len(known) and size < int(known.ends[-1]):
        size *= 2
    yield from _families(known, 0, size, end_unit, fits)


def _families(
    known: Ranges, first: int, size: int, end_unit: int, fits: Callable[[Sequence[StoredRange], int], bool]
) -> Iterator[Family]:
    inside = known.inside(first, first + size)
    if len(inside) < 2:
        return
    end = first + size
    if int(inside.ends[-1]) == end_unit:
        end = min(end, end_unit)
    whole = inside.units == end - first and int(inside.firsts[0]) == first and int(inside.ends[-1]) == end
    if whole and fits(inside, end - first):
        extent = inside[0].extent
        yield Family(StoredRange(first, end, inside.fingerprint % MODULUS, extent=extent), inside)
        return
    for start in (first, first + size // 2):
        yield from _families(known, start, size // 2, end_unit, fits)


def make_parent(archive: Archive, record: RunRecord, table: RangeTable, family: Family) -> StoredRange:
    """Write the file of a parent from those of its children. Raises ``FailureError`` for a damaged one."""
    run_id, rows = record.run_id, rows_at_once(len(family.children))
    parts = [table.parts(archive, run_id, child, rows) for child in _of_table(archive, run_id, table, family.children)]
    encoded = table.join(parts, record, family.parent[:2])
    return store_table(archive, run_id, table.name, family.parent, encoded, family.parent.extent)


def _of_table(
    archive: Archive, run_id: str, table: RangeTable, children: Sequence[StoredRange]
) -> Iterator[StoredRange]:
    """The ranges of games as the files of a table: only the check differs."""
    known = {each[:3]: each for each in sorted(archive.found(table.name, run_id), reverse=True)}
    for child in children:
        yield child if child.extent else known.get(child[:3], child)


def roll_up(
    archive: Archive,
    record: RunRecord,
    tables: Sequence[RangeTable],
    fits: Callable[[Sequence[StoredRange], int], bool],
    progress: Callable[[int], None] = lambda _files: None,
) -> int:
    """Make parents of the files of tables that hold the same ranges; returns how many files became one.

    The last table says which ranges there are: files of games are written last. ``progress`` is called with the number
    of children of each parent that is made.
    """
    run_id, made = record.run_id, 0
    for ranges in _by_extent(archive, run_id, tables[-1]):
        for family in families(ranges, record.end_unit, fits):
            for table in tables:
                make_parent(archive, record, table, family)
            made += len(family.children)
            progress(len(family.children))
    return made


def _by_extent(archive: Archive, run_id: str, table: RangeTable) -> Iterator[Ranges]:
    """The files of a table that count, those of each extent apart: only files of one extent become one."""
    if table.name == GAMES:
        yield archive.ranges(run_id)
        return
    for wanted in sorted({each.extent for each in archive.found(table.name, run_id)}, reverse=True):
        yield archive.ranges(run_id, table.name, lambda extent, wanted=wanted: extent == wanted)


def small(siblings: int, most_units: int | None = None) -> Callable[[Sequence[StoredRange], int], bool]:
    """Whether files should become one by themselves: many, none of them large beside the others."""

    def fits(children: Sequence[StoredRange], units: int) -> bool:
        if len(children) < siblings or (most_units is not None and units > most_units):
            return False
        return SHARE * max(child.units for child in children) <= units or len(children) >= 2 * siblings

    return fits


def roll_up_small(archive: Archive, run_id: str) -> None:
    """Make parents of the many small files of a run, as they come from slow agents, and of many tallies."""
    record = archive.run(run_id)
    if record is None or len(archive.ranges(run_id, TALLIES_TABLE.name)) < SUMMED:
        return
    most = SMALL_GAMES // record.line.games_a_pair
    roll_up(archive, record, (PLIES_TABLE, GAMES_TABLE), small(SIBLINGS, most))
    roll_up(archive, record, (TALLIES_TABLE,), small(SUMMED))
    roll_up(archive, record, (DECISIONS_TABLE,), small(SUMMED, most))


def add_up(archive: Archive, run_id: str, progress: Callable[[int], None] = lambda _files: None) -> int:
    """Make parents of the positions and first plies of a run; returns how many files became one."""
    record = archive.known_run(run_id)
    made = roll_up(archive, record, (FIRST_PLIES_TABLE,), small(SUMMED))
    sizes = sizes_of(archive, run_id, POSITIONS_TABLE)

    def fits(children: Sequence[StoredRange], units: int) -> bool:
        return small(SUMMED)(children, units) and sum(sizes.get(child.name, 0) for child in children) <= SUM_BYTES

    while more := roll_up(archive, record, (POSITIONS_TABLE,), fits, progress):
        made += more
    return made


def sizes_of(archive: Archive, run_id: str, table: RangeTable) -> dict[str, int]:
    """The bytes of the files of a table, by name."""
    return {name: status.bytes for name, status in archive.statuses(table.name, run_id).items()}
