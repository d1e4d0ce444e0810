"""The configurations of a sweep's jobs are those that Hydra composes, although most of them are changed copies."""

from __future__ import annotations

import itertools

import pytest
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from runners.config.composing import initialize_hydra
from runners.config.local_jobs import JobComposer
from runners.config.sweep_values import parse_overrides, split_sweep_override

SETTINGS = (
    "rules=classic,square",
    "agents=[random,dumb],null",
    "seed=range(1,3)",
    "a.name='b=c',null",
    "+sweep.id=mine",
    "hydra.job.config.override_dirname.exclude_keys=[a.name]",
)


def load_sweep(loader: ConfigLoader) -> DictConfig:
    return loader.load_configuration("run", [*SETTINGS, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN)


def test_a_job_whose_values_were_replaced_is_the_one_that_hydra_composes(monkeypatch: pytest.MonkeyPatch) -> None:
    with initialize_hydra():
        loader = GlobalHydra.instance().config_loader()
        sweep, loaded = load_sweep(loader), []
        load = loader.load_sweep_config

        def note_and_load(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
            loaded.append(sweep_overrides)
            return load(master_config, sweep_overrides)

        monkeypatch.setattr(loader, "load_sweep_config", note_and_load)
        composer, jobs = (
            JobComposer(loader, sweep),
            [*itertools.product(*map(split_sweep_override, parse_overrides(SETTINGS)))],
        )
        for number, values in enumerate(jobs):
            job, expected = composer.compose_job(values), load(sweep, [*values])
            assert OmegaConf.to_container(job, resolve=False) == OmegaConf.to_container(expected, resolve=False)
            assert OmegaConf.is_struct(job)
            job.seed = -number  # a job changes its own configuration alone
    assert len(jobs) == 16
    assert len(loaded) == 4  # the rules, with a list of agents or none


def test_a_value_of_the_wrong_type_is_refused_as_hydra_refuses_it() -> None:
    with initialize_hydra():
        loader = GlobalHydra.instance().config_loader()
        composer = JobComposer(loader, load_sweep(loader))
        composer.compose_job(["games=1"])
        with pytest.raises(ConfigCompositionException, match="games=many"):
            composer.compose_job(["games=many"])
