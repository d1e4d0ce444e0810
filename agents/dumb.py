"""Study A's baseline: the first piece, the first cell."""

from __future__ import annotations

from typing import Any

from agents.base.agent import KernelAgent, encode_turn, turn
from agents.base.parameters import check_flag
from quarto.bits import lowest_bit
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rules import NONE


@turn
def dumb_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    gift = lowest_bit(position.available) if position.available != 0 else NONE
    return encode_turn(lowest_bit(~position.occupied & ALL_CELLS), gift)


class Dumb(KernelAgent):
    """A player that takes the first empty cell and gives the first unused piece.

    It is a player of study A (``lorenzobellino/quarto-player``) and never looks for a win. It has the parameter
    ``faithful`` only because all players of this study have it: here it changes nothing. The study's program differs
    from the study's text only in giving the first piece of a Python set, whose order is not reproduced.
    """

    kernel = dumb_turn
    choosers = ("opponent", "mover")

    def __init__(self, faithful: bool = False) -> None:
        self.faithful = check_flag("faithful", faithful)
