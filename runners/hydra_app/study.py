"""The sweeper ``hydra/sweeper=optuna``: trials that Optuna proposes, in a study that goes on where it was stopped.

It takes the place of the class of hydra-optuna-sweeper, whose readings of ranges and choices it uses. There, a study
that is started again runs as many trials more, numbers its jobs from 0 again, never finishes the trials that a kill
left, and with a seed proposes the trials again that it has.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from hydra.utils import instantiate
from omegaconf import MISSING, DictConfig, OmegaConf

from analytics.files import locks
from quarto.errors import RequestError
from runners.arena.checks import check_range
from runners.hydra_app.objectives import Direction

PLUGIN = "hydra_plugins.quarto_arena"
DIRECTIONS = ("maximize", "minimize")
SQLITE = "sqlite:///"
SETTINGS = "settings"  # the attribute of a study with the settings that all of its trials share


@dataclass
class StudyConfig:
    """The keys of ``hydra/sweeper=optuna``, their types and defaults."""

    defaults: list[Any] = field(default_factory=lambda: [{"sampler": "tpe"}])
    _target_: str = f"{PLUGIN}.StudySweeper"
    _recursive_: bool = False
    sampler: Any = MISSING
    direction: Any = None  # maximize or minimize; None: as the objective wants it
    storage: str | None = None  # of the study, sqlite:///FILE or another address of a database; None: in memory
    study_name: str | None = None  # None: the id of the sweep
    n_trials: int = 20  # of the study, those that are complete already included
    n_jobs: int = 1  # trials that are proposed together, and go to the launcher together
    max_failure_rate: float = 0.0  # if a greater share of the trials proposed together fails, the sweep ends
    params: dict[str, Any] | None = None  # the search space, like arguments: {a.alpha: "interval(0,1)"}
    custom_search_space: str | None = None  # dotted path of a function(cfg, trial) that adds to the search space


class Target(NamedTuple):
    """The value that a job of a sweep returns."""

    name: str
    direction: Direction
    text: Callable[[float], str] = "{:.4f}".format  # of a value, for tables


class Trial(NamedTuple):
    """A trial of a study; its number is also the number of its job."""

    number: int
    settings: Mapping[str, Any]  # that Optuna proposed
    state: str  # complete, failed, running, waiting
    value: float | None


class StudySweeper(Sweeper):
    """Runs the trials of a study that it lacks, batch by batch."""

    # Of the sweep that this process started. On the class, since Hydra makes the object.
    target: ClassVar[Target | None] = None
    sweep_id: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, str]] = {}  # those that affect what a job returns
    trials: ClassVar[Sequence[Trial]] = ()  # all of the study, also those of earlier launches

    def __init__(self, **settings: Any) -> None:
        """``settings`` are the keys of ``StudyConfig``."""
        self._asked = StudyConfig(**settings)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Raises ``RequestError`` for a setting that is out of range."""
        for key, least, most in (("n_trials", 1, 1 << 30), ("n_jobs", 1, 1 << 16), ("max_failure_rate", 0, 1)):
            check_range(f"hydra.sweeper.{key}", getattr(self._asked, key), least, most)
        self._direction = checked_direction(self._asked.direction, StudySweeper.target)
        self._config = config
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run trials until the study has as many as were asked for.

        Raises ``RequestError`` for a study that was begun with other settings, and whatever a job raised if too many
        failed.
        """
        with _quiet():
            from hydra_plugins.hydra_optuna_sweeper._impl import create_params_from_overrides

            params = [f"{key}={value}" for key, value in (self._asked.params or {}).items()]
            self._space, self._fixed = create_params_from_overrides([*params, *arguments])
            self._space = {name: each for name, each in self._space.items() if name not in self._fixed}
        with _alone(self._asked.storage):
            study = self._study()
            try:
                self._run(study, _Queue(study, mine=(self._asked.storage or SQLITE).startswith(SQLITE)))
            finally:
                StudySweeper.trials = [_trial(each) for each in study.trials]
                self._save_best()

    def _study(self) -> Any:
        """The study: a new one, or that of the same name in the storage."""
        import optuna

        name, storage = self._asked.study_name or StudySweeper.sweep_id, self._asked.storage
        settings = {key: text for key, text in StudySweeper.settings.items() if key not in self._space}
        try:
            with _quiet():
                known = [] if storage is None else optuna.get_all_study_summaries(storage)
                if name in [each.study_name for each in known]:
                    study = optuna.load_study(study_name=name, storage=storage)
                else:
                    study = optuna.create_study(study_name=name, storage=storage, direction=self._direction)
                    study.set_user_attr(SETTINGS, settings)
        except Exception as error:  # of whatever database is behind the address
            reason = " ".join(str(error).split()).partition(" (Background on")[0]
            raise RequestError(f"hydra.sweeper.storage={storage} (study '{name}') cannot be used: {reason}") from error
        differences = _differences(study, settings, self._direction) or _other_values(study, self._space)
        if differences:
            raise RequestError(
                f"study '{name}' in {storage} was begun with other settings ({differences}): name another one, "
                "hydra.sweeper.study_name=NAME"
            )
        return study

    def _run(self, study: Any, queue: _Queue) -> None:
        wanted, failed = self._asked.n_trials, 0
        while (left := wanted - failed - queue.complete()) > 0:
            sampler, most = self._sampler(len(study.trials))
            left, study.sampler = min(left, most - queue.complete() - failed), sampler
            if left <= 0:
                return
            with _quiet():
                batch = queue.next(min(left, self._asked.n_jobs), self._propose)
            returns = [each for part in _consecutive(batch) for each in self._launch(part)]
            with _quiet():
                failures = [each for trial, each in zip(batch, returns, strict=True) if not _tell(study, trial, each)]
            failed += len(failures)
            if len(failures) > self._asked.max_failure_rate * len(batch):
                _ = failures[0].return_value  # raises what the job raised

    def _propose(self, trial: Any) -> None:
        """Let the sampler choose a trial's settings, those that it has already excepted."""
        for name, distribution in self._space.items():
            trial._suggest(name, distribution)
        if self._asked.custom_search_space:
            instantiate({"_target_": self._asked.custom_search_space, "_partial_": True})(self._config, trial)

    def _sampler(self, trials: int) -> tuple[Any, int]:
        """A sampler for the next trials of a study that has ``trials``, and the most that it has to propose.

        Its seed depends on their number: a study proposes the same, whether or not it was stopped in between.
        """
        settings = dict(self._asked.sampler)
        if settings.get("seed") is not None:
            settings["seed"] = (int(settings["seed"]) + trials) % (1 << 32)
        with _quiet():
            sampler = instantiate(settings)
            if not isinstance(sampler, partial):
                return sampler, 1 << 62
            choices = {name: _grid(name, each) for name, each in self._space.items()}  # only a grid has to be told
            return sampler(choices), math.prod(map(len, choices.values()))

    def _launch(self, trials: Sequence[Any]) -> Sequence[JobReturn]:
        """Launch trials whose numbers are consecutive, as jobs of the same numbers."""
        jobs = [[f"{name}={value}" for name, value in {**each.params, **self._fixed}.items()] for each in trials]
        found: Sequence[JobReturn] = self._launcher.launch(jobs, initial_job_idx=trials[0].number)
        return found

    def _save_best(self) -> None:
        """Write the best trial into the sweep's folder, as hydra-optuna-sweeper does."""
        found = best(StudySweeper.trials, self._direction)
        if found is not None:
            folder = Path(self._config.hydra.sweep.dir)
            folder.mkdir(parents=True, exist_ok=True)
            results = {"name": "optuna", "best_params": dict(found.settings), "best_value": found.value}
            OmegaConf.save(OmegaConf.create(results), folder / "optimization_results.yaml")


