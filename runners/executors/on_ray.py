"""The executor of a Ray cluster: Ray Core tasks, each on one core, which read and write the archive themselves.

Ray is talked to by a process of its own: what ends or floods that (Ray ends a program whose node has died) does not
end the run without a word.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import re
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import FailureError, MissingExtraError, RequestError, how_to_install
from quarto.hooks import ignore
from runners.executors.base import GIVE_UP_SECONDS, Answer, Executor, Part, Stop
from runners.executors.machine import available_cores
from runners.executors.worker import Returned, Setup, answer_of, carry_out, lost_too_often, setup_of

AUTO = "auto"  # the cluster to which this machine belongs
LOCAL = "local"  # a cluster on this machine that is started, and ended with the run
PORT = 6379  # on which the head of a cluster listens, if nobody says otherwise
CONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 5.0  # in which a cluster on this machine ends, or is left
POLL_SECONDS = 0.2
LOOK_SECONDS = 2.0  # without an answer, after which it is seen whether this machine still belongs to the cluster
RETRIES = 2  # of a part whose worker or machine is lost
# Before Ray is imported: it reports nothing to anybody, and does not try for minutes to connect.
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_connect_timeout_s": "4",
    "RAY_py_gcs_connect_timeout_s": "4",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}
HOW = (
    "start one on this machine with ray.address=local, or with 'ray start --head', let this machine join one, or play "
    "here with executor=processes"
)


class _Ready(NamedTuple):
    """The cluster answers."""

    cores: int


class _Refused(NamedTuple):
    """Nothing can be carried out, or no more."""

    reason: str


class OnRay(Executor):
    """Carries out work in tasks of the cluster at ``address``, at most ``tasks`` at a time; None: one for each core.

    All its machines need the project, the user's own agents, and the archive, under the same paths. Raises
    ``MissingExtraError`` if Ray is not installed, ``RequestError`` for an address that is none, or for a number of
    tasks below 1.
    """

    shares_memory = False

    def __init__(self, address: str = AUTO, tasks: int | None = None) -> None:
        if tasks is not None and tasks < 1:
            raise RequestError(f"ray.tasks={tasks} is out of range: it must be at least 1, or null")
        if not _is_installed():
            raise MissingExtraError(f"executor=ray needs ray: {how_to_install('ray')}")
        self._folder = Path.cwd()  # to which paths are relative; Hydra may change the current folder later
        self._address = str(address)
        self._tasks = tasks
        self._drivers: list[_Driver] = []  # at most one
        self.close = weakref.finalize(self, _end_all, self._drivers)

    def here(self, threads: int) -> int:  # noqa: ARG002  (the memory of other machines is not known here)
        return 1

    def workers(self, threads: int) -> int:  # noqa: ARG002  (cores are those of the cluster)
        cores = self._driver().cores
        return min(cores, self._tasks or cores)

    def map(
        self,
        task: Callable[[Part, Stop], Answer],
        parts: Iterable[Part],
        threads: int,
        stop: threading.Event,
        idle: Callable[[], None] = ignore,
    ) -> Iterator[Answer]:
        """As ``Executor.map`` says; Ray carries out parts again whose worker or machine is lost."""
        workers, driver, setup = self.workers(threads), self._driver(), setup_of(task, self._folder)
        source, known, stopped = iter(parts), set[str](), None
        try:
            while True:
                for part in () if stop.is_set() else islice(source, workers - driver.pending):
                    driver.begin(setup, part)
                if not driver.pending:
                    return
                if stop.is_set() and stopped is None:
                    stopped = time.monotonic()
                    driver.stop()
                if stopped is not None and time.monotonic() - stopped > GIVE_UP_SECONDS:
                    return
                if driver.says_something():
                    returned = driver.returned()
                    if returned is not None:
                        yield answer_of(returned, known)
                else:
                    idle()
        finally:
            if driver.pending:
                _end_all(self._drivers)

    def _driver(self) -> _Driver:
        if not self._drivers:
            self._drivers.append(_Driver(self._address))
        return self._drivers[0]


def _is_installed() -> bool:
    """Whether there is Ray. It is not imported: that takes most of a second, and this process does not need it."""
    try:
        return importlib.util.find_spec("ray") is not None
    except ValueError:  # it was imported, and is none
        return False


def _end_all(drivers: list[_Driver]) -> None:
    while drivers:
        drivers.pop().end()


class _Driver:
    """The process that talks to Ray."""

    def __init__(self, address: str) -> None:
        """Connect to the cluster, or start one. Raises ``FailureError`` if none answers."""
        self.pending = 0  # parts that nothing was heard of
        known = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
        where = known if known in (AUTO, LOCAL) else _answering(known)
        self._address = address
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_drive, args=(theirs, where), daemon=True)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for the run alone
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        ready = self._received()
        if isinstance(ready, _Refused):
            self.end()
            raise FailureError(f"no Ray cluster at ray.address={address} ({ready.reason}): {HOW}")
        self.cores: int = ready.cores
        if not self.cores:
            raise FailureError(f"the Ray cluster at ray.address={address} has no cores: start workers that have some")

    def begin(self, setup: Setup, part: Any) -> None:
        """Hand out a part; it waits until a core is free."""
        self.pending += 1
        self._send((setup, part))

    def stop(self) -> None:
        """Ask the tasks that have begun to end soon, and drop the others."""
        self._send(None)

    def says_something(self) -> bool:
        """Whether there is an answer, after a moment."""
        return self._connection.poll(POLL_SECONDS)

    def returned(self) -> Returned | None:
        """What came of a part; None: it was not begun. Raises ``FailureError``."""
        found = self._received()
        if isinstance(found, _Refused):
            raise FailureError(found.reason)
        self.pending -= 1
        return None if found is None else Returned(*found)

    def end(self) -> None:
        """End the process; what was started with it ends too."""
        self._connection.close()
        self._process.join(2 * SHUTDOWN_SECONDS)
        self._process.kill()

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._lost() from error

    def _received(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error

    def _lost(self) -> FailureError:
        return FailureError(
            f"the Ray cluster at ray.address={self._address} is gone (this machine's part of it ended, or its head): "
            "start it again; what was finished is kept, and the same command goes on from there"
        )


def _answering(address: str) -> str:
    """HOST:PORT of an address at which something answers. Raises ``FailureError`` if nothing does."""
    host, _, port = address.partition(":")
    try:
        number = int(port or PORT)
    except ValueError:
        raise RequestError(f"ray.address={address} is not {AUTO}, {LOCAL}, HOST or HOST:PORT") from None
    try:
        socket.create_connection((host, number), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise FailureError(f"no Ray cluster at ray.address={address} ({error}): {HOW}") from error
    return f"{host}:{number}"


# In the process that talks to Ray.


def _drive(connection: Connection, address: str) -> None:
    """Connect, and carry out what the run sends, until that is gone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # Ray's C++ code writes there what Python cannot stop
        os.dup2(nothing, descriptor)
    os.environ.update({name: value for name, value in VARIABLES.items() if name not in os.environ})
    try:
        connection.send(_connected(address))
        _Cluster(connection).carry_out()
    except (EOFError, OSError):  # the run is gone, or Ray
        pass
    finally:
        connection.close()
        import ray

        ending = threading.Thread(target=ray.shutdown, daemon=True)
        ending.start()
        ending.join(SHUTDOWN_SECONDS)  # it never ends if the node has died
        os._exit(0)  # what was started on this machine dies with this process


