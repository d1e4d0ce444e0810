"""What a trainer is: an object made from ``conf/trainer/*.yaml`` that turns a setting into a policy."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import polars as pl

from agents.learning.policy import Policy
from analytics.policies.learning_curve import BLOCK
from quarto.rules import Rules
from runners.arena.config import Request
from runners.arena.experiment import Progress
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage


@dataclass(frozen=True)
class Setting:
    """Where and how a training goes on; nothing here but the rules and the seed affects what is learned."""

    name: str  # of the trainer's yaml
    rules: Rules
    seed: int
    threads: int
    storage: Storage
    command: str  # as it was typed
    stop: threading.Event
    progress: Progress | None
    curve_block: int = BLOCK  # games of a row of the curve, where that counts games
    policy: str = ""  # what is learned will be called so

    def request(self, spec: RunSpec, games: int) -> Request:
        """The request to play ``games`` games of each pairing of a run, rounded up to whole pairs."""
        return Request(spec, games + games % spec.games_a_pair, self.threads, self.storage, self.progress is not None)


@dataclass(frozen=True)
class Trained:
    """What a training has come to."""

    policy: Policy | None  # None: interrupted before there was one
    run_ids: tuple[str, ...]  # of the games learned from, in order
    games: int  # learned from, all sessions together
    played: int  # in this session
    seconds: float  # of this session
    curve: pl.DataFrame  # how it went: a row for each thousand games, or for each generation
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # kept beside the policy, by name
    origin: Mapping[str, Any] = field(default_factory=dict)  # more of what the card says, where it was derived


class Trainer(Protocol):
    """Turns a setting into a policy. What it plays is in the archive, from which a stopped training goes on."""

    def train(self, setting: Setting) -> Trained:
        """Train until done or until ``setting.stop`` is set.

        Raises ``RequestError`` before anything is played if the setting makes no sense.
        """
        ...


@runtime_checkable
class Checking(Protocol):
    """A trainer that finds wrong settings before anything is made or played."""

    notes: tuple[str, ...]  # what the user should be told of how its parameters were read

    def check(self, setting: Setting) -> None:
        """Raises ``RequestError`` if ``train`` would."""
        ...


@runtime_checkable
class Extensible(Protocol):
    """A trainer that, asked for more, goes on where it ended when it was asked for less."""

    extent: str  # its parameter that says how much
