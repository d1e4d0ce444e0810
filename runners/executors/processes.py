"""The executor of processes on this machine: they share nothing but the archive."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from runners.executors.base import POLL_SECONDS, Executor, Stop, WorkerPool
from runners.executors.worker import Returned, TaskData, answer_of, carry_out, for_children, lost_too_often, task_data
from runners.hosting.child_program import belong_to_run

MOST_LOSSES = 3  # of workers, one after the other, between which no part is finished
DEATH_SECONDS = 1.0


class Processes(Executor):
    """Carries out work in processes of this machine; ``threads`` is their number.

    They are started when they are needed first, live as long as this object, and never longer than the run.
    """

    shares_memory = False

    def __init__(self) -> None:
        self._folder = Path.cwd()  # to which paths are relative; Hydra may change the current folder later
        self._started: list[_Processes] = []  # at most one
        self.close = weakref.finalize(self, _end_all, self._started)  # ends the processes

    def workers(self, threads: int) -> int:
        return threads

    def here(self, threads: int) -> int:
        return threads

    def pool(self, task: Callable[[Any, Stop], Any], threads: int, stop: threading.Event) -> WorkerPool:
        """All parts in progress when a process was lost are carried out again."""
        return _ProcessPool(self, task_data(task, self._folder), threads, stop)

    def processes(self, number: int) -> _Processes:
        """The processes, started if they are not."""
        if self._started and self._started[0].number != number:
            self.end_processes()
        if not self._started:
            self._started.append(_Processes(number))
        return self._started[0]

    def end_processes(self) -> None:
        """End the processes, whatever they do; others are started when they are needed."""
        _end_all(self._started)


class _ProcessPool(WorkerPool):
    def __init__(self, executor: Processes, task: TaskData, threads: int, stop: threading.Event) -> None:
        self.most, self.pending = threads, 0
        self._executor, self._task, self._stop = executor, task, stop
        self._processes = executor.processes(threads)
        self._processes.stopping.clear()
        self._running: dict[Future[Returned], Any] = {}  # parts
        self._known: set[str] = set()
        self._losses = 0

    def begin(self, part: Any) -> None:
        try:
            future = self._processes.submit(self._task, part)
        except (BrokenProcessPool, OSError):  # its pipes are closed a moment before it is known to be broken
            self._begin_again()
            future = self._processes.submit(self._task, part)
        self._running[future] = part
        self.pending = len(self._running)

    def answers(self) -> Iterator[Any]:
        done, _ = wait(self._running, POLL_SECONDS, FIRST_COMPLETED)
        try:
            for future in sorted(done, key=lambda future: future.exception() is not None):  # answers first
                returned = future.result()
                del self._running[future]
                self.pending = len(self._running)
                self._losses = 0
                yield answer_of(returned, self._known)
        except BrokenProcessPool:
            self._begin_again()

    def ask_to_stop(self) -> None:
        self._processes.stopping.set()

    def end(self) -> None:
        if self._running:  # an error, a second Ctrl-C, or a turn that does not end
            self._executor.end_processes()

    def _begin_again(self) -> None:
        """Start other processes, which carry out what was in progress; raises ``FailureError`` after many losses."""
        self._losses += 1
        reason, lost = self._processes.death(), [*self._running.values()]
        self._running.clear()
        self.pending = 0
        self._executor.end_processes()
        if self._losses >= MOST_LOSSES:
            raise lost_too_often(self._losses, reason) from None
        logging.getLogger(__name__).warning("a worker was lost (%s): others do its part again", reason)
        self._processes = self._executor.processes(self.most)
        for part in lost if not self._stop.is_set() else ():
            self.begin(part)


class _Processes:
    """Processes that wait for parts, or carry them out."""

    def __init__(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.number = number
        self.stopping = context.Event()
        self._all: set[Any] = set()
        self._pool = ProcessPoolExecutor(number, context, _begin, (self.stopping,))

    def submit(self, task: TaskData, part: Any) -> Future[Returned]:
        """Let a process carry out a part. Raises ``BrokenProcessPool`` if one was lost."""
        before = {*multiprocessing.active_children()}
        with for_children(POLARS_MAX_THREADS="1"):  # a worker is for one core
            future = self._pool.submit(_carry_out, task, part)
        self._all |= {*multiprocessing.active_children()} - before
        return future

    def death(self) -> str:
        """The way in which a process was lost."""
        last, codes = time.monotonic() + DEATH_SECONDS, list[int]()
        # Its pipes are closed a moment before it has ended, and by then the pool may have ended the others by SIGTERM.
        while not {*codes} - {-signal.SIGTERM} and time.monotonic() < last:
            codes = sorted((each.exitcode for each in self._all if each.exitcode), key=(-signal.SIGTERM).__eq__)
        if not codes:
            return "its process ended"
        if codes[0] > 0:
            return f"its process ended with exit code {codes[0]}"
        return f"its process was ended by signal {-codes[0]} ({signal.Signals(-codes[0]).name})"

    def end(self) -> None:
        """End the processes, whatever they do."""
        for each in self._all:
            each.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _end_all(started: list[_Processes]) -> None:
    while started:
        started.pop().end()


# In a process.

_stopping: Any = None  # the event, once the process has begun


def _begin(stopping: Any) -> None:
    """Make a process ready: it ends with the run, and what agents print does not mix with results."""
    global _stopping  # noqa: PLW0603  (a pool's initializer has no other way)
    _stopping = stopping
    run: Any = multiprocessing.parent_process()
    belong_to_run(run.sentinel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # it is ignored now
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)


def _carry_out(task: TaskData, part: Any) -> Returned:
    return carry_out(task, part, _stopping)
