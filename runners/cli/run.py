"""``qarena run``, ``sweep``, ``train``: experiments, carried out by Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from runners.cli import options

if TYPE_CHECKING:
    from runners.hydra_app.application import Application


def run(context: typer.Context, arguments: options.Overrides = None) -> None:
    """Play a match or a tournament."""
    _hydra("run", [*(arguments or []), *context.args])


def sweep(context: typer.Context, arguments: options.Overrides = None) -> None:
    """Play every combination of the given values."""
    _hydra("sweep", [*(arguments or []), *context.args])


def train(context: typer.Context, arguments: options.TrainingOverrides = None) -> None:
    """Train a player and store its policy."""
    _hydra("train", [*(arguments or []), *context.args])


def is_training(arguments: Sequence[str]) -> bool:
    """Whether the chosen experiment is a training: then each of the three commands carries it out as one."""
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("experiment=")]
    recipe = options.ROOT / "conf" / "experiment" / f"{Path(chosen[-1]).name}.yaml" if chosen else None
    return recipe is not None and recipe.exists() and "override /trainer:" in recipe.read_text(encoding="utf-8")


def _hydra(command: str, arguments: Sequence[str]) -> None:
    from runners.hydra_app.launch import launch

    application = _application(command == "train" or is_training(arguments))
    raise typer.Exit(launch(application, command, arguments, command == "sweep"))


def _application(training: bool) -> Application:
    if training:
        from runners.training.application import TRAIN

        return TRAIN
    from runners.hydra_app.experiments import RUN

    return RUN
