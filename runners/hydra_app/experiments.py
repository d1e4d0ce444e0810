"""`qarena run` and `qarena sweep` as a Hydra application. What plays is imported when something is to be played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig

from runners.arena.schemas import RunConfig, check_values
from runners.hydra_app.application import Application, Finished, log_file, typed_command
from runners.terminal import console
from runners.terminal.progress import progress_bar

if TYPE_CHECKING:
    from runners.arena.experiment import Experiment


class RunApplication(Application["Experiment"]):
    """Plays a match or a tournament."""

    config = "run"
    schema = RunConfig
    groups = (("agent@a", "rule_based"), ("agent@b", "random"))

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Experiment:
        check_values(cfg, RunConfig)
        from runners.arena.config import request_of
        from runners.arena.experiment import prepare

        return prepare(request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task))

    def execute(self, prepared: Experiment) -> Finished:
        from runners.arena.playing import carry_out
        from runners.contestants.interruption import interruptible

        for note in prepared.request.notes:
            console.print_note(note)
        with interruptible() as stop, progress_bar("playing", "games", prepared.request.progress) as progress:
            outcome = carry_out(prepared, typed_command(), stop, progress)
        log = log_file()
        return Finished(
            run_id=outcome.run_id,
            show=lambda: console.show_outcome(outcome, log),
            interrupted=outcome.interrupted,
            stopped=outcome.stopped,
            score=outcome.results[0].score.mean if outcome.results else None,
        )


RUN = RunApplication()
