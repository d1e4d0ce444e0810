"""An executor of a user's own: what would travel is pickled, and all is carried out here."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runners.executors.base import Executor, Stop, WorkerPool
from runners.executors.worker import Returned, TaskData, answer_of, carry_out, task_data


class Inline(Executor):
    """Carries out one part after the other; ``parts`` counts them. The first is lost once it has been carried out."""

    parts = 0  # of all objects
    shares_memory = False

    def workers(self, threads: int) -> int:
        return threads

    def here(self, threads: int) -> int:
        return threads

    def pool(self, task: Callable[[Any, Stop], Any], threads: int, stop: threading.Event) -> WorkerPool:
        return InlinePool(task_data(task, Path.cwd()), stop)


class InlinePool(WorkerPool):
    """A single worker, which is lost once."""

    most, pending = 1, 0

    def __init__(self, task: TaskData, stop: threading.Event) -> None:
        self._task, self._stop = task, stop
        self._returned: list[Returned] = []
        self._known: set[str] = set()
        self._is_first = True

    def begin(self, part: Any) -> None:
        Inline.parts += 1
        self.pending = 1
        for _ in range(1 + self._is_first):  # what a lost worker has written is written again
            returned: Any = carry_out(self._task, pickle.loads(pickle.dumps(part)), self._stop)  # noqa: S301  (its own)
        self._is_first = False
        self._returned = [returned]

    def answers(self) -> Iterator[Any]:
        self.pending = 0
        for returned in self._returned:
            yield answer_of(pickle.loads(pickle.dumps(returned)), self._known)  # noqa: S301

    def ask_to_stop(self) -> None:
        """The task sees it itself."""

    def end(self) -> None:
        """Nothing is in progress."""