def _connected(address: str) -> _Ready | _Refused:
    import ray

    local = {"num_cpus": available_cores(), "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address, log_to_driver=False, **local)
    except Exception as error:  # noqa: BLE001  (Ray raises anything; the run says so)
        if isinstance(error, ConnectionError) and address == AUTO:
            return _Refused("there is none")
        other = "something else answers, an unlike version of Ray, or one with another token, see RAY_AUTH_MODE"
        return _Refused(f"{other}: {_reason(error).partition('. ')[0]}")
    return _Ready(int(ray.cluster_resources().get("CPU", 0)))


class _Cluster:
    """The tasks on a cluster."""

    def __init__(self, connection: Connection) -> None:
        import ray

        self._connection = connection
        self._running: list[Any] = []
        self._here, self._looked = ray.get_runtime_context().get_node_id(), time.monotonic()
        self._carry_out = ray.remote(num_cpus=1, max_retries=RETRIES)(in_task)

    def carry_out(self) -> None:
        """Do what the run sends. Raises ``EOFError`` when it is gone."""
        import ray

        while True:
            while self._connection.poll(None if not self._running else 0):
                message = self._connection.recv()
                if message is not None:
                    self._running.append(self._carry_out.remote(*message))
                else:
                    for each in self._running:
                        ray.cancel(each)
            ended, self._running = ray.wait(self._running, timeout=POLL_SECONDS)
            for each in ended:
                self._connection.send(_returned(each))
            if not ended and time.monotonic() - self._looked > LOOK_SECONDS:
                self._look()

    def _look(self) -> None:
        """Raise ``EOFError`` if this machine's part of the cluster has died: Ray would wait for it for ever."""
        import ray

        self._looked = time.monotonic()
        if not any(each["Alive"] and each["NodeID"] == self._here for each in ray.nodes()):
            raise EOFError


def _returned(ended: Any) -> tuple[Any, ...] | _Refused | None:
    """What came of a task: the fields of ``Returned``; None if it was not begun.

    Raises ``EOFError`` if this machine's part of the cluster has died.
    """
    import ray
    from ray.exceptions import (
        LocalRayletDiedError,
        RayError,
        RayTaskError,
        RuntimeEnvSetupError,
        TaskCancelledError,
    )

    try:
        found: tuple[Any, ...] = ray.get(ended)
    except TaskCancelledError:
        return None
    except (RayTaskError, RuntimeEnvSetupError) as error:
        return _Refused(
            f"a task cannot run on the cluster, {_reason(error)}: all its machines need the same version of Python and "
            "of the project"
        )
    except LocalRayletDiedError as error:
        raise EOFError from error
    except RayError as error:
        return _Refused(str(lost_too_often(RETRIES + 1, _reason(error))))
    return found


def _reason(error: Exception) -> str:
    """One line on an error of Ray, whose text may be a traceback and advice, in colours."""
    cause = getattr(error, "cause", None) or error
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", str(cause)).strip().split("\n")[0].split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


# In a task, on any machine.


def in_task(setup: Setup, part: Any) -> tuple[Any, ...]:
    """Carry out a part, which is asked to end soon when Ray cancels the task; returns the fields of ``Returned``."""
    stop, ended = threading.Event(), threading.Event()
    returned: list[tuple[Any, ...]] = []

    def work() -> None:
        try:
            returned.append(tuple(carry_out(setup, part, stop)))
        finally:
            ended.set()

    threading.Thread(target=work, daemon=True).start()
    while not ended.is_set():
        try:
            ended.wait(POLL_SECONDS)
        except KeyboardInterrupt:  # the form in which Ray cancels
            stop.set()
    return returned[0]
