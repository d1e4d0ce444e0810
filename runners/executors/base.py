"""The seam of executors: large work is carried out by threads of this process, or in parts by workers elsewhere.

Workers are other processes, on this machine or on others. What travels is plain data, JSON values: a specification from
which a worker is made, parts of the work, and answers. Nothing is unpickled.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

Tell = Callable[[Any], None]  # sends an answer, a JSON value


class Worker(Protocol):
    """Carries out parts of work, in a process of its own; made once from a specification, ``Worker(spec)``.

    What it raises, when it is made or later, reaches the user as if it were raised in the user's process.
    """

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:
        """Carry out a part in the calling thread, and tell what was achieved. Once ``stop`` is set, end soon."""
        ...


class Work(Protocol):
    """Large work: all of it can be done here, or parts of it by workers."""

    @property
    def worker(self) -> str:
        """The class of its workers, ``package.module:Class``."""
        ...

    def spec(self) -> Mapping[str, Any]:
        """The specification that a worker is made from: JSON values, the same for all workers."""
        ...

    def here(self, threads: int, stop: threading.Event) -> None:
        """Do all of it in this process, on so many threads."""
        ...

    def parts(self, workers: int) -> Iterator[Any]:
        """The parts, for about so many workers; one is taken when a worker is about to be free."""
        ...

    def rest(self, part: Any) -> Any | None:
        """The part that is left of ``part``, whose worker was lost; None: it had done all of it."""
        ...

    def take(self, answer: Any) -> None:
        """Take what a worker tells; called in the thread that carries out the work."""
        ...

    def idle(self) -> None:
        """Called now and then while there is no answer."""
        ...


class Executor(ABC):
    """Carries out work. Objects are made from ``conf/executor/*.yaml``."""

    shares_memory: ClassVar[bool]  # work is done in this process

    @abstractmethod
    def carry_out(self, work: Work, threads: int, stop: threading.Event) -> None:
        """Do all of ``work``, or what is finished soon once ``stop`` is set.

        ``threads`` is the number of threads of this process, or of processes on this machine. Raises what workers
        raise, and ``FailureError`` if workers are lost again and again.
        """

    @abstractmethod
    def here(self, threads: int) -> int:
        """The number of processes on this machine that take memory of their own for the work."""
