"""Carrying out a request: play the games that the archive lacks, store them shard by shard, return the results."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import Any, Protocol

from analytics.files.location import location_of
from analytics.results.pairings import PairingResult, results
from analytics.store.archive import Archive
from quarto.errors import FailureError
from runners.arena.code import code_of
from runners.arena.config import Request
from runners.arena.experiment import Experiment, Left, contribute, engine_of, prepare
from runners.arena.schedule import Pace, orders, overlap, parts
from runners.arena.shard_writer import ShardWriter
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage
from runners.executors.base import Tell

PARTS_A_WORKER = 4  # at least: so that the last ones are done at about the same time


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
    """Play what the archive lacks and commit it. Once ``stop`` is set, only the blocks in progress are finished.

    Raises ``FailureError`` when the disk refuses, or workers are lost; what was committed before is kept.
    """
    request = experiment.request
    with contribute(experiment, command) as contribution:
        games = experiment.games_left(request.games)
        if progress and games:
            progress.start(games)
        # Repeated only if another process committed some games first: the archive drops our shards that hold any.
        while games and not stop.is_set():
            playing = Playing(experiment, experiment.left(request.games), progress or Silence())
            request.executor.carry_out(playing, request.threads, stop)
            contribution.games += playing.committed
            games = experiment.games_left(request.games)
    return Outcome(
        run_id=experiment.run_id,
        results=results(experiment.archive, experiment.run_id),
        played=contribution.games,
        seconds=contribution.seconds,
        interrupted=experiment.games_left(request.games) > 0,
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.misbehaviour(),
    )


class Playing:
    """The games that a run lacks, to be played and committed: work for an executor."""

    worker = "runners.arena.playing:RunWorker"

    def __init__(self, experiment: Experiment, left: Left, progress: Progress) -> None:
        self.committed = 0  # games
        self._experiment = experiment
        self._left = left
        self._progress = progress

    def here(self, threads: int, stop: threading.Event) -> None:
        """Play on threads of this process, which write the shards too."""
        engine, progress = self._experiment.engine, self._progress
        self.committed += play(
            self._experiment,
            self._left,
            threads,
            stop,
            Watch(played=progress.advance, idle=lambda: progress.idle(engine.turns)),
        )

    def spec(self) -> Mapping[str, Any]:
        request, storage = self._experiment.request, self._experiment.request.storage
        return {
            "run": request.spec.as_plain(),
            "games": request.games,
            "root": str(storage.root),
            "shard_games": storage.shard_games,
            "shard_seconds": storage.shard_seconds,
            "fingerprint": self._experiment.code["fingerprint"],
        }

    def parts(self, workers: int) -> Iterator[Any]:
        """Ranges of pairs, (pairing, first pair, end pair), of as many games as a shard holds or less."""
        pairs = sum(end - first for ranges in self._left.values() for first, end in ranges)
        most = max(1, self._experiment.request.storage.shard_games // self._experiment.request.spec.games_a_pair)
        return parts(self._left, max(1, min(most, -(-pairs // (PARTS_A_WORKER * workers)))))

    def rest(self, part: Any) -> Any | None:
        """Those of its pairs that the archive lacks: a worker may have committed some and told nobody."""
        return overlap(part, self._experiment.left(self._experiment.request.games)) or None

    def take(self, answer: Any) -> None:
        if "committed" in answer:
            self.committed += answer["committed"]
            self._progress.advance(answer["committed"])
        else:
            self._experiment.engine.add_misbehaviour(answer["misbehaviour"])

    def idle(self) -> None:
        self._progress.idle(0)


@dataclass(frozen=True)
class Watch:
    """Callbacks while games are played."""

    played: Callable[[int], None] = lambda _games: None  # so many more games were played
    committed: Callable[[int], None] = lambda _games: None  # so many games are committed in all
    idle: Callable[[], None] = lambda: None  # no block was finished for a while


def play(experiment: Experiment, left: Left, threads: int, stop: threading.Event, watch: Watch) -> int:
    """Play pairs that the archive lacks, until ``stop`` is set, and commit them; returns the number of games."""
    storage, spec = experiment.request.storage, experiment.request.spec
    pace = Pace(storage.block_games // spec.games_a_pair)
    crew = experiment.engine.crew(threads, stop)
    with experiment.shard_writer(crew.submit, threads) as writer:

        def idle(writer: ShardWriter = writer) -> None:
            writer.look(at_once=stop.is_set())
            watch.committed(writer.committed)
            watch.idle()

        for block, seconds in crew.results(takewhile(lambda _: not stop.is_set(), orders(left, pace)), idle):
            pace.update(block.pairing, block.pairs, seconds)
            writer.add(block)
            watch.played(len(block.games.plies))
            watch.committed(writer.committed)
    watch.committed(writer.committed)
    return writer.committed


class RunWorker:
    """Plays parts of a run and commits them to the archive itself; it tells how many games are committed."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises ``RequestError`` for an agent that cannot be made here; ``FailureError`` if this is not the place.

        That is so if it sees another archive than the user's process, or has other code.
        """
        storage = Storage(location_of(spec["root"]), spec["shard_games"], spec["shard_seconds"])
        archive = Archive.open(storage.root)
        run = RunSpec.from_plain(spec["run"], archive)
        if archive.run(run.run_id) is None:
            raise FailureError(
                f"archive {storage.root} on {socket.gethostname()} does not have run {run.run_id}: all machines must "
                "see the same archive under the same path"
            )
        agents = [agent.build() for agent in run.agents]
        code = code_of(run, agents)
        if code["fingerprint"] != spec["fingerprint"]:
            raise FailureError(
                f"the code on {socket.gethostname()} has fingerprint {code['fingerprint']}, and the run is played by "
                f"{spec['fingerprint']}: install the same version of the project and of your agents on all machines"
            )
        request = Request(run, spec["games"], 1, storage, progress=False)
        self._experiment = Experiment(request, engine_of(run, agents), archive, code)

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:
        told = 0

        def committed(games: int) -> None:
            nonlocal told
            if games > told:
                tell({"committed": games - told})
                told = games

        left: dict[int, list[tuple[int, int]]] = {}
        for pairing, first, end in part:
            left.setdefault(pairing, []).append((first, end))
        try:
            play(self._experiment, left, 1, stop, Watch(committed=committed))
        finally:
            misbehaviour = self._experiment.engine.take_misbehaviour()
            if any(misbehaviour):
                tell({"misbehaviour": misbehaviour})
