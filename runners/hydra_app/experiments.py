"""`qarena run` and `qarena sweep` as a Hydra application. What plays is imported when something is to be played."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from quarto.errors import ArenaError
from runners.arena.config_groups import plain
from runners.arena.objectives import Objective, Target, objective_of
from runners.arena.schemas import RunConfig
from runners.hydra_app.application import Application, Finished, Judgement, Work, typed_command
from runners.terminal import console
from runners.terminal.console import progress_bar

if TYPE_CHECKING:
    from analytics.results.columns import ResultColumn
    from runners.arena.config import Request
    from runners.arena.experiment import Experiment
    from runners.arena.playing import Outcome

DEFAULT = "score"  # the objective of conf/run.yaml


class RunApplication(Application):
    """Plays a match or a tournament."""

    config = "run"
    schema = RunConfig
    view = "the first agent's view; win, draw and loss in %"

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        from runners.arena.experiment import prepare

        request, objective = _request(cfg, hydra_cfg), _objective(cfg, hydra_cfg)
        objective.check(request.spec)
        if hydra_cfg.mode != RunMode.MULTIRUN:  # the first job of a sweep stands for all
            objective.probe(request.spec)
        experiment = prepare(request)
        return lambda: _played(experiment, objective)

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target:
        objective = _objective(cfg, hydra_cfg)
        try:
            spec = _request(cfg, hydra_cfg).spec
        except ArenaError:  # the job itself will say so; others may be right
            pass
        else:
            objective.check(spec)
            objective.probe(spec)
        return Target(objective.heading, objective.direction, objective.text)


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Request:
    from runners.arena.config import request_of

    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _objective(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Objective:
    return objective_of(plain(cfg.objective), str(hydra_cfg.runtime.choices["objective"]))


def _played(experiment: Experiment, objective: Objective) -> Finished:
    """The outcome of an experiment that was ready."""
    from runners.arena.playing import carry_out
    from runners.hosting.interruption import interruptible
    from runners.terminal.results import show_outcome

    request, running = experiment.request, HydraConfig.get()
    log = Path(running.runtime.output_dir) / f"{running.job.name}.log"
    for note in request.notes:
        console.print_note(note)
    with interruptible() as stop, progress_bar("playing", "games", request.progress) as progress:
        outcome = carry_out(experiment, typed_command(), stop, progress)
    value = None if outcome.interrupted else objective.value(experiment, outcome.results)

    def show() -> None:
        show_outcome(outcome, log)
        if value is not None and objective.heading != DEFAULT:  # which is in the tables anyway
            console.print_line(f"Objective: {objective.heading}: {objective.text(value)}")

    more = any(result.games > request.games for result in outcome.results)
    return Finished(
        run_id=outcome.run_id,
        show=show,
        interrupted=outcome.interrupted,
        stopped=outcome.stopped,
        judgement=None if value is None else Judgement(objective.name, value),
        columns=_columns(outcome, objective, value),
        notes=[f"asked for {request.games:,} games a pairing; its run holds more, and all are counted"] if more else [],
    )


def _columns(outcome: Outcome, objective: Objective, value: float | None) -> list[ResultColumn]:
    """The pairings as a sweep shows them; the value of the objective stands in the first row."""
    from analytics.results.columns import ResultColumn, pairing_columns
    from analytics.results.pairings import pairings_frame

    if not outcome.results:
        return []
    shown, others = pairing_columns(pairings_frame(outcome.results), with_scores=False), len(outcome.results) - 1
    return (
        shown if value is None else [*shown, ResultColumn(objective.heading, [objective.text(value), *[""] * others])]
    )


RUN = RunApplication()
