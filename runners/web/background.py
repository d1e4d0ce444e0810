"""Background jobs: work that takes longer than a page should wait, done in threads within limits.

A page requests a job by its key, waits a moment, and shows the result or what the job has published so far; then the
page reloads itself. A job ends when its work is done, when its time is up, or when it is stopped: by a person, or
because no page has requested it for a while, so that nothing is computed for a closed window. An agent's turn cannot
be interrupted. If such a job is stopped, its thread is abandoned at the lowest priority and a new thread replaces it.
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

POLL_SECONDS = 0.2  # between two checks of the jobs' limits
PAGE_WAIT_SECONDS = 0.25  # that a page waits for a job before it says that the job is not ready
IDLE_REASON = "no page waited for it any more"
MAX_ABANDONED_THREADS = 2  # of one owner, that still compute: with so many, the owner's next job waits
LOWEST_PRIORITY = 19  # niceness of a thread on Linux
FORGOTTEN_SECONDS = 30.0  # without a request, after which no page can be waiting for a job


class BackgroundJob:
    """A unit of work that is done in a thread.

    ``work`` receives the job. The work may publish partial results in ``latest``, and must return soon after
    ``stopped`` becomes true.
    """

    def __init__(
        self,
        work: Callable[[BackgroundJob], Any],
        max_seconds: float,
        version: Hashable = None,
        owner: Hashable = None,
    ) -> None:
        self.seconds = max_seconds  # limit of ``elapsed``
        self.owner = owner  # only one job of an owner runs at a time; jobs without owner (None) are not limited
        self.thread_id = 0  # the system's number of the thread that runs the job
        self.version = version  # state of the job's subject, such as an archive
        self.is_end_seen = False  # a page has seen that the job has ended
        self.latest: Any = None  # partial result for pages
        self.reason = ""  # why the job was stopped
        self.last_requested = time.monotonic()  # when a page last requested the job
        self.started: float | None = None
        self.is_preparing = False  # until ``restart_clock``, because compiling does not count
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._stop_callbacks: list[Callable[[], None]] = []

    @property
    def ended(self) -> bool:
        """Whether the work has ended, or the job was stopped before a thread began the work."""
        return self._ended.is_set()

    @property
    def is_pending(self) -> bool:
        """Whether the job has not ended, or ended because no page waited for it; then the next page restarts it."""
        return not self.ended or self.reason == IDLE_REASON

    @property
    def queued(self) -> bool:
        """Whether the job is still waiting for a thread."""
        return self.started is None and not self.ended

    @property
    def stopped(self) -> bool:
        """Whether the job has been asked to end before its work is done."""
        return bool(self.reason)

    @property
    def elapsed_without_preparation(self) -> float:
        """The seconds of work so far; 0 while the job is waiting or preparing."""
        return 0.0 if self.started is None or self.is_preparing else time.monotonic() - self.started

    def restart_clock(self) -> None:
        """Restart the clock of the job, because the work so far was preparation, such as compiling kernels."""
        self.started, self.is_preparing = time.monotonic(), False

    def add_stop_callback(self, callback: Callable[[], None]) -> None:
        """Register a function that is called when the job is stopped, by the thread that stops the job.

        If the job is already stopped, the function is called at once.
        """
        with self._lock:
            self._stop_callbacks.append(callback)
            already = self.stopped
        if already:
            callback()

    def stop(self, reason: str) -> None:
        """Ask the job to end before its work is done, and record the reason.

        This has no effect on a job that has ended or was already stopped.
        """
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
        """Wait at most ``seconds`` for the job to end, and return whether it has ended."""
        ended = self._ended.wait(seconds)
        self.is_end_seen = self.is_end_seen or ended
        return ended

    def get_result_or_raise_work_error(self) -> Any:
        """Return the result of an ended job, or raise the exception that its work raised.

        The result of a job that has not ended is None.
        """
        if self._error is not None:
            raise self._error
        return self._result

    def wait_for_latest(self) -> Any:
        """Wait as long as a page does, and return the latest partial result; raise the exception of failed work."""
        if self.wait():
            self.get_result_or_raise_work_error()
        return self.latest

    def execute(self) -> None:
        """Do the work in the calling thread, unless the job was stopped before it began."""
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
    """A pool of threads that carry out background jobs, which are identified by keys.

    At most ``threads`` jobs run at a time, and at most ``max_waiting`` more may wait. If there are more than
    ``max_jobs`` jobs, the pool forgets ended ones. A job that no page has requested for ``idle_seconds`` is stopped,
    unless ``idle_seconds`` is None. If ``low_priority`` is true, the threads yield the processor to other work (on
    Linux only). If ``unstoppable`` is true, the work cannot react to a request to stop. When such a job is stopped
    because no page requests it, its thread is abandoned: it no longer counts, and another thread may take its place.
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
        self._abandoned_jobs: set[BackgroundJob] = set()  # stopped, but their threads still compute
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
        """Return the job with this key; start a new job if there is none or the old one must be replaced.

        A stopped job is replaced if it was stopped because no page requested it, if ``max_seconds`` is longer than
        before, or if ``restart_stopped`` is true. A job is also replaced if ``version``, the state of the data that the
        job works on (such as an archive), has changed. However, a page that waits for the old job is first shown its
        result; otherwise, queries about an archive that changes often would never be answered. If ``owner`` is given,
        only one job of this owner runs at a time.

        Raises ``BusyError`` if too many jobs are waiting.
        """
        with self._changed:
            job = self._jobs.get(key)
            if job is not None and (
                job in self._abandoned_jobs
                or not (_can_restart(job, max_seconds, restart_stopped) or _is_outdated_and_unawaited(job, version))
            ):
                job.last_requested = time.monotonic()
                self._jobs.move_to_end(key)
                return job
            if self._closed or len(self._queue) >= self._most_waiting:
                raise BusyError(f"this server is busy (requests that wait: {len(self._queue)}): try again in a moment")
            new_job = self._jobs[key] = BackgroundJob(work, max_seconds, version, owner)
            self._jobs.move_to_end(key)
            self._queue.append(new_job)
            self._drop_ended_jobs()
            self._start_worker_and_watcher_if_needed()
            self._changed.notify()
            return new_job

    def find_and_count_request(self, key: Hashable) -> BackgroundJob | None:
        """Return the job with this key, and count the call as a request for the job.

        Return None if there is no such job, or if the job was stopped before its work began.
        """
        job = self._jobs.get(key)
        if job is None or (job.ended and job.started is None):
            return None
        job.last_requested = time.monotonic()
        return job

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

    def _start_worker_and_watcher_if_needed(self) -> None:
        """Start a worker thread if there are more waiting jobs than free threads.

        Also start the watching thread if it is not running.
        """
        if self._threads < self._most_threads and self._threads - len(self._working) < len(self._queue):
            self._threads += 1
            # A daemon, because an agent's turn cannot be interrupted when the server ends.
            threading.Thread(target=self._execute_jobs, name="page", daemon=True).start()
        if not self._has_watcher:
            self._has_watcher = True
            threading.Thread(target=self._stop_late_and_idle_jobs, name="watch", daemon=True).start()

    def _execute_jobs(self) -> None:
        if self._politely and sys.platform == "linux":
            os.setpriority(
                os.PRIO_PROCESS, threading.get_native_id(), 10
            )  # on Linux this changes only the calling thread
        while True:
            with self._changed:
                while (job := self._find_waiting_job_of_idle_owner()) is None:
                    if self._closed:
                        self._threads -= 1
                        return
                    self._changed.wait()
                self._queue.remove(job)
                self._working.add(job)
            job.execute()
            with self._changed:
                self._changed.notify()  # the owner's next job may begin
                self._working.discard(job)
                if job in self._abandoned_jobs:
                    self._abandoned_jobs.discard(job)
                    return

    def _find_waiting_job_of_idle_owner(self) -> BackgroundJob | None:
        """Return the first waiting job that may begin, or None if there is none.

        A job may not begin while its owner has a running job or too many abandoned threads.
        """
        busy_owners, abandoned_owners = (
            {job.owner for job in self._working},
            [job.owner for job in self._abandoned_jobs],
        )
        for job in self._queue:
            if job.owner is None or (
                job.owner not in busy_owners and abandoned_owners.count(job.owner) < MAX_ABANDONED_THREADS
            ):
                return job
        return None

    def _abandon_thread(self, job: BackgroundJob) -> None:
        """Stop counting the thread of a job that cannot be interrupted, and start another thread if jobs wait.

        The abandoned thread gets the lowest priority.
        """
        with self._changed:
            if job not in self._working or not job.thread_id:
                return
            self._working.discard(job)
            self._abandoned_jobs.add(job)
            self._threads -= 1
            self._start_worker_and_watcher_if_needed()
            self._changed.notify()
        if sys.platform == "linux":
            with suppress(OSError):  # the thread may have ended meanwhile
                os.setpriority(os.PRIO_PROCESS, job.thread_id, LOWEST_PRIORITY)

    def _stop_late_and_idle_jobs(self) -> None:
        """Stop jobs that exceed their time limit or that pages no longer request, until no job is left.

        This method is the loop of the thread that watches limits.
        """
        while not self._closed:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            with self._changed:
                jobs = [*self._working, *self._queue]
                if not jobs:
                    self._has_watcher = False
                    return
            for job in jobs:
                if job.elapsed_without_preparation > job.seconds:
                    job.stop(f"{job.seconds:g} seconds were not enough")
                elif self._idle_seconds is not None and now - job.last_requested > self._idle_seconds:
                    job.stop(IDLE_REASON)
                    if self._endless:
                        self._abandon_thread(job)
            with self._changed:
                for job in [waiting for waiting in self._queue if waiting.ended]:
                    self._queue.remove(job)


