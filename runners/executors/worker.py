"""Both ends of a worker in another process: what is sent to it, what it sends back, and what is made of that here."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import ArenaError, FailureError, RequestError
from runners.executors.base import Stop, Task


class Failure(NamedTuple):
    """An exception of a task."""

    kind: str
    ours: bool  # its text is for the user
    text: str
    traceback: str


class Logged(NamedTuple):
    """A warning or an error that was logged."""

    logger: str
    level: int
    text: str
    traceback: str | None


class Returned(NamedTuple):
    """What a worker returns: plain data."""

    answer: Any
    failure: Failure | None
    logged: list[Logged]


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
    logged: list[Logged] = []
    with _gathering(logged):
        try:
            return Returned(_task(data)(part, stop), None, logged)
        except BaseException as error:  # noqa: BLE001  (raised again by ``answer_of``)
            return Returned(None, _described(error), logged)


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


def _described(error: BaseException) -> Failure:
    kinds = (each.__name__ for each in type(error).__mro__ if each.__base__ is ArenaError)
    text = "".join(traceback.format_exception(error))
    return Failure(next(kinds, type(error).__name__), isinstance(error, ArenaError), str(error), text)


class _Gathering(logging.Handler):
    def __init__(self, logged: list[Logged]) -> None:
        super().__init__(logging.WARNING)
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else None
        self._logged.append(Logged(record.name, record.levelno, record.getMessage(), trace))


@contextmanager
def _gathering(logged: list[Logged]) -> Iterator[None]:
    handler, root = _Gathering(logged), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


# In the user's process.


class WorkerTracebackError(Exception):
    """The traceback of an error in a worker, as its text."""


def answer_of(returned: Returned, known: set[str]) -> Any:
    """The answer; what was logged is logged here, unless another worker said the same. Raises what a task raised.

    ``known`` are the texts that were logged before.
    """
    for each in returned.logged:
        if each.text not in known:
            known.add(each.text)
            record = logging.LogRecord(each.logger, each.level, "", 0, each.text, (), None)
            record.exc_text = each.traceback  # for files alone, as ever
            logging.getLogger(each.logger).handle(record)
    if returned.failure is not None:
        raise _error(returned.failure) from WorkerTracebackError(returned.failure.traceback)
    return returned.answer


def _error(failure: Failure) -> ArenaError:
    if failure.kind == RequestError.__name__:
        return RequestError(failure.text)
    if failure.ours:
        return FailureError(failure.text)
    return FailureError(f"a worker raised {failure.kind}: {failure.text} (unexpected; --debug shows where)")


def lost_too_often(losses: int, reason: str) -> FailureError:
    """The error for work whose workers are lost one after the other."""
    return FailureError(
        f"{losses} workers were lost one after the other, and no part of the work was finished between; of the last "
        f"one, {reason}: if memory ran out, use fewer workers; what was finished is kept, and the same command goes on "
        "from there"
    )
