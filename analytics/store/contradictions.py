"""Finds the ranges of units for which two sets of files hold different games.

Fingerprints in names decide wherever the files of one set make up a file of the other. Only where files overlap in
another way are their games read.
"""

from __future__ import annotations

from collections.abc import Iterator

from analytics.store.archive import Archive
from analytics.store.blocks import RangeGames
from analytics.store.range_files import read_games
from analytics.store.ranges import Range, Ranges, StoredRange, UnitLine


class FingerprintsOfRun:
    """The fingerprints of the games of a run in some files, also of parts of files."""

    def __init__(self, archive: Archive, run_id: str, ranges: Ranges) -> None:
        self.archive, self.run_id, self.ranges = archive, run_id, ranges
        self._read: tuple[StoredRange, RangeGames, UnitLine] | None = None  # last

    def has(self, stored: StoredRange) -> bool:
        """Whether these are the games of whole files."""
        return self.ranges.sum_of(stored.first, stored.end) == stored.fingerprint

    def part(self, stored: StoredRange, first: int, end: int) -> int:
        """The fingerprint of some units of a file. Raises ``FailureError`` for a damaged file."""
        if (first, end) == stored[:2]:
            return stored.fingerprint
        if self._read is None or self._read[0] != stored:
            line = self.archive.known_run(self.run_id).line
            self._read = stored, read_games(self.archive, self.run_id, stored), line
        _, games, line = self._read
        return games.within(line, first, end).fingerprint


def contradictions(one: FingerprintsOfRun, other: FingerprintsOfRun) -> Iterator[tuple[Range, StoredRange]]:
    """The ranges of units for which both have games that differ, each with the file of ``one``.

    Raises ``FailureError`` for a damaged file, if it has to be read.
    """
    for mine in one.ranges:
        if other.has(mine):
            continue
        for theirs in other.ranges.inside(mine.first, mine.end):
            span = max(mine.first, theirs.first), min(mine.end, theirs.end)
            if not one.has(theirs) and one.part(mine, *span) != other.part(theirs, *span):
                yield span, mine
