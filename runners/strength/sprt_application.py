"""`qarena sprt` as a Hydra application: play until the test decides, and show its progress and its outcome.

What plays is imported when something is to be played.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from runners.arena.storage import ArchiveConfig
from runners.hydra_app.application import (
    RUN,
    Application,
    EarlyChecks,
    Finished,
    finish_alone,
    finish_job,
    typed_command,
)
from runners.strength.sprt_schema import SprtConfig, check_values
from runners.terminal import console

if TYPE_CHECKING:
    from runners.strength.sprt_config import SprtRequest
    from runners.strength.sprt_play import SprtExperiment, SprtOutcome

UNDECIDED = 3  # the exit code after as many games as were allowed


class SprtChecks(EarlyChecks):
    """Checks of tests of strength."""

    prepared: SprtExperiment | None = None  # kept from the check, so that the agents are made once

    def check(self, config: DictConfig) -> None:
        check_values(config)
        from runners.strength.sprt_play import prepare_sprt

        SprtChecks.prepared = prepare_sprt(_request(config, config.hydra))


def _sprt_task(cfg: DictConfig) -> float | None:
    outcomes: list[SprtOutcome] = []

    def execute() -> Finished:
        outcomes.append(_execute(cfg, SprtChecks.prepared))
        return _finished(outcomes[0])

    score = finish_alone(execute)
    if outcomes[0].trial.accepted is None:
        sys.exit(UNDECIDED)
    return score


def _sprt_job(cfg: DictConfig) -> float | None:
    return finish_job(cfg, cfg.games, lambda: _finished(_execute(cfg)))


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> SprtRequest:
    from runners.strength.sprt_config import sprt_request_of

    return sprt_request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _execute(cfg: DictConfig, prepared: SprtExperiment | None = None) -> SprtOutcome:
    from runners.arena.experiment import interruptible
    from runners.strength.sprt_play import carry_out, prepare_sprt
    from runners.strength.sprt_show import showing

    prepared = prepared or prepare_sprt(_request(cfg, HydraConfig.get()))
    request = prepared.request.run
    for note in request.notes:
        console.print_note(note)
    with interruptible() as stop, showing(request.progress, request.games) as watch:
        return carry_out(prepared, typed_command(), stop, watch)


def _finished(outcome: SprtOutcome) -> Finished:
    from analytics.statistics.sprt import strength
    from runners.strength.sprt_show import row, show

    trial = outcome.trial
    return Finished(
        run_id=outcome.run_id,
        interrupted=not trial.ended,
        stopped=outcome.stopped,
        score=strength(trial.counts).normalised_elo.mean if trial.pairs else None,
        show=lambda: show(outcome),
        row=row(outcome),
    )


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """The keys that the user may have meant by an unknown one."""
    if unknown.partition(".")[0] in ("a", "b"):
        return RUN.keys(unknown, arguments)
    keys = [each.name for each in fields(SprtConfig) if each.name not in ("a", "b", "sweep", "archive")]
    return [*keys, *(f"archive.{each.name}" for each in fields(ArchiveConfig)), "agent@a", "agent@b"]


SPRT = Application("sprt", _sprt_task, _sprt_job, _keys)
