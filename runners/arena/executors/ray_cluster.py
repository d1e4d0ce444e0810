"""The executor of a Ray cluster: Ray Core tasks, each on one core, which read and write the archive themselves.

A process of its own talks to Ray, because Ray may end its program (when its node has died) or flood its output. The run
itself then ends with a message.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from quarto.errors import ArenaError, FailureError, MissingExtraError, RequestError, describe_extra_installation
from runners.arena.executors.base import POLL_SECONDS, Executor, Task, Worker, WorkerPool, available_cores
from runners.arena.executors.processes import (
    TaskData,
    TaskResult,
    build_lost_workers_error,
    build_task_data,
    log_and_unwrap_result,
    run_task,
)
from runners.hosting.interruption import SIGNALS
from runners.hosting.work_clock import WorkerStarts, exclude_from_work_clocks

AUTO = "auto"  # the cluster to which this machine belongs
LOCAL = "local"  # a cluster on this machine that is started for the run and ended with it
DEFAULT_PORT = 6379  # default port of a cluster's head
CONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 5.0  # time in which a cluster on this machine must end; afterwards it is abandoned
ALIVE_CHECK_SECONDS = 2.0  # time without a result after which this machine's membership in the cluster is checked
RETRIES = 2  # number of retries of a chunk whose worker or machine is lost
# Set before Ray is imported, so that it reports nothing to anybody and does not try for minutes to connect.
RAY_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_connect_timeout_s": "4",
    "RAY_py_gcs_connect_timeout_s": "4",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}
START_ADVICE = (
    "start one on this machine with ray.address=local, or with 'ray start --head', let this machine join one, or play "
    "here with executor=processes"
)


class OnRay(Executor):
    """The executor that uses a Ray cluster.

    All machines of the cluster need the project, the user's own agents and the archive under the same paths.

    Args:
        address: Address of the cluster: ``auto``, ``local``, HOST or HOST:PORT.
        tasks: The largest number of tasks at a time; None means one for each core.

    Raises:
        MissingExtraError: Ray is not installed.
        RequestError: ``tasks`` is below 1.

    """

    shares_memory = False

    def __init__(self, address: str = AUTO, tasks: int | None = None) -> None:
        if tasks is not None and tasks < 1:
            raise RequestError(f"ray.tasks={tasks} is out of range: it must be at least 1, or null")
        if find_spec("ray") is None:  # an import would take most of a second, and this process does not need Ray
            raise MissingExtraError(f"executor=ray needs ray: {describe_extra_installation('ray')}")
        self._folder = Path.cwd()  # base of relative paths; Hydra may change the current folder later
        self._address, self._tasks = str(address), tasks
        self._drivers: list[_RayDriver] = []  # at most one
        self.close = weakref.finalize(self, _stop_all, self._drivers)

    def count_processes_using_local_memory(self, threads: int) -> int:  # noqa: ARG002  (the memory of other machines is not known here)
        return 1

    def count_workers(self, threads: int) -> int:  # noqa: ARG002  (cores are those of the cluster)
        if not self._drivers:
            with exclude_from_work_clocks():
                self._drivers.append(_RayDriver(self._address))
        cores = self._drivers[0].cores
        return min(cores, self._tasks or cores)

    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:  # noqa: ARG002
        """Open a pool for a task. If a chunk's worker or machine is lost, Ray itself carries out the chunk again."""
        return _RayPool(build_task_data(task, self._folder), self.count_workers(threads), self._drivers)


class _RayPool(WorkerPool):
    def __init__(self, task: TaskData, max_pending: int, drivers: list[_RayDriver]) -> None:
        self.most_pending, self.pending = max_pending, 0
        self._task, self._drivers, self._driver = task, drivers, drivers[0]
        self._logged_messages: set[str] = set()
        self._is_stopping = False
        self._starts = WorkerStarts(max_pending)

    def submit(self, chunk: Any) -> None:
        self.pending += 1
        self._driver.send((self._task, chunk))

    def wait_for_results(self) -> Iterator[Any]:
        if self._driver.wait_briefly_for_message():
            task_result = self._driver.receive()
            self.pending -= 1
            if task_result is not None:
                self._starts.exclude_start(task_result.worker, task_result.elapsed - task_result.seconds)
                yield log_and_unwrap_result(task_result, self._logged_messages)

    def forward_stop_to_processes(self) -> None:
        """Cancel the tasks that have not begun, and ask the tasks in progress to end early."""
        if not self._is_stopping:
            self._is_stopping = True
            self._driver.send(None)

    def release_workers_abandoning_chunks(self) -> None:
        if self.pending:
            _stop_all(self._drivers)


