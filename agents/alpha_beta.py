"""Study B's minimax: only lines count."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, turn
from agents.parameters import checked_whole
from agents.search.alpha_beta import MEMORY_SIZE, SOONER, best_gift, best_turn
from quarto.jit import int64
from quarto.position import Position
from quarto.rules import CELLS, NONE, Rules


@turn
def alpha_beta_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    depth = int64(params(own)[0])
    if position.hand == NONE:
        return encode_turn(NONE, best_gift(position, depth, SOONER, rules, own))
    return best_turn(position, depth, SOONER, rules, own) & 0xFFFF


class AlphaBeta(KernelAgent):
    """Study B's minimax with alpha-beta (``quarto_ci_2022_2023``): the first best turn, cells and gifts ascending.

    ``depth`` counts placements, its own first. An undecided position is worth 0; a sooner win and a later loss are
    better. A gift alone is judged by the same number of placements, the opponent's first. Raises ``ValueError`` for a
    depth that is not from 1 to 16.
    """

    kernel = alpha_beta_turn

    def __init__(self, depth: int = 2) -> None:
        self.depth = checked_whole("depth", depth, 1, CELLS)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.depth)]), scratch_size=MEMORY_SIZE)