# Hydra makes plugins of classes in the package hydra_plugins only: this module is also known as one of its modules.
StudySweeper.__module__ = PLUGIN
sys.modules[PLUGIN] = sys.modules[__name__]


class _Queue:
    """The trials of a study that are to be run: those that were begun, those that failed, then new ones."""

    def __init__(self, study: Any, mine: bool) -> None:
        """``mine``: no other process runs trials of it, so one that is running was left by a kill."""
        from optuna.trial import TrialState

        self._study = study
        trials = study.get_trials(deepcopy=False)
        self._begun = [each._trial_id for each in trials if mine and each.state == TrialState.RUNNING]
        known = [_settings(each) for each in trials if each.state != TrialState.FAIL]
        with _quiet():
            for each in trials:
                if each.state == TrialState.FAIL and each.params and each.params not in known:
                    known.append(each.params)
                    study.enqueue_trial(each.params)

    def complete(self) -> int:
        from optuna.trial import TrialState

        return Counter(each.state for each in self._study.get_trials(deepcopy=False))[TrialState.COMPLETE]

    def next(self, count: int, propose: Callable[[Any], None]) -> list[Any]:
        from optuna.trial import Trial as Running

        taken, self._begun = self._begun[:count], self._begun[count:]
        trials = [Running(self._study, each) for each in taken]
        for trial in trials:
            propose(trial)
        while len(trials) < count:
            trials.append(self._study.ask())
            propose(trials[-1])
        return trials


