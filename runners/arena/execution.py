"""Carrying out a request: what is missing is mapped over an executor, and what is there then is the result.

A task plays a chunk, which is a range of units, writes its files, and says how far it came. Nothing else goes back and
forth.
"""

from __future__ import annotations

import heapq
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Self

from analytics.questions.pairings import PairingResult, load_results
from analytics.store.archive import Archive
from analytics.store.files.backend import parse_location
from analytics.store.range_files import write_slices
from analytics.store.ranges import Range, UnitLine, list_gaps, merge_ranges, split_into_files
from quarto.errors import ArenaError, FailureError
from runners.arena.batch_engine import GRACE_SECONDS, MAX_BLOCK_PAIRS, Pace, PairRange
from runners.arena.code_fingerprints import build_code_record
from runners.arena.executors.base import StopDeadline, StopSignal, Task
from runners.arena.experiment import Experiment, RangeWriter, build_engine, prepare_experiment, record_contribution
from runners.arena.progress import Progress
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions
from runners.hosting.guarded_agent import Misbehaviour

MANY_FILES_TO_COMPACT = 8  # of a run: then it is looked whether small ones become larger ones
MIN_CHUNK_SECONDS = 1.0  # of work in a chunk, if there is so much
WATCH_SECONDS = 0.5  # in a worker: between two looks at what waits to be written
LISTING_SECONDS, LISTING_PAUSE = 30.0, 0.5  # that the listings of a store may be old; between two of them
# Of the time that a chunk may take: before that is over, loading what is needed looks like slow turns.
PATIENCE_SHARE = 0.25


@dataclass(frozen=True)
class RunOutcome:
    """The result of carrying out a request."""

    run_id: str
    results: Sequence[PairingResult]
    fingerprint: int  # of all games of the run, uint64
    played: int  # games, by this process and its workers
    seconds: float  # playing and writing them
    interrupted: bool  # games are still missing
    stopped: bool  # because the user asked to
    root: PurePath  # of the archive
    misbehaviour: Sequence[str] = ()  # a line for each way in which an agent forfeited these games
    mover_chooses: bool = False  # the piece, by the rules


