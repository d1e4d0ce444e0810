"""Handing out the parts of work to workers in other processes, again if a worker is lost."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from quarto import hooks
from quarto.errors import FailureError, RequestError
from runners.executors.base import Executor, Work

MOST_LOSSES = 3  # of workers, one after the other, that carry out the same part and get nothing of it done


class Task(NamedTuple):
    """A part that is handed out."""

    part: Any
    losses: int = 0  # workers that it has cost so far


class Lost(NamedTuple):
    """A task whose worker ended without a word."""

    task: Task
    reason: str


class Heard(NamedTuple):
    """A message of a worker, as ``runners.executors.serving`` makes it: JSON text."""

    text: str


class Tasks:
    """An iterator over the tasks of work: those that lost their workers first. It ends while there are none.

    Unlike those of other iterators its end is not final: a task that is under way may come back.
    """

    def __init__(self, work: Work, workers: int, stop: threading.Event) -> None:
        self._work = work
        self._new = work.parts(workers)
        self._again: deque[Task] = deque()
        self._stop = stop

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        if self._stop.is_set():
            raise StopIteration
        return self._again.popleft() if self._again else Task(next(self._new))

    def take_back(self, lost: Lost) -> None:
        """Hand out again what a lost worker has not done. Raises ``FailureError`` if that has cost too many."""
        rest = self._work.rest(lost.task.part)
        if rest is None:
            return
        losses = lost.task.losses + 1 if rest == lost.task.part else 1
        if losses >= MOST_LOSSES:
            raise FailureError(
                f"{losses} workers were lost one after the other with the same part of the work; of the last one, "
                f"{lost.reason}: if memory ran out, use fewer workers; what was finished is kept, and the same command "
                "goes on from there"
            )
        logging.getLogger(__name__).warning("a worker was lost (%s): another does the rest of its part", lost.reason)
        self._again.append(Task(rest, losses))


class Workers(Executor):
    """An executor whose workers are other processes, each on one core."""

    shares_memory = False

    def __init__(self) -> None:
        self._folder = Path.cwd()  # to which paths are relative; Hydra may change the current folder later

    def carry_out(self, work: Work, threads: int, stop: threading.Event) -> None:
        """Hand out the parts of ``work`` until all are done or ``stop`` is set; then those in progress end soon."""
        workers, told = self.ready(threads), set[str]()
        tasks = Tasks(work, workers, stop)
        with closing(self._results(setup_of(work, self._folder), tasks, workers, stop, work)) as results:
            for result in results:
                if isinstance(result, Lost):
                    tasks.take_back(result)
                else:
                    _hear(result, work, told)

    @abstractmethod
    def ready(self, threads: int) -> int:
        """Make ready for work; returns the number of workers. Raises ``FailureError`` if there can be none."""

    @abstractmethod
    def _results(
        self, setup: str, tasks: Tasks, workers: int, stop: threading.Event, work: Work
    ) -> Generator[Heard | Lost, None, None]:
        """The workers' messages about all tasks, each of which is taken when a worker is about to be free."""


def setup_of(work: Work, folder: Path) -> str:
    """The message that makes a worker, JSON; its paths are relative to ``folder``, and it finds the same modules."""
    path = [os.path.abspath(folder) for folder in sys.path if folder]  # noqa: PTH100  (of folders and archives, no file)
    return json.dumps({"worker": work.worker, "spec": work.spec(), "folder": str(folder), "path": path})


def _hear(heard: Heard, work: Work, told: set[str]) -> None:
    """Deal with a message of a worker; ``told`` are the lines of logs that another one has sent already."""
    message = json.loads(heard.text)
    kind, content = message["kind"], message["content"]
    if kind == "answer":
        work.take(content)
    elif kind == "compiling":
        hooks.before_compiling()
    elif kind == "log":
        if content["text"] not in told:
            told.add(content["text"])
            _log(content)
    else:
        _raise(content)


def _log(content: dict[str, Any]) -> None:
    """Log what a worker logged, as if it had been logged here; a traceback goes to files alone, as ever."""
    record = logging.LogRecord(content["logger"], content["level"], "", 0, content["text"], (), None)
    record.exc_text = content["traceback"]
    logging.getLogger(content["logger"]).handle(record)


class WorkerTracebackError(Exception):
    """The traceback of an error in a worker, as its text."""


def _raise(failed: dict[str, Any]) -> None:
    """Raise what a worker raised."""
    error: Exception
    if failed["kind"] == RequestError.__name__:
        error = RequestError(failed["text"])
    elif failed["ours"]:
        error = FailureError(failed["text"])
    else:
        error = FailureError(f"a worker raised {failed['kind']}: {failed['text']} (unexpected; --debug shows where)")
    raise error from WorkerTracebackError(failed["traceback"])
