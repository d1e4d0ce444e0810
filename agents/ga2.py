"""Study B's genetic player: two genes govern its gifts and cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, turn
from agents.genetic.two_genes import cell_by_lines, gift_by_frequency
from agents.parameters import checked_probability
from quarto.jit import int64
from quarto.position import Position, after_placing
from quarto.rules import NONE, Rules


@turn
def ga2_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    genes = params(own)
    cell, after = int64(NONE), position
    if position.hand != NONE:
        cell = cell_by_lines(position.occupied, genes[1], seed)
        after = after_placing(position, cell)
    return encode_turn(cell, gift_by_frequency(after, genes[0], seed))


class Ga2(KernelAgent):
    """Study B's genetic player (``quarto_ci_2022_2023``): it does not look for wins, only at how often values occur.

    Gift: with probability 1 - ``alpha`` a piece of the values that are rarest on the board, else of the commonest ones.
    Cell: the last one of a diagonal, else of a row or column. Otherwise a cell in a row or column: with probability
    ``beta`` one with three or four empty cells, else one with two. It knows rows, columns and main diagonals only,
    whatever the rules. Words of a turn: see ``agents/genetic/two_genes.py``. Raises ``ValueError`` for a gene outside 0
    to 1.
    """

    kernel = ga2_turn

    def __init__(self, alpha: float = 0.1, beta: float = 0.3) -> None:
        self.alpha = checked_probability("alpha", alpha)
        self.beta = checked_probability("beta", beta)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([self.alpha, self.beta]))
