"""Threads that carry out work for the main thread, and that nobody has to wait for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Value = TypeVar("Value")

PLAYING = "play"  # prefix of the names of the threads
IDLE_SECONDS = 0.5  # without a result, after which the caller hears that there is none
GRACE = 2.0  # seconds after which work in progress is cut short, once it is to stop


def still_playing() -> bool:
    """Whether a thread that nobody waits for still runs: the process must then end without waiting for its threads."""
    return any(thread.daemon and thread.name.startswith(PLAYING) for thread in threading.enumerate())


class Crew(Generic[Job, Result]):
    """Threads that carry out jobs: each job gives results one by one.

    ``work(job, cut)`` is a generator; once ``cut()`` is true it ends with what is finished. That is so ``GRACE``
    seconds after ``stop`` was set, and as soon as the results are no longer taken. The threads are daemons: a job that
    never ends keeps nobody waiting. Between two jobs a thread carries out what was handed to ``submit``.
    """

    def __init__(
        self, threads: int, work: Callable[[Job, Callable[[], bool]], Iterator[Result]], stop: threading.Event | None
    ) -> None:
        self._work = work
        self._stop = stop or threading.Event()
        self._cut_at: float | None = None  # once ``stop`` is set
        self._closing = False
        self._todo: SimpleQueue[Job | _Wake | None] = SimpleQueue()  # None: no more work
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._done: SimpleQueue[Result | _Finished | _Raised] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._carry_out, name=f"{PLAYING} {i}", daemon=True) for i in range(threads)
        ]

    def submit(self, call: Callable[..., Value], *arguments: Any) -> Future[Value]:
        """Let the next thread that is free call a function; until one has begun, the future can be cancelled."""
        future: Future[Value] = Future()
        self._tasks.put(_Task(future, call, arguments))
        self._todo.put(_Wake())
        return future

    def results(self, jobs: Iterable[Job], idle: Callable[[], None]) -> Iterator[Result]:
        """The results of all jobs as they are finished, not always in order. Raises what ``work`` raises.

        A job is taken from the iterable only when a thread is about to be free. Once the iterable ends, the jobs in
        progress are still carried out; once ``stop`` is set, those that were not begun are not. ``idle`` is called
        whenever there has been no result for ``IDLE_SECONDS``.
        """
        source, pending = iter(jobs), 0
        for thread in self._threads:
            thread.start()
        try:
            while True:
                for job in islice(source, len(self._threads) + 1 - pending):
                    self._todo.put(job)
                    pending += 1
                if not pending:
                    break
                result = self._next(idle)
                if isinstance(result, _Raised):
                    raise result.error
                if isinstance(result, _Finished):
                    pending -= 1
                else:
                    yield result
        finally:
            self._closing = True
            for _ in self._threads:
                self._todo.put(None)
        for thread in self._threads:  # they have nothing to do
            thread.join()

    def _next(self, idle: Callable[[], None]) -> Result | _Finished | _Raised:
        while True:
            try:
                return self._done.get(timeout=IDLE_SECONDS)
            except Empty:
                idle()

    def _carry_out(self) -> None:
        _only_main_exits()
        while True:
            job = self._todo.get()
            self._carry_out_tasks()
            if job is None:
                return
            if isinstance(job, _Wake):
                continue
            try:
                if not (self._closing or self._stop.is_set()):
                    for result in self._work(job, self._is_cut):
                        self._done.put(result)
                self._done.put(_Finished())
            except BaseException as error:  # noqa: BLE001  (raised again by ``results``)
                self._done.put(_Raised(error))

    def _carry_out_tasks(self) -> None:
        with suppress(Empty):
            while True:
                self._tasks.get_nowait().carry_out()

    def _is_cut(self) -> bool:
        if not self._stop.is_set():
            return self._closing
        if self._cut_at is None:
            self._cut_at = time.monotonic() + GRACE
        return self._closing or time.monotonic() > self._cut_at


_exit = os._exit


def _only_main_exits() -> None:
    """From now on ``os._exit`` raises ``SystemExit`` in all threads but the main one, as ``sys.exit`` does.

    An agent that calls it would end the run as if all its games were played. Processes that it forked exit as ever.
    """
    here = os.getpid()

    def exit_from_main(status: int) -> NoReturn:
        if os.getpid() == here and threading.current_thread() is not threading.main_thread():
            raise SystemExit(status)
        _exit(status)

    if os._exit is _exit:
        os._exit = exit_from_main


class _Task(NamedTuple):
    """A call that any thread may make."""

    future: Future[Any]
    call: Callable[..., Any]
    arguments: tuple[Any, ...]

    def carry_out(self) -> None:
        """Make the call, unless it was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.call(*self.arguments))
        except BaseException as error:  # noqa: BLE001  (raised again by whoever asks for the result)
            self.future.set_exception(error)


class _Wake:
    """There is a task."""


class _Finished:
    """A job has no more results."""


class _Raised:
    """A job ended by an exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
