"""`qarena sprt` as a Hydra application: its keys, and playing until the test decides.

What plays is imported when something is to be played: ``--help`` and the refusal of a wrong value need Hydra alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf

from quarto.errors import RequestError
from runners.config import schemas
from runners.config.application import Application, Finished, Judgement, Work, one_row, typed_command
from runners.config.objectives import Target
from runners.hosting.interruption import interruptible
from runners.terminal import console

if TYPE_CHECKING:
    from runners.arena.sprt import SprtExperiment

UNDECIDED = 3  # the exit code after as many games as were allowed


def sprt_of(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> SprtExperiment:
    """The test that a composed configuration asks for; its agents are made, its archive is opened, no run is touched.

    Raises ``RequestError`` as ``runners.config.agents.request_of`` and ``runners.arena.experiment.prepare`` do.
    """
    from analytics.statistics.sprt import Hypotheses
    from runners.arena.experiment import prepare
    from runners.arena.sprt import SprtExperiment
    from runners.config.requests import request_of

    if cfg.agents is not None and len(cfg.agents) != 2:
        named = console.shell_line(["qarena", "sprt", str(next(iter(cfg.agents), "mcts")), "random"])
        raise RequestError(f"a test is between two agents, not {len(cfg.agents)}: name two, {named}")
    hypotheses = Hypotheses(**{name: cfg[name] for name in Hypotheses.__struct_fields__})
    shared = [each.name for each in fields(schemas.RunConfig) if each.name in cfg]
    run = OmegaConf.create(OmegaConf.structured(schemas.RunConfig))
    run.merge_with(OmegaConf.masked_copy(cfg, shared))
    return SprtExperiment(prepare(request_of(run, choices, overrides)), hypotheses)


class SprtApplication(Application):
    """Decides which of two agents is stronger."""

    config = "sprt"
    schema = schemas.SprtConfig
    judged_by = Target("normalised_elo", "maximize", "{:.1f}".format)

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        return partial(_played, sprt_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task))


def _played(prepared: SprtExperiment) -> Finished:
    """The outcome of a test that was ready."""
    from analytics.statistics.sprt import strength
    from runners.arena.sprt import carry_out
    from runners.cli.sprt_output import row, show, showing

    request = prepared.experiment.request
    for note in request.notes:
        console.print_note(note)
    with interruptible() as stop, showing(request.progress, request.games) as watch:
        outcome = carry_out(prepared, typed_command(), stop, watch)
    trial = outcome.trial
    return Finished(
        run_id=prepared.experiment.run_id,
        show=lambda: show(outcome),
        interrupted=not trial.ended,
        stopped=outcome.stopped,
        judgement=Judgement("normalised_elo", strength(trial.counts).normalised_elo.mean) if trial.pairs else None,
        columns=one_row(row(outcome)),
        exit_code=UNDECIDED if trial.accepted is None else 0,
    )


SPRT = SprtApplication()
