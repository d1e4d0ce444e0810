"""Judging decisions as work for an executor: each part is a shard, which a worker annotates and stores itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from analytics.derived_tables.decisions import ANNOTATIONS, AnnotationExtent, AnnotationJob
from analytics.files.location import location_of
from analytics.perfect.annotate import AnnotationSettings, AnnotationSummary, Annotator, annotate_runs
from analytics.store.archive import Archive
from runners.executors.base import Tell


class StoppedError(Exception):
    """Raised to end the searches of a worker that is to stop."""


class Annotating:
    """The shards that are to be annotated; ``progress`` is called with the number of games that are judged."""

    worker = "runners.perfect.annotating:AnnotationWorker"

    def __init__(
        self,
        archive: Archive,
        jobs: Sequence[AnnotationJob],
        settings: AnnotationSettings,
        progress: Callable[[int], None],
    ) -> None:
        self.done = AnnotationSummary()
        self._archive = archive
        self._jobs = {(job.shard.record.run_id, job.shard.commit.shard): job for job in jobs}
        self._settings = settings
        self._progress = progress

    def here(self, threads: int, stop: threading.Event) -> None:  # noqa: ARG002  (Ctrl-C is raised in ``progress``)
        """Judge on threads of this process, which share what they solve."""
        settings = replace(self._settings, threads=threads)
        self.done = annotate_runs(self._archive, self._runs, settings, self._progress)

    @property
    def _runs(self) -> list[str]:
        return list(dict.fromkeys(run_id for run_id, _ in self._jobs))

    def spec(self) -> Mapping[str, Any]:
        settings = asdict(replace(self._settings, threads=1))
        return {"root": str(self._archive.root), "runs": self._runs, "settings": settings}

    def parts(self, workers: int) -> Iterator[Any]:  # noqa: ARG002  (a shard is a part)
        """A shard each: the run's id, the shard's number, and to what extent it is to be annotated."""
        for (run_id, number), job in self._jobs.items():
            yield [run_id, number, job.extent._asdict()]

    def rest(self, part: Any) -> Any | None:
        """The part, unless its shard is annotated by now."""
        job = self._jobs[part[0], part[1]]
        shard = ANNOTATIONS.renewed(self._archive, job.shard)
        return part if ANNOTATIONS.lacks(self._archive, shard, job.extent.is_in) else None

    def take(self, answer: Any) -> None:
        if "done" in answer:
            self.done = self.done.plus(AnnotationSummary(*answer["done"]))
        else:
            self._progress(answer["games"])

    def idle(self) -> None:
        """Nothing to show."""


class AnnotationWorker:
    """Annotates shards; it keeps what it solves from one to the next."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises ``RequestError`` if there is no archive here, ``FailureError`` for a file that cannot be read."""
        archive = Archive.open(location_of(spec["root"]))
        shards = ANNOTATIONS.shards(archive, spec["runs"])
        self._shards = {(shard.record.run_id, shard.commit.shard): shard for shard in shards}
        self._annotator = Annotator(archive, AnnotationSettings(**spec["settings"]))

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:
        run_id, number, extent = part

        def end_if_asked() -> None:
            if stop.is_set():
                raise StoppedError

        job = AnnotationJob(self._shards[run_id, number], AnnotationExtent(**extent))
        try:
            tell({"done": self._annotator.annotate(job, lambda games: tell({"games": games}), end_if_asked)})
        except StoppedError:
            return
