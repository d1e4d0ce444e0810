"""Study A's baseline: the first piece, the first cell."""

from __future__ import annotations

from typing import Any

from agents.base import KernelAgent, TurnKernel, encode_turn, turn
from agents.parameters import checked_flag
from agents.study_a.sets import walked, walking_order
from quarto.bits import lowest_bit
from quarto.jit import int64
from quarto.position import ALL_CELLS, Position
from quarto.rules import NONE


@turn
def dumb_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    gift = lowest_bit(position.available) if position.available != 0 else NONE
    return encode_turn(lowest_bit(~position.occupied & ALL_CELLS), gift)


@turn
def dumb_program_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    gift = walked(walking_order(position.available), 0) if position.available != 0 else int64(NONE)
    return encode_turn(lowest_bit(~position.occupied & ALL_CELLS), gift)


class Dumb(KernelAgent):
    """First empty cell, first unused piece; it never looks for a win (study A, ``lorenzobellino/quarto-player``).

    With ``faithful`` the first piece is that of a Python set, as in the study's program: see
    ``agents/study_a/sets.py``.
    """

    kernel = dumb_turn
    choosers = ("opponent", "mover")

    def __init__(self, faithful: bool = False) -> None:
        self.faithful = checked_flag("faithful", faithful)

    def turn_kernel(self) -> TurnKernel:
        return dumb_program_turn if self.faithful else dumb_turn
