"""The schema of an experiment's configuration: the keys of ``conf/run.yaml``, their types and their ranges.

This module imports nothing that plays: ``--help`` and the refusal of a value out of range need no more than it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from quarto.errors import RequestError, nearest
from runners.arena.checks import MAX_OPENING_PLIES, MAX_SEED, check_choice, check_keys, check_range
from runners.arena.config_groups import as_written, plain
from runners.arena.storage import ArchiveConfig
from runners.executors.machine import available_cores

if TYPE_CHECKING:
    from runners.executors.base import Executor

SCHEDULES = ("round_robin", "gauntlet")


@dataclass
class SweepConfig:
    """Set by ``qarena sweep``: which sweep a job belongs to."""

    id: str | None = None


@dataclass
class RayConfig:
    """The cluster of ``executor=ray``. ``conf/executor/ray.yaml`` explains each key."""

    address: str = "auto"
    tasks: int | None = None


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
    objective: Any = None
    executor: Any = field(default_factory=lambda: {"_target_": "runners.executors.threads.Threads"})  # of tests too
    ray: RayConfig = field(default_factory=RayConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


ConfigStore.instance().store(name="run_schema", node=RunConfig)


def check_values(cfg: DictConfig, schema: type[Any], least_games: int = 1) -> None:
    """Check the keys of a composed configuration, and the values that experiments, trainings and tests share.

    Raises ``RequestError`` for a key that ``schema`` does not have, and for a value out of range.
    """
    check_keys(cfg, schema)
    ranges = {"games": (least_games, float("inf")), "seed": (0, MAX_SEED), "opening_plies": (0, MAX_OPENING_PLIES)}
    for key, (least, most) in ranges.items():
        if key in cfg:
            check_range(key, cfg[key], least, most)
    if "schedule" in cfg:
        check_choice("schedule", cfg.schedule, SCHEDULES)
    threads_of(cfg)


def threads_of(cfg: DictConfig) -> int:
    """The number of threads that a configuration asks for; null is one for each core. Raises ``RequestError``."""
    check_range("threads", cfg.threads if cfg.threads is not None else 1, 1, 1024)
    return cfg.threads or available_cores()


def executor_of(cfg: DictConfig) -> Executor:
    """The executor that a configuration chooses by its keys ``executor`` and ``ray``.

    Raises ``RequestError`` for one that does not exist or lacks its extra, and for keys without effect.
    """
    from runners.arena.spec import made_of
    from runners.executors.base import Executor

    check_keys(cfg.ray, RayConfig, "ray.")
    if not OmegaConf.is_dict(cfg.executor):
        raise RequestError(f"executor={cfg.executor} is not an executor: choose one, executor=NAME")
    settings = plain(cfg.executor)
    changed = [key for key, value in plain(OmegaConf.structured(RayConfig)).items() if cfg.ray[key] != value]
    if changed and "${ray" not in str(plain(cfg.executor, resolve=False)):
        raise RequestError(f"ray.{changed[0]}={cfg.ray[changed[0]]} has no effect: choose executor=ray too")
    executor: Executor = made_of("executor", settings, Executor)
    return executor


def executor_named(name: str, ray_address: str | None) -> Executor:
    """The executor of ``conf/executor/NAME.yaml``, for commands that Hydra does not carry out. Raises as above."""
    known = as_written("executor")
    if name not in known:
        raise RequestError(f"--executor {name} does not exist{nearest(name, known)}")
    ray = RayConfig() if ray_address is None else RayConfig(ray_address)
    return executor_of(OmegaConf.create({"executor": known[name], "ray": OmegaConf.structured(ray)}))
