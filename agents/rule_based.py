"""Study A's rules of thumb: win, mirror the opponent, give a safe or an opposite piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, turn
from agents.parameters import checked_flag
from agents.random import random_cell, random_piece
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64
from quarto.position import ALL_CELLS, Position, placed
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, SIDE, Rules
from quarto.threats import safe_pieces, winning_cells

FEW_SAFE_GIFTS = 2  # up to this many, the first of them is given; the study ignores safety beyond


@inlined
def farthest_cell(empty: int, origin: int) -> int:
    """The cell of a non-empty 16-bit mask with the largest Manhattan distance to ``origin``, first on ties."""
    best, best_distance = int64(NONE), int64(-1)
    for cell in range(CELLS):
        distance = abs(cell // SIDE - origin // SIDE) + abs(cell % SIDE - origin % SIDE)
        if (empty >> cell) & 1 and distance > best_distance:
            best, best_distance = int64(cell), int64(distance)
    return best


@inlined
def mirror_cell(empty: int, last_cell: int, faithful: bool) -> int:
    """The point reflection of the opponent's last cell or, if that is taken, its replacement."""
    mirror = CELLS - 1 - last_cell
    if (empty >> mirror) & 1:
        return mirror
    return lowest_bit(empty) if faithful else farthest_cell(empty, last_cell)


@inlined
def mirror_piece(available: int, placed: int) -> int:
    """The available piece that differs from ``placed`` in most attributes, first on ties; NONE if there is none."""
    best, most = int64(NONE), int64(-1)
    for piece in range(PIECES):
        different = popcount(int64(piece ^ placed))
        if (available >> piece) & 1 and different > most:
            best, most = int64(piece), different
    return best


@inlined
def mirror_or_random_cell(position: Position, word: int, faithful: bool) -> int:
    """The mirror cell; on an empty board a random one."""
    empty = ~position.occupied & ALL_CELLS
    if position.last_cell == NONE:
        return random_cell(word, empty)
    return mirror_cell(empty, position.last_cell, faithful)


@inlined
def rule_of_thumb_gift(position: Position, cell: int, rules: Any) -> int:
    """The gift after the hand was placed on ``cell``: the first of one or two safe pieces, else the mirror piece."""
    lanes = placed(position.lanes, position.hand, cell)
    safe = position.available & safe_pieces(lanes, position.occupied | (int64(1) << cell), rules)
    few = safe != 0 and popcount(safe) <= FEW_SAFE_GIFTS
    return lowest_bit(safe) if few else mirror_piece(position.available, position.hand)


@turn
def rule_based_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    word = draw(seed, 0)
    if position.hand == NONE:
        return encode_turn(NONE, random_piece(word, position.available))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    cell = lowest_bit(wins) if wins != 0 else mirror_or_random_cell(position, word, params(own)[0] != 0.0)
    return encode_turn(cell, rule_of_thumb_gift(position, cell, rules))


class RuleBased(KernelAgent):
    """Study A's ``rule_based`` (``lorenzobellino/quarto-player``).

    With ``faithful`` it follows the study's code where that departs from its text: the cell that replaces a taken
    mirror cell is the first empty one, not the farthest, because the code looks at a stale set of cells and a constant
    distance.
    """

    kernel = rule_based_turn

    def __init__(self, faithful: bool = False) -> None:
        self.faithful = checked_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.faithful)]))
