"""`qarena sprt` as a Hydra application: play until the test decides, and show its progress and its outcome.

What plays is imported when something is to be played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig

from runners.hydra_app.application import Application, typed_command
from runners.hydra_app.experiments import RUN
from runners.hydra_app.finished import Finished, Value
from runners.hydra_app.study import Target
from runners.strength.sprt_schema import SprtConfig, check_values
from runners.terminal import console

if TYPE_CHECKING:
    from runners.strength.sprt_play import SprtExperiment

UNDECIDED = 3  # the exit code after as many games as were allowed


class SprtApplication(Application["SprtExperiment"]):
    """Decides which of two agents is stronger."""

    config = "sprt"
    schema = SprtConfig
    groups = RUN.groups
    choices = ()
    judged_by = Target("normalised_elo", "maximize", "{:.1f}".format)

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> SprtExperiment:
        check_values(cfg)
        from runners.strength.sprt_config import sprt_request_of
        from runners.strength.sprt_play import prepare_sprt

        return prepare_sprt(sprt_request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task))

    def execute(self, prepared: SprtExperiment) -> Finished:
        from analytics.statistics.sprt import strength
        from runners.hosting.interruption import interruptible
        from runners.strength.sprt_play import carry_out
        from runners.strength.sprt_show import row, show, showing

        request = prepared.request.run
        for note in request.notes:
            console.print_note(note)
        with interruptible() as stop, showing(request.progress, request.games) as watch:
            outcome = carry_out(prepared, typed_command(), stop, watch)
        trial = outcome.trial
        return Finished(
            run_id=outcome.run_id,
            show=lambda: show(outcome),
            interrupted=not trial.ended,
            stopped=outcome.stopped,
            value=Value("normalised_elo", strength(trial.counts).normalised_elo.mean) if trial.pairs else None,
            row=row(outcome),
            exit_code=UNDECIDED if trial.accepted is None else 0,
        )


SPRT = SprtApplication()
