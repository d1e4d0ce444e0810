"""Carrying out work: a task is mapped over chunks, by threads of this process, by processes, or on a cluster.

A task is a function ``task(chunk, stop) -> result``. Chunks and results are small plain data; a task reads and writes
what is large itself, in the archive. Writing the same again is harmless, so a chunk whose worker was lost is simply
carried out once more. For threads any callable will do. A task that may travel to other processes inherits ``Task``:

    @dataclass(frozen=True)
    class IndexTask(Task[tuple[str, int, int], int]):
        root: str  # plain fields: all that travels

        def build_worker(self) -> Worker[tuple[str, int, int], int]:
            archive = Archive.open(parse_location(self.root))  # once in each process
            return lambda chunk, stop: ...

    for plies in executor.map(IndexTask(str(root)), chunks, threads, stop):
        total += plies

``Threads`` need nothing else; the other executors are in modules of their own.
"""

from __future__ import annotations

import logging
import os
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
POLL_SECONDS = 0.2  # without an answer, after which ``idle`` is called, and it is seen whether the user wants to stop
GIVE_UP_SECONDS = 6.0  # after a request to stop, in which a task ends: a turn of an agent may never return

ChunkT = TypeVar("ChunkT")
ResultT = TypeVar("ResultT")


class StopSignal(Protocol):
    """Says whether a task is to end soon."""

    def is_set(self) -> bool:
        """True once it is to end soon; it then returns an answer about what it has done."""
        ...


class StopDeadline:
    """Whether so many seconds have passed since it was seen that work is to stop."""

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._seconds = stop, seconds
        self._at: float | None = None

    def __call__(self) -> bool:
        if self._at is None and self._stop.is_set():
            self._at = time.monotonic() + self._seconds
        return self._at is not None and time.monotonic() > self._at


Worker = Callable[[ChunkT, StopSignal], ResultT]  # carries out a chunk; less of it once it is to stop


