"""The executor of processes on this machine, which share nothing but the archive; both ends of a worker elsewhere.

A worker is sent a task, and sends back what is made of it here. Ray's workers are of the same kind.
"""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import ArenaError, Failed, FailureError, RequestError, failed_by
from runners.executors.base import POLL_SECONDS, Executor, Stop, Task, WorkerPool
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


class Returned(NamedTuple):
    """What a worker returns: plain data."""

    answer: Any
    failure: Failed | None
    logged: list[logging.LogRecord]  # warnings and errors


class TaskData(NamedTuple):
    """What a worker makes a task from: plain data."""

    folder: str  # to which paths are relative
    path: list[str]  # on which modules are found
    module: str
    name: str  # of the task's class
    fields: dict[str, Any]

    @property
    def key(self) -> str:
        """The same for equal tasks."""
        return json.dumps(self, sort_keys=True, default=repr)


def task_data(task: Callable[[Any, Stop], Any], folder: Path) -> TaskData:
    """What a worker needs to carry out parts; paths are relative to ``folder``, and it finds the same modules.

    Raises ``TypeError`` for a function that is no ``Task``: it cannot travel.
    """
    if not isinstance(task, Task):
        raise TypeError(f"{task} is no Task, so it cannot be carried out in another process")
    path = [os.path.abspath(folder) for folder in sys.path if folder]  # noqa: PTH100  (of folders and archives, no file)
    kind = type(task)
    return TaskData(str(folder), path, kind.__module__, kind.__qualname__, task.plain())


@contextmanager
def for_children(**variables: str) -> Iterator[None]:
    """Inside the context processes are started: they have these variables, and Ctrl-C is for the run alone."""
    before = {name: os.environ.get(name) for name in variables}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


# In the worker.

_tasks: dict[str, Task] = {}  # the last one by its key: making its state again takes long


def carry_out(data: TaskData, part: Any, stop: Stop) -> Returned:
    """Carry out a part; an exception is returned too."""
    gathering, root = _Gathering(logging.WARNING), logging.getLogger()
    root.addHandler(gathering)
    try:
        return Returned(_task(data)(part, stop), None, gathering.logged)
    except BaseException as error:  # noqa: BLE001  (raised again by ``answer_of``)
        return Returned(None, failed_by(error), gathering.logged)
    finally:
        root.removeHandler(gathering)


def _task(data: TaskData) -> Task:
    key = data.key
    if key not in _tasks:
        _tasks.clear()
        if Path(data.folder).is_dir():  # another machine may lack it: absolute paths are then those that lead anywhere
            os.chdir(data.folder)
        sys.path.extend(each for each in data.path if each not in sys.path)
        made: Task = getattr(importlib.import_module(data.module), data.name)(**data.fields)
        _tasks[key] = made
    return _tasks[key]


class _Gathering(logging.Handler):
    """Keeps what is logged, as plain data."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.logged: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        plain = logging.LogRecord(record.name, record.levelno, "", 0, record.getMessage(), (), None)
        if record.exc_info:
            plain.exc_text = "".join(traceback.format_exception(record.exc_info[1]))  # for files alone, as ever
        self.logged.append(plain)


# In the user's process.


class WorkerTracebackError(Exception):
    """The traceback of an error in a worker, as its text."""


def answer_of(returned: Returned, known: set[str]) -> Any:
    """The answer; what was logged is logged here, unless another worker said the same. Raises what a task raised.

    ``known`` are the texts that were logged before.
    """
    for record in returned.logged:
        if record.getMessage() not in known:
            known.add(record.getMessage())
            logging.getLogger(record.name).handle(record)
    failed = returned.failure
    if failed is None:
        return returned.answer
    error: ArenaError = FailureError(
        f"a worker raised {failed.kind}: {failed.text} (unexpected; --debug shows where)"
        if failed.exit_code is None
        else failed.text
    )
    if failed.exit_code == RequestError.exit_code:
        error = RequestError(failed.text)
    raise error from WorkerTracebackError(failed.traceback)


def lost_too_often(losses: int, reason: str) -> FailureError:
    """The error for work whose workers are lost one after the other."""
    return FailureError(
        f"{losses} workers were lost one after the other, and no part of the work was finished between; of the last "
        f"one, {reason}: if memory ran out, use fewer workers; what was finished is kept, and the same command goes on "
        "from there"
    )
