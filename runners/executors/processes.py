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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from quarto.hooks import ignore
from runners.executors.base import GIVE_UP_SECONDS, Answer, Executor, Part, Stop
from runners.executors.worker import Returned, Setup, answer_of, carry_out, lost_too_often, setup_of
from runners.hosting.child_program import belong_to_run

MOST_LOSSES = 3  # of workers, one after the other, between which no part is finished
DEATH_SECONDS = 1.0
POLL_SECONDS = 0.2  # without an answer, after which it is seen whether the user wants to stop
VARIABLE = "POLARS_MAX_THREADS"  # a worker is for one core


class Processes(Executor):
    """Carries out work in processes of this machine; ``threads`` is their number.

    They are started when they are needed first, live as long as this object, and never longer than the run.
    """

    shares_memory = False

    def __init__(self) -> None:
        self._folder = Path.cwd()  # to which paths are relative; Hydra may change the current folder later
        self._pools: list[_Pool] = []  # at most one
        self.close = weakref.finalize(self, _end_all, self._pools)  # ends the processes

    def workers(self, threads: int) -> int:
        return threads

    def here(self, threads: int) -> int:
        return threads

    def map(
        self,
        task: Callable[[Part, Stop], Answer],
        parts: Iterable[Part],
        threads: int,
        stop: threading.Event,
        idle: Callable[[], None] = ignore,
    ) -> Iterator[Answer]:
        """As ``Executor.map`` says; all parts in progress when a process was lost are carried out again."""
        setup, known, source, again = setup_of(task, self._folder), set[str](), iter(parts), deque[Part]()
        losses = 0
        try:
            while True:
                pool = self._pool(threads)
                while again and len(pool.running) < threads and not stop.is_set():
                    pool.begin(setup, again.popleft())
                for part in () if stop.is_set() else islice(source, threads - len(pool.running)):
                    pool.begin(setup, part)
                if not pool.running or pool.is_given_up(stop):
                    break
                try:
                    for returned in pool.returned(idle):
                        losses = 0
                        yield answer_of(returned, known)
                except BrokenProcessPool:
                    losses += 1
                    reason = pool.death()
                    again.extend(pool.running.values())
                    _end_all(self._pools)
                    if losses >= MOST_LOSSES:
                        raise lost_too_often(losses, reason) from None
                    logging.getLogger(__name__).warning("a worker was lost (%s): others do its part again", reason)
        finally:
            if self._pools and self._pools[0].running:  # an error, or a second Ctrl-C
                _end_all(self._pools)

    def _pool(self, threads: int) -> _Pool:
        if self._pools and self._pools[0].size != threads:
            _end_all(self._pools)
        if not self._pools:
            self._pools.append(_Pool(threads))
        return self._pools[0]


class _Pool:
    """Processes, and the parts that they carry out."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.size = size
        self.running: dict[Future[Returned], Any] = {}  # parts
        self._stopping = context.Event()
        self._stopped: float | None = None  # when it was set
        self._processes: set[Any] = set()
        self._pool = ProcessPoolExecutor(size, context, _begin, (self._stopping,))

    def begin(self, setup: Setup, part: Any) -> None:
        """Let a process carry out a part."""
        if not self.running:
            self._stopping.clear()
            self._stopped = None
        before = {*multiprocessing.active_children()}
        with _for_children():
            self.running[self._pool.submit(_carry_out, setup, part)] = part
        self._processes |= {*multiprocessing.active_children()} - before

    def returned(self, idle: Callable[[], None]) -> Iterator[Returned]:
        """What came of parts since the last call. Raises ``BrokenProcessPool`` if a process was lost."""
        done, _ = wait(self.running, POLL_SECONDS, FIRST_COMPLETED)
        if not done:
            idle()
        for future in sorted(done, key=lambda future: future.exception() is not None):  # answers first
            returned = future.result()
            del self.running[future]
            yield returned

    def is_given_up(self, stop: threading.Event) -> bool:
        """Whether the parts in progress, which are told of a request to stop, have not ended in time."""
        if stop.is_set() and self._stopped is None:
            self._stopping.set()
            self._stopped = time.monotonic()
        return self._stopped is not None and time.monotonic() - self._stopped > GIVE_UP_SECONDS

    def death(self) -> str:
        """The way in which a process was lost."""
        last, codes = time.monotonic() + DEATH_SECONDS, list[int]()
        while not codes and time.monotonic() < last:  # its pipes are closed a moment before it has ended
            codes = [each.exitcode for each in self._processes if each.exitcode]
        codes = [code for code in codes if code != -signal.SIGTERM] or codes  # the pool ends the others by this one
        if not codes:
            return "its process ended"
        if codes[0] > 0:
            return f"its process ended with exit code {codes[0]}"
        return f"its process was ended by signal {-codes[0]} ({signal.Signals(-codes[0]).name})"

    def end(self) -> None:
        """End the processes, whatever they do."""
        for each in self._processes:
            each.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _end_all(pools: list[_Pool]) -> None:
    while pools:
        pools.pop().end()


@contextmanager
def _for_children() -> Iterator[None]:
    """Inside the context processes are started: Ctrl-C is for the run alone, and each of them is for one core."""
    before = os.environ.get(VARIABLE)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


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


def _carry_out(setup: Setup, part: Any) -> Returned:
    return carry_out(setup, part, _stopping)
