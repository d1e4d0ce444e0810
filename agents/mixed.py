"""Study A's mixed strategy: take a win; search late in the game; otherwise mirror the opponent."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, turn
from agents.parameters import checked_whole
from agents.random import random_piece
from agents.rule_based import mirror_or_random_cell, rule_of_thumb_gift
from agents.search.alpha_beta import MEMORY_SIZE, SHARES, TURN_BITS, WHOLE, best_turn
from agents.search.leaf_turns import NO_TURN, cell_of, gift_of, study_a_turn
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64
from quarto.position import Position
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.threats import winning_cells

NOT_LOST = 0.0  # percent: a turn that is worth more is accepted
FAITHFUL = 3  # index of the parameter, after the three that say when a searched turn is accepted


@inlined
def accepted_turn(position: Position, when: Any, faithful: bool, rules: Any, own: Any) -> int:
    """The search's turn if few pieces are unused and the turn is worth enough, else NO_TURN.

    ``when`` is three numbers: it searches with fewer unused pieces than the first, as many placements deep as the
    second, and accepts a turn whose value is above the third, in percent.
    """
    few_unused, depth, above = int64(when[0]), int64(when[1]), int64(when[2])
    unused = int64(popcount(position.available))
    if unused + int64(faithful) >= few_unused:  # the code counts the piece in hand as well
        return int64(NO_TURN)
    if faithful:
        found = study_a_turn(position, depth, rules)
        percent = 100 * (found >> TURN_BITS)  # of WHOLE, which is a win
    else:
        found = best_turn(position, depth, SHARES, rules, own)
        percent = 50 * ((found >> TURN_BITS) + WHOLE)
    return found & 0xFFFF if percent > above * WHOLE else int64(NO_TURN)


@turn
def mixed_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    word, settings = draw(seed, 0), params(own)
    if position.hand == NONE:
        return encode_turn(NONE, random_piece(word, position.available))
    faithful = settings[FAITHFUL] != 0.0
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins != 0:
        cell, gift = int64(lowest_bit(wins)), int64(NONE)
    else:
        accepted = accepted_turn(position, settings, faithful, rules, own)
        cell, gift = cell_of(accepted), gift_of(accepted)
    if cell == NONE:
        cell = mirror_or_random_cell(position, word, faithful)
    if gift == NONE:
        gift = rule_of_thumb_gift(position, cell, rules)
    return encode_turn(cell, gift)


class Mixed(KernelAgent):
    """Study A's ``mixed`` (``lorenzobellino/quarto-player``).

    Cell: the first that wins; else, with fewer than ``few_unused`` pieces neither on the board nor in hand, that of
    ``minimax`` to ``depth``, unless its value is 0 percent, and then its gift too; else ``rule_based``'s mirror cell.
    Gift otherwise: ``rule_based``'s. Words of a turn: 0, the opening gift (lower half) or a cell on an empty board.
    Raises ``ValueError`` for a number of pieces or a depth that is not from 0 or 1 to 16.
    """

    kernel = mixed_turn
    faithful = False

    def __init__(self, few_unused: int = 8, depth: int = 4) -> None:
        self.few_unused = checked_whole("few_unused", few_unused, 0, PIECES)
        self.depth = checked_whole("depth", depth, 1, CELLS)

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = [float(self.few_unused), float(self.depth), NOT_LOST, float(self.faithful)]
        return Knowledge(params=np.array(settings), scratch_size=MEMORY_SIZE)
