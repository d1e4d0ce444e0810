"""Carrying out work: an executor maps a task over chunks, with threads, processes, or a cluster.

A task is a function ``task(chunk, stop) -> result``. Chunks and results are small plain data; a task reads and writes
large data itself, in the archive. Writing the same data again is harmless, so a chunk whose worker was lost is simply
carried out once more. Threads accept any callable. A task that may travel to other processes inherits ``Task``:

    @dataclass(frozen=True)
    class IndexTask(Task[tuple[str, int, int], int]):
        root: str  # plain fields: all that travels

        def build_worker(self) -> Worker[tuple[str, int, int], int]:
            archive = Archive.open(parse_location(self.root))  # once in each process
            return lambda chunk, stop: ...

    for plies in executor.map(IndexTask(str(root)), chunks, threads, stop):
        total += plies

``Threads`` is defined here; the other executors have modules of their own.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from quarto.errors import RequestError
from runners.hosting.interruption import WORK_THREAD_PREFIX
from runners.hosting.work_clock import exclude_from_work_clocks

MEBIBYTE = 1 << 20
SOLVER_MEMORY_FACTOR = 1.25  # a solver keeps a quarter of its table's size for distances

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
POLL_SECONDS = 0.2  # time without a result after which ``on_idle`` is called and ``stop`` is checked
GIVE_UP_SECONDS = 6.0  # time after a request to stop in which a task must end: a turn may never return

ChunkT = TypeVar("ChunkT")
ResultT = TypeVar("ResultT")


class StopSignal(Protocol):
    """A signal that tells a task whether to end early."""

    def is_set(self) -> bool:
        """Return whether the task should stop now and return its partial result."""
        ...


class StopDeadline:
    """A deadline, some seconds after a stop was first seen to be requested.

    Calling the object checks for the request, and returns whether the deadline has passed.
    """

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._seconds = stop, seconds
        self._deadline: float | None = None

    def __call__(self) -> bool:
        if self._deadline is None and self._stop.is_set():
            self._deadline = time.monotonic() + self._seconds
        return self._deadline is not None and time.monotonic() > self._deadline


Worker = Callable[[ChunkT, StopSignal], ResultT]  # carries out a chunk, or only its beginning once it is to stop


class Task(ABC, Generic[ChunkT, ResultT]):
    """A task that can be sent to another process.

    It is a frozen dataclass of plain fields, in a module that other processes can import. Objects that take long to
    build are not sent: ``build_worker`` builds them in the process that carries out chunks.
    """

    @abstractmethod
    def build_worker(self) -> Worker[ChunkT, ResultT]:
        """Build the function that carries out chunks in this process.

        Several threads may call that function at once.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the task's fields, keyed by name, from which another process can build the same task."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # a dataclass


class LazyWorker:
    """A worker that is built for its first chunk, once for all threads. Building it does not count as work time."""

    def __init__(self, build: Callable[[], Worker[Any, Any]]) -> None:
        self._build, self._lock = build, threading.Lock()
        self._worker: Worker[Any, Any] | None = None

    def __call__(self, chunk: Any, stop: StopSignal) -> Any:
        """Carry out a chunk, after building the worker if necessary; return the result.

        If building raises an exception, the exception is passed on, and the next chunk tries to build the worker again.
        """
        with self._lock:
            if self._worker is None:
                with exclude_from_work_clocks():
                    self._worker = self._build()
        return self._worker(chunk, stop)


class WorkerPool(ABC):
    """The workers that serve one call of ``Executor.map``, and the chunks that these workers carry out."""

    most_pending: int  # the most chunks that are handed out at a time
    pending: int  # chunks that were handed out and have no result yet

    @abstractmethod
    def submit(self, chunk: Any) -> None:
        """Give a chunk to a worker, without waiting for the result."""

    @abstractmethod
    def wait_for_results(self) -> Iterable[Any]:
        """Wait for a moment, and return the results that have arrived, if any.

        Raises the exception that a task raised, and ``FailureError`` if workers were lost.
        """

    @abstractmethod
    def forward_stop_to_processes(self) -> None:
        """Ask tasks in other processes to end early. Tasks that share the stop signal notice it themselves.

        Calling this method again is harmless.
        """

    @abstractmethod
    def release_workers_abandoning_chunks(self) -> None:
        """Stop using the workers, and abandon the chunks in progress."""


class Executor(ABC):
    """The base class of executors, which decide who carries out work. ``conf/executor/*.yaml`` describe them."""

    shares_memory: ClassVar[bool]  # whether tasks run in this process

    def map(
        self,
        task: Task[ChunkT, ResultT] | Worker[ChunkT, ResultT],
        chunks: Iterable[ChunkT],
        threads: int,
        stop: threading.Event,
        on_idle: Callable[[], None] = lambda: None,
    ) -> Iterator[ResultT]:
        """Carry out all chunks, and yield their results as they arrive.

        A chunk is taken from the iterable only when a worker is about to be free. Once ``stop`` is set, no further
        chunk is begun, and a task that does not end within ``GIVE_UP_SECONDS`` is abandoned.

        Args:
            task: What carries out a chunk. Only a ``Task`` can be carried out in another process.
            chunks: The chunks. They are iterated in the calling thread.
            threads: Number of threads of this process, or of processes on this machine.
            stop: Event that ends the work early.
            on_idle: Called in the calling thread now and then while there is no result.

        Raises:
            FailureError: Workers were lost again and again.
            Exception: Whatever a task raised. The tasks in progress are then asked to stop.

        """
        pool, source = self.open_pool(task, threads, stop), iter(chunks)
        is_overdue = StopDeadline(stop, GIVE_UP_SECONDS)
        try:
            while True:
                if stop.is_set():
                    pool.forward_stop_to_processes()
                else:
                    for chunk in islice(source, pool.most_pending - pool.pending):
                        pool.submit(chunk)
                if not pool.pending:
                    return
                if is_overdue():
                    logging.getLogger(__name__).warning("a turn or a search did not end in time, so it is abandoned")
                    return
                has_result = False
                for result in pool.wait_for_results():
                    has_result = True
                    yield result
                if not has_result:
                    on_idle()
        finally:
            pool.release_workers_abandoning_chunks()

    @abstractmethod
    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:
        """Return a pool of workers for one call of ``map``. Raises ``FailureError`` if there are no workers."""

    @abstractmethod
    def count_workers(self, threads: int) -> int:
        """Return how many chunks are carried out at the same time. Raises ``FailureError`` if there are no workers."""

    @abstractmethod
    def count_processes_using_local_memory(self, threads: int) -> int:
        """Return how many processes need memory of their own on this machine for the work.

        Processes on other machines are not counted, but the result is at least 1.
        """


