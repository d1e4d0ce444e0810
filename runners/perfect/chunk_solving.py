"""Solving a tablebase's chunks: what travels are keys of boards and their values."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.perfect.tablebase_build import Chunks, solved
from quarto.rules import Rules
from quarto.solver.solver import Solver
from runners.executors.base import Executor, Stop, Task

POLL_SECONDS = 0.1


class BoardChunk(NamedTuple):
    """A chunk of boards: their keys, then their values."""

    first: int  # the number of its first board
    content: NDArray[np.integer[Any]]  # [N] keys, uint64, or values, int8
    seconds: float = 0.0  # of one thread


@dataclass(frozen=True)
class SolveTask(Task):
    """Solves chunks. The threads of a process share what they find."""

    rules: Mapping[str, Any]  # the fields of ``Rules``
    megabytes: float

    def __call__(self, part: BoardChunk, stop: Stop) -> BoardChunk | None:
        rules = Rules(**self.rules)
        solver = self.once("solver", lambda: Solver(rules, self.megabytes)).fork()
        with _stopping(solver, stop):
            found = solved(solver, rules, np.asarray(part.content, np.uint64))
        return None if found is None else BoardChunk(part.first, *found)


def solve(chunks: Chunks, executor: Executor, threads: int, stop: threading.Event) -> None:
    """Solve what is left of a tablebase and store it, until ``stop`` is set."""
    task = SolveTask(asdict(chunks.job.rules), chunks.job.megabytes)
    parts = (BoardChunk(first, chunks.keys(first)) for first in list(chunks.left))
    for found in executor.map(task, parts, threads, stop):
        if found is not None and found.first in chunks.left:
            chunks.keep(found.first, np.asarray(found.content, np.int8), found.seconds)


@contextmanager
def _stopping(solver: Solver, stop: Stop) -> Iterator[None]:
    """Inside the context, stop the solver, whose searches take any time, once ``stop`` is set."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            if stop.is_set():
                solver.stop()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
