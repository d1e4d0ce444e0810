"""Counting games for a policy as work for an executor: each part is a shard, and counts of shards add up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analytics.files.location import location_of
from analytics.policies.derived.dataset import Counting, Dataset, dataset_of
from analytics.query.selection import Selection, holds_any, read_chosen, within
from analytics.store.archive import Archive, readable
from analytics.store.records import Commit
from runners.executors.base import Tell
from runners.training.kinds import derivation_of, guarded


class GameCounting:
    """The chosen games, to be counted by a kind; no process has more of them in memory than it counts at a time."""

    worker = "runners.training.counting:CountingWorker"

    def __init__(self, kind: str, settings: Mapping[str, Any], selection: Selection) -> None:
        self.counts: NDArray[np.int64] | None = None
        self.checksums: Counter[str] = Counter()  # by run
        self._kind = kind
        self._settings = settings
        self._selection = selection
        self._counted: set[tuple[str, int]] = set()  # shards

    def here(self, threads: int, stop: threading.Event) -> None:  # noqa: ARG002  (it takes seconds)
        """Count all of them on threads of this process."""
        dataset = dataset_of(self._selection)
        self.counts = _count(self._kind, self._settings, dataset, threads)
        self.checksums.update(dataset.sums(threads))

    def spec(self) -> Mapping[str, Any]:
        root = str(self._selection.opened.archive.root)
        runs = [record.run_id for record in self._selection.runs]
        return {"root": root, "runs": runs, "kind": self._kind, "settings": dict(self._settings)}

    def parts(self, workers: int) -> Iterator[Any]:  # noqa: ARG002  (a shard is a part)
        """A shard each: the run's id, the shard's number, and the ids of the chosen games; None for all."""
        for record, count in zip(self._selection.runs, self._selection.counts, strict=True):
            commits = self._selection.opened.archive.commits(record.run_id)
            chosen = None
            if count != sum(commit.games.rows for commit in commits):
                chosen = self._selection.game_ids(record.run_id)
            for commit in commits:
                if chosen is None:
                    yield [record.run_id, commit.shard, None]
                elif holds_any(commit, chosen):
                    yield [record.run_id, commit.shard, _ids_in(commit, chosen)]

    def rest(self, part: Any) -> Any | None:
        return None if (part[0], part[1]) in self._counted else part

    def take(self, answer: Any) -> None:
        counts = np.array(answer["counts"], np.int64)
        self.counts = counts if self.counts is None else self.counts + counts
        self.checksums.update(answer["sums"])
        self._counted.add((answer["run"], answer["shard"]))

    def idle(self) -> None:
        """Nothing to show."""


def _ids_in(commit: Commit, chosen: NDArray[np.int64]) -> list[int]:
    parts = [chosen[within(chosen, part.pairing, part.first_pair, part.end_pair)] for part in commit.slices]
    ids: list[int] = np.concatenate(parts).tolist()
    return ids


def _count(kind: str, settings: Mapping[str, Any], dataset: Dataset, threads: int) -> NDArray[np.int64]:
    derivation: Any = derivation_of(kind, settings)
    counting: Counting = derivation
    return guarded(kind, settings, lambda: counting.count(dataset, threads))


class CountingWorker:
    """Counts the games of shards."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises ``RequestError`` if there is no archive here, ``FailureError`` for a file that cannot be read."""
        self._archive = Archive.open(location_of(spec["root"]))
        self._kind, self._settings = spec["kind"], spec["settings"]
        records = [record for record in map(self._archive.run, spec["runs"]) if record is not None]
        self._records = {record.run_id: readable(record) for record in records}
        self._commits = {
            (run_id, commit.shard): commit for run_id in self._records for commit in self._archive.commits(run_id)
        }

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:  # noqa: ARG002  (a shard takes a second)
        run_id, number, chosen = part
        wanted = None if chosen is None else np.array(chosen, np.int64)
        found = read_chosen(self._archive, run_id, self._commits[run_id, number], wanted)
        dataset = Dataset((self._records[run_id],), (0, len(found.game_id)), *found)
        counts = _count(self._kind, self._settings, dataset, 1)
        tell({"run": run_id, "shard": number, "counts": counts.tolist(), "sums": dataset.sums(1)})
