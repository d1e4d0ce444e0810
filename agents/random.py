"""Uniform random play: the yardstick of every study."""

from __future__ import annotations

from typing import Any

from agents.base.agent import KernelAgent, encode_turn, turn
from quarto.bits import nth_bit, popcount
from quarto.jit import inline_function
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rng import draw, integer_below, second_integer_below
from quarto.rules import NONE


@inline_function
def random_cell(word: int, cells: int) -> int:
    """Return a cell drawn uniformly from a non-empty 16-bit mask, using the upper half of ``word``."""
    return nth_bit(cells, integer_below(word, popcount(cells)))


@inline_function
def random_piece(word: int, pieces: int) -> int:
    """Return a piece drawn uniformly from a 16-bit mask, using the lower half of ``word``, or NONE if there is none."""
    return nth_bit(pieces, second_integer_below(word, popcount(pieces))) if pieces != 0 else NONE


@turn
def random_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word = draw(seed, 0)
    return encode_turn(random_cell(word, ~position.occupied & ALL_CELLS), random_piece(word, position.available))


class Random(KernelAgent):
    """A player that places on a random empty cell and gives a random unused piece, both uniformly, under any rules."""

    kernel = random_turn
    choosers = ("opponent", "mover")