def _can_restart(job: BackgroundJob, max_seconds: float, restart_stopped: bool) -> bool:
    """Return whether a job was stopped and may be replaced by a new one.

    It may be replaced if ``restart_stopped`` is true, if ``max_seconds`` is longer than the job's time limit, or if the
    job was stopped because no page requested it.
    """
    return job.stopped and (restart_stopped or job.seconds < max_seconds or job.reason == IDLE_REASON)


def _is_outdated_and_unawaited(job: BackgroundJob, version: Hashable) -> bool:
    """Return whether a job is about another version of its data than ``version``, and no page waits for its result.

    The data is, for example, the archive.
    """
    return job.version != version and (job.is_end_seen or time.monotonic() - job.last_requested > FORGOTTEN_SECONDS)


class CompilationCounter(event.Listener):  # type: ignore[misc]
    """A counter of the functions that numba is compiling now, so that pages can explain why an answer takes long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    @property
    def active(self) -> bool:
        """Whether numba is compiling a function now."""
        return self._depth > 0

    def on_start(self, _event: Any) -> None:
        with self._lock:
            self._depth += 1

    def on_end(self, _event: Any) -> None:
        with self._lock:
            self._depth -= 1


@cache
def find_compilation_counter() -> CompilationCounter:
    """Return the counter of this process. The first call registers the counter with numba."""
    listener = CompilationCounter()
    event.register("numba:compile", listener)
    return listener
