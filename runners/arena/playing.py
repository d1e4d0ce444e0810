"""Carrying out a request: what is missing is mapped over an executor, and what is there then is the result.

A task plays a part, a range of units, writes its files, and says how far it came. That is all that goes back and forth.
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

from analytics.questions.pairings import PairingResult, results
from analytics.store.archive import Archive
from analytics.store.files.backend import location_of
from analytics.store.range_files import write_slices
from analytics.store.ranges import Range, UnitLine, merged, missing, parts
from quarto.errors import ArenaError, FailureError
from runners.arena.code import code_of
from runners.arena.engine import GRACE, MAX_PAIRS, Order, Pace
from runners.arena.executors.base import Late, Stop, Task
from runners.arena.experiment import Experiment, RangeWriter, contribute, engine_of, prepare
from runners.arena.progress import Progress
from runners.arena.request import Request
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveSettings
from runners.hosting.guarded_agent import Misbehaviour

MANY_FILES = 8  # of a run: then it is looked whether small ones become larger ones
LEAST_SECONDS = 1.0  # of work in a part, if there is so much
WATCH_SECONDS = 0.5  # in a worker: between two looks at what waits to be written
LISTING_SECONDS, LISTING_PAUSE = 30.0, 0.5  # that the listings of a store may be old; between two of them
PATIENCE = 0.25  # of the time that a part may take: before that is over, loading what is needed looks like slow turns


@dataclass(frozen=True)
class Outcome:
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


def execute(request: Request, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """``prepare`` and ``carry_out``."""
    return carry_out(prepare(request), command, stop, progress)


def carry_out(experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """Play what the archive lacks, and write it. Once ``stop`` is set, only what ends soon is finished.

    Raises ``FailureError`` when the disk refuses, workers are lost, files vanish, or an agent forfeits all its games;
    what was written before is kept.
    """
    request, archive, run_id = experiment.request, experiment.archive, experiment.run_id
    with contribute(experiment, command) as contribution:
        left = [*experiment.missing(request.games), *experiment.without_thoughts(request.games)]
        written = _play(experiment, left, stop, progress) if left and not stop.is_set() else []
        contribution.games = experiment.line.games_in(written)
        _require_written(experiment, written)
        write_slices(archive, run_id)
    experiment.engine.require_played()
    left = experiment.missing(request.games)
    again = experiment.without_thoughts(request.games)
    if not stop.is_set() and any(first < ended and begun < end for first, end in again for begun, ended in written):
        raise FailureError(
            f"games of run {run_id} went otherwise when they were played again, so what was thought in them is left "
            "out: the answers of an agent depend on more than the position and rng"
        )
    if not stop.is_set() and len(archive.ranges(run_id)) >= MANY_FILES:
        from analytics.tables.upkeep.rolling import roll_up_small  # most runs do not need it

        roll_up_small(archive, run_id)
    return Outcome(
        run_id=run_id,
        results=results(archive, run_id),
        fingerprint=archive.ranges(run_id).fingerprint,
        played=contribution.games,
        seconds=contribution.seconds,
        interrupted=bool(left or again),
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.misbehaviour(),
        mover_chooses=experiment.request.spec.rules.mover_chooses,
    )


def _play(
    experiment: Experiment, left: Sequence[Range], stop: threading.Event, progress: Progress | None
) -> list[Range]:
    """Play units that the archive lacks; returns those that were written, as few ranges as possible.

    Raises what tasks raise; what is finished by then is written.
    """
    request, line, written = experiment.request, experiment.line, list[Range]()
    task, shown = task_of(experiment), _Progress(progress)
    here = task.once("player", lambda: PartPlayer(experiment))  # it plays, if tasks run in this process
    most, seconds = request.storage.most_units(line.games_a_pair), request.storage.shard_seconds
    split = Parts(left, line.end_of(request.games), most, request.executor.workers(request.threads), seconds)
    shown.start(line.games_in(left))

    def idle() -> None:
        here.look()
        shown.reach(here.games, experiment.engine.turns)

    try:
        for found in request.executor.map(task, split, request.threads, stop, idle):
            split.played(found.part, found.reached, found.seconds)
            if found.misbehaviour:
                experiment.engine.add_misbehaviour(found.misbehaviour)
            written += found.written
            shown.reach(line.games_in(written))
    except KeyboardInterrupt:  # nothing more is to be written
        raise
    except BaseException:
        here.close()
        raise
    return merged([*written, *here.close()])  # also of turns that were given up


class _Progress:
    """The progress as somebody sees it, if anybody does."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._games = progress, 0

    def start(self, games: int) -> None:
        if self._progress:
            self._progress.start(games)

    def reach(self, games: int, turns: int | None = None) -> None:
        """So many games were played in all. If they are no more than before, ``turns`` say that agents play."""
        if self._progress and games > self._games:
            self._progress.advance(games - self._games)
            self._games = games
        elif self._progress and turns is not None:
            self._progress.idle(turns)


