"""Winning cells and safe pieces: four table look-ups instead of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from quarto.jit import inline_function, int64, uint64
from quarto.rules import ATTRIBUTES, PIECES

VALUES = 2 * ATTRIBUTES  # attribute values: 0-3 an attribute bit set, 4-7 the same bit clear


_PIECE_NUMBERS = np.arange(PIECES)
_PIECE_VALUE_BITS = (
    _PIECE_NUMBERS | (~_PIECE_NUMBERS & 15) << ATTRIBUTES
)  # [16] the values that each piece has, as 8 bits
# [256] by danger byte: the pieces that have none of the values of the byte, as 16 bits
SAFE_PIECES = (_PIECE_VALUE_BITS & np.arange(1 << VALUES)[:, None] == 0) @ (1 << _PIECE_NUMBERS)


@inline_function
def occupied_cells_with_value(lanes: int, occupied: int, value: int) -> int:
    """Return the occupied cells (16 bits) whose pieces have the attribute value ``value``.

    Values 0 to 3 mean that attribute 0 to 3 of a piece is set, and values 4 to 7 that it is not set.
    """
    lane = int64((lanes >> uint64(16 * (value & 3))) & uint64(0xFFFF))
    return lane if value < ATTRIBUTES else occupied & ~lane


@inline_function
def winning_cells(lanes: int, occupied: int, piece: int, rules: Any) -> int:
    """Return the empty cells (16 bits) on which ``piece`` finishes a line."""
    cells = int64(0)
    for attribute in range(ATTRIBUTES):
        value = attribute if (piece >> attribute) & 1 else attribute + ATTRIBUTES
        cells |= int64(rules.completes[occupied_cells_with_value(lanes, occupied, value)])
    return cells & ~occupied


@inline_function
def danger_byte(lanes: int, occupied: int, rules: Any) -> int:
    """Return the danger byte of a board: bit ``v`` tells whether a piece with the attribute value ``v`` is not safe.

    The bit is set if such a piece finishes a line on some empty cell. See ``occupied_cells_with_value`` for the values.
    """
    byte = int64(0)
    for value in range(VALUES):
        cells = int64(rules.completes[occupied_cells_with_value(lanes, occupied, value)]) & ~occupied
        byte |= int64(cells != 0) << value
    return byte


@inline_function
def safe_pieces(lanes: int, occupied: int, rules: Any) -> int:
    """Return the pieces (16 bits) with which nobody could finish a line on this board.

    All 16 pieces are considered, also those on the board or in hand.
    """
    return int64(SAFE_PIECES[danger_byte(lanes, occupied, rules)])
