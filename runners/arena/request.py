"""The request of a run: which games are played, by which agents, and where they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from runners.arena.executors.base import THREADS, Executor
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions


@dataclass(frozen=True)
class RunRequest:
    """A checked configuration that says which games to play, how many, and where to store them."""

    spec: RunSpec
    games: int  # per pairing, even if the seats are swapped
    threads: int
    storage: ArchiveOptions
    progress: bool
    keep_going: bool = False  # also after an agent has forfeited all its games
    executor: Executor = THREADS
    name: str | None = None  # of the run, for people; None leaves the present one
    note: str | None = None  # about the run, for people; None leaves the present one
    notes: tuple[str, ...] = ()  # remarks for the user on how the configuration was understood
