"""Judging the games of runs on all cores, shard by shard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analytics.perfect.tablebase import base_for
from analytics.store.archive import Archive, readable
from analytics.store.decisions import annotate, first_pieces, frame_of, missing, no_less, record_of
from analytics.store.exact_values import Judged, Record, Task, judge
from quarto.errors import FailureError
from quarto.rules import Rules
from quarto.solver.solver import Solver

TASK_GAMES = 64  # a tenth of a second of work: how long a stop may take, but for the hardest of positions
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Settings:
    """What is to be judged, and with what."""

    choices: bool = False
    from_pieces: int | None = None  # None: 0, or 5 where the mover chooses the piece
    threads: int = 1
    megabytes: float = 128.0
    base_pieces: int | None = None  # boards of up to so many are looked up; None: all that the tablebase has


class Judge:
    """Judges games under some rules on several threads; what they prove they share, and keep."""

    def __init__(self, rules: Rules, settings: Settings) -> None:
        self.rules = rules
        self._settings = settings
        self._shared = Solver(rules, settings.megabytes, base_for(rules, settings.base_pieces))
        self._local = threading.local()

    def stop(self) -> None:
        """End all searches."""
        self._shared.stop()

    def judged(self, record: Record, choices: bool, look: Callable[[int], None]) -> Judged:
        """The values of all decisions of a record, with ``choices`` how many save them too.

        ``look`` is told of every few games. Stops when it raises.
        """
        judged = Judged.empty(len(record.plies))
        starts = range(0, len(record.plies), TASK_GAMES)
        with ThreadPoolExecutor(self._settings.threads, thread_name_prefix="judge") as pool:
            tasks = [Task(start, min(start + TASK_GAMES, len(record.plies)), int(choices)) for start in starts]
            pending = [pool.submit(self._judge, task, record, judged) for task in tasks]
            try:
                for task, future in zip(tasks, pending, strict=True):
                    _await(future)
                    look(task.end - task.start)
            except BaseException:
                self.stop()
                for future in pending:
                    future.cancel()
                raise
        return judged

    def _judge(self, task: Task, record: Record, judged: Judged) -> None:
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        judge(task, record, judged, *self._local.solver.state)


def _await(future: Future[None]) -> None:
    """Wait in short steps, between which Ctrl-C is noticed."""
    while True:
        try:
            return future.result(POLL_SECONDS)
        except NotYet:
            continue


class Done(NamedTuple):
    """What annotating came to."""

    shards: int
    games: int
    decisions: int


def annotate_runs(
    archive: Archive, runs: Sequence[str], settings: Settings, look: Callable[[int], None] = lambda _games: None
) -> Done:
    """Judge and store every decision of some runs that is not stored yet, shard by shard.

    May be stopped at any time, by an exception in ``look`` such as Ctrl-C: shards that are stored stay. Raises
    ``FailureError`` for a run without a record or a file that cannot be read or written.
    """
    judges: dict[Rules, Judge] = {}
    shards = games = decisions = 0
    for run_id in runs:
        known = archive.run(run_id)
        if known is None:
            raise FailureError(f"run {run_id} has games and no record, so its rules are not known: restore its record")
        rules = readable(known).rules
        from_pieces = first_pieces(rules) if settings.from_pieces is None else settings.from_pieces
        for commit in missing(archive, run_id, settings.choices, from_pieces):
            if rules not in judges:
                judges[rules] = Judge(rules, settings)
            depth = no_less(archive, run_id, commit, (settings.choices, from_pieces))
            game_id, record = record_of(archive, run_id, commit, depth[1])
            frame = frame_of(game_id, record, judges[rules].judged(record, depth[0], look), rules)
            if annotate(archive, run_id, commit, frame, depth):
                shards, games, decisions = shards + 1, games + len(np.atleast_1d(game_id)), decisions + len(frame)
    return Done(shards, games, decisions)