@dataclass(frozen=True)
class Threads(Executor):
    """The executor that uses threads of this process, which share its memory.

    The threads are daemon threads, so that the program can end even if an agent's turn never returns.
    """

    shares_memory = True

    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:
        return _ThreadPool(task, threads, stop)

    def count_workers(self, threads: int) -> int:
        return threads

    def count_processes_using_local_memory(self, threads: int) -> int:  # noqa: ARG002  (the interface of executors)
        return 1


THREADS = Threads()


class _ThreadPool(WorkerPool):
    """A pool of threads that are started as chunks arrive. The pool is also the stop signal of its tasks."""

    def __init__(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> None:
        self.most_pending = threads + 1  # one chunk waits, so that no thread waits for the calling one
        self.pending = 0
        self._worker = LazyWorker(task.build_worker) if isinstance(task, Task) else task
        self._stop = stop
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._todo: SimpleQueue[tuple[Any] | None] = SimpleQueue()  # None ends a thread
        self._done: SimpleQueue[tuple[list[Any], BaseException | None]] = SimpleQueue()  # each with at most one result

    def is_set(self) -> bool:
        return self._ended or self._stop.is_set()

    def submit(self, chunk: Any) -> None:
        self.pending += 1
        self._todo.put((chunk,))
        if len(self._threads) < self.most_pending - 1:
            name = f"{WORK_THREAD_PREFIX} {len(self._threads)}"
            self._threads.append(threading.Thread(target=self._run_tasks, name=name, daemon=True))
            self._threads[-1].start()

    def wait_for_results(self) -> Iterable[Any]:
        try:
            results, error = self._done.get(timeout=POLL_SECONDS)
        except Empty:
            return []
        self.pending -= 1
        if error:
            raise error
        return results

    def forward_stop_to_processes(self) -> None:
        """Do nothing, because tasks in threads notice by themselves that they should stop."""

    def release_workers_abandoning_chunks(self) -> None:
        self._ended = True
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads if not self.pending else ():
            thread.join()

    def _run_tasks(self) -> None:
        while (todo := self._todo.get()) is not None:
            try:
                self._done.put(([] if self.is_set() else [self._worker(*todo, self)], None))
            except BaseException as error:  # noqa: BLE001  (raised again in the calling thread)
                self._done.put(([], error))


# The cores and the memory that this process may use.


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_megabytes() -> float:
    """Return how much memory, in MiB, this process can take without swapping.

    If that is unknown, all installed memory is returned.
    """
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE
    return min(
        megabytes
        for megabytes in (installed, _read_machine_megabytes(), _read_cgroup_megabytes_left())
        if megabytes is not None
    )


def read_peak_bytes() -> int:
    """Return the peak memory use of this process in bytes."""
    return convert_peak_to_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def convert_peak_to_bytes(ru_maxrss: int) -> int:
    """Convert the peak memory in the answer of ``getrusage`` to bytes, because its unit is a KiB except on macOS."""
    return ru_maxrss if sys.platform == "darwin" else 1024 * ru_maxrss


def check_solver_memory(megabytes: float, solver_count: int = 1) -> None:
    """Raise ``RequestError`` unless ``solver_count`` solvers with tables of ``megabytes`` MiB each fit into memory.

    The error message names the largest size that fits.
    """
    if not 0 < megabytes < float("inf"):
        raise RequestError(f"--memory {megabytes:g}MiB is not a size: write more than 0, such as 128MiB")
    available = available_megabytes()
    needed = megabytes * SOLVER_MEMORY_FACTOR * solver_count
    if needed > available:
        max_megabytes = int(available / SOLVER_MEMORY_FACTOR / solver_count)
        remedy = f"at most --memory {1 << (max_megabytes.bit_length() - 1)}MiB fits" if max_megabytes else "free some"
        raise RequestError(
            f"--memory {megabytes:g}MiB takes {needed:,.0f} MB of memory and {available:,.0f} MB are free: {remedy}"
        )


def _read_machine_megabytes() -> float | None:
    """Return how much memory, in MiB, Linux reports as available, or None on other systems."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) / 1024 if sizes else None


def _read_cgroup_megabytes_left() -> float | None:
    """Return how much memory, in MiB, the limit of the container still allows, or None if there is no limit.

    Only control groups of version 2 are supported.
    """
    try:
        limit, used = (
            (_CGROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current")
        )
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used)) / MEBIBYTE
