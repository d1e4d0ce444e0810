"""Proves that files of games were replaced: files that readers use hold the same games.

A name says which units a file holds and the fingerprint of its games, so names alone prove what compaction has
replaced. Only files that overlap in another way are read. A file of the same units with other games is never proven to
be replaced, because one of the two files is wrong, and nobody knows which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import RunFingerprints, list_contradictions_by_file_of_one
from analytics.store.ranges import MAX_SUMS, MODULUS, Ranges, StoredRange
from quarto.errors import FailureError


def select_replaced_files(
    archive: ArchiveStore, run_id: str, files: Iterable[StoredRange], games: Ranges
) -> set[StoredRange]:
    """Select those of a run's files whose games are all also in ``games``.

    ``games`` are the ranges of games that readers use. ``files`` are all of the run's files of games. Files that
    readers use are never selected.
    """
    needed = {archive.resolve_slice_to_file(run_id, stored) for stored in games}
    ineffective = [file for file in files if file not in needed]
    replaced = {file for file in ineffective if games.find_fingerprint(file.first, file.end) == file.fingerprint}
    replaced |= _select_files_tiling_effective_ranges(ineffective, games)
    for file in ineffective:
        if (
            file not in replaced
            and not games.list_gaps(file.end, file.first)
            and _has_same_games(archive, run_id, file, games)
        ):
            replaced.add(file)
    return replaced


def _select_files_tiling_effective_ranges(files: Sequence[StoredRange], games: Ranges) -> set[StoredRange]:
    """Select the files that, alone or together with other files, have all games of a range that readers use.

    Units and fingerprints prove it; no file is read.
    """
    inside: dict[StoredRange, list[StoredRange]] = {}
    for file in files:
        parent = games.find_range(file.first)
        if parent is not None and file.end <= parent.end:
            inside.setdefault(parent, []).append(file)
    return {file for parent, children in inside.items() for file in _select_tiles(children, parent)}


def _select_tiles(files: Sequence[StoredRange], parent: StoredRange) -> Iterable[StoredRange]:
    """Yield the files that belong to at least one sequence of neighbouring files that makes up ``parent``.

    Such a sequence has the units of ``parent`` without gaps, and its fingerprints add up to the fingerprint of
    ``parent``.
    """
    before, after = {parent.first: {0}}, {parent.end: {0}}  # by unit: sums of the sequences that end, or begin, there
    for file in sorted(files):
        _extend_sums(before, file.first, file.end, file.fingerprint)
    for file in sorted(files, key=lambda file: -file.end):
        _extend_sums(after, file.end, file.first, file.fingerprint)
    for file in files:
        rest = (parent.fingerprint - file.fingerprint) % MODULUS
        if any((rest - total) % MODULUS in after.get(file.end, ()) for total in before.get(file.first, ())):
            yield file


def _extend_sums(sums: dict[int, set[int]], near: int, far: int, fingerprint: int) -> None:
    """Append a file to every sequence of files that stops at its end ``near``.

    ``near`` and ``far`` are the units at the two ends of the file. ``sums`` holds, for each unit, the sums of the
    fingerprints of the sequences that stop there. Each sum at ``near``, plus ``fingerprint``, is put into the set of
    sums at ``far``. A unit keeps at most ``MAX_SUMS`` sums.
    """
    reached = {(total + fingerprint) % MODULUS for total in sums.get(near, ())}
    far_sums = sums.setdefault(far, set())
    far_sums.update([*(reached - far_sums)][: max(0, MAX_SUMS - len(far_sums))])


def _has_same_games(archive: ArchiveStore, run_id: str, file: StoredRange, games: Ranges) -> bool:
    """Return whether ``file`` holds the same games as the ranges that readers use; the games are read to find out."""
    counted = RunFingerprints(archive, run_id, games.select_overlapping(file.first, file.end))
    with suppress(FailureError):  # a damaged file proves nothing
        return not any(list_contradictions_by_file_of_one(counted, RunFingerprints(archive, run_id, Ranges([file]))))
    return False
