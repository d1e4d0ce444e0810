"""A policy in memory: what was learned from games, in the one form that every player of it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

GENOME = "genome"  # the kind without a table: its parameters are those of a player


@dataclass(frozen=True)
class Policy:
    """What was learned, ready to be stored: the same knowledge is the same bytes, however it was come by.

    ``table`` has columns of one length, of signed integers or float64; the order of its rows follows from them alone.
    """

    kind: str  # what its columns and parameters mean, and so which players can read it
    parameters: Mapping[str, float] = field(default_factory=dict)
    table: Mapping[str, NDArray[Any]] = field(default_factory=dict)
