"""Study A's rules of thumb: win, mirror the opponent, give a safe or an opposite piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, TurnKernel, encode_turn, params, turn
from agents.parameters import checked_flag, checked_version
from agents.random import random_cell, random_piece
from agents.study_a.rules_of_thumb import (
    EARLIER,
    FEW_SAFE_GIFTS,
    GAME_WORDS,
    LAST,
    VERSIONS,
    first_gift,
    mirrored_cell,
    safe_or_mirror_gift,
)
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64
from quarto.position import ALL_CELLS, Position, placed
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, SIDE, Rules
from quarto.threats import safe_pieces, winning_cells


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
def mirror_piece(available: int, placed: int) -> int:
    """The available piece that differs from ``placed`` in most attributes, first on ties; NONE if there is none."""
    best, most = int64(NONE), int64(-1)
    for piece in range(PIECES):
        different = popcount(int64(piece ^ placed))
        if (available >> piece) & 1 and different > most:
            best, most = int64(piece), different
    return best


@inlined
def mirror_or_random_cell(position: Position, word: int) -> int:
    """The point reflection of the opponent's last cell or, if it is taken, the empty cell farthest from that last cell.

    On an empty board a random cell.
    """
    empty, mirror = ~position.occupied & ALL_CELLS, CELLS - 1 - position.last_cell
    if position.last_cell == NONE:
        return random_cell(word, empty)
    return mirror if (empty >> mirror) & 1 else farthest_cell(empty, position.last_cell)


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
    cell = lowest_bit(wins) if wins != 0 else mirror_or_random_cell(position, word)
    return encode_turn(cell, rule_of_thumb_gift(position, cell, rules))


@turn
def rule_based_program_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    if position.hand == NONE:
        return encode_turn(NONE, first_gift(position, seed, rules, own))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    cell = int64(lowest_bit(wins)) if wins != 0 else mirrored_cell(position, params(own)[0] != 0.0, seed, own)
    return encode_turn(cell, safe_or_mirror_gift(position, cell, rules))


class RuleBased(KernelAgent):
    """Study A's ``rule_based`` (``lorenzobellino/quarto-player``).

    Cell: the first that wins. Else it is the point reflection of the opponent's last cell. If that is taken, it is the
    empty cell farthest from the opponent's last one, first on ties. On an empty board it is random. Gift: the first of
    one or two safe pieces. Else it is the piece that differs from the one just placed in most attributes, first on
    ties. At the opening it is random.

    With ``faithful`` it follows the study's program in its last version. With ``version='earlier'`` it follows the
    version of the study's first results. ``agents/study_a/rules_of_thumb.py`` has the differences.

    Words of a turn: 0, the opening gift (lower half) or a cell (upper half). With ``faithful`` word 1 is the cell
    (upper half) if the first one was occupied. Raises ``ValueError`` for an unknown version, or one without
    ``faithful``.
    """

    kernel = rule_based_turn

    def __init__(self, faithful: bool = False, version: str = LAST) -> None:
        self.faithful = checked_flag("faithful", faithful)
        self.version = checked_version(version, faithful, VERSIONS)

    def turn_kernel(self) -> TurnKernel:
        return rule_based_program_turn if self.faithful else rule_based_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        if not self.faithful:
            return Knowledge()
        return Knowledge(params=np.array([float(self.version == EARLIER)]), game_words=GAME_WORDS)
