"""`qarena bench --executors`: what threads, processes and a Ray cluster of two nodes do besides playing.

The nodes run on this machine, so their clocks agree. Workers note when they begin and end each chunk, and all other
times follow from these notes. Processor time is noted too, because it means more on a busy machine. With threads, it
is the time of all threads.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from analytics.store.ranges import Range, split_into_files
from quarto.errors import FailureError
from runners.arena.executors.base import THREADS, Executor, StopSignal, Task, Worker, available_cores
from runners.arena.executors.processes import Processes
from runners.arena.experiment import Experiment, open_experiment, record_contribution
from runners.arena.play_task import PlayTask
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions
from runners.bench.timing import Figures
from runners.config.agents import load_agent
from runners.config.yaml_options import load_rules

GAMES, QUICK_GAMES = 8_000_000, 1_000_000
NODES = 2  # of the cluster, with one core each
STOP_SECONDS = 60.0
# Prints the cluster's address, and ends the cluster when the input ends. Ray writes to both outputs.
CLUSTER_PROGRAM = f"""
import sys
from ray.cluster_utils import Cluster

node = {{"num_cpus": 1, "object_store_memory": 80 << 20}}
cluster = Cluster(initialize_head=True, head_node_args={{**node, "include_dashboard": False}})
for _ in range({NODES - 1}):
    cluster.add_node(**node)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class Moment(NamedTuple):
    """A moment in a worker."""

    clock: float  # seconds since 1970
    processor: float  # seconds of processor time that the process had taken until then

    @staticmethod
    def now() -> Moment:
        return Moment(time.time(), time.process_time())

    def to_figures(self, earlier: Moment) -> Figures:
        """Return the seconds, and the seconds of processor time, since an earlier moment."""
        return {"seconds": self.clock - earlier.clock, "processor_seconds": self.processor - earlier.processor}


class ChunkTimes(NamedTuple):
    """The moments at which a worker built what plays, and played a chunk."""

    worker: tuple[int, int]  # process and thread
    build_began: Moment  # for the first chunk of the process
    build_ended: Moment
    began: Moment
    ended: Moment
    units: int

    @property
    def seconds(self) -> float:
        return self.ended.clock - self.began.clock

    @property
    def processor_seconds(self) -> float:
        return self.ended.processor - self.began.processor


@dataclass(frozen=True)
class TimedPlayTask(Task[Range, ChunkTimes]):
    """The task that plays chunks of a run and writes them, as ``PlayTask`` does, and returns the times of it."""

    play_task: Mapping[str, Any]  # the fields of the ``PlayTask``

    def build_worker(self) -> Worker[Range, ChunkTimes]:
        build_began = Moment.now()
        play = PlayTask(**self.play_task).build_worker()
        build_ended = Moment.now()

        def play_and_note_times(chunk: Range, stop: StopSignal) -> ChunkTimes:
            began = Moment.now()
            play(chunk, stop)
            ended = Moment.now()
            # A worker of Ray plays each chunk in a new thread.
            thread = threading.get_ident() if threading.current_thread().name.startswith("work") else 0
            return ChunkTimes((os.getpid(), thread), build_began, build_ended, began, ended, chunk[1] - chunk[0])

        return play_and_note_times


def bench_executors(quick: bool, disk: Path) -> Figures:
    """Measure, for each executor, the seconds of all that is not playing, and the games a second with and without it.

    Returns the figures as nested dictionaries. The games are written to a folder in ``disk``. With ``quick``, fewer
    games are played. Without Ray, its figures are left out. Raises ``FailureError`` if the cluster does not start.
    """
    games, workers = QUICK_GAMES if quick else GAMES, available_cores()
    figures: Figures = {"threads": workers, "games": games}
    with TemporaryDirectory(prefix="quarto-arena-bench-", dir=disk) as folder:
        _measure_executor(lambda: THREADS, Path(folder) / "warm-up", QUICK_GAMES, workers)  # compiles, if need be
        figures["executor_threads"] = _measure_executor(lambda: THREADS, Path(folder) / "threads", games, workers)
        figures["executor_processes"] = _measure_executor(Processes, Path(folder) / "processes", games, workers)
        if find_spec("ray") is not None:
            figures["executor_ray"] = _measure_ray(Path(folder) / "ray", games)
    return figures


def _measure_ray(root: Path, games: int) -> Figures:
    from runners.arena.executors.ray_cluster import OnRay

    started = time.time()
    with start_cluster() as address:
        seconds = time.time() - started
        figures = _measure_executor(lambda: OnRay(address), root, games, NODES)
    return {"start_cluster": {"seconds": seconds}, **figures}


