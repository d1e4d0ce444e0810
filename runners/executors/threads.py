"""The executor that needs nothing else: threads of this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from runners.executors.base import Executor, Work


@dataclass(frozen=True)
class Threads(Executor):
    """Carries out work in this process, on threads that share its memory."""

    shares_memory = True

    def carry_out(self, work: Work, threads: int, stop: threading.Event) -> None:
        """Do all of it here."""
        work.here(threads, stop)

    def here(self, threads: int) -> int:  # noqa: ARG002  (the interface of executors)
        return 1


THREADS = Threads()
