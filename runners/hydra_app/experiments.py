"""`qarena run` and `qarena sweep` as a Hydra application. What plays is imported when something is to be played."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hydra.conf import HydraConf
from hydra.types import RunMode
from omegaconf import DictConfig

from quarto.errors import ArenaError
from runners.arena.config_groups import plain
from runners.arena.schemas import RunConfig
from runners.hydra_app.application import Application, log_file, typed_command
from runners.hydra_app.finished import Finished, Target, Value
from runners.hydra_app.objectives import Objective, objective_of
from runners.terminal import console
from runners.terminal.progress import progress_bar

if TYPE_CHECKING:
    from runners.arena.experiment import Experiment
    from runners.arena.playing import Outcome

DEFAULT = "score"  # the objective of conf/run.yaml


class Judged(NamedTuple):
    """An experiment that is ready to be carried out, and the objective that its games are judged by."""

    experiment: Experiment
    objective: Objective
    name: str  # of the objective


class RunApplication(Application["Judged"]):
    """Plays a match or a tournament."""

    config = "run"
    schema = RunConfig

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Judged:
        from runners.arena.config import request_of
        from runners.arena.experiment import prepare

        request = request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)
        objective = _objective(cfg, hydra_cfg)
        objective.check(request.spec)
        if hydra_cfg.mode != RunMode.MULTIRUN:  # the first job of a sweep stands for all
            objective.probe(request.spec)
        return Judged(prepare(request), objective, hydra_cfg.runtime.choices["objective"])

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target:
        from runners.arena.config import request_of

        objective = _objective(cfg, hydra_cfg)
        try:
            spec = request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task).spec
        except ArenaError:  # the job itself will say so; others may be right
            spec = None
        if spec is not None:
            objective.check(spec)
            objective.probe(spec)
        return Target(objective.heading(hydra_cfg.runtime.choices["objective"]), objective.direction, objective.text)

    def execute(self, prepared: Judged) -> Finished:
        from runners.arena.playing import carry_out
        from runners.hosting.interruption import interruptible

        request = prepared.experiment.request
        for note in request.notes:
            console.print_note(note)
        with interruptible() as stop, progress_bar("playing", "games", request.progress) as progress:
            outcome = carry_out(prepared.experiment, typed_command(), stop, progress)
        log, value = log_file(), None if outcome.interrupted else _value(prepared, outcome)
        return Finished(
            run_id=outcome.run_id,
            show=lambda: _show(outcome, log, value),
            interrupted=outcome.interrupted,
            stopped=outcome.stopped,
            value=value,
        )


def _objective(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Objective:
    return objective_of(plain(cfg.objective), str(hydra_cfg.runtime.choices["objective"]))


def _value(prepared: Judged, outcome: Outcome) -> Value:
    """The value of a run that is complete."""
    objective, name = prepared.objective, prepared.name
    number = objective.value(prepared.experiment, outcome.results)
    return Value(name, number, objective.heading(name), objective.text(number))


def _show(outcome: Outcome, log: Path, value: Value | None) -> None:
    """Print the outcome of a single run; its value if it is not in the tables anyway."""
    from runners.terminal.results import show_outcome

    show_outcome(outcome, log)
    if value is not None and value.heading != DEFAULT:
        console.print_line(f"Objective: {value.heading}: {value.text}")


RUN = RunApplication()
