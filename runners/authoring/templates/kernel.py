"""The agent template: jitted, one position in and one turn out."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base.agent import KernelAgent, Knowledge, encode_turn, params, turn
from agents.random import random_cell, random_piece
from quarto.jit import int64
from quarto.position import ALL_CELLS, PackedPosition, place_piece
from quarto.rng import draw
from quarto.rules import NONE, Rules
from quarto.threats import safe_pieces, winning_cells

SAFE = 0  # index of the parameter


@turn
def template_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    """Return the turn that the agent takes in a position, encoded by ``encode_turn``.

    ``params(agent)`` are the parameters in ``knowledge``, sets of cells and sets of pieces are masks of 16 bits, and
    ``draw(seed, i)`` is the ``i``-th random word of this turn.
    """
    word = draw(seed, 0)
    cell, lanes, occupied = int64(NONE), position.lanes, position.occupied
    if position.hand != NONE:
        wins = winning_cells(lanes, occupied, position.hand, rules)
        cell = random_cell(word, wins if wins != 0 else ~occupied & ALL_CELLS)
        lanes = place_piece(lanes, position.hand, cell)
        occupied |= int64(1) << cell
    safe = position.available & safe_pieces(lanes, occupied, rules)
    if safe == 0 or params(agent)[SAFE] == 0.0:
        safe = position.available
    return encode_turn(cell, random_piece(word, safe))


class KernelTemplate(KernelAgent):
    """An agent that takes a win, gives a safe piece if there is one, and otherwise chooses at random."""

    kernel = template_turn
    choosers = ("opponent",)  # the agent plays rules under which the opponent chooses the piece

    def __init__(self, safe: bool = True) -> None:
        self.safe = safe

    def knowledge(self, rules: Rules) -> Knowledge:
        """Return the arrays that ``template_turn`` reads as ``agent``.

        Agents that differ only in their parameters share one compiled kernel.
        """
        return Knowledge(params=np.array([float(self.safe)]))
