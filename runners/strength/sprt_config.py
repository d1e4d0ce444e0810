"""The configuration of a test of strength: its schema, and the request that a composed configuration becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from analytics.statistics.sprt import Hypotheses
from runners.arena.checks import check_keys, check_range
from runners.arena.config import Request, request_of
from runners.arena.schemas import RunConfig, SweepConfig
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
    sweep: SweepConfig = field(default_factory=SweepConfig)


ConfigStore.instance().store(name="sprt_schema", node=SprtConfig)


@dataclass(frozen=True)
class SprtRequest:
    """A checked configuration: the run whose games are tested, and the hypotheses to decide between."""

    run: Request  # its games do not depend on the hypotheses
    hypotheses: Hypotheses

    @property
    def most_pairs(self) -> int:
        return self.run.games // 2


def sprt_request_of(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> SprtRequest:
    """Check a composed configuration; raises ``RequestError`` as ``runners.arena.config.request_of`` does."""
    check_keys(cfg, SprtConfig)
    check_range("games", cfg.games, 2, float("inf"))
    hypotheses = Hypotheses(**{name: cfg[name] for name in Hypotheses.__struct_fields__})
    shared = [each.name for each in fields(RunConfig) if each.name in cfg]
    run = OmegaConf.create(OmegaConf.structured(RunConfig))
    run.merge_with(OmegaConf.masked_copy(cfg, shared))
    return SprtRequest(request_of(run, choices, overrides), hypotheses)
