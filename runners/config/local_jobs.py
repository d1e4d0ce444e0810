"""The jobs of a sweep, run one after the other in this process, as Hydra's own sweeper and launcher would run them.

Hydra's own compose the configurations of all jobs before the first job begins, and those of a batch twice. Composing
takes longer than playing a short run, so here jobs that choose the same options of groups are composed only once: the
values of their other settings are replaced in a copy.
"""

from __future__ import annotations

import copy
import itertools
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.utils import configure_log, filter_overrides, run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from runners.config.callbacks import Callbacks
from runners.config.sweep_values import parse_overrides, split_sweep_override

MAX_KEPT_CONFIGS = 64  # of 0.2 MB each; a sweep over thousands of lists of agents has as many

LOG = logging.getLogger("hydra.sweep")  # conf/hydra/hydra_logging prints what Hydra says


def runs_jobs_locally(first_config: DictConfig) -> bool:
    """Return whether the jobs of a sweep run one after the other in this process.

    ``first_config`` is the configuration of the first job.
    """
    choices, sweeper = first_config.hydra.runtime.choices, first_config.hydra.sweeper
    basic = (choices.get("hydra/launcher"), choices.get("hydra/sweeper")) == ("basic", "basic")
    return basic and sweeper.get("max_batch_size") is None


def run_local_jobs(config_name: str, overrides: Sequence[str], task: Callable[[DictConfig], Any]) -> None:
    """Run the jobs that ``overrides`` request, each with its own output folder and log file.

    A job that fails does not end the sweep, because ``task`` has recorded the failure. Raises Hydra's errors for a
    combination of values that cannot be composed.
    """
    loader = GlobalHydra.instance().config_loader()
    sweep = loader.load_configuration(config_name, [*overrides, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN)
    folder = Path(sweep.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(sweep, folder / "multirun.yaml")
    callbacks: Any = Callbacks(sweep)
    callbacks.notify("on_multirun_start", config=sweep, config_name=config_name)
    job_overrides = {override.get_key_element(): override for override in parse_overrides(_list_task_overrides(sweep))}
    configure_log(sweep.hydra.hydra_logging, sweep.hydra.verbose)
    composer = JobComposer(loader, sweep)
    for number, values in enumerate(itertools.product(*map(split_sweep_override, job_overrides.values()))):
        LOG.info("\t#%s : %s", number, " ".join(filter_overrides(values)))
        job = composer.compose_job(values)
        with open_dict(job):
            job.hydra.job.id = job.hydra.job.num = number
        context = HydraContext(loader, callbacks)
        run_job(task, job, "hydra.sweep.dir", job_subdir_key="hydra.sweep.subdir", hydra_context=context)
        configure_log(sweep.hydra.hydra_logging, sweep.hydra.verbose)  # the job changed the configuration of logging
    callbacks.notify("on_multirun_end", config=sweep, config_name=config_name)


class JobComposer:
    """Composes the configurations of the jobs of a sweep as Hydra does.

    Configurations are kept, by the overrides that must be composed. A job with the same such overrides differs from
    the kept configuration only in values.
    """

    def __init__(self, loader: ConfigLoader, sweep_config: DictConfig) -> None:
        self._loader, self._sweep_config = loader, sweep_config
        self._kept_configs: dict[tuple[str, ...], DictConfig] = {}

    def compose_job(self, values: Sequence[str]) -> DictConfig:
        """Compose the configuration of the job with these overrides. Raises Hydra's errors if that is impossible."""
        overrides = parse_overrides(values)
        composed = tuple(
            value for value, override in zip(values, overrides, strict=True) if not self._is_plain(override)
        )
        composed += tuple(override.key_or_group for override in overrides if self._is_plain(override))
        if composed not in self._kept_configs:
            config = self._loader.load_sweep_config(self._sweep_config, [*values])
            if len(self._kept_configs) == MAX_KEPT_CONFIGS:
                self._kept_configs.clear()
            self._kept_configs[composed] = copy.deepcopy(config)  # running a job changes its configuration
            return config
        try:
            return self._replace_values(self._kept_configs[composed], overrides)
        except OmegaConfBaseException:  # Hydra says which override is wrong
            return self._loader.load_sweep_config(self._sweep_config, [*values])

    def _is_plain(self, override: Override) -> bool:
        """Return whether an override only gives a setting a new value that is no list or mapping."""
        return (
            override.type is OverrideType.CHANGE
            and override.package is None
            and override.key_or_group not in self._sweep_config.hydra.runtime.choices
            and not override.is_hydra_override()
            and not isinstance(override.value(), list | dict)
        )

    def _replace_values(self, config: DictConfig, overrides: Sequence[Override]) -> DictConfig:
        """Return a copy of a job's configuration with the values of other overrides of the same settings."""
        job = copy.deepcopy(config)
        for override in filter(self._is_plain, overrides):
            OmegaConf.update(job, override.key_or_group, override.value(), merge=True)
        task_overrides = [override for override in overrides if not override.is_hydra_override()]
        job.hydra.overrides.task = [override.input_line for override in task_overrides]
        form = job.hydra.job.config.override_dirname
        lines = sorted(
            str(override.input_line) for override in task_overrides if override.key_or_group not in form.exclude_keys
        )
        job.hydra.job.override_dirname = re.sub("=", form.kv_sep, form.item_sep.join(lines))
        return job


def _list_task_overrides(sweep_config: DictConfig) -> list[str]:
    """List the overrides of the jobs: first those under ``hydra.sweeper.params``, then those that the user typed."""
    params = sweep_config.hydra.sweeper.get("params") or {}
    # Interpolations are kept, because ${seed} differs from job to job.
    typed: Any = OmegaConf.to_container(sweep_config.hydra.overrides.task, resolve=False)
    return [*(f"{key}={value}" for key, value in params.items()), *typed]