class Task(ABC, Generic[ChunkT, ResultT]):
    """A task that may travel: a frozen dataclass of plain fields, in a module that other processes can import.

    What takes long to make does not travel: ``build_worker`` makes it where chunks are carried out.
    """

    @abstractmethod
    def build_worker(self) -> Worker[ChunkT, ResultT]:
        """Build what carries out chunks in this process, on several threads at once, and returns small answers."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, from which another process makes the task again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a dataclass


class LazyWorker:
    """A worker that is built with its first chunk, once for all threads: building is no work yet."""

    def __init__(self, build: Callable[[], Worker[Any, Any]]) -> None:
        self._build, self._lock = build, threading.Lock()
        self._worker: Worker[Any, Any] | None = None

    def __call__(self, chunk: Any, stop: StopSignal) -> Any:
        """Carry out a chunk. Raises what building raises too; the next chunk then tries again."""
        with self._lock:
            if self._worker is None:
                with exclude_from_work_clocks():
                    self._worker = self._build()
        return self._worker(chunk, stop)


class WorkerPool(ABC):
    """The workers of one ``map``, and the chunks that they carry out."""

    most_pending: int  # chunks that are begun at a time
    pending: int  # chunks that were begun, and of which nothing was heard

    @abstractmethod
    def submit(self, chunk: Any) -> None:
        """Hand out a chunk."""

    @abstractmethod
    def wait_for_results(self) -> Iterable[Any]:
        """The answers of the last moment, perhaps none. Raises what a task raised, and ``FailureError``."""

    @abstractmethod
    def request_stop(self) -> None:
        """Ask the tasks in progress to end soon, if they do not see that themselves. It may be called repeatedly."""

    @abstractmethod
    def close(self) -> None:
        """Leave the chunks in progress alone: nobody waits for them any more."""


class Executor(ABC):
    """Carries out work. Objects are made from ``conf/executor/*.yaml``."""

    shares_memory: ClassVar[bool]  # tasks run in this process

    def map(
        self,
        task: Task[ChunkT, ResultT] | Worker[ChunkT, ResultT],
        chunks: Iterable[ChunkT],
        threads: int,
        stop: threading.Event,
        on_idle: Callable[[], None] = lambda: None,
    ) -> Iterator[ResultT]:
        """The answers about all chunks, as they come. Only a ``Task`` can be carried out in another process.

        ``threads`` is the number of threads of this process, or of processes on this machine. A chunk is taken from the
        iterable only when a worker is about to be free. Once ``stop`` is set no chunk is begun, and a task that does
        not end within ``GIVE_UP_SECONDS`` is left alone. ``on_idle`` is called now and then while there is no answer;
        like the iteration over ``chunks`` it runs in the calling thread. Raises what a task raises, and
        ``FailureError`` if workers are lost again and again; the tasks in progress are then asked to stop.
        """
        pool, source, late = self.open_pool(task, threads, stop), iter(chunks), StopDeadline(stop, GIVE_UP_SECONDS)
        try:
            while True:
                if stop.is_set():
                    pool.request_stop()
                else:
                    for chunk in islice(source, pool.most_pending - pool.pending):
                        pool.submit(chunk)
                if not pool.pending:
                    return
                if late():
                    logging.getLogger(__name__).warning("a turn or a search did not end in time and is given up")
                    return
                answered = False
                for answer in pool.wait_for_results():
                    answered = True
                    yield answer
                if not answered:
                    on_idle()
        finally:
            pool.close()

    @abstractmethod
    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:
        """The workers for one ``map``. Raises ``FailureError`` if there are none."""

    @abstractmethod
    def count_workers(self, threads: int) -> int:
        """The number of chunks that are carried out at a time. Raises ``FailureError`` if nothing can be."""

    @abstractmethod
    def count_processes_using_local_memory(self, threads: int) -> int:
        """The number of processes on this machine that take memory of their own for the work."""


@dataclass(frozen=True)
class Threads(Executor):
    """Carries out work in this process, on threads that share its memory.

    They are daemons: a turn of an agent that never returns keeps nobody waiting.
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
    """Threads, begun as chunks come. It tells tasks whether to stop."""

    def __init__(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> None:
        self.most_pending = threads + 1  # so that no thread waits for the calling one
        self.pending = 0
        self._worker = LazyWorker(task.build_worker) if isinstance(task, Task) else task
        self._stop = stop
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._todo: SimpleQueue[tuple[Any] | None] = SimpleQueue()  # None: no more work
        self._done: SimpleQueue[tuple[list[Any], BaseException | None]] = SimpleQueue()  # at most one answer

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
            found, error = self._done.get(timeout=POLL_SECONDS)
        except Empty:
            return []
        self.pending -= 1
        if error:
            raise error
        return found

    def request_stop(self) -> None:
        """Tasks see it themselves."""

    def close(self) -> None:
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
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_megabytes() -> float:
    """The memory in MiB that this process can take without swapping; all that is installed if that is not known."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE
    return min(
        megabytes
        for megabytes in (installed, _read_machine_megabytes(), _read_cgroup_megabytes())
        if megabytes is not None
    )


def check_solver_memory(megabytes: float, solver_count: int = 1) -> None:
    """Raise ``RequestError`` unless memory has room for the tables of ``solver_count`` solvers, ``megabytes`` each.

    The message names the largest size that fits.
    """
    if not 0 < megabytes < float("inf"):
        raise RequestError(f"--memory {megabytes:g}MiB is not a size: write more than 0, such as 128MiB")
    available = available_megabytes()
    needed = megabytes * SOLVER_MEMORY_FACTOR * solver_count
    if needed > available:
        most = int(available / SOLVER_MEMORY_FACTOR / solver_count)
        fits = f"at most --memory {1 << (most.bit_length() - 1)}MiB fits" if most else "free some"
        raise RequestError(
            f"--memory {megabytes:g}MiB takes {needed:,.0f} MB of memory and {available:,.0f} MB are free: {fits}"
        )


def _read_machine_megabytes() -> float | None:
    """The memory that Linux reports as available."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) / 1024 if sizes else None


def _read_cgroup_megabytes() -> float | None:
    """The memory that the container's limit leaves (control groups, version 2)."""
    try:
        limit, used = (
            (_CGROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current")
        )
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used)) / MEBIBYTE
