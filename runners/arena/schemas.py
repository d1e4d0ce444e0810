"""The schema of an experiment's configuration: the keys of ``conf/run.yaml`` and their types, as Hydra checks them.

This module imports nothing that plays: ``--help`` needs no more than it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore

from runners.arena.storage import ArchiveConfig


@dataclass
class SweepConfig:
    """Set by ``qarena sweep``: which sweep a job belongs to."""

    id: str | None = None


@dataclass
class RunConfig:
    """One experiment. ``conf/run.yaml`` explains each key."""

    rules: Any = None
    a: Any = None
    b: Any = None
    agents: list[Any] | None = None
    schedule: str = "round_robin"
    seats: str = "swapped"
    games: int = 100000
    seed: int = 1
    opening_plies: int = 0
    threads: int | None = None
    progress: bool = True
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


ConfigStore.instance().store(name="run_schema", node=RunConfig)
