"""Carrying out a request: play what the archive lacks, write it shard by shard, say what came out."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from msgspec import structs

from analytics.query.results import PairingResult, results
from analytics.store.archive import Archive, readable
from analytics.store.records import Commit, RunRecord
from quarto.batch import Block
from quarto.errors import ArenaError, RequestError
from runners.arena.config import Request
from runners.arena.engine import Engine, Order
from runners.arena.schedule import Pace, missing, orders
from runners.arena.spec import RunSpec, code_of

Left = dict[int, list[tuple[int, int]]]  # ranges of pairs by pairing


class Progress(Protocol):
    """Somebody who wants to know how far it is."""

    def start(self, games: int) -> None:
        """So many games are going to be played."""
        ...

    def advance(self, games: int) -> None:
        """So many more have been played."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a request came to."""

    run_id: str
    results: Sequence[PairingResult]
    played: int  # games in this session
    seconds: float  # playing and writing them
    interrupted: bool  # games are missing
    stopped: bool  # somebody asked to stop
    root: Path  # of the archive


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets (in the main thread only); a second Ctrl-C is a ``KeyboardInterrupt``."""
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        sys.stderr.write("finishing what is in flight; Ctrl-C again drops it\n")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class ShardWriter:
    """Gathers blocks into shards and commits each while the next one is being played: at most two are in memory."""

    def __init__(self, archive: Archive, run_id: str, request: Request) -> None:
        self.committed = 0  # games
        self._archive = archive
        self._run_id = run_id
        self._request = request
        self._blocks: list[Block] = []
        self._games = 0
        self._since = time.monotonic()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._writing: Future[Commit | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._pool.shutdown()

    def add(self, block: Block) -> None:
        """Take a block; commits a shard when there are enough games, or enough time has passed."""
        self._blocks.append(block)
        self._games += len(block.games.plies)
        waited = time.monotonic() - self._since
        if self._games >= self._request.shard_games or waited >= self._request.shard_seconds:
            self._submit()

    def flush(self) -> None:
        """Commit what there is and wait for it. Raises what the archive raised."""
        if self._blocks:
            self._submit()
        self._settle()

    def _submit(self) -> None:
        self._settle()
        blocks, self._blocks, self._games, self._since = self._blocks, [], 0, time.monotonic()
        self._writing = self._pool.submit(self._archive.commit, self._run_id, blocks, self._request.spec.labels)

    def _settle(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            commit = writing.result()
            if commit is not None:
                self.committed += commit.games.rows


@dataclass(frozen=True)
class Experiment:
    """A request that can be carried out: its agents are made, its archive is open, its code may extend the run."""

    request: Request
    engine: Engine
    archive: Archive
    code: dict[str, str]

    @property
    def run_id(self) -> str:
        return self.request.spec.run_id

    def left(self, games: int) -> Left:
        """The pairs of each pairing that the archive lacks of so many games."""
        return left(self.archive, self.request.spec, games)

    def games_left(self, games: int) -> int:
        """How many games of all pairings those are."""
        return games_left(self.archive, self.request.spec, games)


def prepare(request: Request) -> Experiment:
    """Make the agents and open the archive, creating it if need be; no run is touched.

    Raises ``RequestError`` for an agent that refuses, a folder that is no archive, or a run begun by other code.
    """
    engine = engine_of(request.spec)  # before the archive is touched
    code = code_of(request.spec)
    if request.other_code == "new":
        request = replace(request, spec=replace(request.spec, salt=code["fingerprint"]))
    experiment = Experiment(request, engine, Archive.open(request.root, create=True), code)
    refuse_other_code(experiment)
    return experiment


def refuse_other_code(experiment: Experiment) -> None:
    """Raises ``RequestError`` if games are missing in a run that other code has begun, unless that was asked for."""
    request, code = experiment.request, experiment.code
    known = experiment.archive.run(experiment.run_id)
    other = known is not None and readable(known).code.get("fingerprint") != code["fingerprint"]
    if known and other and request.other_code == "refuse" and experiment.games_left(request.games):
        theirs, ours = (f"{each.get('version')}, {each.get('fingerprint')}" for each in (known.code, code))
        raise RequestError(
            f"run {known.run_id} was begun by other code ({theirs}; this is {ours}): archive.other_code=extend "
            "adds to it all the same, archive.other_code=new plays it anew beside it"
        )


def execute(request: Request, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """``prepare`` and ``carry_out``."""
    return carry_out(prepare(request), command, stop, progress)


def carry_out(experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """Play what the archive lacks and commit it; ``stop`` ends it after the blocks in flight.

    Raises ``FailureError`` when the disk refuses; what was committed before is kept.
    """
    with session(experiment, command) as spent:
        spent.played = _play(experiment, stop, progress)
    run_id, root = experiment.run_id, experiment.request.root
    interrupted = experiment.games_left(experiment.request.games) > 0
    return Outcome(
        run_id, results(experiment.archive, run_id), spent.played, spent.seconds, interrupted, stop.is_set(), root
    )


@dataclass
class Session:
    """What has been done for a run by now."""

    played: int = 0  # games that were committed
    seconds: float = 0.0  # known at the end


@contextmanager
def session(experiment: Experiment, command: str) -> Iterator[Session]:
    """Whoever plays for a run inside says in the yielded value what was committed; the run's record is kept true."""
    archive, spec = experiment.archive, experiment.request.spec
    begin(archive, spec, experiment.code, experiment.request.games, command)
    spent, started = Session(), time.perf_counter()
    try:
        yield spent
    except BaseException:
        with suppress(ArenaError):  # the reason for stopping is what the user should read
            end(archive, spec, time.perf_counter() - started)
        raise
    spent.seconds = time.perf_counter() - started
    end(archive, spec, spent.seconds if spent.played else 0.0)


