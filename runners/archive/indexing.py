"""Indexing shards as work for an executor: each part is a shard, whose index a worker makes and stores itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analytics.derived_tables.position_index import INDEXES, IndexJob, IndexSummary, index_shards
from analytics.files.location import location_of
from analytics.store.archive import Archive
from runners.executors.base import Tell


class Indexing:
    """The shards that are to be indexed; ``progress`` is called with the number of plies of each that is done."""

    worker = "runners.archive.indexing:IndexWorker"

    def __init__(self, archive: Archive, jobs: Sequence[IndexJob], progress: Callable[[int], None]) -> None:
        self.done = IndexSummary()
        self._archive = archive
        self._jobs = {(job.shard.record.run_id, job.shard.commit.shard): job for job in jobs}
        self._progress = progress

    def here(self, threads: int, stop: threading.Event) -> None:  # noqa: ARG002  (Ctrl-C is raised in ``progress``)
        """Index on threads of this process."""
        self.done = index_shards(self._archive, [*self._jobs.values()], threads, self._progress)

    def spec(self) -> Mapping[str, Any]:
        return {"root": str(self._archive.root), "runs": sorted({run_id for run_id, _ in self._jobs})}

    def parts(self, workers: int) -> Iterator[Any]:  # noqa: ARG002  (a shard is a part)
        """A shard each: the run's id, the shard's number, and the ply before which its index ends."""
        for (run_id, number), job in self._jobs.items():
            yield [run_id, number, job.end_ply]

    def rest(self, part: Any) -> Any | None:
        """The part, unless its shard is indexed by now."""
        job = self._jobs[part[0], part[1]]
        shard = INDEXES.renewed(self._archive, job.shard)
        return part if INDEXES.lacks(self._archive, shard, job.is_done_by) else None

    def take(self, answer: Any) -> None:
        self.done = IndexSummary(*map(sum, zip(self.done, answer["done"], strict=True)))
        self._progress(answer["plies"])

    def idle(self) -> None:
        """Nothing to show."""


class IndexWorker:
    """Indexes shards."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises ``RequestError`` if there is no archive here, ``FailureError`` for a file that cannot be read."""
        self._archive = Archive.open(location_of(spec["root"]))
        shards = INDEXES.shards(self._archive, spec["runs"])
        self._shards = {(shard.record.run_id, shard.commit.shard): shard for shard in shards}

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:  # noqa: ARG002  (a shard takes a second)
        run_id, number, end_ply = part
        job = IndexJob(INDEXES.renewed(self._archive, self._shards[run_id, number]), end_ply)
        tell({"plies": job.plies, "done": index_shards(self._archive, [job], 1)})
