"""Compaction: the games of many small files in few large ones, while others read and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from analytics.derived_tables.derived_table import RangeTable
from analytics.derived_tables.replaced import remove_replaced
from analytics.derived_tables.tables import DERIVED
from analytics.store.archive import Archive
from analytics.store.ranges import StoredRange
from analytics.upkeep.rolling import (
    GAMES_TABLE,
    PLIES_TABLE,
    Family,
    Fits,
    Sizes,
    families,
    kept_apart,
    roll_up,
)

SIZE = 128 << 20  # bytes of the files of a range, at most
STORED = PLIES_TABLE, GAMES_TABLE


class Compacted(NamedTuple):
    """Counts of what a compaction did."""

    files: int = 0  # of games, that became larger ones
    by: int = 0  # as many larger ones
    removed: int = 0  # files of all tables that were replaced long ago


def _fitting(archive: Archive, run_id: str, tables: Sequence[RangeTable], size: int) -> Fits:
    """Whether files have at most so many bytes together, and may become one."""
    sizes = Sizes(archive, run_id, tables)

    def fits(children: Sequence[StoredRange], _units: int) -> bool:
        return sizes.of(children) <= size

    return kept_apart(archive, run_id, fits) if tables == STORED else fits


def files_to_compact(archive: Archive, run_id: str, size: int = SIZE) -> int:
    """The number of files of games of a run that can become larger ones of at most ``size`` bytes."""
    ranges, fits = archive.ranges(run_id), _fitting(archive, run_id, STORED, size)
    found = families(ranges, archive.known_run(run_id).end_unit, fits, GAMES_TABLE.most)
    return sum(len(family.children) for family in found)


def compact(
    archive: Archive, run_id: str, size: int = SIZE, progress: Callable[[int], None] = lambda _files: None
) -> Compacted:
    """Make large files of the small ones of a run; ``progress`` is called with how many files of games became one.

    Files that were replaced long ago are removed. May be stopped at any time. Raises ``FailureError`` for a run without
    a record, for a file that is damaged, and one that cannot be written.
    """
    record, before = archive.known_run(run_id), set(archive.ranges(run_id))

    def made(family: Family) -> None:
        progress(len(before.intersection(family.children)))

    roll_up(archive, record, STORED, _fitting(archive, run_id, STORED, size), made)
    for table in DERIVED.values():
        roll_up(archive, record, (table,), _fitting(archive, run_id, (table,), size))
    after = archive.ranges(run_id)
    gone = before.difference(after)
    larger = {after.at(each.first) for each in gone}  # others may have added games meanwhile
    return Compacted(len(gone), len(larger), remove_replaced(archive, run_id))