def execute_request(
    request: RunRequest, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """``prepare_experiment`` and ``execute_experiment``."""
    return execute_experiment(prepare_experiment(request), command, stop, progress)


def execute_experiment(
    experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """Play what the archive lacks, and write it. Once ``stop`` is set, only what ends soon is finished.

    Raises ``FailureError`` when the disk refuses, workers are lost, files vanish, or an agent forfeits all its games;
    what was written before is kept.
    """
    request, archive, run_id = experiment.request, experiment.archive, experiment.run_id
    with record_contribution(experiment, command) as contribution:
        left = [*experiment.missing_units(request.games), *experiment.units_missing_evaluations(request.games)]
        written = _play_missing_units(experiment, left, stop, progress) if left and not stop.is_set() else []
        contribution.games = experiment.unit_line.count_games(written)
        _check_written(experiment, written)
        write_slices(archive, run_id)
    experiment.engine.check_forfeits()
    left = experiment.missing_units(request.games)
    again = experiment.units_missing_evaluations(request.games)
    if not stop.is_set() and any(first < ended and begun < end for first, end in again for begun, ended in written):
        raise FailureError(
            f"games of run {run_id} went otherwise when they were played again, so their evaluations are left "
            "out: the answers of an agent depend on more than the position and rng"
        )
    if not stop.is_set() and len(archive.list_effective_ranges(run_id)) >= MANY_FILES_TO_COMPACT:
        from analytics.tables.upkeep.compaction import compact_small_files  # most runs do not need it

        compact_small_files(archive, run_id)
    return RunOutcome(
        run_id=run_id,
        results=load_results(archive, run_id),
        fingerprint=archive.list_effective_ranges(run_id).fingerprint,
        played=contribution.games,
        seconds=contribution.seconds,
        interrupted=bool(left or again),
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.describe_misbehaviour(),
        mover_chooses=experiment.request.spec.rules.mover_chooses,
    )


def _play_missing_units(
    experiment: Experiment, left: Sequence[Range], stop: threading.Event, progress: Progress | None
) -> list[Range]:
    """Play units that the archive lacks; returns those that were written, as few ranges as possible.

    Raises what tasks raise; what is finished by then is written.
    """
    request, line, written = experiment.request, experiment.unit_line, list[Range]()
    task, shown = PlayTask.from_experiment(experiment), _ProgressReporter(progress)
    here = task.build_once("player", lambda: ChunkPlayer(experiment))  # it plays, if tasks run in this process
    most, seconds = request.storage.most_units_per_file(line.games_a_pair), request.storage.shard_seconds
    workers = request.executor.count_workers(request.threads)
    queue = ChunkQueue(left, line.count_units(request.games), most, workers, seconds)
    shown.start(line.count_games(left))

    def idle() -> None:
        here.write_if_due()
        shown.report_games(here.games, experiment.engine.turns)

    try:
        for result in request.executor.map(task, queue, request.threads, stop, idle):
            queue.put_back_rest(result)
            if result.misbehaviour:
                experiment.engine.add_misbehaviour(result.misbehaviour)
            written += result.written
            shown.report_games(line.count_games(written))
    except KeyboardInterrupt:  # nothing more is to be written
        raise
    except BaseException:
        here.close()
        raise
    return merge_ranges([*written, *here.close()])  # also of turns that were given up


class _ProgressReporter:
    """The progress as somebody sees it, if anybody does."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._games = progress, 0

    def start(self, games: int) -> None:
        if self._progress:
            self._progress.start(games)

    def report_games(self, games: int, turns: int | None = None) -> None:
        """So many games were played in all. If they are no more than before, ``turns`` say that agents play."""
        if self._progress and games > self._games:
            self._progress.advance(games - self._games)
            self._games = games
        elif self._progress and turns is not None:
            self._progress.report_turns(turns)


def _check_written(experiment: Experiment, written: Sequence[Range]) -> None:
    """Raise ``FailureError`` if units are not there that tasks wrote: somebody has removed files.

    A store may list an object only seconds after it was written, so there it is waited for.
    """
    archive, run_id = experiment.archive, experiment.run_id
    until = time.monotonic() + (0.0 if isinstance(archive.root, Path) else LISTING_SECONDS)
    while gone := _find_unlisted(archive, run_id, written):
        if time.monotonic() < until:
            time.sleep(LISTING_PAUSE)
            continue
        raise FailureError(
            f"units {gone[0][0]} to {gone[0][1] - 1} of run {run_id} were written to archive {archive.root} and are "
            "not there: somebody removes files while the run is played; once that ends, the same command plays them "
            "again (if the whole archive was removed, remove what is left of its folder first)"
        )


def _find_unlisted(archive: Archive, run_id: str, written: Sequence[Range]) -> list[Range]:
    """Return the units that were written and that no listed file has."""
    there = (
        archive.list_effective_ranges(run_id).covered_ranges if written and archive.find_run(run_id) is not None else []
    )
    return [each for first, end in written for each in list_gaps(there, end, first)]


class ChunkQueue:
    """Yields what a run lacks in chunks, each of which becomes one file; the first units come first.

    Its end is not final: a task that finds that its chunk takes too long plays its beginning and gives back the rest.
    """

    def __init__(self, missing: Iterable[Range], total: int, most: int, workers: int, seconds: float) -> None:
        """``most``: units in a chunk; ``seconds``: that a chunk takes at most."""
        self._left = [*missing]
        heapq.heapify(self._left)
        self._total, self._most, self._workers, self._seconds = total, most, workers, seconds
        self._share = -(-self._count_units() // workers)
        self._a_unit: float | None = None  # seconds, once that is known

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Range:
        if not self._left:
            raise StopIteration
        first, end = self._left[0]
        chunk = next(split_into_files(first, end, self._total, self._compute_chunk_size()))
        if chunk[1] < end:
            heapq.heapreplace(self._left, (chunk[1], end))
        else:
            heapq.heappop(self._left)
        return chunk

    def put_back_rest(self, result: ChunkResult) -> None:
        """Requeue the unplayed rest of a chunk, and update the pace."""
        (first, end), reached = result.chunk, result.reached
        if reached > first:
            self._a_unit = max(result.seconds / (reached - first), 1e-9)
        if reached < end:
            heapq.heappush(self._left, (reached, end))

    def _compute_chunk_size(self) -> int:
        """Return the units of the next chunk: few enough for all workers to have some, and for its time."""
        if self._a_unit is None:
            return min(self._most, 1 << (self._share - 1).bit_length())
        share = self._count_units() // (2 * self._workers)  # so that the last ones end at about one time
        least = int(MIN_CHUNK_SECONDS / self._a_unit)
        return max(1, min(self._most, units_within(self._seconds, self._a_unit), max(share, least)))

    def _count_units(self) -> int:
        return sum(end - first for first, end in self._left)


def units_within(seconds: float, a_unit: float) -> int:
    """The units that play for so many seconds: a power of two."""
    return 1 << (max(1, int(min(seconds / max(a_unit, 1e-9), 1e12))).bit_length() - 1)


def list_pair_ranges(line: UnitLine, first: int, end: int) -> Iterator[PairRange]:
    """Yield the pairs of each pairing in a range of units, at most ``MAX_BLOCK_PAIRS`` at a time."""
    has_all = end - first >= line.pairings
    for pairing in range(line.pairings) if has_all else sorted({unit % line.pairings for unit in range(first, end)}):
        pair, end_pair = line.pair_range(pairing, first, end)
        for start in range(pair, end_pair, MAX_BLOCK_PAIRS):
            yield PairRange(pairing, start, min(MAX_BLOCK_PAIRS, end_pair - start))


class ChunkResult(NamedTuple):
    """What a task did of its chunk."""

    chunk: Range
    reached: int  # the unit before which all units of the chunk were played
    written: tuple[Range, ...]
    seconds: float  # playing and writing
    misbehaviour: tuple[Misbehaviour, ...] = ()  # of each agent, in another process


@dataclass(frozen=True)
class PlayTask(Task):
    """Plays chunks of a run, ranges (first, end) of units, and writes them to the archive itself."""

    run: Mapping[str, Any]  # as ``RunSpec.to_dict`` describes it
    games: int  # of each pairing
    root: str  # of the archive
    shard_games: int
    shard_seconds: float
    fingerprint: str  # of the code
    keep_going: bool
    evaluations: bool = False

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> PlayTask:
        """Return the task that plays chunks of an experiment."""
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

    def __call__(self, chunk: Range, stop: StopSignal) -> ChunkResult:
        return self.chunk_player.play(chunk, stop)

    @property
    def chunk_player(self) -> ChunkPlayer:
        """What plays in this process."""
        return self.build_once("player", lambda: ChunkPlayer(self._build_experiment(), remote=True))

    def _build_experiment(self) -> Experiment:
        """The experiment in a worker's process.

        Raises ``RequestError`` for an agent that cannot be made here; ``FailureError`` if this is not the place: it has
        another archive than the user's process, or other code.
        """
        storage = ArchiveOptions(
            parse_location(self.root), self.shard_games, self.shard_seconds, evaluations=self.evaluations
        )
        archive = Archive.open(storage.root)
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
    """Plays chunks of an experiment in this process, on any number of threads."""

    experiment: Experiment
    remote: bool = False  # not where the run was asked for
    games: int = 0  # played so far
    pace: Pace = field(default_factory=Pace)
    writers: dict[RangeWriter, StopDeadline] = field(default_factory=dict)  # of chunks in progress; is one overdue?
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.remote:  # the calling thread of the executor is in another process
            threading.Thread(target=self._write_periodically, daemon=True).start()

    def _write_periodically(self) -> None:
        """Write what is finished, although a turn takes long or never ends."""
        while True:
            time.sleep(WATCH_SECONDS)
            with suppress(ArenaError):  # which the chunk itself raises once it ends
                self.write_if_due()
                self.close(only_late=True)

    def play(self, chunk: Range, stop: StopSignal) -> ChunkResult:
        """Play a chunk and write it; less of it once it is to stop, or if all would take too long."""
        total = self.experiment.unit_line.count_units(self.experiment.request.games)
        started, writer = time.perf_counter(), RangeWriter(self.experiment, chunk[0], total)
        with self.lock:
            self.writers[writer] = StopDeadline(stop, GRACE_SECONDS + WATCH_SECONDS)
        try:
            with writer:
                reached = self._play_in_steps(chunk, stop, writer)
        finally:
            with self.lock:
                del self.writers[writer]
        engine = self.experiment.engine
        misbehaviour = tuple(engine.take_misbehaviour()) if self.remote else ()
        return ChunkResult(chunk, reached, tuple(writer.written), time.perf_counter() - started, misbehaviour)

    def _play_in_steps(self, chunk: Range, stop: StopSignal, writer: RangeWriter) -> int:
        """Play a chunk, as many units at a time as the pace allows; return the unit before which it ended."""
        line, seconds = self.experiment.unit_line, self.experiment.request.storage.shard_seconds
        (first, end), cut, begun = chunk, StopDeadline(stop, GRACE_SECONDS), time.perf_counter()
        reached = first
        while reached < end and not stop.is_set():
            step = reached, min(end, reached + self.pace.next_unit_count(line.pairings))
            started = time.perf_counter()
            if not self._play_units(step, cut, writer):
                break
            reached = step[1]
            now = time.perf_counter()
            a_unit = (now - started) / (step[1] - step[0])
            if now - begun > PATIENCE_SHARE * seconds and now - begun + (end - reached) * a_unit > 2 * seconds:
                units = units_within(seconds, a_unit)
                while units < reached - first:  # the least that makes one file
                    units *= 2
                end = min(end, first + units)
        return reached

    def _play_units(self, units: Range, cut: Callable[[], bool], writer: RangeWriter) -> bool:
        """Play a few units, all their games or none; false if that was cut."""
        blocks, games = [], 0
        for pair_range in list_pair_ranges(self.experiment.unit_line, *units):
            block = self.experiment.engine.play_block(pair_range, cut)
            if block is None:
                return False
            self.pace.update(pair_range.pairing, pair_range.pairs, block.seconds)
            blocks.append(block)
            games += len(block.games.plies)
        writer.add(units[1], blocks)
        with self.lock:
            self.games += games
        return True

    def write_if_due(self) -> None:
        """Write what has waited long enough; a thread whose turn takes long cannot."""
        with self.lock:
            writers = [*self.writers]
        for writer in writers:
            writer.write_if_due()

    def close(self, only_late: bool = False) -> list[Range]:
        """Write all that is finished of chunks that nobody waits for; return what was written of these.

        ``only_late``: of those that should have ended, as they were asked to.
        """
        with self.lock:
            writers = [writer for writer, late in self.writers.items() if late() or not only_late]
        for writer in writers:
            writer.close()
        return [each for writer in writers for each in writer.written]
