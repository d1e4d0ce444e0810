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


class WorkerStart:
    """The time in which workers in other processes start, which no work clock counts.

    The start lasts from the construction of this object until the first worker begins to work.
    """

    def __init__(self) -> None:
        self._since, self._excluded = time.perf_counter(), 0.0
        self._is_known = False

    def exclude_wait_before_work(self, work_seconds: float) -> None:
        """Exclude from the work clocks the time until a worker began the work whose result has just arrived.

        The work took ``work_seconds``, which must not include the time of compiling or of loading the task. If a later
        result shows that another worker began earlier, the excluded time is corrected.
        """
        waiting_seconds = max(0.0, time.perf_counter() - work_seconds - self._since)
        if not self._is_known or waiting_seconds < self._excluded:
            _add_start_seconds(waiting_seconds - self._excluded)
            self._is_known, self._excluded = True, waiting_seconds
