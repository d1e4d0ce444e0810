"""Compaction: the games of many small files in few large ones, while others read and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from analytics.derived_tables.replaced import remove_replaced
from analytics.store.archive import Archive
from analytics.store.range_names import StoredRange
from analytics.upkeep.rolling import DERIVED, GAMES_TABLE, PLIES_TABLE, families, roll_up, sizes_of

SIZE = 128 << 20  # bytes of the files of a range, at most


class Compacted(NamedTuple):
    """Counts of what a compaction did."""

    files: int = 0  # of games, that became larger ones
    by: int = 0  # as many larger ones
    removed: int = 0  # files of all tables that were replaced long ago


def _fitting(sizes: dict[str, int], size: int) -> Callable[[Sequence[StoredRange], int], bool]:
    return lambda children, _units: sum(sizes.get(child.name, 0) for child in children) <= size


def _sizes_of_games(archive: Archive, run_id: str) -> dict[str, int]:
    """The bytes of games and plies together, by the name of the file of games."""
    plies = {name[:42]: size for name, size in sizes_of(archive, run_id, PLIES_TABLE).items()}
    games = sizes_of(archive, run_id, GAMES_TABLE)
    return {name: size + plies.get(name[:42], 0) for name, size in games.items()}


def files_to_compact(archive: Archive, run_id: str, size: int = SIZE) -> int:
    """The number of files of games of a run that can become larger ones of at most ``size`` bytes."""
    end_unit = archive.known_run(run_id).end_unit
    found = families(archive.ranges(run_id), end_unit, _fitting(_sizes_of_games(archive, run_id), size))
    return sum(len(family.children) for family in found)


def compact(
    archive: Archive, run_id: str, size: int = SIZE, progress: Callable[[int], None] = lambda _files: None
) -> Compacted:
    """Make large files of the small ones of a run; ``progress`` is called with how many files of games became one.

    What was replaced long ago is removed. May be stopped at any time. Raises ``FailureError`` for a run without a
    record, for a file that is damaged, and one that cannot be written.
    """
    record, before = archive.known_run(run_id), len(archive.ranges(run_id))
    fits = _fitting(_sizes_of_games(archive, run_id), size)
    files = roll_up(archive, record, (PLIES_TABLE, GAMES_TABLE), fits, progress)
    for table in DERIVED:
        roll_up(archive, record, (table,), _fitting(sizes_of(archive, run_id, table), size))
    by = len(archive.ranges(run_id)) - (before - files)
    return Compacted(files, by, remove_replaced(archive, run_id))
