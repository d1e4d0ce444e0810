"""Verifies the checkpoints of a run: what they say of a commit is what its own file says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analytics.files.atomic import explained
from analytics.store import checkpoints
from analytics.store.archive import Archive
from analytics.store.checkpoints import Checkpoint
from analytics.store.commit_log import faults, summary_of
from analytics.store.json_records import RecordError
from analytics.store.ranges import merged, overlaps
from analytics.store.records import Commit
from analytics.verify.problems import Problem

ADVICE = "remove it: it only spares readers some time"


def verify_checkpoints(archive: Archive, run_id: str, commits: Iterable[Commit]) -> Iterator[Problem]:
    """The problems of the checkpoints of a run, whose sound commits are ``commits``."""
    place, known = archive.log_place(run_id), {commit.shard: commit for commit in commits}
    with explained("list", place.checkpoints):
        names = filter(checkpoints.interval_of, archive.backend.names(place.checkpoints))
        listed = archive.backend.listed(place.commits)
    versions = {number: listed[path.name].version for number in known if (path := place.path(number)).name in listed}
    for name in sorted(names):
        path = place.checkpoints / name
        try:
            checkpoint = checkpoints.checkpoint_of(name, archive.backend.read(path))
        except FileNotFoundError:
            continue  # gc has removed it since
        except (RecordError, OSError) as error:
            yield Problem(path, f"is damaged ({error}): {ADVICE}")
            continue
        if not checkpoint.is_readable:
            yield Problem(path, f"is damaged (its commits cannot be read): {ADVICE}")
        for number, entry in checkpoint.entries.items():
            if list(versions.get(number, ())) == entry.version and entry.commit != known[number]:
                yield Problem(path, f"commit {number} is not as its file has it: {ADVICE}")
        yield from (Problem(path, f"{what}: {ADVICE}") for what in _sums(checkpoint))


def _sums(checkpoint: Checkpoint) -> Iterator[str]:
    """The faults of the first line of a checkpoint."""
    own = [entry.commit for entry in checkpoint.entries.values()]
    replaced = merged(each for commit in own for each in commit.replaces)
    counting = [commit for commit in own if not overlaps(replaced, commit.shard, commit.shard + 1)]
    if own and (summary_of(counting, replaced) != checkpoint.header.summary or any(faults(counting))):
        yield "its sums are not those of its commits"
