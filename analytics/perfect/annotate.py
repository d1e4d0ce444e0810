"""Annotates runs: evaluates the decisions of their games on all cores, shard by shard, and stores them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.derived_tables.decisions import (
    ANNOTATIONS,
    AnnotationJob,
    annotation_jobs,
    decisions_of,
    first_plies,
    note_annotations,
)
from analytics.derived_tables.exact_values import ExactValues, Task, evaluate
from analytics.derived_tables.jobs import run_jobs
from analytics.perfect.tablebase import base_for
from analytics.store.archive import Archive
from analytics.store.range_files import read_games
from quarto.batch import Games
from quarto.rules import Rules
from quarto.solver.solver import Solver

TASK_GAMES = 64  # a tenth of a second of work, so a stop takes no longer, except in the hardest positions


@dataclass(frozen=True)
class AnnotationSettings:
    """The decisions to evaluate, and the means."""

    choices: bool = False  # count the choices that keep the value too
    from_pieces: int | None = None  # leave out boards with fewer pieces; None: 0, or 5 where the mover chooses
    threads: int = 1
    megabytes: float = 128.0  # of the table of solved boards
    base_pieces: int | None = None  # look up boards of at most this many pieces; None: all boards of the tablebase


class Evaluator:
    """Evaluates games by one set of rules on several threads, which share and keep what they solve."""

    def __init__(self, rules: Rules, settings: AnnotationSettings) -> None:
        self._settings = settings
        self._shared = Solver(rules, settings.megabytes, base_for(rules, settings.base_pieces))
        self._local = threading.local()

    def values(
        self,
        games: Games,
        first: NDArray[np.int8],
        choices: bool,
        progress: Callable[[int], None],
        on_wait: Callable[[], None] = lambda: None,
    ) -> ExactValues:
        """The values of all decisions from ply ``first`` [G] on, with ``choices`` how many choices keep them too.

        ``progress`` is called with the number of games of each task that is done, ``on_wait`` several times a second.
        All searches end when one of them raises.
        """
        values, size = ExactValues.empty(len(games.plies)), len(games.plies)
        tasks = (Task(start, min(start + TASK_GAMES, size), int(choices)) for start in range(0, size, TASK_GAMES))
        jobs = (partial(self._evaluate, task, games, first, values) for task in tasks)
        run_jobs(jobs, self._settings.threads, progress, self._shared.stop, on_wait)
        return values

    def _evaluate(self, task: Task, games: Games, first: NDArray[np.int8], values: ExactValues) -> int:
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        evaluate(task, games, first, values, *self._local.solver.state)
        return task.end - task.start


class AnnotationSummary(NamedTuple):
    """Totals of the shards that were annotated."""

    shards: int = 0
    games: int = 0
    decisions: int = 0

    def plus(self, other: AnnotationSummary) -> AnnotationSummary:
        """The totals of both."""
        return AnnotationSummary(*map(sum, zip(self, other, strict=True)))


def annotate_runs(
    archive: Archive,
    runs: Sequence[str],
    settings: AnnotationSettings,
    progress: Callable[[int], None] = lambda _games: None,
    on_wait: Callable[[], None] = lambda: None,
) -> AnnotationSummary:
    """Evaluate and store every decision of some runs that is not stored yet, shard by shard.

    It may be stopped at any time by an exception in ``progress`` or ``on_wait`` (see ``Evaluator``) or by Ctrl-C:
    shards that are stored stay. Raises ``FailureError`` for a run without a record or a file that cannot be read or
    written.
    """
    try:
        return _annotate(archive, runs, settings, progress, on_wait)
    finally:
        for run_id in runs:
            note_annotations(archive, run_id)


def _annotate(
    archive: Archive,
    runs: Sequence[str],
    settings: AnnotationSettings,
    progress: Callable[[int], None],
    on_wait: Callable[[], None],
) -> AnnotationSummary:
    annotator, total = Annotator(archive, settings), AnnotationSummary()
    for job in annotation_jobs(archive, runs, settings.choices, settings.from_pieces):
        total = total.plus(annotator.annotate(job, progress, on_wait))
    return total


class Annotator:
    """Annotates shards, and keeps what it solves from one to the next."""

    def __init__(self, archive: Archive, settings: AnnotationSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._evaluators: dict[Rules, Evaluator] = {}

    def annotate(
        self, job: AnnotationJob, progress: Callable[[int], None], on_wait: Callable[[], None] = lambda: None
    ) -> AnnotationSummary:
        """Evaluate and store the decisions of a shard, unless another writer has done that meanwhile."""
        archive, shard = self._archive, ANNOTATIONS.renewed(self._archive, job.shard)
        if not ANNOTATIONS.lacks(archive, shard, job.extent.is_in):
            return AnnotationSummary()
        rules = shard.record.rules
        extent = job.extent.joined(shard.manifest)  # the new annotation includes the stored one
        if rules not in self._evaluators:
            self._evaluators[rules] = Evaluator(rules, self._settings)
        stored_games = read_games(archive, shard.record.run_id, shard.commit)
        first = first_plies(stored_games, extent)
        values = self._evaluators[rules].values(stored_games.games, first, extent.choices, progress, on_wait)
        frame = decisions_of(stored_games, first, values, rules)
        if not ANNOTATIONS.store(archive, shard, frame, extent._asdict(), extent.is_in):
            return AnnotationSummary()
        return AnnotationSummary(1, len(first), len(frame))
