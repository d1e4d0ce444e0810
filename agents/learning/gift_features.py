"""Features of a gift: the state of the board and of the pieces left, as its giver sees it.

Four features (``quarto/threats.py``) describe a gift:

- ``pieces``: how many pieces are on the board;
- ``wins``: with how many cells the opponent wins at once;
- ``safe``: how many of the other pieces left are safe to give on the board as it is;
- ``dangers``: how many of the eight attribute values finish a line on this board.
"""

from __future__ import annotations

from typing import Any

from quarto.bits import popcount
from quarto.jit import inlined, int64
from quarto.rules import CELLS, PIECES
from quarto.threats import SAFE_PIECES, VALUES, danger, winning_cells

GIFT = "gift"  # the kind of policy that has a row for each combination of features
FEATURES = {"pieces": CELLS, "wins": CELLS + 1, "safe": PIECES, "dangers": VALUES + 1}  # number of values, from 0
COMBINATIONS = CELLS * (CELLS + 1) * PIECES * (VALUES + 1)


@inlined
def features_of(lanes: int, occupied: int, gift: int, others: int, rules: Any) -> int:
    """The features of a gift as one number below ``COMBINATIONS``; ``others`` are the other pieces left (16 bits)."""
    threats = danger(lanes, occupied, rules)
    wins = int64(popcount(winning_cells(lanes, occupied, gift, rules)))
    safe = int64(popcount(others & SAFE_PIECES[threats]))
    combination = int64(popcount(occupied)) * (CELLS + 1) + wins
    return (combination * PIECES + safe) * (VALUES + 1) + int64(popcount(threats))
