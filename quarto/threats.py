"""Winning cells and safe pieces: four table look-ups instead of a search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.bits import spread
from quarto.jit import inlined, int64, kernel, uint64
from quarto.position import ALL_CELLS, Position
from quarto.rules import ATTRIBUTES, CELLS, PIECES, Rules

VALUES = 2 * ATTRIBUTES  # attribute values: 0-3 an attribute bit set, 4-7 the same bit clear


def _safe_pieces(danger: int) -> int:
    """The pieces that have none of the values in a danger byte, as 16 bits."""
    return sum(1 << piece for piece in range(PIECES) if not (piece | (~piece & 15) << ATTRIBUTES) & danger)


SAFE_PIECES = np.array([_safe_pieces(danger) for danger in range(1 << VALUES)], np.int64)  # [256], by danger byte


@inlined
def cells_with(lanes: int, occupied: int, value: int) -> int:
    """Occupied cells (16 bits) whose piece has an attribute value 0-7."""
    lane = int64((lanes >> uint64(16 * (value & 3))) & uint64(0xFFFF))
    return lane if value < ATTRIBUTES else occupied & ~lane


@inlined
def winning_cells(lanes: int, occupied: int, piece: int, rules: Any) -> int:
    """Empty cells (16 bits) on which ``piece`` finishes a line."""
    cells = int64(0)
    for attribute in range(ATTRIBUTES):
        value = attribute if (piece >> attribute) & 1 else attribute + ATTRIBUTES
        cells |= int64(rules.completes[cells_with(lanes, occupied, value)])
    return cells & ~occupied


@inlined
def danger(lanes: int, occupied: int, rules: Any) -> int:
    """The danger byte of a board: bit ``v`` is set when a piece with attribute value ``v`` could finish a line."""
    byte = int64(0)
    for value in range(VALUES):
        cells = int64(rules.completes[cells_with(lanes, occupied, value)]) & ~occupied
        byte |= int64(cells != 0) << value
    return byte


@inlined
def safe_pieces(lanes: int, occupied: int, rules: Any) -> int:
    """Pieces (16 bits, wherever they are) with which nobody could finish a line on this board."""
    return int64(SAFE_PIECES[danger(lanes, occupied, rules)])


@kernel()
def _wins_and_safe_gifts(
    lanes: int, occupied: int, available: int, piece: int, rules: Any, safe: NDArray[np.int64]
) -> int:
    empty = ~occupied & ALL_CELLS
    for cell in range(CELLS):
        if (empty >> cell) & 1:
            after = lanes | (spread(piece) << uint64(cell))
            safe[cell] = available & safe_pieces(after, occupied | (int64(1) << cell), rules)
    return winning_cells(lanes, occupied, piece, rules)


def wins_and_safe_gifts(position: Position, piece: int, rules: Rules) -> tuple[int, list[int]]:
    """The winning cells of ``piece``, and the safe gifts after each of its placements, for Python.

    The first value is the empty cells (16 bits) on which ``piece`` finishes a line. The second has 16 entries, one a
    cell. An entry is the other pieces left (16 bits) that could finish no line in the next ply. It is 0 where the cell
    is not empty.
    """
    safe = np.zeros(CELLS, np.int64)
    left = position.available & ~(1 << piece)
    wins = _wins_and_safe_gifts(uint64(position.lanes), position.occupied, left, piece, rules.tables, safe)
    return int(wins), [int(pieces) for pieces in safe]


@kernel()
def _safe_gifts(lanes: int, occupied: int, available: int, rules: Any) -> int:
    return available & safe_pieces(lanes, occupied, rules)


def safe_gifts(position: Position, rules: Rules) -> int:
    """The pieces left (16 bits) that could finish no line in the next ply, for Python."""
    return int(_safe_gifts(uint64(position.lanes), position.occupied, position.available, rules.tables))
