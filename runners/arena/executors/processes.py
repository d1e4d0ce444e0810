"""The executor of processes on this machine, which share only the archive; and both ends of a remote worker.

A worker receives a task, builds what carries out chunks, and sends results back. Ray's workers use the same functions.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NamedTuple

from analytics.store.texts import format_count_with_noun
from quarto.errors import ArenaError, ErrorDetails, FailureError, RequestError, to_error_details
from runners.arena.executors.base import POLL_SECONDS, Executor, LazyWorker, StopSignal, Task, Worker, WorkerPool
from runners.hosting.subprocesses import STDERR, LimitedProcess, bind, describe_exit
from runners.hosting.work_clock import WorkClock, WorkerStarts

MAX_LOSSES = 3  # number of workers lost in a row, without a finished chunk in between, that ends the work
DEATH_SECONDS = 1.0
# Not ``-m``, because messages have the types of this module, not of ``__main__``.
WORKER_PROGRAM = (sys.executable, "-P", "-c", "from runners.arena.executors.processes import run_worker; run_worker()")


class Processes(Executor):
    """The executor that uses processes on this machine. In its methods, ``threads`` is the number of processes.

    A process starts when a chunk finds no idle process. The processes live as long as this object, but never longer
    than the run.
    """

    shares_memory = False

    def __init__(self) -> None:
        self._folder = Path.cwd()  # base of relative paths; Hydra may change the current folder later
        self._pools = count()
        self._workers: list[_Worker] = []
        self.close = weakref.finalize(self, _stop_all, self._workers)  # ends the processes

    def count_workers(self, threads: int) -> int:
        return threads

    def count_processes_using_local_memory(self, threads: int) -> int:
        return threads

    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:
        """Open a pool of processes. If a process is lost, another process carries out its chunk."""
        return _ProcessPool(self, self._workers, next(self._pools), build_task_data(task, self._folder), threads, stop)


class _ProcessPool(WorkerPool):
    def __init__(
        self,
        executor: Processes,
        workers: list[_Worker],
        pool_number: int,
        task: TaskData,
        threads: int,
        stop: threading.Event,
    ) -> None:
        self.most_pending, self.pending = threads, 0
        self._executor = executor  # kept alive, because it ends the workers once nothing refers to it
        self._workers, self._number, self._task, self._stop = workers, pool_number, task, stop
        self._is_stopping = False
        # By connection: the worker, its chunk, and when the chunk was handed out.
        self._busy: dict[Connection, tuple[_Worker, Any, float]] = {}
        self._logged_messages: set[str] = set()
        self._losses = 0
        self._starts = WorkerStarts(threads)

    def submit(self, chunk: Any) -> None:
        handed_out = time.perf_counter()
        worker = next((worker for worker in self._workers if worker.connection not in self._busy), None)
        if worker is None:
            worker = _Worker()
            self._workers.append(worker)
        try:
            worker.connection.send((self._task, chunk, self._number))
        except OSError:  # the worker has ended meanwhile
            self._retry_chunk(worker, chunk)
            return
        self._busy[worker.connection] = worker, chunk, handed_out
        self.pending = len(self._busy)

    def wait_for_results(self) -> Iterator[Any]:
        lost_chunks = []
        ready = wait([*self._busy], POLL_SECONDS)
        for connection in [connection for connection in self._busy if connection in ready]:
            worker, chunk, handed_out = self._busy.pop(connection)
            self.pending = len(self._busy)
            try:
                task_result = connection.recv()
            except (EOFError, OSError):
                lost_chunks.append((worker, chunk))
            else:
                self._losses = 0
                self._starts.exclude_start(task_result.worker, time.perf_counter() - handed_out - task_result.seconds)
                yield log_and_unwrap_result(task_result, self._logged_messages)
        for worker, chunk in lost_chunks:
            self._retry_chunk(worker, chunk)

    def forward_stop_to_processes(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            for worker, *_ in self._busy.values():
                worker.request_stop(self._number)

    def release_workers_abandoning_chunks(self) -> None:
        for worker, *_ in self._busy.values():  # busy after an error, a second Ctrl-C, or a turn that does not end
            self._workers.remove(worker)
            worker.stop()

    def _retry_chunk(self, worker: _Worker, chunk: Any) -> None:
        """Let another process carry out the chunk of a lost process. Raises ``FailureError`` after too many losses."""
        self._losses += 1
        reason = worker.describe_death()
        self._workers.remove(worker)
        worker.stop()
        if self._losses >= MAX_LOSSES:
            raise build_lost_workers_error(self._losses, reason)
        logging.getLogger(__name__).warning("a worker was lost (%s): another one carries out its chunk again", reason)
        if not self._stop.is_set():
            self.submit(chunk)


class _Worker:
    """A process that carries out chunks, one at a time.

    Requests to stop are sent through a separate pipe, which the process checks while it works.
    """

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        stops, self._stops = Pipe(duplex=False)
        descriptors = theirs.fileno(), stops.fileno()
        self._process = LimitedProcess(
            WORKER_PROGRAM,
            [*map(str, descriptors)],
            shared_descriptors=descriptors,
            variables={"POLARS_MAX_THREADS": "1"},  # a worker is for one core
            stdout=STDERR,  # what agents print must not mix with results
            stderr=None,
        )
        theirs.close()
        stops.close()

    def request_stop(self, pool_number: int) -> None:
        """Ask the process to end its chunk early if the chunk belongs to the pool with the number ``pool_number``."""
        with suppress(OSError):  # the process has ended, which the wait for its result reports
            self._stops.send(pool_number)

    def describe_death(self) -> str:
        """Describe how the process ended, for the message that reports its loss."""
        code = self._process.wait_and_kill_group(DEATH_SECONDS)
        return "its process closed its pipe" if code is None else describe_exit(code)

    def stop(self) -> None:
        """End the process, and everything that the process started, at once.

        A file that was being written is complete or absent.
        """
        self._process.stop()
        self.connection.close()
        self._stops.close()


def _stop_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().stop()


# In the worker's process.


class _PipeStopSignal:
    """The stop signal, in a worker's process, for the chunks of one pool.

    The signal is set when the number of the pool arrives through the worker's second pipe.
    """

    def __init__(self, stop_connection: Connection, pool_number: int) -> None:
        self._stops, self._number = stop_connection, pool_number
        self._is_set = False
        self._lock = threading.Lock()

    def is_set(self) -> bool:
        with self._lock:
            while not self._is_set and self._stops.poll():
                self._is_set = self._stops.recv() == self._number
            return self._is_set


def run_worker() -> None:
    """Carry out the chunks that arrive through a pipe, and send their results, until the run's process has ended.

    This function is what ``WORKER_PROGRAM`` executes.
    """
    binding, *descriptors = sys.argv[1:]
    bind(binding)
    connection, stops = (Connection(int(descriptor)) for descriptor in descriptors)
    with suppress(EOFError):  # the run is gone
        while True:
            task, chunk, number = connection.recv()
            connection.send(run_task(task, chunk, _PipeStopSignal(stops, number)))


class TaskResult(NamedTuple):
    """The result of a chunk as a worker sends it: plain data."""

    result: Any
    failure: ErrorDetails | None
    log_records: list[logging.LogRecord]  # warnings and errors
    seconds: float = 0.0  # time of work
    worker: str = ""  # names the process that carried out the chunk
    elapsed: float = 0.0  # seconds from handing out the chunk to its result, if the process that talks to Ray knows it


class TaskData(NamedTuple):
    """The plain data from which a worker builds a task."""

    folder: str  # base of relative paths
    path: list[str]  # folders in which modules are searched
    module: str
    name: str  # qualified name of the task's class
    fields: dict[str, Any]

    @property
    def key(self) -> str:
        """A text that identifies the task: two tasks have the same text only if they are equal."""
        return json.dumps(self, sort_keys=True, default=repr)


def build_task_data(task: Task[Any, Any] | Worker[Any, Any], base_of_relative_paths: Path) -> TaskData:
    """Build the data from which a worker can build the same task and find the same modules.

    Args:
        task: The task.
        base_of_relative_paths: The folder against which relative paths are resolved.

    Raises:
        TypeError: ``task`` is a plain function, not a ``Task``, so it cannot be sent to another process.

    """
    if not isinstance(task, Task):
        raise TypeError(f"{task} is no Task, so it cannot be carried out in another process")
    path = [os.path.abspath(folder) for folder in sys.path if folder]  # noqa: PTH100  (of folders and archives, no file)
    task_class = type(task)
    return TaskData(str(base_of_relative_paths), path, task_class.__module__, task_class.__qualname__, task.to_dict())


_worker_cache: dict[str, LazyWorker] = {}  # the last task's worker by ``TaskData.key``, because building takes long


def run_task(data: TaskData, chunk: Any, stop: StopSignal) -> TaskResult:
    """Carry out a chunk of a task; return its result or the exception raised, with the warnings and errors logged."""
    collector, root = _LogCollector(logging.WARNING), logging.getLogger()
    root.addHandler(collector)
    try:
        worker, clock = _set_paths_and_load_worker(data), WorkClock()
        result = worker(chunk, stop)
        return TaskResult(result, None, collector.records, clock.seconds, f"{socket.gethostname()}:{os.getpid()}")
    except BaseException as error:  # noqa: BLE001  (raised again by ``log_and_unwrap_result``)
        return TaskResult(None, to_error_details(error), collector.records)
    finally:
        root.removeHandler(collector)


def _set_paths_and_load_worker(data: TaskData) -> LazyWorker:
    key = data.key
    if key not in _worker_cache:
        _worker_cache.clear()
        if Path(data.folder).is_dir():  # another machine may lack the folder; only absolute paths work there
            os.chdir(data.folder)
        sys.path.extend(folder for folder in data.path if folder not in sys.path)
        task: Task[Any, Any] = getattr(importlib.import_module(data.module), data.name)(**data.fields)
        _worker_cache[key] = LazyWorker(task.build_worker)
    return _worker_cache[key]


class _LogCollector(logging.Handler):
    """A log handler that collects log records as plain data."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        plain = logging.LogRecord(record.name, record.levelno, "", 0, record.getMessage(), (), None)
        if record.exc_info:
            plain.exc_text = "".join(traceback.format_exception(record.exc_info[1]))  # shown in log files only
        self.records.append(plain)