def _differences(study: Any, settings: Mapping[str, str], direction: str) -> str:
    """The settings that a study was begun with and that are others now, as a text."""
    begun = {"direction": study.direction.name.lower(), **study.user_attrs.get(SETTINGS, {})}
    now = {"direction": direction, **settings}
    keys = dict.fromkeys([*begun, *now]) if SETTINGS in study.user_attrs else ["direction"]
    return ", ".join(
        f"{key}: {begun.get(key, 'not set')}, now {now.get(key, 'not set')}"
        for key in keys
        if begun.get(key) != now.get(key)
    )


def _other_values(study: Any, space: Mapping[str, Any]) -> str:
    """A setting whose values in the study's trials are of another kind than those of ``space``, as a text."""
    from optuna.distributions import check_distribution_compatibility

    for trial in study.get_trials(deepcopy=False):
        for name in trial.distributions.keys() & space.keys():
            try:
                check_distribution_compatibility(trial.distributions[name], space[name])
            except ValueError:
                return f"{name}: {trial.distributions[name]}, now {space[name]}"
    return ""


def _settings(trial: Any) -> Mapping[str, Any]:
    """The settings that were proposed for a trial, also for one that waits."""
    found: Mapping[str, Any] = trial.params or trial.system_attrs.get("fixed_params", {})
    return found


def _trial(trial: Any) -> Trial:
    names = {"FAIL": "failed"}
    state = names.get(trial.state.name, trial.state.name.lower())
    return Trial(trial.number, _settings(trial), state, trial.values[0] if trial.values else None)


def best(trials: Sequence[Trial], direction: str) -> Trial | None:
    """The complete trial with the best value, the first of equal ones; None if there is none."""
    sign = 1 if direction == "maximize" else -1
    complete = [each for each in trials if each.state == "complete" and each.value is not None]
    return max(complete, key=lambda each: sign * (each.value or 0.0), default=None)


def checked_direction(given: Any, target: Target | None) -> str:
    """The direction of a study. Raises ``RequestError`` if ``given`` is none, or not that of the target."""
    if target is None:
        raise RequestError("hydra/sweeper=optuna needs a value to optimise, and the jobs of this command have none")
    name = getattr(given, "name", given)  # the plugin's own type
    if name is None:
        return target.direction
    if name not in DIRECTIONS:
        raise RequestError(f"hydra.sweeper.direction={given} is neither maximize nor minimize")
    if name != target.direction:
        raise RequestError(
            f"hydra.sweeper.direction={name} contradicts the objective {target.name}, which is to {target.direction}: "
            "leave it out"
        )
    return str(name)


def _tell(study: Any, trial: Any, job: JobReturn) -> bool:
    """Tell a study what a trial's job returned; whether it returned a number."""
    from optuna.trial import TrialState

    value = job.return_value if job.status == JobStatus.COMPLETED else None
    if value is None or math.isnan(value):
        study.tell(trial, state=TrialState.FAIL)
        return False
    with _stopping_ignored():
        study.tell(trial, float(value))
    return True


@contextmanager
def _stopping_ignored() -> Iterator[None]:
    """Inside the context a grid of which nothing is left may ask to stop, which it may do within ``optimize`` only."""
    try:
        yield
    except RuntimeError as error:
        if "Study.stop" not in str(error):
            raise


def _grid(name: str, distribution: Any) -> list[Any]:
    """The values of a setting that a grid visits."""
    from optuna import distributions

    if isinstance(distribution, distributions.CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, distributions.IntUniformDistribution):
        return list(range(distribution.low, distribution.high, distribution.step))
    if isinstance(distribution, distributions.DiscreteUniformDistribution):
        count = int((distribution.high - distribution.low) // distribution.q)
        return [distribution.low + number * distribution.q for number in range(count)]
    raise RequestError(f"{name}: a grid needs values, {name}=1,2,3 or {name}=range(1,4), not an interval")


def _consecutive(trials: Sequence[Any]) -> Iterator[list[Any]]:
    """Trials in parts whose numbers are consecutive."""
    part: list[Any] = []
    for trial in trials:
        if part and trial.number != part[-1].number + 1:
            yield part
            part = []
        part.append(trial)
    if part:
        yield part


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
        descriptor = locks.claim(path)
    except OSError as error:
        raise RequestError(f"hydra.sweeper.storage={storage}: {path} cannot be written ({error.strerror})") from error
    if descriptor is None:
        raise RequestError(f"hydra.sweeper.storage={storage}: another sweep is running a study in this file")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna neither prints nor warns inside the context: what it says is for its developers."""
    import importlib

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("optuna").logging.set_verbosity(logging.WARNING)
        yield
