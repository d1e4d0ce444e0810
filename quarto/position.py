"""A position as five machine words.

Board: four 16-bit lanes in one word. Bit ``c`` of lane ``a`` says that the piece on cell ``c`` has attribute bit ``a``
(3 high, 2 coloured, 1 solid, 0 square). Cells outside ``occupied`` are 0 in every lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from numba import types

from quarto.bits import lowest_bit, piece_to_lanes
from quarto.jit import inline_function, int64, uint64
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES

ALL_CELLS = (1 << CELLS) - 1
ALL_PIECES = (1 << PIECES) - 1


class PackedPosition(NamedTuple):
    """A board and the piece in hand. In kernels ``lanes`` is uint64 and every other field is int64."""

    lanes: int  # uint64: the board, see above
    occupied: int  # 16 bits: cells that hold a piece
    available: int  # 16 bits: pieces neither on the board nor in hand
    hand: int  # piece to place, or NONE
    last_cell: int  # cell filled by the ply before, or NONE


POSITION_TYPE = types.NamedTuple((types.uint64, types.int64, types.int64, types.int64, types.int64), PackedPosition)
EMPTY = PackedPosition(0, 0, ALL_PIECES, NONE, NONE)


@inline_function
def piece_at(lanes: int, cell: int) -> int:
    """Return the piece on an occupied ``cell``, or 0 if the cell is empty."""
    column = int64(lanes >> uint64(cell))  # bit 16 a: attribute a of the piece
    return (column & 1) | ((column >> 15) & 2) | ((column >> 30) & 4) | ((column >> 45) & 8)


def position_from_plies(plies: Iterable[tuple[int, int]], hand: int = NONE) -> PackedPosition:
    """Build the position after ``plies``, each (piece, cell), in which the piece ``hand`` is in hand.

    The function is written in plain Python, for notation and tests. Raises ``ValueError`` if a piece or a cell is out
    of range or occurs twice.
    """
    lanes, occupied, available, last_cell = 0, 0, ALL_PIECES, NONE
    for piece, cell in plies:
        if not 0 <= piece < PIECES or not available >> piece & 1:
            raise ValueError(f"piece {piece} is not among those left")
        if not 0 <= cell < CELLS or occupied >> cell & 1:
            raise ValueError(f"cell {cell} is not empty")
        for attribute in range(ATTRIBUTES):
            lanes |= (piece >> attribute & 1) << (CELLS * attribute + cell)
        occupied |= 1 << cell
        available &= ~(1 << piece)
        last_cell = cell
    if hand != NONE:
        if not 0 <= hand < PIECES or not available >> hand & 1:
            raise ValueError(f"piece {hand} in hand is not among those left")
        available &= ~(1 << hand)
    return PackedPosition(lanes, occupied, available, hand, last_cell)


def board(position: PackedPosition) -> list[int]:
    """Return the piece on each of the 16 cells, or ``NONE`` for an empty cell."""
    return [
        sum((position.lanes >> (CELLS * attribute + cell) & 1) << attribute for attribute in range(ATTRIBUTES))
        if position.occupied >> cell & 1
        else NONE
        for cell in range(CELLS)
    ]


@inline_function
def board_piece_mask(lanes: int, occupied: int) -> int:
    """Return the pieces on a board as a mask of 16 bits (int64)."""
    pieces = int64(0)
    while occupied:
        pieces |= int64(1) << piece_at(lanes, lowest_bit(occupied))
        occupied &= occupied - 1
    return pieces


@inline_function
def place_piece(lanes: int, piece: int, cell: int) -> int:
    """Return the lanes of a board after ``piece`` is placed on the empty cell ``cell``."""
    return lanes | (piece_to_lanes(piece) << uint64(cell))


@inline_function
def place_hand(position: PackedPosition, cell: int) -> PackedPosition:
    """Return the position after the piece in hand is placed on ``cell``."""
    lanes, occupied = place_piece(position.lanes, position.hand, cell), position.occupied | (int64(1) << cell)
    return PackedPosition(lanes, occupied, position.available, int64(NONE), int64(cell))


@inline_function
def give_piece(position: PackedPosition, piece: int) -> PackedPosition:
    """Return the position after ``piece`` is given."""
    available = position.available & ~(int64(1) << piece)
    return PackedPosition(position.lanes, position.occupied, available, int64(piece), position.last_cell)
