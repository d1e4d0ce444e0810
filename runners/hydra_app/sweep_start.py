"""The beginning of a sweep, however it was asked for: ``qarena sweep``, ``-m``, or ``hydra.mode=MULTIRUN`` anywhere.

Wrong requests are found here, before Hydra creates any folder; the sweep gets its id.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf, open_dict

from quarto.errors import RequestError
from runners.hydra_app import sweep_folders
from runners.hydra_app.flags import quoted
from runners.hydra_app.study import StudyConfig, StudySweeper, Target, checked_direction
from runners.terminal import console

# Folders, archive, threads, executor and progress do not affect what a job returns, nor does the extent of a study.
WITHOUT_EFFECT = re.compile(
    r"\+*(hydra[./](?!sweeper[.=](?!storage=|n_trials=|n_jobs=|max_failure_rate=))|archive[.=]|threads=|progress="
    r"|executor[.=]|ray[.])"
)


# In place of the nodes of plugins, if these are installed. By default, Ray joins whatever cluster it finds, tells of
# its start and has a web server; and the plugin limits the memory for objects, which Ray refuses if it joins a cluster.
RAY = {
    "_target_": "hydra_plugins.hydra_ray_launcher.ray_launcher.RayLauncher",
    "ray": {
        "init": {
            "address": "local",  # one is started on this machine; auto, or HOST:PORT: it is there already
            "include_dashboard": False,
            "logging_level": "error",
            "object_store_memory": None,
        },
        "remote": {},
    },
}
NODES = (("hydra/sweeper", "optuna", StudyConfig), ("hydra/launcher", "ray", RAY))


def prepare(arguments: Sequence[str], config: str) -> None:
    """Remember the arguments of a command that may be a sweep, forget an earlier one, and set up plugins."""
    Plugins.instance().register(StudySweeper)  # after all others have registered their nodes
    store = ConfigStore.instance()
    for group, name, node in NODES:
        if f"{name}.yaml" in store.list(group):
            store.store(group=group, name=name, node=node, provider="quarto-arena")
    StudySweeper.target, StudySweeper.trials = None, ()
    StudySweeper.sweep_id = sweep_id(arguments, config)


def sweep_id(arguments: Sequence[str], config: str = "run") -> str:
    """The id of a sweep. It does not depend on the order of overrides, nor on what has no effect on its jobs.

    It does depend on the sweeper, which decides what the jobs are.
    """
    kept = sorted(argument for argument in arguments if not WITHOUT_EFFECT.match(argument))
    return hashlib.sha256("\n".join([*kept, *([] if config == "run" else [config])]).encode()).hexdigest()[:12]


def begin(config: DictConfig, target: Callable[[DictConfig, DictConfig], Target | None]) -> None:
    """Check a sweep before its first job, and let its jobs know its id; ``target`` is the application's.

    Raises ``RequestError`` for a launcher that cannot work here, and an objective that cannot be the value of the jobs.
    """
    launcher = config.hydra.runtime.choices.get("hydra/launcher")
    for program in ("srun", "sbatch") if launcher == "submitit_slurm" else ():
        if shutil.which(program) is None:
            raise RequestError(
                f"hydra/launcher=submitit_slurm needs Slurm: {program} is not on PATH; submit from a machine of the "
                "cluster, or use hydra/launcher=submitit_local"
            )
    given: list[str] = OmegaConf.to_container(config.hydra.overrides.task)  # type: ignore[assignment]
    first = _first_job(config, given)
    StudySweeper.target = target(first, first.hydra)
    kept = [each.lstrip("+").partition("=") for each in given if not WITHOUT_EFFECT.match(each)]
    StudySweeper.settings = {key: value for key, _, value in kept}
    if StudySweeper.target is not None:
        StudySweeper.settings |= {"objective": StudySweeper.target.name}
    if config.hydra.runtime.choices.get("hydra/sweeper") == "optuna":
        checked_direction(config.hydra.sweeper.direction, StudySweeper.target)
    if not any(each.startswith("sweep.id=") for each in given):
        with open_dict(config.hydra):  # quoted, because an id of digits and an e is no number
            config.hydra.overrides.task.append(f"sweep.id={quoted(StudySweeper.sweep_id)}")
    sweep_folders.begin(Path(config.hydra.sweep.dir).absolute())
    if launcher == "ray":
        _tell_ray(config)
    if launcher != "basic":
        console.print_note(f"{launcher}: the jobs' output folders are in {config.hydra.sweep.dir}")
        with open_dict(config.hydra):  # jobs may run in another current folder
            config.hydra.sweep.dir = str(Path(config.hydra.sweep.dir).absolute())
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted(config.hydra.sweep.dir)}")


def _tell_ray(config: DictConfig) -> None:
    """Let processes of a cluster that is there already have the environment variables of ours that jobs read."""
    own = {name: value for name, value in os.environ.items() if name.startswith("QARENA_")}
    place = "hydra.launcher.ray.init.runtime_env.env_vars"
    given = OmegaConf.to_container(OmegaConf.select(config, place) or OmegaConf.create({}))
    OmegaConf.update(config, place, own | dict(given), force_add=True)  # type: ignore[arg-type]


def _first_job(config: DictConfig, given: Sequence[str]) -> DictConfig:
    """The configuration of a sweep's job: each setting that varies has the first of its values."""
    loader = GlobalHydra.instance().config_loader()
    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides([*params, *given])
    chosen = {override.get_key_element(): _first_value(override) for override in parsed}
    return loader.load_sweep_config(config, list(chosen.values()))


def _first_value(override: Override) -> str:
    """An override that is no sweep, with the first of its values."""
    if not override.is_sweep_override():
        return str(override.input_line)
    value = override.value()
    first = value.start if isinstance(value, IntervalSweep) else next(iter(override.sweep_string_iterator()))
    return f"{override.get_key_element()}={first}"
