"""A jitted player that now and then raises: ``dumb``, but not for every stream."""

from __future__ import annotations

from typing import Any

from agents.base import KernelAgent, encode_turn, turn
from quarto.bits import lowest_bit, popcount
from quarto.jit import int64
from quarto.position import ALL_CELLS, Position
from quarto.rng import draw
from quarto.rules import NONE


@turn
def hothead_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    if popcount(position.occupied) >= 4 and draw(seed, 0) & 7 == 0:
        raise ValueError("lost my nerve")
    gift = lowest_bit(position.available) if position.available != 0 else int64(NONE)
    return encode_turn(lowest_bit(~position.occupied & ALL_CELLS), gift)


class Hothead(KernelAgent):
    """Raises in every eighth turn from the fifth placement on."""

    kernel = hothead_turn
