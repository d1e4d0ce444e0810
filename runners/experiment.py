"""Carrying out a request: play what the archive lacks, write it shard by shard, say what came out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from analytics.archive import Archive
from analytics.records import Commit, RunRecord
from analytics.results import PairingResult, results
from quarto.batch import Block
from quarto.errors import RequestError
from runners.config import Request
from runners.engine import Engine, Order
from runners.schedule import Pace, missing, orders
from runners.spec import RunSpec, code_of


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
    interrupted: bool
    root: Path  # of the archive


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets (in the main thread only); a second Ctrl-C is a ``KeyboardInterrupt``."""
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

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
        self._games += 2 * block.pairs
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
                self.committed += 2 * sum(part.pairs for part in commit.slices)


def execute(request: Request, command: str, stop: threading.Event, progress: Progress | None = None) -> Outcome:
    """Play what the archive lacks of ``request`` and commit it; ``stop`` ends it after the blocks in flight.

    Raises ``RequestError`` before anything is written, ``FailureError`` when the disk refuses.
    """
    engine = engine_of(request.spec)  # before the archive is touched: agents may refuse
    archive = Archive.open(request.root, create=True)
    request, record = _record(archive, request, command)
    started = time.perf_counter()
    committed = _play(engine, archive, request, record, stop, progress)
    seconds = time.perf_counter() - started
    interrupted = games_in(left_to_play(archive, request, record.run_id)) > 0
    whole = replace(request, games=record.games)  # an earlier request may have been for more
    status = "interrupted" if games_in(left_to_play(archive, whole, record.run_id)) else "complete"
    stored = archive.run(record.run_id)
    if committed or stored is None or stored.status != status:
        archive.save_run(replace(record, status=status, seconds=record.seconds + seconds))
    return Outcome(record.run_id, results(archive, record.run_id), committed, seconds, interrupted, request.root)


def engine_of(spec: RunSpec) -> Engine:
    """The engine of a run. Raises ``RequestError`` for an agent that cannot be made or does not play these rules."""
    return Engine(
        spec.rules,
        [agent.build() for agent in spec.agents],
        [agent.label for agent in spec.agents],
        spec.pairings,
        spec.seed,
        spec.opening_plies,
    )


def left_to_play(archive: Archive, request: Request, run_id: str) -> dict[int, list[tuple[int, int]]]:
    """The pairs of each pairing that the archive lacks."""
    covered = archive.covered(run_id)
    return {
        pairing: missing(request.games // 2, covered.get(pairing, [])) for pairing in range(len(request.spec.pairings))
    }


def games_in(left: dict[int, list[tuple[int, int]]]) -> int:
    """How many games such ranges of pairs are."""
    return 2 * sum(end - first for ranges in left.values() for first, end in ranges)


def _record(archive: Archive, request: Request, command: str) -> tuple[Request, RunRecord]:
    """The run's record, made or brought up to date; the request is changed if the run gets an id of its own."""
    code = code_of(request.spec)
    if request.other_code == "new":
        request = replace(request, spec=replace(request.spec, salt=code["fingerprint"]))
    run_id = request.spec.run_id
    known = archive.run(run_id)
    if known is None:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        known = RunRecord(run_id, request.spec.as_mapping(), code, request.games, created, command=command)
        archive.save_run(known)
        return request, known
    other = known.code.get("fingerprint") != code["fingerprint"]
    if other and request.other_code == "refuse" and games_in(left_to_play(archive, request, run_id)):
        raise RequestError(
            f"run {run_id} was begun by other code ({known.code.get('version')}, {known.code.get('fingerprint')}; "
            f"this is {code['version']}, {code['fingerprint']}): archive.other_code=extend adds to it all the same, "
            "archive.other_code=new plays it anew beside it"
        )
    if request.games > known.games:
        known = replace(known, games=request.games, command=command)
    return request, known


def _play(
    engine: Engine,
    archive: Archive,
    request: Request,
    record: RunRecord,
    stop: threading.Event,
    progress: Progress | None,
) -> int:
    """Play and commit until nothing is missing or ``stop`` is set; returns the number of games committed here."""
    left = left_to_play(archive, request, record.run_id)
    if not games_in(left):
        return 0
    archive.save_run(replace(record, status="running"))
    if progress:
        progress.start(games_in(left))
    committed, pace = 0, Pace()
    # More than once only if another process was faster with some games: our shards that hold any of those are dropped.
    while games_in(left) and not stop.is_set():
        with ShardWriter(archive, record.run_id, request) as writer:
            for block, seconds in engine.play(_until(stop, orders(left, pace)), request.threads):
                pace.took(block.pairing, block.pairs, seconds)
                writer.add(block)
                if progress:
                    progress.advance(2 * block.pairs)
        committed += writer.committed
        left = left_to_play(archive, request, record.run_id)
    return committed


def _until(stop: threading.Event, source: Iterator[Order]) -> Iterator[Order]:
    """``source`` as long as nobody has asked to stop."""
    for order in source:
        if stop.is_set():
            return
        yield order
