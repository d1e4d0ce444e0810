"""The executor of processes on this machine: they share nothing but the archive."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator

from runners.contestants.child_process import ChildProcess, ProcessDiedError, has_descriptor
from runners.contestants.crew import Crew
from runners.contestants.framing import ASKED, READY, SETUP, STOP
from runners.executors.base import Work
from runners.executors.workers import Heard, Lost, Task, Tasks, Workers

PROGRAM = "runners.executors.worker_process"
LAST_SECONDS = 1.0  # in which a process that is ended is gone
POLL_SECONDS = 0.1  # after which a thread that waits for its process looks whether the user wants to stop


class Processes(Workers):
    """Carries out work in processes of this machine; ``threads`` is their number.

    They are started when they are needed first, live as long as this object, and never longer than the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[_Process] = []  # the last one is asked next
        self.close = weakref.finalize(self, _end_all, self._idle)  # ends the processes, once

    def here(self, threads: int) -> int:
        return threads

    def ready(self, threads: int) -> int:
        return threads

    def _results(
        self, setup: str, tasks: Tasks, workers: int, stop: threading.Event, work: Work
    ) -> Generator[Heard | Lost, None, None]:
        """For each process a thread waits for what it says."""
        busy: set[_Process] = set()

        def ask(task: Task, _cut: Callable[[], bool]) -> Iterator[Heard | Lost]:
            process = self._idle.pop() if self._idle else _Process()
            busy.add(process)
            try:
                yield from process.answers(setup, task, stop)
                self._idle.append(process)
            except ProcessDiedError as error:
                process.end()
                yield Lost(task, str(error))
            finally:
                busy.discard(process)

        try:
            yield from Crew(workers, ask, stop).results(tasks, work.idle)
        finally:  # if not all is done: an error, or a second Ctrl-C
            for process in list(busy):
                process.signal(signal.SIGKILL)
            last = time.monotonic() + LAST_SECONDS
            while busy and time.monotonic() < last:  # the threads that wait for them notice
                time.sleep(0.01)


class _Process(ChildProcess):
    """A process that carries out one task after the other."""

    def __init__(self) -> None:
        # Standard output is for results; its work is for one core.
        stdout = sys.stderr if has_descriptor(sys.stderr) else None
        super().__init__([], PROGRAM, stdout=stdout, variables={"POLARS_MAX_THREADS": "1"})
        self._setup = ""

    def answers(self, setup: str, task: Task, stop: threading.Event) -> Iterator[Heard]:
        """Let it carry out a task, and say what it says. Raises ``ProcessDiedError``."""
        if setup != self._setup:
            self.write(SETUP, setup.encode())
            self._setup = setup
        self.write(ASKED, json.dumps(task.part).encode())
        asked_to_stop = False
        while True:
            if stop.is_set() and not asked_to_stop:
                self.write(STOP, b"")
                asked_to_stop = True
            if self.has_message(POLL_SECONDS):
                kind, content = self.read()
                if kind == READY:
                    return
                yield Heard(content.decode())


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.end()
