"""The executor of a Ray cluster: Ray Core tasks, each on one core, which read and write the archive themselves."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from quarto.errors import FailureError, RequestError, of_extra
from runners.executors.base import Work
from runners.executors.workers import Heard, Lost, Task, Tasks, Workers

AUTO = "auto"  # the cluster to which this machine belongs
PORT = 6379  # on which the head of a cluster listens, if nobody says otherwise
CONNECT_SECONDS = 5.0
POLL_SECONDS = 0.2
# Before Ray is imported: it reports nothing to anybody, says nothing here, and does not try for minutes to connect.
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_connect_timeout_s": "4",
    "RAY_py_gcs_connect_timeout_s": "4",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}


class OnRay(Workers):
    """Carries out work in tasks of the cluster at ``address``, at most ``tasks`` at a time; None: one for each core.

    No cluster is started. All its machines need the project, the user's own agents, and the archive, under the same
    paths. Raises ``MissingExtraError`` if Ray is not installed, ``RequestError`` for a number of tasks below 1.
    """

    def __init__(self, address: str = AUTO, tasks: int | None = None) -> None:
        super().__init__()
        if tasks is not None and tasks < 1:
            raise RequestError(f"ray.tasks={tasks} is out of range: it must be at least 1, or null")
        self._address = str(address)
        self._tasks = tasks
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)
        with of_extra("ray", "executor=ray"):
            import ray  # noqa: F401  (0.7 s; a request that needs it and cannot have it is refused at once)

    def here(self, threads: int) -> int:  # noqa: ARG002  (the memory of other machines is not known here)
        return 1

    def ready(self, threads: int) -> int:  # noqa: ARG002  (cores are those of the cluster)
        import ray

        if not ray.is_initialized():
            _connect(self._address)
        cores = int(ray.cluster_resources().get("CPU", 0))
        if not cores:
            raise FailureError(
                f"the Ray cluster at ray.address={self._address} has no cores: start workers that have some"
            )
        return min(cores, self._tasks or cores)

    def _results(
        self, setup: str, tasks: Tasks, workers: int, stop: threading.Event, work: Work
    ) -> Generator[Heard | Lost, None, None]:
        import ray

        cluster = _Cluster(setup)
        try:
            while True:
                for task in islice(tasks, workers - len(cluster.running)):
                    cluster.begin(task)
                if not cluster.running:
                    return
                if stop.is_set():
                    cluster.stop()
                ended, _ = ray.wait(list(cluster.running), timeout=POLL_SECONDS)
                if not ended:
                    work.idle()
                for stream in ended:
                    yield from cluster.heard(stream)
        finally:
            cluster.drop()


class _Cluster:
    """The tasks on a cluster for one piece of work."""

    def __init__(self, setup: str) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from runners.executors import ray_task

        self.running: dict[Any, Task] = {}  # by the stream of what the task says
        self._begun: set[Any] = set()
        self._stopped = False
        # Here, and so alive as long as anybody can want to stop.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._signal = ray.remote(num_cpus=0)(ray_task.Signal).options(scheduling_strategy=here).remote()
        self._stopping = self._signal.wait.remote()
        self._setup = ray.put(setup)
        self._carry_out = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(ray_task.carry_out)

    def begin(self, task: Task) -> None:
        """Hand out a task; it waits until a core is free."""
        self.running[self._carry_out.remote(self._setup, json.dumps(task.part), [self._stopping])] = task

    def heard(self, stream: Any) -> Generator[Heard | Lost, None, None]:
        """The next message of a task, if it has not ended. Raises ``FailureError`` if it cannot run on the cluster."""
        import ray
        from ray.exceptions import RayError, RayTaskError, RuntimeEnvSetupError

        try:
            text = ray.get(next(stream))
        except StopIteration:
            self._end(stream)
        except (RayTaskError, RuntimeEnvSetupError) as error:
            raise FailureError(
                f"a task cannot run on the cluster, {_reason(error)}: all its machines need the same version of Python "
                "and of the project"
            ) from error
        except RayError as error:
            task = self._end(stream)
            if not self._stopped:  # else nobody asks for its part again
                yield Lost(task, _reason(error))
        else:
            self._begun.add(stream)
            if text:
                yield Heard(text)

    def stop(self) -> None:
        """Ask the tasks that have begun to end soon, and drop the others."""
        import ray

        if not self._stopped:
            self._stopped = True
            self._signal.set.remote()
            for stream in set(self.running) - self._begun:
                ray.cancel(stream)

    def drop(self) -> None:
        """End all tasks at once."""
        import ray

        for stream in self.running:
            ray.cancel(stream, force=True)
        ray.kill(self._signal)

    def _end(self, stream: Any) -> Task:
        self._begun.discard(stream)
        return self.running.pop(stream)


def _reason(error: Exception) -> str:
    """One line on an error of Ray, whose text may be a traceback and advice, in colours."""
    cause = getattr(error, "cause", None) or error
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", str(cause)).strip().split("\n")[0].split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def _connect(address: str) -> None:
    """Connect to a cluster that runs. Raises ``FailureError`` if none answers."""
    import ray

    known = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
    where = AUTO if known == AUTO else _answering(known)
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:
        none = isinstance(error, ConnectionError) and where == AUTO
        other = "something else answers, an unlike version of Ray, or one with another token, see RAY_AUTH_MODE"
        reason = "there is none" if none else f"{other}: {_reason(error).partition('. ')[0]}"
        raise FailureError(f"no Ray cluster at ray.address={address} ({reason}): {_HOW}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside the context nothing is written to standard error: Ray's C++ code writes there what Python cannot stop."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


_HOW = "start one with 'ray start --head', let this machine join it, or play here with executor=processes"


def _answering(address: str) -> str:
    """HOST:PORT of an address at which something answers. Raises ``FailureError`` if nothing does."""
    host, _, port = address.partition(":")
    try:
        number = int(port or PORT)
    except ValueError:
        raise RequestError(f"ray.address={address} is not {AUTO}, HOST or HOST:PORT") from None
    try:
        socket.create_connection((host, number), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise FailureError(f"no Ray cluster at ray.address={address} ({error}): {_HOW}") from error
    return f"{host}:{number}"
