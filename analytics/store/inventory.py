"""Whether a run still has what its record says it had: its commits, their pairs, and what they count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analytics.store.archive import Archive
from analytics.store.commit_log import faults
from analytics.store.ranges import Range
from analytics.store.records import RunRecord
from quarto.errors import FailureError

LOST = (
    "missing, and its games with it: restore it from a copy, or give the command of the run (see 'qarena archive ls') "
    "again, which plays them again"
)


def lost_commits(record: RunRecord | None, numbers: Iterable[int], covered: Mapping[int, Sequence[Range]]) -> list[int]:
    """The numbers of commits that a run had and has no longer.

    ``numbers`` are those of the commits that are there or were replaced, ``covered`` the pairs that they hold. Nothing
    is lost if the run has all games that were asked for: they may have been played again, in fewer shards.
    """
    there = set(numbers)
    had = max(record.commits if record else 0, max(there, default=-1) + 1)
    lost = sorted(set(range(had)) - there)
    return [] if lost and record and has_all(record, covered) else lost


def has_all(record: RunRecord, covered: Mapping[int, Sequence[Range]]) -> bool:
    """Whether a run has all pairs that were asked for. Never known of imported games."""
    return "imported" not in record.spec and all(
        any(first == 0 and end >= record.pairs for first, end in covered.get(pairing, ()))
        for pairing in range(len(record.pairings))
    )


def require_consistent(archive: Archive, run_id: str, record: RunRecord | None) -> None:
    """Raise ``FailureError`` if commits of a run are lost, hold the same games, or contradict their own tallies."""
    log = archive.log(run_id)
    for lost in lost_commits(record, log.known, dict(log.summary.covered)):
        raise FailureError(f"{log.place.path(lost)} is {LOST}")
    for commit, what in () if log.is_sound else faults(log.commits):
        raise FailureError(f"{log.place.path(commit.shard)} is wrong ({what}): run 'qarena archive verify'")
