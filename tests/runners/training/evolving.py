"""Shared parts of the tests of evolutions: the trainers of the yamls with other values, and small trainings."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from quarto.rules import CLASSIC
from runners.arena.config_groups import CONF, ArchiveSettings
from runners.training.genetic import Ga2Trainer, Ga5Trainer, GeneticTrainer
from runners.training.trainer import TrainingContext

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


def context(root: Path, seed: int = 3, threads: int = 2, **storage: Any) -> TrainingContext:
    """A context in the archive at ``root``; ``storage`` are other fields of its storage."""
    return TrainingContext(
        name="evolution",
        rules=CLASSIC,
        seed=seed,
        threads=threads,
        storage=ArchiveSettings(root, **storage),
        command="qarena train",
        stop=threading.Event(),
        progress=None,
    )
