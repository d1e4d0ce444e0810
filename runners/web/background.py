"""Work that may take longer than a page should: it is done in threads, within limits, and pages look in on it.

A page asks for a job by a key, waits a moment, and shows the result or what is known so far. Then it loads itself
again. A job ends when it is done, when its time is up, and when somebody stops it. It also ends when no page has asked
for it for a while: nobody computes for a window that was closed. The turn of an agent cannot be ended: its thread is
left alone then, at the lowest priority, and another takes its place.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from typing import Any

from numba.core import event

from runners.web.archive.snapshots import BusyError

POLL_SECONDS = 0.2  # between two looks at the limits of jobs
PAGE_WAIT_SECONDS = 0.25  # seconds that a page waits for a job before it says that it is not ready
IDLE_REASON = "no page asked for it any more"
MAX_ABANDONED_THREADS = 2  # threads that were left alone and still compute for one owner: then its next job waits
LOWEST_PRIORITY = 19  # priority of a thread on Linux
FORGOTTEN_SECONDS = 30.0  # after which nobody waits for a job for which no page has asked


class BackgroundJob:
    """A piece of work. ``work(job)`` gets the job: it may set ``latest`` and must end soon after ``stopped``."""

    def __init__(
        self,
        work: Callable[[BackgroundJob], Any],
        max_seconds: float,
        version: Hashable = None,
        owner: Hashable = None,
    ) -> None:
        self.seconds = max_seconds  # that it may work
        self.owner = owner  # of whom one job works at a time; None: nobody's
        self.thread_id = 0  # the system's number of the thread that carries it out
        self.version = version  # of what it is about
        self.is_end_seen = False  # a page knows that it has ended
        self.latest: Any = None  # what pages may see so far
        self.reason = ""  # why it was stopped
        self.last_requested = time.monotonic()  # when a page last asked for it
        self.started: float | None = None
        self.is_preparing = False  # until ``restart_clock``: compiling does not count
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._stop_callbacks: list[Callable[[], None]] = []

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def queued(self) -> bool:
        """Whether it waits for a thread."""
        return self.started is None and not self.ended

    @property
    def stopped(self) -> bool:
        """Whether it is to end, or has ended, before it is done."""
        return bool(self.reason)

    @property
    def elapsed(self) -> float:
        """The seconds that it has worked."""
        return 0.0 if self.started is None or self.is_preparing else time.monotonic() - self.started

    def restart_clock(self) -> None:
        """Count its time from now on: what it did so far was preparation, such as compiling."""
        self.started, self.is_preparing = time.monotonic(), False

    def add_stop_callback(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, from any thread, when the job is stopped: at once if it is already."""
        with self._lock:
            self._stop_callbacks.append(callback)
            already = self.stopped
        if already:
            callback()

    def stop(self, reason: str) -> None:
        """End the job before it is done, unless it has ended."""
        with self._lock:
            if self.reason or self.ended:
                return
            self.reason = reason
            calls = list(self._stop_callbacks)
            if self.started is None:
                self._ended.set()
        for call in calls:
            call()

    def wait(self, seconds: float = PAGE_WAIT_SECONDS) -> bool:
        """Whether it has ended, after at most so many seconds."""
        ended = self._ended.wait(seconds)
        self.is_end_seen = self.is_end_seen or ended
        return ended

    def result(self) -> Any:
        """The result of a job that is done. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def execute(self) -> None:
        """Do the work, in a thread of its own."""
        with self._lock:
            if self.ended:
                return
            self.started, self.thread_id = time.monotonic(), threading.get_native_id()
        try:
            self._result = self._work(self)
        except BaseException as error:  # noqa: BLE001  (raised again where the result is asked for)
            self._error = error
        with self._lock:
            self._ended.set()


class BackgroundPool:
    """Jobs by key, carried out by at most ``threads`` at a time; ``waiting`` more may wait, ``kept`` are remembered.

    ``idle_seconds``: a job for which no page has asked for so long is stopped; None: it never is. ``politely``: its
    threads leave the processor to others (Linux). ``endless``: jobs do not end when they are stopped, so that their
    threads are left alone.
    """

    def __init__(
        self,
        threads: int,
        *,
        max_waiting: int = 100,
        max_jobs: int = 1000,
        idle_seconds: float | None = None,
        low_priority: bool = False,
        unstoppable: bool = False,
    ) -> None:
        self._most_threads, self._most_waiting, self._most_jobs = threads, max_waiting, max_jobs
        self._idle_seconds = idle_seconds
        self._politely, self._endless = low_priority, unstoppable
        self._jobs: OrderedDict[Hashable, BackgroundJob] = OrderedDict()
        self._queue: deque[BackgroundJob] = deque()
        self._working: set[BackgroundJob] = set()
        self._abandoned_jobs: set[BackgroundJob] = set()  # whose threads are left alone
        self._changed = threading.Condition()
        self._threads = 0
        self._closed = False
        self._has_watcher = False

    def find_or_start(
        self,
        key: Hashable,
        work: Callable[[BackgroundJob], Any],
        max_seconds: float = 60.0,
        *,
        version: Hashable = None,
        restart_stopped: bool = False,
        owner: Hashable = None,
    ) -> BackgroundJob:
        """The job of this key; a new one of ``work`` if there is none, or if it was stopped and may now work longer.

        ``restart_stopped``: also if it was stopped for any other reason. ``version``: of what the job is about, such as an
        archive. If that has changed there is a new job, but a page first sees the end of the job that it waits for.
        Otherwise questions about an archive that changes often would never be answered. Of an ``owner`` one job works
        at a time. Raises ``BusyError`` while too many jobs wait.
        """
        with self._changed:
            found = self._jobs.get(key)
            if found is not None and (
                found in self._abandoned_jobs
                or not (_can_restart(found, max_seconds, restart_stopped) or _is_outdated(found, version))
            ):
                found.last_requested = time.monotonic()
                self._jobs.move_to_end(key)
                return found
            if self._closed or len(self._queue) >= self._most_waiting:
                raise BusyError(
                    f"this server is busy: {len(self._queue)} questions wait already; ask again in a moment"
                )
            made = self._jobs[key] = BackgroundJob(work, max_seconds, version, owner)
            self._jobs.move_to_end(key)
            self._queue.append(made)
            self._drop_ended_jobs()
            self._start_threads()
            self._changed.notify()
            return made

    def find(self, key: Hashable) -> BackgroundJob | None:
        """The job of this key, for which a page asks; None if there is none, or it was stopped before it began."""
        found = self._jobs.get(key)
        if found is None or (found.ended and found.started is None):
            return None
        found.last_requested = time.monotonic()
        return found

    def close(self) -> None:
        """Stop all jobs and end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            jobs = list(self._jobs.values())
        for job in jobs:
            job.stop("the server ends")

    def _drop_ended_jobs(self) -> None:
        for key in list(self._jobs):
            if len(self._jobs) <= self._most_jobs:
                break
            if self._jobs[key].ended:
                del self._jobs[key]

    def _start_threads(self) -> None:
        """Start a thread if the others are busy."""
        if self._threads < self._most_threads and self._threads - len(self._working) < len(self._queue):
            self._threads += 1
            threading.Thread(
                target=self._execute_jobs, name="page", daemon=True
            ).start()  # an agent's turn cannot be stopped
        if not self._has_watcher:
            self._has_watcher = True
            threading.Thread(target=self._stop_expired_jobs, name="watch", daemon=True).start()

    def _execute_jobs(self) -> None:
        if self._politely and sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # Linux: of this thread alone
        while True:
            with self._changed:
                while (job := self._find_next_job()) is None:
                    if self._closed:
                        self._threads -= 1
                        return
                    self._changed.wait()
                self._queue.remove(job)
                self._working.add(job)
            job.execute()
            with self._changed:
                self._changed.notify()  # the next job of its owner may begin
                self._working.discard(job)
                if job in self._abandoned_jobs:
                    self._abandoned_jobs.discard(job)
                    return

    def _find_next_job(self) -> BackgroundJob | None:
        """The first job that waits and may begin."""
        working, left = {job.owner for job in self._working}, [job.owner for job in self._abandoned_jobs]
        for job in self._queue:
            if job.owner is None or (job.owner not in working and left.count(job.owner) < MAX_ABANDONED_THREADS):
                return job
        return None

    def _abandon_thread(self, job: BackgroundJob) -> None:
        """Leave the thread of a job alone."""
        with self._changed:
            if job not in self._working or not job.thread_id:
                return
            self._working.discard(job)
            self._abandoned_jobs.add(job)
            self._threads -= 1
            self._start_threads()
            self._changed.notify()
        if sys.platform == "linux":
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, job.thread_id, LOWEST_PRIORITY)

    def _stop_expired_jobs(self) -> None:
        """Stop the jobs whose time is up or for which nobody asks any more."""
        while not self._closed:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            with self._changed:
                jobs = [*self._working, *self._queue]
                if not jobs:
                    self._has_watcher = False
                    return
            for job in jobs:
                if job.elapsed > job.seconds:
                    job.stop(f"{job.seconds:g} seconds were not enough")
                elif self._idle_seconds is not None and now - job.last_requested > self._idle_seconds:
                    job.stop(IDLE_REASON)
                    if self._endless:
                        self._abandon_thread(job)
            with self._changed:
                for job in [each for each in self._queue if each.ended]:
                    self._queue.remove(job)


def _can_restart(job: BackgroundJob, max_seconds: float, restart_stopped: bool) -> bool:
    return job.stopped and (restart_stopped or job.seconds < max_seconds or job.reason == IDLE_REASON)


def _is_outdated(job: BackgroundJob, version: Hashable) -> bool:
    return job.version != version and (job.is_end_seen or time.monotonic() - job.last_requested > FORGOTTEN_SECONDS)


class CompilationCounter(event.Listener):  # type: ignore[misc]
    """Counts the functions that numba compiles now: then an answer takes a minute once, and the page says why."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    @property
    def active(self) -> bool:
        return self._depth > 0

    def on_start(self, _event: Any) -> None:
        with self._lock:
            self._depth += 1

    def on_end(self, _event: Any) -> None:
        with self._lock:
            self._depth -= 1


@cache
def find_compilation_counter() -> CompilationCounter:
    """The one of this process."""
    listener = CompilationCounter()
    event.register("numba:compile", listener)
    return listener