# In the user's process.


class WorkerTracebackError(Exception):
    """The traceback of an error that occurred in a worker, as text."""


def log_and_unwrap_result(task_result: TaskResult, logged_messages: set[str]) -> Any:
    """Log the records that came with a task's result, and return the result or raise its exception.

    Messages in ``logged_messages`` are skipped, and new messages are added to this set, so that a message from several
    workers is logged only once.
    """
    for record in task_result.log_records:
        if record.getMessage() not in logged_messages:
            logged_messages.add(record.getMessage())
            logging.getLogger(record.name).handle(record)
    failure = task_result.failure
    if failure is None:
        return task_result.result
    error: ArenaError = FailureError(
        f"a worker raised {failure.kind}: {failure.text} (unexpected; --debug shows where)"
        if failure.exit_code is None
        else failure.text
    )
    if failure.exit_code == RequestError.exit_code:
        error = RequestError(failure.text)
    raise error from WorkerTracebackError(failure.traceback)


def build_lost_workers_error(losses: int, reason: str) -> FailureError:
    """Build the error for work during which workers were lost ``losses`` times in a row."""
    return FailureError(
        f"{format_count_with_noun(losses, 'worker')} lost in a row without a finished "
        f"chunk in between; of the last one, {reason}: if "
        "memory ran out, use fewer workers; what was finished is kept, and the same command goes on from there"
    )
