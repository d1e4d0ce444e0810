"""A player that kills its process once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from quarto.views import PositionView
from tests.runners.experiments import Dice

CUP = "poisoned cup"
LAST_TURN = 300


class Troubled(Dice):
    """``dice``; at its 300th turn in a process it empties the poisoned cup in the current folder, if it is full.

    Then it kills its process.
    """

    def __init__(self) -> None:
        self._turns = 0

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        self._turns += 1
        if self._turns == LAST_TURN and Path(CUP).exists():
            Path(CUP).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().choose(position, rng)
