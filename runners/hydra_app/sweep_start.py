"""The beginning of a sweep: its id, its folder, and what its launcher needs.

Nothing heavy is imported: a wrong request must fail at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from omegaconf import DictConfig

from quarto.errors import RequestError
from runners.hydra_app.arguments import quoted
from runners.hydra_app.config_dir import LAUNCH
from runners.terminal import console

# Folders, archive, threads, executor, progress and keep_going do not affect what a job returns, nor does the extent of
# a study.
WITHOUT_EFFECT = re.compile(
    r"\+*(hydra[./](?!sweeper[.=](?!storage=|n_trials=|n_jobs=|max_failure_rate=))|archive[.=]|threads=|progress="
    r"|keep_going=|executor[.=]|ray[.])"
)


def sweep_id(arguments: Sequence[str], config: str = "run") -> str:
    """The id of a sweep. It does not depend on the order of overrides, nor on what has no effect on its jobs.

    It does depend on the sweeper, which decides what the jobs are.
    """
    kept = sorted(argument for argument in arguments if not WITHOUT_EFFECT.match(argument))
    return hashlib.sha256("\n".join([*kept, *([] if config == "run" else [config])]).encode()).hexdigest()[:12]


class SweepFolder:
    """The folder of a sweep that this process starts. It may have served another sweep before."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._created = [each for each in (self.path, *self.path.parents) if not each.exists()]  # inner ones first

    def has_jobs(self) -> bool:
        """Whether a job of this launch has ended."""
        return any(self.path.rglob(record_name("*")))

    def withdraw(self) -> None:
        """Remove the folder of a sweep that Hydra refused before its first job."""
        (self.path / "multirun.yaml").unlink(missing_ok=True)
        for each in self._created:
            with suppress(OSError):  # it is not empty
                each.rmdir()


def record_name(job: int | str) -> str:
    """The name of a job's record in its output folder. Jobs of other launches have others in the same folder."""
    return f"job-{os.environ[LAUNCH].replace('/', '-')}-{job}.json"


# By default the plugin joins whatever cluster it finds, reports its start, has a web server, and limits the memory for
# objects, which Ray refuses if it joins a cluster.
RAY_KEY = "hydra.launcher.ray.init"
RAY = {"address": "local", "include_dashboard": "false", "logging_level": "error", "object_store_memory": "null"}


def launcher_overrides(first: DictConfig, overrides: Sequence[str], folder: Path) -> list[str]:
    """What the launcher of a sweep needs besides, as overrides; ``first`` is the configuration of its first job.

    Raises ``RequestError`` for a launcher that cannot work here.
    """
    launcher = first.hydra.runtime.choices.get("hydra/launcher")
    for program in ("srun", "sbatch") if launcher == "submitit_slurm" else ():
        if shutil.which(program) is None:
            raise RequestError(
                f"hydra/launcher=submitit_slurm needs Slurm: {program} is not on PATH; submit from a machine of the "
                "cluster, or use hydra/launcher=submitit_local"
            )
    more = [f"hydra.sweep.dir={quoted(str(folder))}"]  # jobs may run in another current folder, or at another time
    if launcher != "basic":
        console.print_note(f"{launcher}: the jobs' output folders are in {first.hydra.sweep.dir}")
    if launcher == "ray":
        given = [override.lstrip("+").partition("=")[0] for override in overrides]
        more += [f"++{RAY_KEY}.{name}={value}" for name, value in RAY.items() if f"{RAY_KEY}.{name}" not in given]
        # Processes of a cluster that is there already need the environment variables that jobs read.
        own = {name: value for name, value in os.environ.items() if name.startswith("QARENA_")}
        more += [f"++{RAY_KEY}.runtime_env.env_vars.{name}={quoted(value)}" for name, value in own.items()]
    return more
