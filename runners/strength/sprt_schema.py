"""The schema of a test of strength: the keys of ``conf/sprt.yaml``, their types and their ranges.

This module imports nothing that plays: ``--help`` and the refusal of a value out of range need no more than it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from runners.arena import schemas
from runners.arena.storage import ArchiveConfig


@dataclass
class SprtConfig:
    """One test. ``conf/sprt.yaml`` explains each key."""

    rules: Any = None
    a: Any = None
    b: Any = None
    elo0: float = 0.0
    elo1: float = 10.0
    alpha: float = 0.05
    beta: float = 0.05
    games: int = 100000
    seed: int = 1
    opening_plies: int = 2
    threads: int | None = None
    progress: bool = True
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: schemas.SweepConfig = field(default_factory=schemas.SweepConfig)


ConfigStore.instance().store(name="sprt_schema", node=SprtConfig)


def check_values(cfg: DictConfig) -> None:
    """Raises ``RequestError`` for a key that does not exist and for a value out of range, but for the hypotheses."""
    schemas.check_values(cfg, SprtConfig, least_games=2)
