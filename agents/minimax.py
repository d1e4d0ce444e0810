"""Study A's minimax: a board is worth the share of its safe gifts.

The study's code (``lorenzobellino/quarto-player``) differs from its text in four points, which ``faithful`` players
follow:

- A line at the depth limit, or before a placement of the side that began, counts ``FULL_SHARE``, whichever side made
  it. Before a placement of the other side a line is not seen at all.
- Shares at the depth limit are taken over all pieces off the board, the one in hand among them.
- A side that has no turn, since the last piece is in its hand, is worth infinity against it.
- The turn that the search returns is the last one before the depth limit, not the first.

The code keys its memory by the identity of an object, so it never hits. Gifts are tried in ascending order here, in the
order of a Python set there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from agents.alpha_beta import FULL_SHARE, MEMORY_SIZE, SHARE_EVALUATION, TURN_BITS, UNBOUNDED, search_valued_turn
from agents.base.agent import RULES_TYPE, KernelAgent, Knowledge, encode_turn, params, turn
from agents.base.parameters import check_flag, check_integer
from agents.random import random_piece
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel
from quarto.position import ALL_CELLS, POSITION_TYPE, PackedPosition, give_piece, place_hand
from quarto.rng import draw
from quarto.rules import CELLS, NONE, Rules
from quarto.threats import safe_pieces, winning_cells

NO_TURN = 0xFFFF  # neither cell nor gift


@inline_function
def pack_value_and_turn(value: int, turn: int) -> int:
    """Pack a value and an encoded turn into one integer, the value in the upper bits."""
    return (int64(value) << TURN_BITS) | int64(turn)


@inline_function
def safe_share_for_root_side(position: PackedPosition, maximising: bool, rules: Any) -> int:
    """Return what a position at the depth limit is worth to the side that began the search.

    The board has no line. ``maximising`` says whether this side is to move. If so, the value is the share of safe
    pieces among those off the board; otherwise it is ``FULL_SHARE`` minus this share.
    """
    unplaced = position.available | (int64(1) << position.hand)
    safe = int64(popcount(unplaced & safe_pieces(position.lanes, position.occupied, rules)))
    share = FULL_SHARE * safe // int64(popcount(unplaced))
    return share if maximising else FULL_SHARE - share


@inline_function
def study_line_value_with_turn(position: PackedPosition, depth: int, maximising: bool, turn: int) -> int:
    """Return the value of a finished line, packed with the turn that study A's code would return.

    ``turn`` finished the line, ``depth`` is the number of placements left to search, and ``maximising`` says whether
    the side that began the search finished it. If that side did and ``depth`` is above 0, the study's code overlooks
    the line and searches on. The packed turn is then the first reply to ``turn``, or NO_TURN if no piece is left.
    """
    if not maximising or depth == 0:
        return pack_value_and_turn(FULL_SHARE, turn)
    if position.available == 0:
        return pack_value_and_turn(UNBOUNDED, NO_TURN)
    reply = encode_turn(lowest_bit(~position.occupied & ALL_CELLS), lowest_bit(position.available))
    return pack_value_and_turn(FULL_SHARE, reply)  # the other side goes on, and each of its turns is worth as much


@kernel(types.int64(POSITION_TYPE, types.int64, types.int64, types.int64, types.boolean, types.int64, RULES_TYPE))
def search_value_with_last_turn(
    position: PackedPosition, depth: int, alpha: int, beta: int, maximising: bool, turn: int, rules: Any
) -> int:
    """Return a board's value for the side that began the search, packed with the last turn before the leaf.

    The board has no line. The leaf is the board from which the search takes the value. ``turn`` is the turn that led to
    the given board.
    """
    if depth == 0:
        return pack_value_and_turn(safe_share_for_root_side(position, maximising, rules), turn)
    best = pack_value_and_turn(-UNBOUNDED if maximising else UNBOUNDED, NO_TURN)
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    empty, enough = ~position.occupied & ALL_CELLS, int64(FULL_SHARE if maximising else 0)
    while empty != 0 and alpha < beta and best >> TURN_BITS != enough:
        cell, gifts = lowest_bit(empty), position.available
        placed = place_hand(position, cell)
        while gifts != 0 and alpha < beta and best >> TURN_BITS != enough:
            child = give_piece(placed, lowest_bit(gifts))
            child_turn = int64(encode_turn(cell, child.hand))
            if (wins >> cell) & 1:
                valued_turn = study_line_value_with_turn(child, depth - 1, maximising, child_turn)
            else:
                valued_turn = search_value_with_last_turn(
                    child, depth - 1, alpha, beta, not maximising, child_turn, rules
                )
            value = valued_turn >> TURN_BITS
            if maximising:
                best = valued_turn if value > best >> TURN_BITS else best
                alpha = max(alpha, value)
            else:
                best = valued_turn if value < best >> TURN_BITS else best
                beta = min(beta, value)
            gifts &= gifts - 1
        empty &= empty - 1
    return best


@inline_function
def study_a_valued_turn(position: PackedPosition, depth: int, rules: Any) -> int:
    """Return the turn that study A's code finds, packed with its value.

    It is not the first turn on the path to the best leaf, but the last one: see ``search_value_with_last_turn``. The
    cell and the gift are NONE if the code finds no turn.
    """
    return search_value_with_last_turn(position, depth, -UNBOUNDED, UNBOUNDED, True, NO_TURN, rules)


@inline_function
def decode_cell(valued_turn: int) -> int:
    """Return the cell of a turn that may be packed with its value, or NONE if the turn has no cell."""
    cell = int64(valued_turn & 0xFF)
    return cell if cell != 0xFF else int64(NONE)


@inline_function
def decode_gift(valued_turn: int) -> int:
    """Return the gift of a turn that may be packed with its value, or NONE if the turn has no gift."""
    gift = int64((valued_turn >> 8) & 0xFF)
    return gift if gift != 0xFF else int64(NONE)


@turn
def minimax_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings = params(agent)
    gift = random_piece(draw(seed, 0), position.available)
    if position.hand == NONE:
        return encode_turn(NONE, gift)
    if settings[1] == 0.0:
        return search_valued_turn(position, int64(settings[0]), SHARE_EVALUATION, rules, agent) & 0xFFFF
    cell = decode_cell(study_a_valued_turn(position, int64(settings[0]), rules))
    return encode_turn(cell if cell != NONE else lowest_bit(~position.occupied & ALL_CELLS), gift)


class Minimax(KernelAgent):
    """Study A's minimax (``lorenzobellino/quarto-player``).

    Of the best turns, it plays the one with the lowest cell, then the lowest gift. ``depth`` counts placements,
    beginning with the player's own. A line is worth 100 to the player who makes it and 0 to the other. At the depth
    limit, let s be the percentage of safe pieces among those neither on the board nor in hand. A position is worth s if
    the player is to move, 100 - s if the opponent is, and 50 if no piece is left. A full board without a line is worth
    50 too. A position without a line can be worth as much as a line, 100, so the player does not always take a win. The
    opening gift is drawn with the lower half of random word 0.

    With ``faithful``, it follows the study's code, which always gives a random piece instead of the gift that the
    search found (``agents/minimax.py`` lists the other differences). If the code finds no turn, the player takes the
    first empty cell.

    Raises ``ValueError`` for a depth outside 1 to 16.
    """

    kernel = minimax_turn

    def __init__(self, depth: int = 1, faithful: bool = False) -> None:
        self.depth = check_integer("depth", depth, 1, CELLS)
        self.faithful = check_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.depth), float(self.faithful)]), scratch_size=MEMORY_SIZE)
