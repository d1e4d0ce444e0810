"""The yamls of ``conf/experiment``, called recipes: whether one is a training. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quarto.sources import project_root


def is_training_experiment_chosen(arguments: Sequence[str]) -> bool:
    """Return whether the arguments choose an experiment that trains a policy.

    If so, the commands ``run`` and ``sweep`` carry out a training instead of a match.
    """
    experiment_names = [argument.partition("=")[2] for argument in arguments if argument.startswith("experiment=")]
    recipe = (
        project_root() / "conf" / "experiment" / f"{Path(experiment_names[-1]).name}.yaml" if experiment_names else None
    )
    return recipe is not None and recipe.exists() and "override /trainer:" in recipe.read_text(encoding="utf-8")
