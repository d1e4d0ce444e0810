"""Positions as arrays of 0 and 1, the same for every environment and for agents that learned in one.

An observation is int8 [17, 8]. It has a row for each of the cells 0 to 15, a row for the hand, and a column for each
attribute value. Columns 0 to 3 are 1 if the piece is square, solid, coloured, high, columns 4 to 7 if it is not. The
row of an empty cell, or of an empty hand, is 0: an empty hand shows that a piece is to be chosen. An action mask is
int8 [16], 1 where an action is legal. The legal actions are the empty cells if there is a piece in hand, else the
pieces left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.jit import int64, kernel
from quarto.position import ALL_CELLS, Position, board, piece_at
from quarto.rules import ATTRIBUTES, CELLS, PIECES
from quarto.stepwise import ACTIONS, HAND

ROWS_OF_PIECES = CELLS + 1
VALUES = 2 * ATTRIBUTES
SHAPE = (ROWS_OF_PIECES, VALUES)

_SET = (np.arange(PIECES)[:, None] >> np.arange(ATTRIBUTES)) & 1
# [17, 8] int8: the values of each piece, and 0 for NONE, which Python counts as the last row.
FEATURES = np.concatenate([np.concatenate([_SET, 1 - _SET], axis=1), np.zeros((1, VALUES), np.int64)]).astype(np.int8)
BITS = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(np.int8)  # [256, 8] those of a byte, the lowest first
FEATURE_WORDS = FEATURES.view(np.uint64)[:, 0]  # [17] a row each, to be written at once
BIT_WORDS = BITS.view(np.uint64)[:, 0]  # [256]


def observation(pieces: Sequence[int]) -> NDArray[np.int8]:
    """The observation of the pieces on cells 0 to 15 and in the hand, ``NONE`` where there is none: [17, 8] int8."""
    found: NDArray[np.int8] = FEATURES[pieces]
    return found


def observation_of(position: Position) -> NDArray[np.int8]:
    """The observation of a position: [17, 8] int8."""
    return observation([*board(position), position.hand])


def mask(bits: int) -> NDArray[np.int8]:
    """16 bits, the lowest first: [16] int8."""
    return BITS[[bits & 255, bits >> 8]].reshape(ACTIONS)


# Fields of a batch; they may lie apart in memory, as those of records do.
LANES, CELL_BITS, SMALL = (types.Array(each, 1, "A") for each in (types.uint64, types.uint16, types.int8))
ROWS = types.uint64[:, ::1]


@kernel(types.void(LANES, CELL_BITS, CELL_BITS, SMALL, ROWS, ROWS))
def _encode(lanes: Any, occupied: Any, available: Any, hand: Any, observations: Any, masks: Any) -> None:
    for i in range(lanes.shape[0]):
        cells, piece = int64(occupied[i]), int64(hand[i])
        for cell in range(CELLS):
            here = (cells >> cell) & 1
            observations[i, cell] = FEATURE_WORDS[piece_at(lanes[i], cell) * here + PIECES * (1 - here)]
        observations[i, HAND] = FEATURE_WORDS[piece if piece >= 0 else PIECES]
        legal = int64(available[i]) if piece < 0 else ~cells & ALL_CELLS
        masks[i, 0] = BIT_WORDS[legal & 255]
        masks[i, 1] = BIT_WORDS[legal >> 8]


def encoded(batch: Batch) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Observations [B, 17, 8] int8 and action masks [B, 16] int8 of a batch of positions."""
    size = len(batch.lanes)
    observations, masks = np.empty((size, ROWS_OF_PIECES), np.uint64), np.empty((size, 2), np.uint64)
    _encode(batch.lanes, batch.occupied, batch.available, batch.hand, observations, masks)
    return observations.view(np.int8).reshape(size, *SHAPE), masks.view(np.int8)
