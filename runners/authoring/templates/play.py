"""The agent template: many positions at once, with NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarto.rng import Streams
from quarto.views import BatchView


class PlayTemplate:
    """An agent that takes a win, gives a safe piece if there is one, and otherwise chooses at random."""

    choosers = ("opponent",)  # the agent plays rules under which the opponent chooses the piece

    def __init__(self, safe: bool = True) -> None:
        self.safe = safe

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cells for the pieces in hand, and the pieces to give, both [B].

        Where no piece is in hand, the cell is ignored.
        """
        cells = rng.choice(0, select_preferred(batch.winning_cells(), batch.free))
        safe = batch.safe_gifts(cells) & self.safe
        return cells, rng.choice(1, select_preferred(safe, batch.available))


def select_preferred(better: NDArray[np.bool_], fallback: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, row by row, the row of ``better`` if it has a true entry, or else that of ``fallback``: [B, 16]."""
    return np.where(better.any(axis=1, keepdims=True), better, fallback)
