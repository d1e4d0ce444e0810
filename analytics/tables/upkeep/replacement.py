"""Proves that files of games were replaced: others that count hold the same games.

A name says which units a file holds and the fingerprint of its games, so names alone prove what compaction has
replaced. Only files that overlap in another way are read. A file of the same units with other games is never proven to
be replaced, because one of the two is wrong, and nobody knows which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from analytics.store.archive import Archive
from analytics.store.range_files import FingerprintsOfRun, contradictions
from analytics.store.ranges import MODULUS, MOST_SUMS, Ranges, StoredRange
from quarto.errors import FailureError


def replaced_files(archive: Archive, run_id: str, files: Iterable[StoredRange], games: Ranges) -> set[StoredRange]:
    """Return the files of games whose games are also in ``games``, the ranges of the run that count.

    ``files`` are all files of games of the run. Files that count are not among those that are returned.
    """
    needed = {archive.file_of(run_id, stored) for stored in games}
    others = [file for file in files if file not in needed]
    replaced = {file for file in others if games.sum_of(file.first, file.end) == file.fingerprint}
    replaced |= _children(others, games)
    for file in others:
        if (
            file not in replaced
            and not games.missing(file.end, file.first)
            and _holds_same(archive, run_id, file, games)
        ):
            replaced.add(file)
    return replaced


def _children(files: Sequence[StoredRange], games: Ranges) -> set[StoredRange]:
    """Return the files that with others make up a range that counts, by units and fingerprints."""
    inside: dict[StoredRange, list[StoredRange]] = {}
    for file in files:
        parent = games.at(file.first)
        if parent is not None and file.end <= parent.end:
            inside.setdefault(parent, []).append(file)
    return {file for parent, children in inside.items() for file in _on_tilings(children, parent)}


def _on_tilings(files: Sequence[StoredRange], parent: StoredRange) -> Iterable[StoredRange]:
    """Return the files that are in any sequence of neighbours that makes up ``parent``."""
    before, after = {parent.first: {0}}, {parent.end: {0}}  # by unit: sums of the sequences that end, or begin, there
    for file in sorted(files):
        _extend(before, file.first, file.end, file.fingerprint)
    for file in sorted(files, key=lambda file: -file.end):
        _extend(after, file.end, file.first, file.fingerprint)
    for file in files:
        rest = (parent.fingerprint - file.fingerprint) % MODULUS
        if any((rest - total) % MODULUS in after.get(file.end, ()) for total in before.get(file.first, ())):
            yield file


def _extend(sums: dict[int, set[int]], near: int, far: int, fingerprint: int) -> None:
    """Add the sums that a file reaches at its far end from those at its near end."""
    reached = {(total + fingerprint) % MODULUS for total in sums.get(near, ())}
    known = sums.setdefault(far, set())
    known.update([*(reached - known)][: max(0, MOST_SUMS - len(known))])


def _holds_same(archive: Archive, run_id: str, file: StoredRange, games: Ranges) -> bool:
    """Return whether the files that count hold the same games as a file, as reading them shows."""
    counted = FingerprintsOfRun(archive, run_id, games.inside(file.first, file.end))
    with suppress(FailureError):  # a damaged file proves nothing
        return not any(contradictions(counted, FingerprintsOfRun(archive, run_id, Ranges([file]))))
    return False
