"""Parsing of many positions at once, because a set of positions has ten thousand of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.notation import format_piece, parse_position
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES

USUAL_FORM = re.compile(r"[.0-9A-F]{4}(/[.0-9A-F]{4}){3} [0-9A-F]")
CELL_COLUMNS = np.array([5 * (cell // 4) + cell % 4 for cell in range(CELLS)])  # of a text: four cells and a slash
HAND_COLUMN = 20
PIECE_OF_CHARACTER = np.full(256, NONE, np.int8)
PIECE_OF_CHARACTER[[ord(format_piece(piece)) for piece in range(PIECES)]] = range(PIECES)


def parse_positions(texts: Sequence[str]) -> Batch:
    """Parse ``P`` positions into a batch [P], in the same order; every ``last_cell`` is NONE.

    Texts as ``format_position`` writes them for positions with a piece in hand are parsed together. If there are
    others, all are parsed one by one. Raises ``RequestError`` for a text that is not a position.
    """
    batch = _parse_usual_positions(texts) if all(map(USUAL_FORM.fullmatch, texts)) and texts else None
    return Batch.from_positions([parse_position(text)[0] for text in texts]) if batch is None else batch


def _parse_usual_positions(texts: Sequence[str]) -> Batch | None:
    """Parse texts of the form ``USUAL_FORM``. Return None if a position has some piece twice."""
    characters = np.array(texts, np.bytes_).view(np.uint8).reshape(len(texts), HAND_COLUMN + 1)
    pieces, hand = PIECE_OF_CHARACTER[characters[:, CELL_COLUMNS]], PIECE_OF_CHARACTER[characters[:, HAND_COLUMN]]
    is_filled, lanes = pieces != NONE, np.zeros(len(texts), np.uint64)
    for attribute in range(ATTRIBUTES):
        lanes |= _pack_bits(is_filled & (pieces >> attribute & 1 != 0)) << np.uint64(CELLS * attribute)
    occupied = _pack_bits(is_filled)
    masks = np.where(is_filled, 1 << pieces.clip(0).astype(np.int64), 0)
    used = np.bitwise_or.reduce(masks, axis=1) | 1 << hand.astype(np.int64)
    if (np.bitwise_count(used) != is_filled.sum(axis=1) + 1).any():
        return None
    available = (~used & (1 << PIECES) - 1).astype(np.uint16)
    return Batch(lanes, occupied.astype(np.uint16), available, hand, np.full(len(texts), NONE, np.int8))


def _pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack the bits of 16 cells, [P, 16], into words, [P], in which cell 0 is the lowest bit."""
    return bits.astype(np.uint64) @ (np.uint64(1) << np.arange(CELLS, dtype=np.uint64))