def _require_written(experiment: Experiment, written: Sequence[Range]) -> None:
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
    there = archive.ranges(run_id).covered if written and archive.run(run_id) is not None else []
    return [each for first, end in written for each in missing(there, end, first)]


class Parts:
    """The parts of what a run lacks, each of which becomes one file; the first units come first.

    Its end is not final: a task that finds that its part takes too long plays its beginning and gives back the rest.
    """

    def __init__(self, missing: Iterable[Range], total: int, most: int, workers: int, seconds: float) -> None:
        """``most``: units in a part; ``seconds``: that a part takes at most."""
        self._left = [*missing]
        heapq.heapify(self._left)
        self._total, self._most, self._workers, self._seconds = total, most, workers, seconds
        self._share = -(-self._units() // workers)
        self._a_unit: float | None = None  # seconds, once that is known

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Range:
        if not self._left:
            raise StopIteration
        first, end = self._left[0]
        part = next(parts(first, end, self._total, self._size()))
        if part[1] < end:
            heapq.heapreplace(self._left, (part[1], end))
        else:
            heapq.heappop(self._left)
        return part

    def played(self, part: Range, reached: int, seconds: float) -> None:
        """Take back what is left of a part that was played up to before ``reached`` in so many seconds."""
        if reached > part[0]:
            self._a_unit = max(seconds / (reached - part[0]), 1e-9)
        if reached < part[1]:
            heapq.heappush(self._left, (reached, part[1]))

    def _size(self) -> int:
        """The units in the next part: small enough for all to have work, and for the time that it may take."""
        if self._a_unit is None:
            return min(self._most, 1 << (self._share - 1).bit_length())
        share = self._units() // (2 * self._workers)  # so that the last ones end at about one time
        return max(
            1, min(self._most, fitting(self._seconds, self._a_unit), max(share, int(LEAST_SECONDS / self._a_unit)))
        )

    def _units(self) -> int:
        return sum(end - first for first, end in self._left)


def fitting(seconds: float, a_unit: float) -> int:
    """The units that play for so many seconds: a power of two."""
    return 1 << (max(1, int(min(seconds / max(a_unit, 1e-9), 1e12))).bit_length() - 1)


def orders_of(line: UnitLine, first: int, end: int) -> Iterator[Order]:
    """The pairs of each pairing in a range of units, in blocks of at most ``MAX_PAIRS``."""
    every = (
        range(line.pairings) if end - first >= line.pairings else sorted({u % line.pairings for u in range(first, end)})
    )
    for pairing in every:
        pair, end_pair = line.pairs(pairing, first, end)
        for start in range(pair, end_pair, MAX_PAIRS):
            yield Order(pairing, start, min(MAX_PAIRS, end_pair - start))


class PartResult(NamedTuple):
    """What came of a part."""

    part: Range
    reached: int  # the unit before which all units of the part were played
    written: tuple[Range, ...]
    seconds: float  # playing and writing
    misbehaviour: tuple[Misbehaviour, ...] = ()  # of each agent, in another process


@dataclass(frozen=True)
class PlayTask(Task):
    """Plays parts of a run and writes them to the archive itself: ranges of units, (first, end)."""

    run: Mapping[str, Any]  # as ``RunSpec.as_plain`` describes it
    games: int  # of each pairing
    root: str  # of the archive
    shard_games: int
    shard_seconds: float
    fingerprint: str  # of the code
    keep_going: bool
    thoughts: bool = False

    def __call__(self, part: Range, stop: Stop) -> PartResult:
        return self.player.play(part, stop)

    @property
    def player(self) -> PartPlayer:
        """What plays in this process."""
        return self.once("player", lambda: PartPlayer(self._experiment(), elsewhere=True))

    def _experiment(self) -> Experiment:
        """The experiment in a worker's process.

        Raises ``RequestError`` for an agent that cannot be made here; ``FailureError`` if this is not the place: it has
        another archive than the user's process, or other code.
        """
        storage = ArchiveSettings(location_of(self.root), self.shard_games, self.shard_seconds, thoughts=self.thoughts)
        archive = Archive.open(storage.root)
        run = RunSpec.from_plain(self.run, archive)
        if archive.run(run.run_id) is None:
            raise FailureError(
                f"archive {storage.root} on {socket.gethostname()} does not have run {run.run_id}: all machines must "
                "see the same archive under the same path"
            )
        agents = [agent.build() for agent in run.agents]
        code = code_of(run, agents)
        if code["fingerprint"] != self.fingerprint:
            raise FailureError(
                f"the code on {socket.gethostname()} has fingerprint {code['fingerprint']}, and the run is played by "
                f"{self.fingerprint}: install the same version of the project and of your agents on all machines"
            )
        request = Request(run, self.games, 1, storage, progress=False)
        return Experiment(request, engine_of(run, agents, self.keep_going, self.thoughts), archive, code)


def task_of(experiment: Experiment) -> PlayTask:
    """The task that plays parts of an experiment."""
    request, storage = experiment.request, experiment.request.storage
    return PlayTask(
        run=request.spec.as_plain(),
        games=request.games,
        root=str(storage.root),
        shard_games=storage.shard_games,
        shard_seconds=storage.shard_seconds,
        fingerprint=experiment.code["fingerprint"],
        keep_going=request.keep_going,
        thoughts=storage.thoughts,
    )


@dataclass
class PartPlayer:
    """Plays parts of an experiment in this process, on any number of threads."""

    experiment: Experiment
    elsewhere: bool = False  # not where the run was asked for
    games: int = 0  # played so far
    pace: Pace = field(default_factory=Pace)
    writers: dict[RangeWriter, Late] = field(default_factory=dict)  # of the parts in progress; whether one is overdue
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.elsewhere:  # the calling thread of the executor is in another process
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Write what is finished, although a turn takes long or never ends."""
        while True:
            time.sleep(WATCH_SECONDS)
            with suppress(ArenaError):  # which the part itself raises once it ends
                self.look()
                self.close(only_late=True)

    def play(self, part: Range, stop: Stop) -> PartResult:
        """Play a part and write it; less of it once it is to stop, or if all would take too long."""
        total = self.experiment.line.end_of(self.experiment.request.games)
        started, writer = time.perf_counter(), RangeWriter(self.experiment, part[0], total)
        with self.lock:
            self.writers[writer] = Late(stop, GRACE + WATCH_SECONDS)
        try:
            with writer:
                reached = self._play_chunks(part, stop, writer)
        finally:
            with self.lock:
                del self.writers[writer]
        engine = self.experiment.engine
        misbehaviour = tuple(engine.take_misbehaviour()) if self.elsewhere else ()
        return PartResult(part, reached, tuple(writer.written), time.perf_counter() - started, misbehaviour)

    def _play_chunks(self, part: Range, stop: Stop, writer: RangeWriter) -> int:
        """Play a part, as many units at a time as the pace allows; returns the unit before which it ended."""
        line, seconds = self.experiment.line, self.experiment.request.storage.shard_seconds
        (first, end), cut, begun = part, Late(stop, GRACE), time.perf_counter()
        reached = first
        while reached < end and not stop.is_set():
            chunk = reached, min(end, reached + self.pace.units(line.pairings))
            started = time.perf_counter()
            if not self._play_chunk(chunk, cut, writer):
                break
            reached = chunk[1]
            now = time.perf_counter()
            a_unit = (now - started) / (chunk[1] - chunk[0])
            if now - begun > PATIENCE * seconds and now - begun + (end - reached) * a_unit > 2 * seconds:
                units = fitting(seconds, a_unit)
                while units < reached - first:  # the least that makes one file
                    units *= 2
                end = min(end, first + units)
        return reached

    def _play_chunk(self, chunk: Range, cut: Callable[[], bool], writer: RangeWriter) -> bool:
        """Play a few units, all their games or none; false if that was cut."""
        blocks, games = [], 0
        for order in orders_of(self.experiment.line, *chunk):
            played = self.experiment.engine.play_block(order, cut)
            if played is None:
                return False
            self.pace.update(order.pairing, order.pairs, played.seconds)
            blocks.append(played.block)
            games += len(played.block.games.plies)
        writer.add(chunk[1], blocks)
        with self.lock:
            self.games += games
        return True

    def look(self) -> None:
        """Write what has waited long enough; a thread whose turn takes long cannot."""
        with self.lock:
            writers = [*self.writers]
        for writer in writers:
            writer.look()

    def close(self, only_late: bool = False) -> list[Range]:
        """Write all that is finished of parts that nobody waits for; returns what was written of these.

        ``only_late``: of those that should have ended, as they were asked to.
        """
        with self.lock:
            writers = [writer for writer, late in self.writers.items() if late() or not only_late]
        for writer in writers:
            writer.close()
        return [each for writer in writers for each in writer.written]
