"""The schema of a training's configuration: the keys of ``conf/train.yaml``, their types and their ranges.

This module imports nothing that trains: ``--help`` and the refusal of a value out of range need no more than it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig

from runners.arena import schemas
from runners.arena.checks import check_keys, check_range
from runners.arena.storage import ArchiveConfig

GROUP = "kind"  # of conf/: the kinds of policies that can be derived
MOST_GAMES_OF_A_ROW = 1 << 30


@dataclass
class PolicyConfig:
    """The policy that is learned."""

    name: str | None = None


@dataclass
class CurveConfig:
    """The learning curve."""

    block: int = MISSING


@dataclass
class TrainConfig:
    """One training. ``conf/train.yaml`` explains each key."""

    rules: Any = None
    trainer: Any = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    curve: CurveConfig = field(default_factory=CurveConfig)
    seed: int = 1
    threads: int | None = None
    progress: bool = True
    executor: Any = None
    ray: schemas.RayConfig = field(default_factory=schemas.RayConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: schemas.SweepConfig = field(default_factory=schemas.SweepConfig)


ConfigStore.instance().store(name="train_schema", node=TrainConfig)


def check_values(cfg: DictConfig) -> None:
    """Raises ``RequestError`` for a key that does not exist and for a value out of range, but for the trainer's own."""
    schemas.check_values(cfg, TrainConfig)
    for key, schema in (("policy", PolicyConfig), ("curve", CurveConfig)):
        check_keys(cfg[key], schema, f"{key}.")
    check_range("curve.block", cfg.curve.block, 1, MOST_GAMES_OF_A_ROW)
