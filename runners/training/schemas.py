"""The schema of a training's configuration: the keys of ``conf/train.yaml``, their types and their ranges.

This module imports nothing that trains: ``--help`` and the refusal of a value out of range need no more than it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from hydra.core.config_store import ConfigStore
from msgspec import Meta
from omegaconf import MISSING

from runners.arena import schemas
from runners.arena.schemas import ArchiveConfig

GROUP = "kind"  # of conf/: the kinds of policies that can be derived
MOST_GAMES_OF_A_ROW = 1 << 30


@dataclass
class PolicyConfig:
    """The policy that is learned."""

    name: str | None = None


@dataclass
class CurveConfig:
    """The learning curve."""

    block: Annotated[int, Meta(ge=1, le=MOST_GAMES_OF_A_ROW)] = MISSING


@dataclass
class TrainConfig:
    """One training. ``conf/train.yaml`` explains each key."""

    rules: Any = None
    trainer: Any = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    curve: CurveConfig = field(default_factory=CurveConfig)
    seed: schemas.Seed = 1
    threads: schemas.ThreadCount = None
    progress: bool = True
    executor: Any = None
    ray: schemas.RayConfig = field(default_factory=schemas.RayConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: schemas.SweepConfig = field(default_factory=schemas.SweepConfig)


ConfigStore.instance().store(name="train_schema", node=TrainConfig)
