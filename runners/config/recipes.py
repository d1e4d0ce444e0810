"""Recipes, the yamls of ``conf/experiment``: whether one is a training. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quarto.sources import project_root


def is_training_requested(arguments: Sequence[str]) -> bool:
    """Return whether the chosen experiment is a training: then ``run`` and ``sweep`` carry it out as one."""
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("experiment=")]
    recipe = project_root() / "conf" / "experiment" / f"{Path(chosen[-1]).name}.yaml" if chosen else None
    return recipe is not None and recipe.exists() and "override /trainer:" in recipe.read_text(encoding="utf-8")
