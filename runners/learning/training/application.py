"""`qarena train` as a Hydra application. What trains is imported when something is to be trained."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf

from runners.config.application import Application, Finished, Work, one_row, typed_command
from runners.config.objectives import Target
from runners.config.schemas import TrainConfig
from runners.hosting.interruption import interruptible
from runners.terminal import console
from runners.terminal.console import progress_bar

if TYPE_CHECKING:
    from runners.learning.training.request import TrainingRequest


class TrainApplication(Application):
    """Learns from games and stores a policy."""

    config = "train"
    schema = TrainConfig
    judged_by = Target("end of the learning curve", "maximize")

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        from runners.learning.training.request import check, training_request_of

        request = training_request_of(cfg, hydra_cfg.runtime.choices, typed_command())
        check(request)
        return partial(_learned, request)

    def games(self, cfg: DictConfig) -> int:
        games = cfg.trainer.get("games", 0) if OmegaConf.is_dict(cfg.trainer) else 0
        return games if isinstance(games, int) else 0


def _learned(request: TrainingRequest) -> Finished:
    """The outcome of a training that was ready."""
    from runners.learning.training.request import judged, keep, row, show, show_interrupted

    for note in request.notes:
        console.print_note(note)
    with interruptible() as stop, progress_bar("training", "games", request.progress) as progress:
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        stopped = stop.is_set()
    run_id = trained.run_ids[-1] if trained.run_ids else None
    if trained.policy is None:
        return Finished(run_id, lambda: show_interrupted(request, trained), True, stopped)
    card = keep(request, trained, trained.policy)
    return Finished(
        run_id=run_id,
        show=lambda: show(request, trained, card),
        stopped=stopped,
        judgement=judged(trained.curve),
        columns=one_row(row(card, trained)),
    )


TRAIN = TrainApplication()