class _RayDriver:
    """The run's handle on the process that talks to Ray.

    The run sends this process a message with a task and a chunk, or None to cancel all tasks, and receives the results.
    """

    def __init__(self, address: str) -> None:
        """Connect to the cluster at ``address``, or start a cluster. Raise ``FailureError`` if no cluster answers."""
        self._address = address
        resolved_address = _resolve_address(os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address)
        context = multiprocessing.get_context("spawn")
        self._connection, driver_connection = context.Pipe()
        self._process = context.Process(target=_run_driver, args=(driver_connection, resolved_address), daemon=True)
        with _set_variables_and_block_signals(
            **{name: value for name, value in RAY_VARIABLES.items() if name not in os.environ}
        ):
            self._process.start()
        driver_connection.close()
        try:
            self.cores: int = self.receive()
        except ArenaError as error:
            self.stop()
            raise FailureError(f"no Ray cluster at ray.address={address} ({error}): {START_ADVICE}") from error
        if not self.cores:
            raise FailureError(f"the Ray cluster at ray.address={address} has no cores: start workers that have some")

    def send(self, message: tuple[TaskData, Any] | None) -> None:
        """Send the process a task and a chunk, or None to cancel all tasks.

        Raises ``FailureError`` if the process has ended.
        """
        with self._explain_lost_cluster():
            self._connection.send(message)

    def wait_briefly_for_message(self) -> bool:
        """Wait for a moment, and return whether the process has sent a message."""
        return self._connection.poll(POLL_SECONDS)

    def receive(self) -> Any:
        """Receive the next message from the process, and return it.

        The first message is the cluster's number of cores. Each further message is the result of a chunk, or None for a
        chunk that was cancelled. Raises ``FailureError`` if the process or a task failed.
        """
        with self._explain_lost_cluster():
            message = self._connection.recv()
        if isinstance(message, ArenaError):
            raise message
        return message

    @contextmanager
    def _explain_lost_cluster(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise FailureError(
                f"the Ray cluster at ray.address={self._address} is gone (this machine's part of it ended, or its "
                "head): start it again; what was finished is kept, and the same command goes on from there"
            ) from error

    def stop(self) -> None:
        """End the process and everything that it started."""
        self._connection.close()
        self._process.join(2 * SHUTDOWN_SECONDS)
        self._process.kill()


def _stop_all(drivers: list[_RayDriver]) -> None:
    while drivers:
        drivers.pop().stop()


def _resolve_address(address: str) -> str:
    """Return the address to give to Ray; for HOST and HOST:PORT, first check that the address answers.

    Raises ``FailureError`` if it does not answer, and ``RequestError`` if the text is not an address.
    """
    if address in (AUTO, LOCAL):
        return address
    host, _, port = address.partition(":")
    try:
        number = int(port or DEFAULT_PORT)
        socket.create_connection((host, number), CONNECT_SECONDS).close()
    except ValueError:
        raise RequestError(f"ray.address={address} is not {AUTO}, {LOCAL}, HOST or HOST:PORT") from None
    except (OSError, OverflowError) as error:
        raise FailureError(f"no Ray cluster at ray.address={address} ({error}): {START_ADVICE}") from error
    return f"{host}:{number}"


@contextmanager
def _set_variables_and_block_signals(**variables: str) -> Iterator[None]:
    """Set environment variables and block signals while the context is open, in which the driver is started.

    The driver inherits both, so it does not react to signals that ask the program to end. This process does, because
    the old variables and the old signal mask are restored when the context closes.
    """
    old_values = {name: os.environ.get(name) for name in variables}
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and it unblocks signals
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old_values.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


# In the process that talks to Ray.


def _run_driver(connection: Connection, address: str) -> None:
    """Connect to the cluster at ``address``, and carry out on it the tasks that the run sends, until the run has ended.

    This function runs in a process of its own. It first sends the cluster's number of cores.
    """
    _leave_process_group_and_drop_signals()
    null_descriptor = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # Ray's C++ code writes there what Python cannot stop
        os.dup2(null_descriptor, descriptor)
    import ray

    try:
        connection.send(_connect_and_count_cores(address))
        _run_tasks(connection)
    except ArenaError as error:
        connection.send(error)
    except (EOFError, OSError):  # the run is gone, or Ray
        pass
    finally:
        connection.close()
        ending = threading.Thread(target=ray.shutdown, daemon=True)
        ending.start()
        ending.join(SHUTDOWN_SECONDS)  # the shutdown never ends if the node has died
        os._exit(0)  # what was started on this machine dies with this process


def _leave_process_group_and_drop_signals() -> None:
    """Leave the run's process group, because signals to the group are meant only for the run.

    All processes that Ray starts afterwards leave the group, too. Signals that have arrived since this process was
    started are dropped.
    """
    os.setsid()
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _connect_and_count_cores(address: str) -> int:
    """Connect to a cluster, or start one, and return its number of cores.

    Raises ``FailureError`` if the cluster can be neither reached nor started.
    """
    import ray

    local = {"num_cpus": available_cores(), "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address, log_to_driver=False, **local)
    except Exception as error:
        if isinstance(error, ConnectionError) and address == AUTO:
            raise FailureError("there is none") from error
        causes = "something else answers, an unlike version of Ray, or one with another token, see RAY_AUTH_MODE"
        raise FailureError(f"{causes}: {_describe_error(error).partition('. ')[0]}") from error
    return int(ray.cluster_resources().get("CPU", 0))


def _run_tasks(connection: Connection) -> None:
    """Carry out the tasks that the run sends, and send their results back.

    Raises ``EOFError`` when the run has ended, or when the cluster's node on this machine has died.
    """
    import ray

    remote_function = ray.remote(num_cpus=1, max_retries=RETRIES)(run_remote_task)
    node_id, last_contact = ray.get_runtime_context().get_node_id(), time.monotonic()
    running = dict[Any, float]()  # the tasks that have not ended, and when each was handed out
    while True:
        while connection.poll(0 if running else None):
            message = connection.recv()
            if message is not None:
                handed_out = time.perf_counter()
                running[remote_function.remote(*message)] = handed_out
            else:
                for running_task in running:
                    ray.cancel(running_task)
        ended, _ = ray.wait([*running], timeout=POLL_SECONDS)
        for ended_task in ended:
            task_result, elapsed = _fetch_result_unless_cancelled(ended_task), time.perf_counter() - running[ended_task]
            del running[ended_task]
            connection.send(task_result and task_result._replace(elapsed=elapsed))
        if ended or time.monotonic() - last_contact > ALIVE_CHECK_SECONDS:
            last_contact = time.monotonic()
            if not ended and not any(node["Alive"] and node["NodeID"] == node_id for node in ray.nodes()):
                raise EOFError  # Ray would wait for ever


def _fetch_result_unless_cancelled(finished_task: Any) -> TaskResult | None:
    """Return the result of a finished task, or None if the task was cancelled before it began.

    Raises ``FailureError`` if the task cannot run, and ``EOFError`` if the cluster's node on this machine has died.
    """
    import ray
    from ray import exceptions

    try:
        task_result: TaskResult = ray.get(finished_task)
    except exceptions.TaskCancelledError:
        return None
    except (exceptions.RayTaskError, exceptions.RuntimeEnvSetupError) as error:
        raise FailureError(
            f"a task cannot run on the cluster, {_describe_error(error)}: all its machines need the same version of "
            "Python and of the project"
        ) from error
    except exceptions.LocalRayletDiedError as error:
        raise EOFError from error
    except exceptions.RayError as error:
        raise build_lost_workers_error(RETRIES + 1, _describe_error(error)) from error
    return task_result


def _describe_error(error: Exception) -> str:
    """Describe an error of Ray in one line, because the error's text may be a coloured traceback with advice."""
    cause = getattr(error, "cause", None) or error
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", str(cause)).strip().split("\n")[0].split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


# In a task, on any machine.


def run_remote_task(task: TaskData, chunk: Any) -> TaskResult:
    """Carry out a chunk on a machine of the cluster, and return its result.

    If Ray cancels the task, the chunk is asked to end early, and its partial result is returned.
    """
    stop, ended, results = threading.Event(), threading.Event(), list[TaskResult]()

    def run_task_and_keep_result() -> None:
        results.append(run_task(task, chunk, stop))
        ended.set()

    threading.Thread(target=run_task_and_keep_result, daemon=True).start()
    while not ended.is_set():  # ``join`` would take the thread for ended once it is interrupted
        try:
            ended.wait(POLL_SECONDS)
        except KeyboardInterrupt:  # the form in which Ray cancels
            stop.set()
    return results[0]
