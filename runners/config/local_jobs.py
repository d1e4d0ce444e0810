"""The jobs of a sweep, run one after the other in this process, as Hydra's own sweeper and launcher would run them.

Hydra's own compose the configurations of all jobs before the first job begins, and those of a batch twice.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import configure_log, filter_overrides, run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from runners.config.callbacks import Callbacks
from runners.config.sweep_values import parse_overrides, split_sweep_override

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
    for number, values in enumerate(itertools.product(*map(split_sweep_override, job_overrides.values()))):
        LOG.info("\t#%s : %s", number, " ".join(filter_overrides(values)))
        job = loader.load_sweep_config(sweep, [*values])
        with open_dict(job):
            job.hydra.job.id = job.hydra.job.num = number
        context = HydraContext(loader, callbacks)
        run_job(task, job, "hydra.sweep.dir", job_subdir_key="hydra.sweep.subdir", hydra_context=context)
        configure_log(sweep.hydra.hydra_logging, sweep.hydra.verbose)  # the job changed the configuration of logging
    callbacks.notify("on_multirun_end", config=sweep, config_name=config_name)


def _list_task_overrides(sweep_config: DictConfig) -> list[str]:
    """List the overrides of the jobs: first those under ``hydra.sweeper.params``, then those that the user typed."""
    params = sweep_config.hydra.sweeper.get("params") or {}
    # Interpolations are kept, because ${seed} differs from job to job.
    typed: Any = OmegaConf.to_container(sweep_config.hydra.overrides.task, resolve=False)
    return [*(f"{key}={value}" for key, value in params.items()), *typed]
