"""Carrying out a request: what is missing is mapped over an executor, and what is there then is the result.

A task plays a part, a range of units, writes its files, and says how far it came. That is all that goes back and forth.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol

from analytics.files.location import location_of
from analytics.results.pairings import PairingResult, results
from analytics.store.archive import Archive
from analytics.store.units import Range, merged, missing
from quarto.errors import FailureError
from runners.arena.code import code_of
from runners.arena.config import Request
from runners.arena.engine import Cut
from runners.arena.experiment import Experiment, contribute, engine_of, prepare
from runners.arena.range_writer import RangeWriter
from runners.arena.schedule import Pace, Parts, fitting, orders_of
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage
from runners.executors.base import Stop, Task
from runners.hosting.guarded_agent import Misbehaviour

MANY_FILES = 8  # of a run: then it is looked whether small ones become larger ones
PATIENCE = 0.25  # of the time that a part may take: before that is over, loading what is needed looks like slow turns


class Progress(Protocol):
    """Receives the number of games that have been played, to show it."""

    def start(self, games: int) -> None:
        """``games`` games are going to be played."""
        ...

    def advance(self, games: int) -> None:
        """``games`` more have been played."""
        ...

    def idle(self, turns: int) -> None:
        """No game has ended for a while; agents in Python have taken ``turns`` turns so far."""
        ...


class Silence:
    """Shows nothing."""

    def start(self, games: int) -> None:
        """Ignore it."""

    def advance(self, games: int) -> None:
        """Ignore it."""

    def idle(self, turns: int) -> None:
        """Ignore it."""


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


def execute(request: Request, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """``prepare`` and ``carry_out``."""
    return carry_out(prepare(request), command, stop, progress)


def carry_out(experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """Play what the archive lacks, and write it. Once ``stop`` is set, only what ends soon is finished.

    Raises ``FailureError`` when the disk refuses, workers are lost, or files vanish; what was written before is kept.
    """
    request, archive = experiment.request, experiment.archive
    with contribute(experiment, command) as contribution:
        left = experiment.missing(request.games)
        playing = Playing(experiment, progress or Silence())
        if left and not stop.is_set():
            playing.play(left, stop)
        contribution.games = playing.games
        _require_written(experiment, playing.written)
    left = experiment.missing(request.games)
    if not stop.is_set() and len(archive.ranges(experiment.run_id)) >= MANY_FILES:
        from analytics.upkeep.rolling import roll_up_small  # most runs do not need it

        roll_up_small(archive, experiment.run_id)
    return Outcome(
        run_id=experiment.run_id,
        results=results(archive, experiment.run_id),
        fingerprint=archive.ranges(experiment.run_id).fingerprint,
        played=contribution.games,
        seconds=contribution.seconds,
        interrupted=bool(left),
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.misbehaviour(),
    )


def _require_written(experiment: Experiment, written: Sequence[Range]) -> None:
    """Raise ``FailureError`` if units are not there that tasks wrote: somebody has removed files."""
    archive, run_id = experiment.archive, experiment.run_id
    if not written:
        return
    there = archive.ranges(run_id).covered if archive.run(run_id) is not None else []
    gone = [each for first, end in written for each in missing(there, end, first)]
    if gone:
        raise FailureError(
            f"units {gone[0][0]} to {gone[0][1] - 1} of run {run_id} were written to archive {archive.root} and are "
            "not there: somebody removes files while the run is played; once that ends, the same command plays them "
            "again (if the whole archive was removed, remove what is left of its folder first)"
        )


class Played(NamedTuple):
    """What came of a part."""

    part: Range
    reached: int  # the unit before which all units of the part were played
    written: tuple[Range, ...]
    seconds: float  # playing and writing
    misbehaviour: tuple[Misbehaviour, ...] = ()  # of each agent, in another process


class Playing:
    """The games that a run lacks, being played, in the process where that was asked for."""

    def __init__(self, experiment: Experiment, progress: Progress) -> None:
        self._experiment, self._progress = experiment, progress
        self._written: list[Range] = []
        self._shown = 0  # games
        self._task = task_of(experiment).having("player", PartPlayer(experiment))

    @property
    def written(self) -> list[Range]:
        """The units that were written, as few ranges as possible."""
        return merged(self._written)

    @property
    def games(self) -> int:
        """The number of games that were written."""
        return self._experiment.line.games_a_pair * sum(end - first for first, end in self.written)

    def play(self, left: Sequence[Range], stop: threading.Event) -> None:
        """Play units that the archive lacks. Raises what tasks raise; what is finished by then is written."""
        request, line = self._experiment.request, self._experiment.line
        executor, storage = request.executor, request.storage
        workers = executor.workers(request.threads)
        parts = Parts(
            left, line.end_of(request.games), storage.most_units(line.games_a_pair), workers, storage.shard_seconds
        )
        self._progress.start(line.games_a_pair * sum(end - first for first, end in left))
        try:
            for played in executor.map(self._task, parts, request.threads, stop, self._idle):
                parts.played(played.part, played.reached, played.seconds)
                self._take(played)
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._written += self._here.close()
            raise
        self._written += self._here.close()  # of turns that were given up

    @property
    def _here(self) -> PartPlayer:
        """What plays in this process, if threads do."""
        return self._task.player

    def _take(self, played: Played) -> None:
        self._written += played.written
        if played.misbehaviour:
            self._experiment.engine.add_misbehaviour(played.misbehaviour)
        self._show(self.games)

    def _idle(self) -> None:
        self._here.look()
        if not self._show(self._here.games):
            self._progress.idle(self._experiment.engine.turns)

    def _show(self, games: int) -> bool:
        """Show that so many games were played in all, if they are more than before."""
        if games <= self._shown:
            return False
        self._progress.advance(games - self._shown)
        self._shown = games
        return True


@dataclass(frozen=True)
class PlayTask(Task):
    """Plays parts of a run and writes them to the archive itself: ranges of units, (first, end)."""

    run: Mapping[str, Any]  # as ``RunSpec.as_plain`` describes it
    games: int  # of each pairing
    root: str  # of the archive
    shard_games: int
    shard_seconds: float
    fingerprint: str  # of the code

    def __call__(self, part: Range, stop: Stop) -> Played:
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
        storage = Storage(location_of(self.root), self.shard_games, self.shard_seconds)
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
        return Experiment(request, engine_of(run, agents), archive, code)


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
    )


@dataclass
class PartPlayer:
    """Plays parts of an experiment in this process, on any number of threads."""

    experiment: Experiment
    elsewhere: bool = False  # not where the run was asked for
    games: int = 0  # played so far
    pace: Pace = field(default_factory=Pace)
    writers: set[RangeWriter] = field(default_factory=set)  # of the parts in progress
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play(self, part: Range, stop: Stop) -> Played:
        """Play a part and write it; less of it once it is to stop, or if all would take too long."""
        total = self.experiment.line.end_of(self.experiment.request.games)
        started, writer = time.perf_counter(), self.experiment.writer(part[0], total)
        with self.lock:
            self.writers.add(writer)
        try:
            with writer:
                reached = self._play_chunks(part, stop, writer)
        finally:
            with self.lock:
                self.writers.discard(writer)
        engine = self.experiment.engine
        misbehaviour = tuple(engine.take_misbehaviour()) if self.elsewhere else ()
        return Played(part, reached, tuple(writer.written), time.perf_counter() - started, misbehaviour)

    def _play_chunks(self, part: Range, stop: Stop, writer: RangeWriter) -> int:
        """Play a part, as many units at a time as the pace allows; returns the unit before which it ended."""
        line, seconds = self.experiment.line, self.experiment.request.storage.shard_seconds
        (first, end), cut, begun = part, Cut(stop), time.perf_counter()
        reached = first
        while reached < end and not stop.is_set():
            chunk = reached, min(end, reached + self.pace.units(line))
            started = time.perf_counter()
            if not self._play_chunk(chunk, cut, writer):
                break
            reached = chunk[1]
            now = time.perf_counter()
            a_unit = (now - started) / (chunk[1] - chunk[0])
            if now - begun > PATIENCE * seconds and now - begun + (end - reached) * a_unit > 2 * seconds:
                end = _shortened(first, reached, end, fitting(seconds, a_unit))
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

    def close(self) -> list[Range]:
        """Write all that is finished, of parts that nobody waits for; returns what was written of these."""
        with self.lock:
            writers = [*self.writers]
        for writer in writers:
            writer.close()
        return [each for writer in writers for each in writer.written]


def _shortened(first: int, reached: int, end: int, units: int) -> int:
    """The end of a part in which only so many units, a power of two, fit: the least that makes one file."""
    while units < reached - first:
        units *= 2
    return min(end, first + units)
