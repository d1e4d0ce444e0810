"""``qarena sprt`` as an application of Hydra: its keys, and playing until the test decides.

Modules that play are imported only to play, because ``--help`` and the refusal of a wrong value must be quick.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig

from analytics.questions.columns import format_elo
from runners.config import schemas
from runners.config.application import (
    Application,
    CommandOutcome,
    Launch,
    ObjectiveValue,
    PreparedRequest,
    build_one_row_columns,
)
from runners.config.objectives import SweepTarget
from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
from runners.terminal import console

if TYPE_CHECKING:
    from runners.arena.sprt import SprtExperiment

UNDECIDED_EXIT_CODE = 3  # the exit code if the test is undecided after all games that were allowed


class SprtApplication(Application):
    """The application of ``qarena sprt``, which decides which of two agents is stronger."""

    config_name = "sprt"
    schema = schemas.SprtConfig
    default_target = SweepTarget("normalised_elo", "maximize", format_elo)

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig, launch: Launch) -> PreparedRequest:
        from runners.config.requests import prepare_test

        test = prepare_test(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)
        return partial(_execute_test, test, launch)


def _execute_test(test: SprtExperiment, launch: Launch) -> CommandOutcome:
    """Play the games of a prepared test until it decides or is stopped, and return the outcome of the command."""
    from analytics.statistics.sprt import estimate_strength
    from runners.arena.sprt import execute_sprt
    from runners.arena.sprt_output import format_sweep_row, print_outcome, show_progress

    request = test.experiment.request
    for note in request.notes:
        console.print_note(note)
    with stop_on_signal_then_interrupt_then_exit() as stop, show_progress(request.progress, request.games) as watch:
        outcome = execute_sprt(test, launch.command, stop, watch)
    trial, strength = outcome.trial, None
    if trial.pairs:
        strength = ObjectiveValue("normalised_elo", estimate_strength(trial.counts).normalised_elo.mean)
    return CommandOutcome(
        run_id=test.experiment.run_id,
        show=lambda: print_outcome(outcome),
        interrupted=not trial.ended,
        stopped=outcome.stopped,
        objective_value=strength,
        columns=build_one_row_columns(format_sweep_row(outcome)),
        exit_code=UNDECIDED_EXIT_CODE if trial.accepted is None else 0,
    )


SPRT = SprtApplication()
