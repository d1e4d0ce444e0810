"""The executor that needs nothing else: threads of this process, for which nobody has to wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from quarto.hooks import ignore
from runners.executors.base import GIVE_UP_SECONDS, IDLE_SECONDS, Answer, Executor, Part, Stop
from runners.hosting.interruption import WORKING


@dataclass(frozen=True)
class Threads(Executor):
    """Carries out work in this process, on threads that share its memory.

    They are daemons: a turn of an agent that never returns keeps nobody waiting.
    """

    shares_memory = True

    def map(
        self,
        task: Callable[[Part, Stop], Answer],
        parts: Iterable[Part],
        threads: int,
        stop: threading.Event,
        idle: Callable[[], None] = ignore,
    ) -> Iterator[Answer]:
        """As ``Executor.map`` says."""
        work, source = _Work(task, stop), iter(parts)
        try:
            while True:
                # One more than there are threads, so that none waits for this one.
                for part in () if stop.is_set() else islice(source, threads + 1 - work.pending):
                    work.begin(part, threads)
                if not work.pending:
                    break
                found = work.next(idle)
                if isinstance(found, _Answered):
                    yield found.answer
                elif found is _GIVEN_UP:
                    return
        finally:
            work.end()
        work.join()

    def workers(self, threads: int) -> int:
        return threads

    def here(self, threads: int) -> int:  # noqa: ARG002  (the interface of executors)
        return 1


THREADS = Threads()


@dataclass(frozen=True)
class _Answered:
    answer: Any


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_DROPPED, _GIVEN_UP = object(), object()  # a part that was not begun; parts that do not end


class _Work:
    """The threads of one ``map``, its parts and what came of them. It tells tasks whether to stop."""

    def __init__(self, task: Callable[[Any, Stop], Any], stop: threading.Event) -> None:
        self.pending = 0  # parts without an answer
        self._task, self._stop = task, stop
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._todo: SimpleQueue[tuple[Any] | None] = SimpleQueue()  # None: no more work
        self._done: SimpleQueue[Any] = SimpleQueue()

    def is_set(self) -> bool:
        return self._ended or self._stop.is_set()

    def begin(self, part: Any, threads: int) -> None:
        """Let a thread carry out a part."""
        self.pending += 1
        self._todo.put((part,))
        if len(self._threads) < threads:
            name = f"{WORKING} {len(self._threads)}"
            self._threads.append(threading.Thread(target=self._carry_out, name=name, daemon=True))
            self._threads[-1].start()

    def next(self, idle: Callable[[], None]) -> Any:
        """What came of a part. Raises what its task raised."""
        stopped: float | None = None  # when that was seen
        while True:
            try:
                found = self._done.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._stop.is_set():
                    stopped = stopped or time.monotonic()
                    if time.monotonic() - stopped > GIVE_UP_SECONDS:
                        logging.getLogger(__name__).warning("a turn or a search did not end in time and is given up")
                        return _GIVEN_UP
                idle()
                continue
            self.pending -= 1
            if isinstance(found, _Raised):
                raise found.error
            return found

    def end(self) -> None:
        """Tell the threads that there is no more work, and tasks in progress to stop."""
        self._ended = True
        for _ in self._threads:
            self._todo.put(None)

    def join(self) -> None:
        """Wait for the threads, which have nothing to do."""
        for thread in self._threads:
            thread.join()

    def _carry_out(self) -> None:
        while (todo := self._todo.get()) is not None:
            try:
                self._done.put(_DROPPED if self.is_set() else _Answered(self._task(*todo, self)))
            except BaseException as error:  # noqa: BLE001  (raised again by ``map``)
                self._done.put(_Raised(error))
