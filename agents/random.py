"""Uniform random play: the yardstick of every study."""

from __future__ import annotations

from typing import Any

from agents.base.agent import KernelAgent, encode_turn, turn
from agents.base.player import batch_turn
from quarto.batch import Lockstep
from quarto.bits import nth_bit, popcount
from quarto.jit import inline_function, int64, uint64
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


@inline_function
def draw_turn(occupied: int, available: int, seed: int) -> tuple[int, int]:
    """Return a cell and a gift, drawn from the random word of the turn with the given seed."""
    word = draw(seed, 0)
    return random_cell(word, ~occupied & ALL_CELLS), random_piece(word, available)


@turn
def random_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    cell, gift = draw_turn(position.occupied, position.available, seed)
    return encode_turn(cell, gift)


@batch_turn
def random_turns(turn: Any, agent: Any, rules: Any, state: Lockstep, seed_offset: int, first_positions: int) -> None:
    batch, turns = state.batch, state.turns
    for i in range(uint64(first_positions)):  # unsigned, so that no index is taken for one that counts from the end
        seed = state.streams[i] + seed_offset
        cell, gift = draw_turn(int64(batch.occupied[i]), int64(batch.available[i]), seed)
        turns.cells[i], turns.gifts[i] = cell, gift


class Random(KernelAgent):
    """A player that places on a random empty cell and gives a random unused piece, both uniformly, under any rules."""

    kernel = random_turn
    batch_kernel = random_turns
    choosers = ("opponent", "mover")
