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

from quarto.errors import ArenaError, Failed, FailureError, RequestError, failed_by
from runners.executors.base import Stop, Task


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