@contextmanager
def start_cluster() -> Iterator[str]:
    """Start a Ray cluster of two nodes on this machine, yield its address, and end it.

    Raises ``FailureError`` if it does not start.
    """
    variables = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", CLUSTER_PROGRAM]
    with subprocess.Popen(  # noqa: S603  (our own program)
        command,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        try:
            addresses = (line.split()[1] for line in process.stdout if line.startswith("address "))
            address = next(addresses, None)
            if address is None:
                raise FailureError("Ray started no cluster on this machine: try 'ray start --head', which says why")
            yield address
        finally:
            process.stdin.close()
            process.wait(STOP_SECONDS)


def _measure_executor(open_executor: Callable[[], Executor], root: Path, games: int, workers: int) -> Figures:
    """Play ``games`` games with an executor, and measure the parts of the time."""
    spec = RunSpec(load_rules("classic"), (load_agent("random"), load_agent("semi_random")), ((0, 1),), 1, 0)
    joining = time.time()
    executor = open_executor()
    executor.count_workers(workers)
    request = RunRequest(spec, games, workers, ArchiveOptions(root), progress=False, executor=executor)
    joined = time.time()
    experiment = open_experiment(request)
    with record_contribution(experiment, "qarena bench") as contribution:
        chunks, began = [*_list_chunks(experiment)], Moment.now()
        if not executor.shares_memory:
            began = began._replace(processor=0.0)
        task = TimedPlayTask(PlayTask.from_experiment(experiment).to_dict())
        times = [*executor.map(task, chunks, workers, threading.Event())]
        ended = time.time()
        contribution.games = games
    return {
        "join": {"seconds": joined - joining},
        **compute_stages(times, began, ended),
        "games_per_second": {
            "start_included": games / (ended - began.clock + joined - joining),
            "as_run_prints_it": games / contribution.seconds,
            "while_all_play": compute_playing_speed(times),
        },
    }


def _list_chunks(experiment: Experiment) -> Iterator[Range]:
    request, line = experiment.request, experiment.unit_line
    units = line.count_units_of_all_pairings(request.games)
    return split_into_files(0, units, units, request.storage.max_units_per_file(line.games_a_pair))


def compute_stages(times: Sequence[ChunkTimes], began: Moment, ended: float) -> Figures:
    """Compute the seconds of each part of the work from the times of all chunks.

    ``began`` and ``ended`` tell when the call that handed out the chunks began and ended. The processor time in
    ``began`` is that of the workers' process, and 0 if they are processes of their own.
    """
    by_worker: dict[tuple[int, int], list[ChunkTimes]] = {}
    for chunk in sorted(times, key=lambda chunk: chunk.began):
        by_worker.setdefault(chunk.worker, []).append(chunk)
    first_chunks = [chunks[0] for chunks in by_worker.values()]
    starts = sorted(chunk.build_began for chunk in first_chunks)
    last_ends = [chunks[-1].ended.clock for chunks in by_worker.values()]
    return {
        "first_worker_starts_and_imports": starts[0].to_figures(began),
        "last_worker_starts_and_imports": starts[-1].to_figures(began),
        "worker_builds_agents": _average([chunk.build_ended.to_figures(chunk.build_began) for chunk in first_chunks]),
        "worker_loads_kernels": {
            "seconds": _compute_excess([chunk.seconds for chunk in first_chunks], [chunk.seconds for chunk in times]),
            "processor_seconds": _compute_excess(
                [chunk.processor_seconds for chunk in first_chunks], [chunk.processor_seconds for chunk in times]
            ),
        },
        "waits_for_last_chunk": {"seconds": max(last_ends) - min(last_ends)},
        "returns_last_result": {"seconds": ended - max(last_ends)},
        "all": {"seconds": ended - began.clock},
        "workers": len(by_worker),
    }


def _average(figures: Sequence[Figures]) -> Figures:
    return {name: statistics.mean(one[name] for one in figures) for name in figures[0]}


def _compute_excess(first_seconds: Sequence[float], all_seconds: Sequence[float]) -> float:
    """Compute how much longer than usual the first chunks of the workers took, on average."""
    usual = statistics.median(all_seconds)
    return statistics.mean(max(0.0, seconds - usual) for seconds in first_seconds)


def compute_playing_speed(times: Sequence[ChunkTimes]) -> float:
    """Compute the games a second while all workers play, from the usual time of a chunk."""
    largest = max(chunk.units for chunk in times)
    usual_seconds = statistics.median(chunk.seconds for chunk in times if chunk.units == largest)
    workers = len({chunk.worker for chunk in times})
    return 2 * largest * workers / usual_seconds
