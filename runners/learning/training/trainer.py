"""The interface of trainers: objects made from ``conf/trainer/*.yaml`` that play, learn and return a policy."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import polars as pl

from agents.learning.policy import Policy
from analytics.policies.relearning import CURVE_BLOCK
from quarto.rules import Rules
from runners.arena.execution import RunOutcome, execute_experiment
from runners.arena.executors.base import THREADS, Executor
from runners.arena.experiment import open_experiment
from runners.arena.progress import Progress
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import ArchiveOptions
from runners.config.agents import agent_from_entry
from runners.hosting.work_clock import WorkClock

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingContext:
    """What a trainer needs to know besides its own settings.

    Of all fields, only the rules and the seed affect what is learned.
    """

    name: str  # of the trainer's yaml
    rules: Rules
    seed: int
    threads: int
    storage: ArchiveOptions
    command: str  # as typed
    stop: threading.Event
    progress: Progress | None
    curve_block: int = CURVE_BLOCK  # games for each row of the curve, if its rows count games
    policy: str = ""  # name of the policy
    executor: Executor = THREADS
    trusted: bool = False  # whether third-party code may run, because the user named the trainer's agents

    def build_agent(self, entry: Any, key: str) -> AgentSpec:
        """Build the agent that an entry of the trainer's settings describes; ``key`` is the entry's key, for messages.

        Raises ``RequestError`` for an agent that does not exist.
        """
        return agent_from_entry(entry, self.storage.root, key, self.trusted)

    def build_request(self, spec: RunSpec, games: int) -> RunRequest:
        """Build the request to play ``games`` games, rounded up to whole pairs, of each pairing in ``spec``."""
        spec = replace(spec, training=True)
        games += games % spec.games_per_pair
        return RunRequest(spec, games, self.threads, self.storage, self.progress is not None, executor=self.executor)


@dataclass(frozen=True)
class TrainingOutcome:
    """What a training has learned, from which games, and with which learning curve; the training may be incomplete."""

    policy: Policy | None  # None: interrupted before there was one
    run_ids: tuple[str, ...]  # of the games learned from, in order
    games: int  # games learned from, in all sessions together
    played: int  # games played in this session
    seconds: float  # of work in this session, by ``WorkClock``
    curve: pl.DataFrame  # the learning curve: a row for each thousand games, or for each generation
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # stored beside the policy, by name
    origin: Mapping[str, Any] = field(default_factory=dict)  # further fields of the card of a derived policy


class Trainer(ABC):
    """The base class of trainers.

    The games that a trainer plays are stored in the archive, so a training that was stopped can continue.
    """

    length_key: ClassVar[str | None] = (
        None  # the parameter for the length, if a larger value continues the same training
    )
    sequential_reason: ClassVar[str | None] = None  # why games are played one after the other, with any executor

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user on how the parameters were interpreted."""
        return ()

    @abstractmethod
    def check(self, context: TrainingContext) -> None:
        """Raise ``RequestError`` if ``train`` would raise it; create nothing and play no game."""

    @abstractmethod
    def train(self, context: TrainingContext) -> TrainingOutcome:
        """Train until the training is complete or ``context.stop`` is set.

        Before any game is played, raises ``RequestError`` if the context is invalid. Raises ``FailureError`` if the
        disk cannot be written to; games that are already stored are kept.
        """


class TrainingRuns:
    """The runs of one training, carried out one after the other and counted together on one progress bar."""

    def __init__(self, context: TrainingContext, games: int) -> None:
        """Start the clock and the progress bar.

        ``games`` is the number of games of all runs, including those already in the archive.
        """
        self._context = context
        self._requested_games = self._reported_games = 0  # of the runs so far
        self._clock = WorkClock()
        self._is_warning_logged = False  # that other code began a run
        self.played = 0  # games, in this session
        if context.progress:
            context.progress.start(games)

    @property
    def seconds(self) -> float:
        """The seconds of work since this session of the training began."""
        return self._clock.seconds

    def execute_run(self, request: RunRequest) -> RunOutcome | None:
        """Play those games of a run that are missing from the archive, and return the outcome of the run.

        Returns None if ``stop`` was set before all games were played.
        """
        experiment, stop = open_experiment(request), self._context.stop
        for note in experiment.request.notes[len(request.notes) :]:  # other code began the run
            if not self._is_warning_logged:
                logger.warning("%s (said once for all runs of the training)", note)
                self._is_warning_logged = True
        if experiment.count_missing_games(request.games) and stop.is_set():
            return None
        outcome = execute_experiment(experiment, self._context.command, stop, self)
        self.played += outcome.played
        self._requested_games += request.games * len(request.spec.pairings)
        if self._requested_games > self._reported_games:  # the others were in the archive, whoever played them
            self.advance(self._requested_games - self._reported_games)
        return None if outcome.interrupted else outcome

    def start(self, games: int) -> None:
        """Do nothing, because the progress bar was already started for the whole training."""

    def report_turns(self, turns: int) -> None:
        if self._context.progress:
            self._context.progress.report_turns(turns)

    def advance(self, games: int) -> None:
        self._reported_games += games
        if self._context.progress:
            self._context.progress.advance(games)
