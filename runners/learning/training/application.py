"""`qarena train` as a Hydra application; the modules that train are imported when a training begins."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf

from runners.config.application import (
    Application,
    CommandOutcome,
    Launch,
    PreparedRequest,
    build_one_row_columns,
)
from runners.config.objectives import SweepTarget
from runners.config.schemas import TrainConfig
from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes

if TYPE_CHECKING:
    from runners.learning.training.request import TrainingRequest


class TrainApplication(Application):
    """The application that carries out a training and stores the policy that was learned."""

    config_name = "train"
    schema = TrainConfig
    default_target = SweepTarget("end of the learning curve", "maximize")

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig, launch: Launch) -> PreparedRequest:
        from runners.learning.training.request import check_training_and_create_archive, training_request_from_config

        request = training_request_from_config(cfg, hydra_cfg.runtime.choices, launch.command)
        check_training_and_create_archive(request)
        return partial(_execute_training, request)

    def count_requested_games(self, cfg: DictConfig) -> int:
        games = cfg.trainer.get("games", 0) if OmegaConf.is_dict(cfg.trainer) else 0
        return games if isinstance(games, int) else 0


def _execute_training(request: TrainingRequest) -> CommandOutcome:
    """Carry out a training that has been checked, and return its outcome."""
    from runners.learning.training.request import (
        build_objective_value,
        build_sweep_row,
        print_interrupted,
        print_training,
        save_policy,
    )

    for note in request.notes:
        console.print_note(note)
    with (
        stop_on_signal_then_interrupt_then_exit() as stop,
        show_progress_bar_or_notes("training", "games", request.progress) as progress,
    ):
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        stopped = stop.is_set()
    run_id = trained.run_ids[-1] if trained.run_ids else None
    if trained.policy is None:
        return CommandOutcome(run_id, lambda: print_interrupted(request, trained), True, stopped)
    card = save_policy(request, trained, trained.policy)
    return CommandOutcome(
        run_id=run_id,
        show=lambda: print_training(request, trained, card),
        stopped=stopped,
        objective_value=build_objective_value(trained.curve),
        columns=build_one_row_columns(build_sweep_row(card, trained)),
    )


TRAIN = TrainApplication()
