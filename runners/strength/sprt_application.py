"""`qarena sprt` as Hydra runs it: play until the test decides, show how it stands, say what it came to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from analytics.statistics.sprt import strength
from runners.arena.experiment import interruptible
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
from runners.strength.sprt_config import SprtConfig, TrialRequest, trial_request_of
from runners.strength.sprt_play import Contest, Found, arrange, carry_out
from runners.strength.sprt_show import row, show, watching
from runners.terminal import console

UNDECIDED = 3  # the exit code after as many games as were allowed


class TrialChecks(EarlyChecks):
    """Those of tests of strength."""

    arranged: Contest | None = None  # what was checked, so that agents are not made twice

    def check(self, config: DictConfig) -> None:
        TrialChecks.arranged = arrange(_request(config, config.hydra))


def _sprt_task(cfg: DictConfig) -> float | None:
    found: list[Found] = []

    def execute() -> Finished:
        found.append(_execute(cfg, TrialChecks.arranged))
        return _finished(found[0])

    score = finish_alone(execute)
    if found[0].trial.accepted is None:
        sys.exit(UNDECIDED)
    return score


def _sprt_job(cfg: DictConfig) -> float | None:
    return finish_job(cfg, cfg.games, lambda: _finished(_execute(cfg)))


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> TrialRequest:
    return trial_request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _execute(cfg: DictConfig, arranged: Contest | None = None) -> Found:
    contest = arranged or arrange(_request(cfg, HydraConfig.get()))
    request = contest.request.run
    for note in request.notes:
        console.say(note)
    with interruptible() as stop, watching(request.progress, request.games) as watch:
        return carry_out(contest, typed_command(), stop, watch)


def _finished(found: Found) -> Finished:
    trial = found.trial
    score = strength(trial.counts).normalised_elo.mean if trial.pairs else None
    interrupted = not trial.ended
    run_id = found.contest.experiment.run_id
    return Finished(run_id, interrupted, found.stopped, score, lambda: show(found), row(found))


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """What could have been meant by an unknown key."""
    if unknown.partition(".")[0] in ("a", "b"):
        return RUN.keys(unknown, arguments)
    keys = [each.name for each in fields(SprtConfig) if each.name not in ("a", "b", "sweep", "archive")]
    return [*keys, *(f"archive.{each.name}" for each in fields(ArchiveConfig)), "agent@a", "agent@b"]


SPRT = Application("sprt", _sprt_task, _sprt_job, _keys)
