"""Solving a tablebase's chunks as work for an executor: what travels are keys of boards and their values."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from analytics.perfect.tablebase_build import Chunks, solved
from quarto.rules import Rules
from quarto.solver.solver import Solver
from runners.executors.base import Tell

POLL_SECONDS = 0.1


class ChunkSolving:
    """The chunks that are not solved. Only this process reads and writes the folder of the build."""

    worker = "runners.perfect.chunk_solving:ChunkWorker"

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def here(self, threads: int, stop: threading.Event) -> None:  # noqa: ARG002  (the job has their number)
        """Solve on threads of this process."""
        self._chunks.solve(stop)

    def spec(self) -> Mapping[str, Any]:
        job = self._chunks.job
        return {"rules": asdict(job.rules), "megabytes": job.megabytes}

    def parts(self, workers: int) -> Iterator[Any]:  # noqa: ARG002  (a chunk is a part)
        """A chunk each: the number of its first board, and the keys."""
        for first in list(self._chunks.left):
            yield [first, self._chunks.keys(first).tolist()]

    def rest(self, part: Any) -> Any | None:
        return part if part[0] in self._chunks.left else None

    def take(self, answer: Any) -> None:
        if "solved" in answer:
            self._chunks.progress.advance(answer["solved"])
        else:
            self._chunks.keep(answer["first"], np.array(answer["values"], np.int8), answer["seconds"])

    def idle(self) -> None:
        """Nothing to show."""


class ChunkWorker:
    """Solves chunks; it keeps what it finds from one to the next."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._rules = Rules(**spec["rules"])
        self._solver = Solver(self._rules, spec["megabytes"])

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:
        first, keys = part
        solver = self._solver.fork()
        with _stopping(solver, stop):
            found = solved(solver, self._rules, np.array(keys, np.uint64), lambda boards: tell({"solved": boards}))
        if found is not None:
            values, seconds = found
            tell({"first": first, "values": values.tolist(), "seconds": seconds})


@contextmanager
def _stopping(solver: Solver, stop: threading.Event) -> Iterator[None]:
    """Inside the context, stop the solver, whose searches take any time, once ``stop`` is set."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if stop.wait(POLL_SECONDS):
                solver.stop()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
