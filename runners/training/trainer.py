"""The interface of trainers: objects made from ``conf/trainer/*.yaml`` that play, learn and return a policy."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import polars as pl

from agents.learning.policy import Policy
from analytics.policies.learning_curve import BLOCK
from quarto.rules import Rules
from runners.arena.config import Request
from runners.arena.playing import Progress
from runners.arena.schemas import ArchiveSettings
from runners.arena.spec import RunSpec
from runners.executors.base import THREADS, Executor


@dataclass(frozen=True)
class TrainingContext:
    """Where and how a training is carried out; only the rules and the seed affect what is learned."""

    name: str  # of the trainer's yaml
    rules: Rules
    seed: int
    threads: int
    storage: ArchiveSettings
    command: str  # as it was typed
    stop: threading.Event
    progress: Progress | None
    curve_block: int = BLOCK  # games of a row of the curve, where that counts games
    policy: str = ""  # name of the policy
    executor: Executor = THREADS

    def request(self, spec: RunSpec, games: int) -> Request:
        """The request to play ``games`` games of each pairing of a run, rounded up to whole pairs."""
        spec = replace(spec, training=True)
        games += games % spec.games_a_pair
        return Request(spec, games, self.threads, self.storage, self.progress is not None, self.executor)


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    policy: Policy | None  # None: interrupted before there was one
    run_ids: tuple[str, ...]  # of the games learned from, in order
    games: int  # learned from, all sessions together
    played: int  # in this session
    seconds: float  # of this session
    curve: pl.DataFrame  # the learning curve: a row for each thousand games, or for each generation
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # kept beside the policy, by name
    origin: Mapping[str, Any] = field(default_factory=dict)  # what else the card says of a derived policy


@runtime_checkable
class Trainer(Protocol):
    """Trains a policy. The games it plays are in the archive, from which a stopped training goes on."""

    def train(self, context: TrainingContext) -> Trained:
        """Train until done or until ``context.stop`` is set.

        Raises ``RequestError`` for an invalid context, before anything is played.
        """
        ...


@runtime_checkable
class Sequential(Protocol):
    """A trainer whose games are played one after the other, by whatever executor."""

    sequential: str  # why, as the end of a sentence


@runtime_checkable
class Checking(Protocol):
    """A trainer that finds wrong settings before anything is made or played."""

    notes: tuple[str, ...]  # for the user: how its parameters were read

    def check(self, context: TrainingContext) -> None:
        """Raises ``RequestError`` if ``train`` would."""
        ...


@runtime_checkable
class Extensible(Protocol):
    """A trainer that, asked for more, goes on from where a shorter training ended."""

    extent: str  # the name of its parameter for the length of a training
