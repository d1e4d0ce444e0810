"""The time of work by which every command computes a speed. Compiling kernels and starting workers do not count.

Both happen once, however much work there is, so a speed that included them would not hold for the next command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from quarto.sources import compilation_progress

_start_lock = threading.Lock()
_start_seconds = 0.0  # time that this process has spent on starting so far


class WorkClock:
    """A clock that measures how long this process or its workers have worked since the clock was built."""

    def __init__(self) -> None:
        self._start = _read_seconds()

    @property
    def seconds(self) -> float:
        """The seconds of work so far, at least 0."""
        return max(0.0, _read_seconds() - self._start)


def _read_seconds() -> float:
    return time.perf_counter() - compilation_progress.seconds - _start_seconds


def _add_start_seconds(seconds: float) -> None:
    global _start_seconds  # noqa: PLW0603  (of the process, as the seconds of compiling)
    with _start_lock:
        _start_seconds += seconds


@contextmanager
def exclude_from_work_clocks() -> Iterator[None]:
    """Exclude the time in this context from all work clocks. Contexts may be nested.

    Use this while starting something that the work needs, such as workers, if the start takes equally long however much
    work there is.
    """
    clock = WorkClock()
    try:
        yield
    finally:
        _add_start_seconds(clock.seconds)


class WorkerStarts:
    """The time in which workers in other processes start, which no work clock counts.

    A worker starts from the moment at which its first chunk was handed out until it begins to work. While one worker
    starts, others may work already. So the clocks leave out the mean of all workers: games divided by the seconds of
    the clock are then the speed of that many workers without their start.
    """

    def __init__(self, max_workers: int) -> None:
        """Expect up to ``max_workers`` workers at a time; lost ones may be replaced by others."""
        self._max_workers, self._seconds_by_worker, self._excluded = max_workers, dict[str, float](), 0.0

    def exclude_start(self, worker: str, seconds: float) -> None:
        """Exclude the start of ``worker``, which took ``seconds``, unless the worker is already known."""
        if worker in self._seconds_by_worker:
            return
        self._seconds_by_worker[worker] = max(0.0, seconds)
        workers = min(len(self._seconds_by_worker), self._max_workers)
        excluded = sum(self._seconds_by_worker.values()) / workers
        _add_start_seconds(excluded - self._excluded)
        self._excluded = excluded
