"""The task of a run: it travels to a worker, where it plays and writes chunks."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.ranges import Range, UnitLine
from quarto.errors import ArenaError, FailureError
from runners.arena.batch_engine import GRACE_SECONDS, MAX_BLOCK_PAIRS, Pace, PairRange
from runners.arena.code_fingerprints import build_code_record
from runners.arena.executors.base import StopDeadline, StopSignal, Task, Worker
from runners.arena.experiment import Experiment, RangeWriter, build_engine
from runners.arena.heap import keep_freed_memory
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions
from runners.hosting.guarded_agent import Misbehaviour

WATCH_SECONDS = 0.5  # in a worker: interval between two checks of the games that wait to be written
# The share of a chunk's time before which no chunk is cut short: until then, loading may look like slow turns.
PATIENCE_SHARE = 0.25


def power_of_two_units_within(seconds: float, seconds_per_unit: float) -> int:
    """Return how many units can be played within ``seconds``, rounded down to a power of two; at least 1."""
    return 1 << (max(1, int(min(seconds / max(seconds_per_unit, 1e-9), 1e12))).bit_length() - 1)


def list_pair_ranges(line: UnitLine, first: int, end: int) -> Iterator[PairRange]:
    """Yield the pairs of each pairing that lie in the units from ``first`` up to but not including ``end``.

    A range has at most ``MAX_BLOCK_PAIRS`` pairs.
    """
    has_all_pairings = end - first >= line.pairings
    for pairing in (
        range(line.pairings) if has_all_pairings else sorted({unit % line.pairings for unit in range(first, end)})
    ):
        pair, end_pair = line.pair_range(pairing, first, end)
        for start in range(pair, end_pair, MAX_BLOCK_PAIRS):
            yield PairRange(pairing, start, min(MAX_BLOCK_PAIRS, end_pair - start))


class ChunkResult(NamedTuple):
    """The result of a chunk: how far the task came, and which ranges it wrote."""

    chunk: Range
    reached: int  # all units of the chunk before this one were played
    written: tuple[Range, ...]
    seconds: float  # time of playing and writing
    misbehaviour: tuple[Misbehaviour, ...] = ()  # of each agent, if the worker is another process


@dataclass(frozen=True)
class PlayTask(Task[Range, ChunkResult]):
    """The task that plays chunks of a run and itself writes the games to the archive.

    A chunk is a range (first, end) of units.
    """

    run: Mapping[str, Any]  # result of ``RunSpec.to_dict``
    games: int  # number of games of each pairing
    root: str  # location of the archive
    shard_games: int
    shard_seconds: float
    fingerprint: str  # of the run's code
    keep_going: bool
    evaluations: bool = False

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> PlayTask:
        """Build the task that plays chunks of an experiment."""
        request, storage = experiment.request, experiment.request.storage
        return cls(
            run=request.spec.to_dict(),
            games=request.games,
            root=str(storage.root),
            shard_games=storage.shard_games,
            shard_seconds=storage.shard_seconds,
            fingerprint=experiment.code["fingerprint"],
            keep_going=request.keep_going,
            evaluations=storage.evaluations,
        )

    def build_worker(self) -> Worker[Range, ChunkResult]:
        """Build the function that plays chunks in a worker's process.

        Raises the errors of ``_build_and_check_experiment``.
        """
        return ChunkPlayer(self._build_and_check_experiment(), remote=True).play

    def _build_and_check_experiment(self) -> Experiment:
        """Build the experiment in a worker's process, and check that it is the experiment of the user's process.

        Raises ``RequestError`` if an agent cannot be built here. Raises ``FailureError`` if this machine has a
        different version of the code, or sees a different archive, than the user's process.
        """
        storage = ArchiveOptions(
            parse_location(self.root), self.shard_games, self.shard_seconds, evaluations=self.evaluations
        )
        archive = ArchiveStore.open(storage.root)
        run = RunSpec.from_dict(self.run, archive)
        if archive.find_run(run.run_id) is None:
            raise FailureError(
                f"archive {storage.root} on {socket.gethostname()} does not have run {run.run_id}: all machines must "
                "see the same archive under the same path"
            )
        agents = [agent.build() for agent in run.agents]
        code = build_code_record(run, agents)
        if code["fingerprint"] != self.fingerprint:
            raise FailureError(
                f"the code on {socket.gethostname()} has fingerprint {code['fingerprint']}, and the run is played by "
                f"{self.fingerprint}: install the same version of the project and of your agents on all machines"
            )
        request = RunRequest(run, self.games, 1, storage, progress=False)
        return Experiment(request, build_engine(run, agents, self.keep_going, self.evaluations), archive, code)


@dataclass
class ChunkPlayer:
    """The object that plays chunks of an experiment in this process, on any number of threads."""

    experiment: Experiment
    remote: bool = False  # this process is a worker, not the one that the user started
    games: int = 0  # played so far
    pace: Pace = field(default_factory=Pace)
    writers: dict[RangeWriter, StopDeadline] = field(
        default_factory=dict
    )  # of chunks in progress, with their deadlines
    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        keep_freed_memory()
        if self.remote:  # otherwise the executor's calling thread writes while it is idle
            threading.Thread(target=self._write_due_and_close_overdue_periodically, daemon=True).start()

    def _write_due_and_close_overdue_periodically(self) -> None:
        """Write finished games now and then, and close chunks that were asked to stop but did not. This never returns.

        It runs in a thread of its own, so that it works even if a turn takes long or never ends.
        """
        while True:
            time.sleep(WATCH_SECONDS)
            with suppress(ArenaError):  # the chunk raises the same error once it ends
                self.write_if_due()
                self.close_writers_and_list_ranges(only_overdue=True)

    def play(self, chunk: Range, stop: StopSignal) -> ChunkResult:
        """Play a chunk and write its games. If ``stop`` is set or the chunk takes too long, play only its beginning."""
        total = self.experiment.unit_line.count_units_of_all_pairings(self.experiment.request.games)
        started, writer = time.perf_counter(), RangeWriter(self.experiment, chunk[0], total, self.begun)
        with self.lock:
            self.writers[writer] = StopDeadline(stop, GRACE_SECONDS + WATCH_SECONDS)
        try:
            with writer:
                reached = self._play_in_steps(chunk, stop, writer)
        finally:
            with self.lock:
                del self.writers[writer]
        engine = self.experiment.engine
        misbehaviour = tuple(engine.take_new_misbehaviour()) if self.remote else ()
        return ChunkResult(chunk, reached, tuple(writer.written), time.perf_counter() - started, misbehaviour)

    def _play_in_steps(self, chunk: Range, stop: StopSignal, writer: RangeWriter) -> int:
        """Play a chunk in steps of as many units as the pace allows; return the first unit that was not played."""
        line, seconds = self.experiment.unit_line, self.experiment.request.storage.shard_seconds
        (first, end), should_abort, chunk_started = chunk, StopDeadline(stop, GRACE_SECONDS), time.perf_counter()
        reached = first
        while reached < end and not stop.is_set():
            step = reached, min(end, reached + self.pace.next_unit_count(line.pairings))
            started = time.perf_counter()
            if not self._play_units_unless_aborted(step, should_abort, writer):
                break
            reached = step[1]
            now = time.perf_counter()
            seconds_per_unit = (now - started) / (step[1] - step[0])
            if (
                now - chunk_started > PATIENCE_SHARE * seconds
                and now - chunk_started + (end - reached) * seconds_per_unit > 2 * seconds
            ):
                units = power_of_two_units_within(seconds, seconds_per_unit)
                while units < reached - first:  # the smallest aligned range that holds the played units
                    units *= 2
                end = min(end, first + units)
        return reached

    def _play_units_unless_aborted(
        self, unit_range: Range, should_abort: Callable[[], bool], writer: RangeWriter
    ) -> bool:
        """Play all games of some units, add them to ``writer``, and return True.

        If ``should_abort()`` becomes true before the end, no game is kept, and False is returned.
        """
        blocks, games = [], 0
        for pair_range in list_pair_ranges(self.experiment.unit_line, *unit_range):
            block = self.experiment.engine.play_block(pair_range, should_abort)
            if block is None:
                return False
            self.pace.add_block_time(pair_range.pairing, pair_range.pairs, block.seconds)
            blocks.append(block)
            games += len(block.games.plies)
        writer.add(unit_range[1], blocks)
        with self.lock:
            self.games += games
        return True

    def write_if_due(self) -> None:
        """Write the finished games that have waited long enough, although their chunks are still being played."""
        with self.lock:
            writers = [*self.writers]
        for writer in writers:
            writer.write_if_full_or_overdue()

    def close_writers_and_list_ranges(self, only_overdue: bool = False) -> list[Range]:
        """Write the finished games of all chunks in progress, and return the ranges that were written for these chunks.

        Games of these chunks that finish later are ignored. With ``only_overdue``, this is done only for chunks that
        were asked to stop and have not ended in time.
        """
        with self.lock:
            writers = [writer for writer, is_overdue in self.writers.items() if is_overdue() or not only_overdue]
        for writer in writers:
            writer.close()
        return [unit_range for writer in writers for unit_range in writer.written]
