"""Whether a run still has what its record says it had: its commits, their pairs, and what they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from analytics.store.archive import Archive, covered_by
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import Commit, RunRecord
from quarto.errors import FailureError

LOST = (
    "missing, and its games with it: restore it from a copy, or give the command of the run (see 'qarena archive ls') "
    "again, which plays them again"
)


def lost_commits(record: RunRecord | None, numbers: Iterable[int], covered: Mapping[int, Sequence[Range]]) -> list[int]:
    """The numbers of commits that a run had and has no longer.

    ``numbers`` are those of the commits that are there, ``covered`` the pairs that they hold. Nothing is lost if the
    run has all games that were asked for: they may have been played again, in fewer shards.
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


def require_consistent(archive: Archive, run_id: str, record: RunRecord | None, commits: Sequence[Commit]) -> None:
    """Raise ``FailureError`` if commits of a run are lost, hold the same games, or contradict their own tallies."""
    folder = archive.folder("commits", run_id)
    for lost in lost_commits(record, (commit.shard for commit in commits), covered_by(commits)):
        raise FailureError(f"{folder / f'{lost:06d}.json'} is {LOST}")
    held: dict[int, list[Range]] = {}
    for commit in commits:
        what = next(iter([*overlapping(commit, held), *_miscounted(commit)]), None)
        if what:
            raise FailureError(f"{folder / f'{commit.shard:06d}.json'} is wrong ({what}): run 'qarena archive verify'")


def overlapping(commit: Commit, held: dict[int, list[Range]]) -> Iterator[str]:
    """What of a commit is in ``held`` already, the pairs of earlier ones by pairing, which it is added to."""
    for part in commit.slices:
        known = held.setdefault(part.pairing, [])
        if overlaps(known, part.first_pair, part.end_pair):
            pairs = f"pairs {part.first_pair} to {part.end_pair - 1} of pairing {part.pairing}"
            yield f"{pairs} are, in part, also in an earlier commit"
        held[part.pairing] = merged([*known, (part.first_pair, part.end_pair)])


def _miscounted(commit: Commit) -> Iterator[str]:
    for table, stored, counted in (
        ("games", commit.games, sum(part.tally.games for part in commit.slices)),
        ("plies", commit.plies, sum(part.tally.plies for part in commit.slices)),
    ):
        if stored.rows != counted:
            yield f"{stored.rows} rows of {table} for tallies of {counted}"
