"""Both ends of a worker in another process: what is sent to it, what it sends back, and what is made of that here."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import ArenaError, FailureError, RequestError
from runners.executors.base import Stop


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
    """What a worker returns: plain data, which can be unpickled anywhere."""

    answer: Any
    failure: Failure | None
    logged: list[Logged]


def setup_of(task: Callable[[Any, Stop], Any], folder: Path) -> bytes:
    """What a worker needs to carry out parts; paths are relative to ``folder``, and it finds the same modules."""
    path = [os.path.abspath(folder) for folder in sys.path if folder]  # noqa: PTH100  (of folders and archives, no file)
    return pickle.dumps((str(folder), path, pickle.dumps(task)))


# In the worker.

_tasks: dict[bytes, Callable[[Any, Stop], Any]] = {}  # the last one by its setup: making its state again takes long


def carry_out(setup: bytes, part: Any, stop: Stop) -> Returned:
    """Carry out a part; an exception is returned too."""
    logged: list[Logged] = []
    with _gathering(logged):
        try:
            return Returned(_task(setup)(part, stop), None, logged)
        except BaseException as error:  # noqa: BLE001  (raised again by ``answer_of``)
            return Returned(None, _described(error), logged)


def _task(setup: bytes) -> Callable[[Any, Stop], Any]:
    if setup not in _tasks:
        _tasks.clear()
        folder, path, task = pickle.loads(setup)  # noqa: S301  (from the user's own process)
        if Path(folder).is_dir():  # another machine may lack it: absolute paths are then those that lead anywhere
            os.chdir(folder)
        sys.path.extend(each for each in path if each not in sys.path)
        _tasks[setup] = pickle.loads(task)  # noqa: S301
    return _tasks[setup]


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
