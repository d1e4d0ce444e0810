"""Studies of Optuna: what ``hydra/sweeper=optuna`` needs so that the same command goes on where it was stopped.

The sweeper itself is hydra-optuna-sweeper, which opens a study that exists and then runs as many trials as it is told.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from analytics.files import local
from quarto.errors import RequestError
from runners.arena.schemas import check_range
from runners.hydra_app.objectives import Direction, Target
from runners.hydra_app.sweep_start import WITHOUT_EFFECT
from runners.terminal import console

SQLITE = "sqlite:///"
AGAIN = "again"  # the attribute of a study with the numbers of trials that failed and were queued once more
SETTINGS = "settings"  # the attribute of a study with the settings that all of its trials share
RESULTS = "optimization_results.yaml"  # hydra-optuna-sweeper writes it into the sweep's folder


@contextmanager
def study_of(first: DictConfig, overrides: Sequence[str], target: Target | None, sweep_id: str) -> Iterator[list[str]]:
    """What the sweeper has to be told besides, as overrides; nobody else runs the study inside the context.

    ``first`` is the configuration of the first job. Raises ``RequestError`` for a setting that is out of range, and for
    a study that cannot be used or was begun with other settings.
    """
    sweeper = first.hydra.sweeper
    for key, least, most in (("n_trials", 1, 1 << 30), ("n_jobs", 1, 1 << 16), ("max_failure_rate", 0, 1)):
        check_range(f"hydra.sweeper.{key}", sweeper[key], least, most)
    if target is None:
        raise RequestError("hydra/sweeper=optuna needs a value to optimise, and the jobs of this command have none")
    for given in overrides:
        key, _, value = given.partition("=")
        if key == "hydra.sweeper.direction" and value != target.direction:
            raise RequestError(
                f"{given} contradicts the objective {target.name}, which is to {target.direction}: leave it out"
            )
    asked = sweeper.n_trials
    if str(sweeper.sampler.get("_target_")).endswith("GridSampler"):
        asked = min(asked, _grid_size(overrides))
    name = sweeper.study_name or sweep_id
    told = [f"hydra.sweeper.direction={target.direction}", f"hydra.sweeper.study_name={name}"]
    with warnings.catch_warnings(), _alone(sweeper.storage):
        warnings.simplefilter("ignore")  # they are for its developers
        import optuna

        optuna.logging.set_verbosity(logging.WARNING)
        if sweeper.storage is not None:
            kept = (each.lstrip("+").partition("=") for each in overrides if not WITHOUT_EFFECT.match(each))
            settings = {key: value for key, _, value in kept} | {"objective": target.name}
            trials, complete = _resumed(sweeper, name, target.direction, settings)
            told.append(f"hydra.sweeper.n_trials={max(0, asked - complete)}")
            seed = sweeper.sampler.get("seed")
            if seed is not None:  # else it proposes again what it has
                told.append(f"hydra.sweeper.sampler.seed={(seed + trials) % (1 << 32)}")
        yield told


def _resumed(sweeper: Any, name: str, direction: Direction, settings: Mapping[str, str]) -> tuple[int, int]:
    """How many trials a study in a storage has, and how many are complete. Those that were stopped or failed wait."""
    import optuna
    from optuna.trial import TrialState

    try:
        study = optuna.create_study(study_name=name, storage=sweeper.storage, direction=direction, load_if_exists=True)
    except Exception as error:  # of whatever database is behind the address
        reason = " ".join(str(error).split()).partition(" (Background on")[0]
        raise RequestError(
            f"hydra.sweeper.storage={sweeper.storage} (study '{name}') cannot be used: {reason}"
        ) from error
    if SETTINGS not in study.user_attrs and not study.trials:
        study.set_user_attr(SETTINGS, dict(settings))
    if differences := _differences(study, settings, direction):
        raise RequestError(
            f"study '{name}' in {sweeper.storage} was begun with other settings ({differences}): name another one, "
            "hydra.sweeper.study_name=NAME"
        )
    trials, again = study.trials, [*study.user_attrs.get(AGAIN, ())]
    for each in trials:
        if each.state == TrialState.RUNNING and sweeper.storage.startswith(SQLITE):
            study.tell(each.number, state=TrialState.FAIL)  # it was stopped: no other process runs trials of a file
        elif each.state != TrialState.FAIL:
            continue
        if each.params and each.number not in again:
            study.enqueue_trial(each.params)
            again.append(each.number)
    study.set_user_attr(AGAIN, again)
    return len(trials), sum(each.state == TrialState.COMPLETE for each in trials)


def _grid_size(overrides: Sequence[str]) -> int:
    """The number of trials in a grid. Raises ``RequestError`` for a setting that has no list of values."""
    size = 1
    for each in OverridesParser.create().parse_overrides(list(overrides)):
        if each.is_interval_sweep():
            key = each.get_key_element()
            raise RequestError(f"{key}: a grid needs values, {key}=1,2,3 or {key}=range(1,4), not an interval")
        if each.is_discrete_sweep():
            size *= len(list(each.sweep_string_iterator()))
    return size


def _differences(study: Any, settings: Mapping[str, str], direction: str) -> str:
    """The settings that a study was begun with and that are others now, as a text."""
    begun = {"direction": study.direction.name.lower(), **study.user_attrs.get(SETTINGS, {})}
    now = {"direction": direction, **settings}
    return ", ".join(
        f"{key}: {begun.get(key, 'not set')}, now {now.get(key, 'not set')}"
        for key in dict.fromkeys([*begun, *now])
        if begun.get(key) != now.get(key)
    )


def report_best(folder: Path, target: Target) -> None:
    """Print the best trial of the study, as the sweeper wrote it into the sweep's folder; nothing if there is none."""
    path = folder / RESULTS
    if path.exists():
        found = OmegaConf.load(path)
        settings = " ".join(f"{key}={value}" for key, value in found.best_params.items())
        console.print_line(f"Best of the study: {settings} ({target.name} {target.text(found.best_value)})")


@contextmanager
def _alone(storage: str | None) -> Iterator[None]:
    """Keep other processes from running trials of the studies in a file, inside the context.

    Raises ``RequestError`` if another process does so.
    """
    if storage is None or not storage.startswith(SQLITE):
        yield
        return
    path = Path(f"{storage.removeprefix(SQLITE).partition('?')[0]}.lock")
    try:
        descriptor = local.claim(path)
    except OSError as error:
        raise RequestError(f"hydra.sweeper.storage={storage}: {path} cannot be written ({error.strerror})") from error
    if descriptor is None:
        raise RequestError(f"hydra.sweeper.storage={storage}: another sweep is running a study in this file")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
