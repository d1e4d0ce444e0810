"""Carrying out work: a task is mapped over parts, by threads of this process, by processes, or on a cluster.

A task is a function ``task(part, stop) -> answer``. Parts and answers are small plain data; what is large, a task reads
and writes itself, in the archive. Writing the same again is harmless, so a part whose worker was lost is simply carried
out once more. For threads any callable will do. A task that may travel to other processes inherits ``Task``:

    @dataclass(frozen=True)
    class IndexTask(Task):
        root: str  # plain fields: all that travels

        def __call__(self, part: tuple[str, int, int], stop: Stop) -> int:
            archive = self.once("archive", lambda: Archive.open(location_of(self.root)))
            ...

    for plies in executor.map(IndexTask(str(root)), parts, threads, stop):
        total += plies
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, Self, TypeVar

from quarto.hooks import ignore

IDLE_SECONDS = 0.5  # without an answer, after which ``idle`` is called
GIVE_UP_SECONDS = 10.0  # after a request to stop, in which a task ends: a turn of an agent may never return

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Value = TypeVar("Value")


class Stop(Protocol):
    """Says whether a task is to end soon."""

    def is_set(self) -> bool:
        """True once it is to end soon; it then returns an answer about what it has done."""
        ...


class Executor(ABC):
    """Carries out work. Objects are made from ``conf/executor/*.yaml``."""

    shares_memory: ClassVar[bool]  # tasks run in this process

    @abstractmethod
    def map(
        self,
        task: Callable[[Part, Stop], Answer],
        parts: Iterable[Part],
        threads: int,
        stop: threading.Event,
        idle: Callable[[], None] = ignore,
    ) -> Iterator[Answer]:
        """The answers about all parts, as they come.

        ``threads`` is the number of threads of this process, or of processes on this machine. A part is taken from the
        iterable only when a worker is about to be free. Once ``stop`` is set no part is begun, and a task that does not
        end within ``GIVE_UP_SECONDS`` is left alone. ``idle`` is called now and then while there is no answer; like
        the iteration over ``parts`` it runs in the calling thread. Raises what a task raises, and ``FailureError`` if
        workers are lost again and again; the tasks in progress are then told to stop.
        """

    @abstractmethod
    def workers(self, threads: int) -> int:
        """The number of parts that are carried out at a time. Raises ``FailureError`` if nothing can be."""

    @abstractmethod
    def here(self, threads: int) -> int:
        """The number of processes on this machine that take memory of their own for the work."""


@dataclass
class _Made:
    """The state that a task has made in this process."""

    lock: Any = field(default_factory=threading.RLock)
    values: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A task that may travel: a frozen dataclass of plain fields, in a module that other processes can import.

    What takes long to make is made by ``once``. It does not travel; a process keeps the task that it had last.
    """

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """What ``make`` returns, which is called once in this process for all threads."""
        made = self._made()
        with made.lock:
            if name not in made.values:
                made.values[name] = make()
            found: Value = made.values[name]
            return found

    def having(self, name: str, value: Any) -> Self:
        """This task, with something that is made already in this process."""
        self._made().values[name] = value
        return self

    def _made(self) -> _Made:
        made: _Made = vars(self).setdefault("_made_here", _Made())
        return made

    def plain(self) -> dict[str, Any]:
        """The fields, from which another process makes the task again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a dataclass

    @abstractmethod
    def __call__(self, part: Any, stop: Stop) -> Any:
        """Carry out a part, and return a small answer; less of it once it is to stop."""
