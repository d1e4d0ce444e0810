"""`qarena train` as a Hydra application. What trains is imported when something is to be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from runners.arena.config_groups import flat, settings_of
from runners.arena.storage import ArchiveConfig
from runners.hydra_app.application import Application, EarlyChecks, Finished, finish_alone, finish_job, typed_command
from runners.hydra_app.error_messages import own_settings
from runners.terminal import console
from runners.terminal.progress import progress_bar
from runners.training.schemas import CurveConfig, PolicyConfig, TrainConfig, check_values

if TYPE_CHECKING:
    from runners.training.config import TrainingRequest

DEFAULT = "rl_encoded"  # the trainer of conf/train.yaml


class TrainingChecks(EarlyChecks):
    """Checks of trainings."""

    prepared: TrainingRequest | None = None  # kept from the check

    def check(self, config: DictConfig) -> None:
        check_values(config)
        from runners.training.config import check

        request = _request(config, config.hydra)
        check(request)
        TrainingChecks.prepared = request


def _train_task(cfg: DictConfig) -> float | None:
    return finish_alone(lambda: _execute(cfg, TrainingChecks.prepared))


def _train_job(cfg: DictConfig) -> float | None:
    games = cfg.trainer.get("games", 0) if OmegaConf.is_dict(cfg.trainer) else 0
    return finish_job(cfg, games if isinstance(games, int) else 0, lambda: _execute(cfg))


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> TrainingRequest:
    from runners.training.config import training_request_of

    return training_request_of(cfg, hydra_cfg.runtime.choices, typed_command())


def _execute(cfg: DictConfig, prepared: TrainingRequest | None = None) -> Finished:
    from runners.arena.experiment import interruptible
    from runners.training import outcome
    from runners.training.config import check

    request = prepared or _request(cfg, HydraConfig.get())
    if prepared is None:
        check(request)
    for note in request.notes:
        console.print_note(note)
    with interruptible() as stop, progress_bar("training", "games", request.progress) as progress:
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        stopped = stop.is_set()
    run_id = trained.run_ids[-1] if trained.run_ids else None
    if trained.policy is None:
        return Finished(run_id, True, stopped, None, lambda: outcome.show_interrupted(request, trained))
    card = outcome.keep(request, trained, trained.policy)
    score, row = outcome.score(trained.curve), outcome.row(card, trained)
    return Finished(run_id, False, stopped, score, lambda: outcome.show(request, trained, card), row)


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """The keys that the user may have meant by an unknown one."""
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("trainer=")]
    trainer = chosen[-1] if chosen else DEFAULT
    if unknown.startswith("trainer."):
        own = own_settings("trainer", trainer, arguments) or [key for key, _ in flat(settings_of("trainer", trainer))]
        return [f"trainer.{key}" for key in own if not key.endswith("_target_")]
    keys = [
        each.name for each in fields(TrainConfig) if each.name not in ("trainer", "sweep", "archive", "policy", "curve")
    ]
    for name, schema in (("archive", ArchiveConfig), ("policy", PolicyConfig), ("curve", CurveConfig)):
        keys += [f"{name}.{each.name}" for each in fields(schema)]
    return [*keys, "trainer"]


TRAIN = Application("train", _train_task, _train_job, _keys)
