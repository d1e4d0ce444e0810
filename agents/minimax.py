"""Study A's minimax: a board is worth the share of its safe gifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, turn
from agents.parameters import checked_flag, checked_whole
from agents.random import random_piece
from agents.search.alpha_beta import MEMORY_SIZE, SHARES, best_turn
from agents.study_a.leaf_turns import cell_of, study_a_turn
from quarto.bits import lowest_bit
from quarto.jit import int64
from quarto.position import ALL_CELLS, Position
from quarto.rng import draw
from quarto.rules import CELLS, NONE, Rules


@turn
def minimax_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    settings = params(own)
    gift = random_piece(draw(seed, 0), position.available)
    if position.hand == NONE:
        return encode_turn(NONE, gift)
    if settings[1] == 0.0:
        return best_turn(position, int64(settings[0]), SHARES, rules, own) & 0xFFFF
    cell = cell_of(study_a_turn(position, int64(settings[0]), rules))
    return encode_turn(cell if cell != NONE else lowest_bit(~position.occupied & ALL_CELLS), gift)


class Minimax(KernelAgent):
    """Study A's minimax (``lorenzobellino/quarto-player``): the first best turn, cells and gifts ascending.

    ``depth`` counts placements, its own first. A line is worth 100 to the player who makes it and 0 to the other. At
    the depth limit, let s be the percentage of safe pieces among those neither on the board nor in hand. A position is
    worth s on its own turn, 100 - s on the opponent's, and 50 if no piece is left. The same holds for a full board
    without a line. So a position can be worth 100 without a line, and this player does not always take a win. The
    opening gift is random: lower half of word 0. Visited positions are remembered.

    With ``faithful`` it follows the study's code (``agents/study_a/leaf_turns.py`` has the differences), which also
    gives a random piece instead of the one it found. If it finds no turn, it takes the first empty cell.

    Raises ``ValueError`` for a depth that is not from 1 to 16.
    """

    kernel = minimax_turn

    def __init__(self, depth: int = 1, faithful: bool = False) -> None:
        self.depth = checked_whole("depth", depth, 1, CELLS)
        self.faithful = checked_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.depth), float(self.faithful)]), scratch_size=MEMORY_SIZE)