def engine_of(spec: RunSpec) -> Engine:
    """The engine of a run. Raises ``RequestError`` for an agent that cannot be made or does not play these rules."""
    return Engine(
        spec.rules,
        [agent.build() for agent in spec.agents],
        [agent.label for agent in spec.agents],
        spec.pairings,
        spec.seed,
        spec.opening_plies,
        spec.seats == "swapped",
    )


def left(archive: Archive, spec: RunSpec, games: int) -> Left:
    """The pairs of each pairing of a run that the archive lacks of so many games."""
    covered = archive.covered(spec.run_id)
    return {
        pairing: missing(games // spec.games_a_pair, covered.get(pairing, [])) for pairing in range(len(spec.pairings))
    }


def games_left(archive: Archive, spec: RunSpec, games: int) -> int:
    """How many games of all pairings those are."""
    ranges = (each for pairing in left(archive, spec, games).values() for each in pairing)
    return spec.games_a_pair * sum(end - first for first, end in ranges)


def begin(archive: Archive, spec: RunSpec, code: dict[str, str], games: int, command: str) -> None:
    """Make the record of a run of so many games, or bring it up to date: another process may have just done so."""
    known = archive.run(spec.run_id)
    if known is None:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        archive.save_run(RunRecord(spec.run_id, spec.as_mapping(), code, games, created, command=command))
    elif games > known.games:
        archive.save_run(structs.replace(known, games=games, command=command, status="running"))
    elif games_left(archive, spec, games):
        archive.save_run(structs.replace(known, status="running"))


def end(archive: Archive, spec: RunSpec, seconds: float) -> None:
    """Note in a run's record what it has come to, and ``seconds`` more of playing."""
    known = archive.run(spec.run_id)
    if known is None:
        return
    status = "interrupted" if games_left(archive, spec, known.games) else "complete"
    if seconds or known.status != status:
        archive.save_run(structs.replace(known, status=status, seconds=known.seconds + seconds))


def _play(experiment: Experiment, stop: threading.Event, progress: Progress | None) -> int:
    """Play and commit until nothing is missing or ``stop`` is set; returns the number of games committed here."""
    request = experiment.request
    games = experiment.games_left(request.games)
    if progress and games:
        progress.start(games)
    committed, pace = 0, Pace()
    # More than once only if another process was faster with some games: our shards that hold any of those are dropped.
    while games and not stop.is_set():
        source = orders(experiment.left(request.games), pace)
        with ShardWriter(experiment.archive, experiment.run_id, request) as writer:
            for block, seconds in experiment.engine.play(_until(stop, source), request.threads):
                pace.took(block.pairing, block.pairs, seconds)
                writer.add(block)
                if progress:
                    progress.advance(len(block.games.plies))
        committed += writer.committed
        games = experiment.games_left(request.games)
    return committed


def _until(stop: threading.Event, source: Iterator[Order]) -> Iterator[Order]:
    """``source`` as long as nobody has asked to stop."""
    for order in source:
        if stop.is_set():
            return
        yield order
