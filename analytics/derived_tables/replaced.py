"""The table files of a run that are needed, and those that others have replaced.

A listing is no snapshot. A reader may pass the name of a new file before it is written. Later it looks for the files
that the new one replaced. So these are removed only when the file that counts instead is older than any listing takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import NamedTuple

from analytics.derived_tables.derived_table import RangeTable
from analytics.derived_tables.tables import DERIVED
from analytics.files.backend import FileStatus, explained
from analytics.store.archive import GAMES, Archive
from analytics.store.ranges import Ranges, StoredRange, counting, fitting, ranges_named

AGE_SECONDS = 600.0  # after which what was replaced is removed: longer than any listing takes
PLIES = "plies"


class TableFiles(NamedTuple):
    """The table files of a run."""

    needed: set[PurePath]
    replaced: dict[PurePath, float]  # with the time of the youngest file that counts instead; games come first


class _Listed(NamedTuple):
    """The files of one table of a run."""

    folder: PurePath
    status: Mapping[str, FileStatus]

    @property
    def ranges(self) -> list[StoredRange]:
        return ranges_named(self.status)

    def path(self, stored: StoredRange) -> PurePath:
        return self.folder / stored.name

    def time(self, those: Iterable[StoredRange]) -> float:
        """The time at which the youngest of some files was written."""
        return max(self.status[each.name].modified for each in those)

    def since(self, ranges: Ranges, stored: StoredRange) -> float | None:
        """The time since which all units of a range are in other ranges that count; None: some are not."""
        covering = ranges.inside(stored.first, stored.end)
        return None if covering.missing(stored.end, stored.first) else self.time(covering)


def table_files(archive: Archive, run_id: str) -> TableFiles:
    """The files of a run that are needed, and those that were replaced; others are neither.

    Files whose units are not all in files that count are needed, whatever they overlap. Raises ``FailureError`` if they
    cannot be listed.
    """
    listed = {}
    for table in (PLIES, *DERIVED, GAMES):  # games last: what is listed before has its games
        folder = archive.folder(table, run_id)
        with explained("list", folder):
            listed[table] = _Listed(folder, archive.statuses(table, run_id))
    found = TableFiles(set(), {})
    games = counting(listed[GAMES].ranges)
    _of_games(listed, games, found)
    for name, each in DERIVED.items():
        _of_derived(each, listed[name], games, found)
    return found


def _of_games(listed: Mapping[str, _Listed], games: Ranges, found: TableFiles) -> None:
    """Sort out games, and plies, which stay as long as their games do."""
    mine, plies, counted = listed[GAMES], listed[PLIES], set(games)
    stay = set()  # the first three parts of names
    for each in mine.ranges:
        since = None if each in counted else mine.since(games, each)
        if since is None:
            stay.add(each[:3])
            found.needed.add(mine.path(each))
        else:
            found.replaced[mine.path(each)] = since
    chosen = {each[:3]: each for each in sorted(plies.ranges, reverse=True)}  # of equal ones the smallest check is read
    for each in plies.ranges:
        if chosen[each[:3]] == each and each[:3] in stay:
            found.needed.add(plies.path(each))
        elif each[:3] in stay:
            found.replaced[plies.path(each)] = plies.time([chosen[each[:3]]])
        elif (since := mine.since(games, each)) is not None:  # a young one's games may be about to be written
            found.replaced[plies.path(each)] = max(since, plies.time([each]))


def _of_derived(table: RangeTable, mine: _Listed, games: Ranges, found: TableFiles) -> None:
    """Sort out the files of a table that follows from the games; parts of a range of games may wait for the others."""
    files = [each for each in mine.ranges if table.is_extent(each.extent)]
    for extent in {each.extent for each in files}:
        ranges = fitting((each for each in files if table.includes(each.extent, extent)), games)
        counted = set(ranges)
        for each in files:
            if each in counted:
                found.needed.add(mine.path(each))
            elif each.extent != extent:
                continue
            elif (since := mine.since(ranges, each)) is not None:
                found.replaced[mine.path(each)] = since
            elif _is_part(each, games.at(each.first)):
                found.needed.add(mine.path(each))


def _is_part(stored: StoredRange, games: StoredRange | None) -> bool:
    return games is not None and games.first <= stored.first and stored.end <= games.end and stored[:2] != games[:2]


def remove_replaced(archive: Archive, run_id: str, age: float = AGE_SECONDS) -> int:
    """Remove the files of a run that were replaced so many seconds ago; returns their number.

    Raises ``FailureError`` when one cannot be removed.
    """
    files = table_files(archive, run_id)
    with explained("remove files from", archive.root):
        latest = archive.backend.clock(archive.root) - age if files.replaced else 0.0
        old = [path for path, since in files.replaced.items() if since <= latest and path not in files.needed]
        for path in old:
            archive.backend.remove(path)
    return len(old)
