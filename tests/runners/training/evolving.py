"""Shared parts of the tests of evolutions: the trainers of the yamls with other values, and small trainings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from runners.arena.config_groups import CONF
from runners.training.genetic import Ga2Trainer, Ga5Trainer, GeneticTrainer
from runners.training.trainer import TrainingContext
from tests.runners.training import trainings

TRAINERS: Mapping[str, type[GeneticTrainer]] = {"ga2": Ga2Trainer, "ga5": Ga5Trainer}
SMALL = {"population": 5, "offspring": 3, "generations": 4, "tournament": 2, "games": 6}
GENES = {"ga2": ("alpha", "beta"), "ga5": ("alpha", "beta", "gamma", "delta", "epsilon")}


def trainer(name: str, **changes: Any) -> GeneticTrainer:
    """The trainer of a yaml, with other values."""
    settings = OmegaConf.to_container(OmegaConf.load(CONF / f"trainer/{name}.yaml"))
    assert isinstance(settings, dict)
    target = TRAINERS[name]
    assert settings.pop("_target_") == f"{target.__module__}.{target.__name__}"
    return target(**{**settings, **changes})


def context(root: Path, seed: int = 3, **other: Any) -> TrainingContext:
    """A context in the archive at ``root``; ``other`` are fields of it or of its storage."""
    return trainings.context(root, "evolution", **{"seed": seed, "threads": 2} | other)
