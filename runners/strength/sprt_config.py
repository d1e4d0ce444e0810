"""The request that the composed configuration of a test of strength becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from omegaconf import DictConfig, OmegaConf

from analytics.statistics.sprt import Hypotheses
from runners.arena.config import Request, request_of
from runners.arena.schemas import RunConfig
from runners.strength.sprt_schema import check_values


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
    check_values(cfg)
    hypotheses = Hypotheses(**{name: cfg[name] for name in Hypotheses.__struct_fields__})
    shared = [each.name for each in fields(RunConfig) if each.name in cfg]
    run = OmegaConf.create(OmegaConf.structured(RunConfig))
    run.merge_with(OmegaConf.masked_copy(cfg, shared))
    return SprtRequest(request_of(run, choices, overrides), hypotheses)
