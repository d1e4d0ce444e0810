"""The kind 'mc_afterstate': the mean outcome of the games in which a turn was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.learning.afterstates import MC_AFTERSTATE
from agents.learning.policy import Policy
from agents.parameters import checked_whole
from analytics.policies.derived.afterstate_keys import (
    GameBoards,
    advance,
    forms_of,
    level_of,
    move_all,
    runs_of_keys,
    sorted_level,
)
from analytics.policies.derived.dataset import Dataset
from quarto.rules import CELLS

MOST = 1 << 31


class McAfterstate:
    """Monte Carlo estimates of afterstates (R. Sutton and A. Barto, Reinforcement Learning, 2nd edition, 5.1 and 6.8).

    A row is an afterstate: the board after a placement with the gift in the opponent's hand, by its canonical form.
    ``mean`` is the mean outcome for the player who made the turn, 1 won, 0 drawn, -1 lost, ``count`` the number of
    games. Turns count from the first gift that was chosen: no agent chose an imposed opening. Afterstates met less
    than ``least`` times are left out: their means are noise, and most afterstates are such.

    Columns: ``lanes`` int64, ``occupied`` int32, ``count`` int64, ``mean`` float64; ascending by the first two.
    """

    def __init__(self, least: int = 2) -> None:
        self.least = checked_whole("least", least, 1, MOST)

    def derive(self, dataset: Dataset, threads: int) -> Policy:
        boards, parts = GameBoards.empty(len(dataset.game_id)), []
        for pieces in range(CELLS):
            parts.append(self._level(dataset, pieces, boards, threads))
            move_all(advance, dataset.games, pieces, boards, threads)
        return Policy(MC_AFTERSTATE, table=ordered_rows(parts, "mean"))

    def _level(self, dataset: Dataset, pieces: int, boards: GameBoards, threads: int) -> tuple[NDArray[Any], ...]:
        """Lanes, occupied, count and mean of the afterstates with this many pieces."""
        level = level_of(dataset.rules, pieces)
        keys, counts, totals = runs_of_keys(sorted_level(dataset, level, boards, threads))
        kept = counts >= self.least
        lanes, occupied = forms_of(keys[kept], level)
        return lanes, occupied, counts[kept], totals[kept] / counts[kept]


def ordered_rows(levels: Sequence[tuple[NDArray[Any], ...]], value: str) -> dict[str, NDArray[Any]]:
    """The table of the afterstates of all levels, rows ascending by lanes, then by occupied.

    Each level has the columns lanes, occupied, count and the one named ``value``.
    """
    lanes, occupied, *others = (np.concatenate(column) for column in zip(*levels, strict=True))
    order = np.lexsort((occupied, lanes))
    columns = zip(("lanes", "occupied", "count", value), (lanes, occupied, *others), strict=True)
    return {name: column[order] for name, column in columns}
