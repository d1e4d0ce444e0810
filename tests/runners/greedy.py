"""A jitted player that soon takes an illegal turn: always the first cell and the first piece."""

from __future__ import annotations

from typing import Any

from agents.base import KernelAgent, encode_turn, turn
from quarto.position import Position


@turn
def greedy_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    return encode_turn(0, 0)


class Greedy(KernelAgent):
    """Gives the first piece and takes the first cell, whether or not they are there."""

    kernel = greedy_turn
