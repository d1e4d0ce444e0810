"""Exact keys: the lanes of a canonical form squeezed into one machine word.

Only the occupied cells of a lane say anything. Squeezed to them, the four lanes of ``n`` pieces take 4 n bits, lane 0
lowest. A key has one more part beside them. In ``board_key`` it is the number of the canonical mask. In ``board_word``
it is the hand, because there the mask has a column of its own. A key is never a hash: different forms have different
keys.
"""

from __future__ import annotations

from quarto.bits import LANE, lowest_bit, popcount
from quarto.jit import inlined, int64, uint64
from quarto.rules import ATTRIBUTES, CELLS
from quarto.symmetry import Symmetries

LARGEST_KEY_BOARD = 12  # pieces of the largest board whose key fits one word: 14 + 4 x 12 = 62 bits
NUMBER_BITS = 14  # the number of a canonical mask: at most 8,548, since all rules have the 8 symmetries of the square
HAND_BITS = 4  # of a board word: the lowest


@inlined
def squeeze(lanes: int, occupied: int, tables: Symmetries) -> int:
    """The four lanes squeezed to the ``n`` occupied cells, lane 0 lowest: 4 n bits (uint64)."""
    low, high = occupied & 255, occupied >> 8
    low_count, count = popcount(low), popcount(occupied)
    word = uint64(0)
    for attribute in range(ATTRIBUTES):
        lane = int64((lanes >> uint64(CELLS * attribute)) & LANE)
        bits = int64(tables.squeezed[low, lane & 255]) | int64(tables.squeezed[high, lane >> 8]) << low_count
        word |= uint64(bits) << uint64(count * attribute)
    return word


@inlined
def expand(word: int, occupied: int) -> int:
    """The lanes (uint64) from which ``squeeze`` made this word. Bits above the lowest 4 n are not read."""
    lanes = uint64(0)
    for attribute in range(ATTRIBUTES):
        rest = occupied
        while rest:
            lanes |= (word & uint64(1)) << uint64(CELLS * attribute + lowest_bit(rest))
            word >>= uint64(1)
            rest &= rest - 1
    return lanes


@inlined
def board_key(lanes: int, occupied: int, tables: Symmetries) -> int:
    """One uint64 for a canonical form of up to ``LARGEST_KEY_BOARD`` pieces: exact, no two forms share one.

    The lowest 14 bits number the canonical mask; above them come the squeezed lanes: ``14 + 4 n`` bits for ``n``
    pieces. The form must be canonical already.
    """
    return squeeze(lanes, occupied, tables) << uint64(NUMBER_BITS) | uint64(tables.number[occupied])


@inlined
def board_of_key(key: int, tables: Symmetries) -> tuple[int, int]:
    """The canonical form (lanes uint64, occupied int64) that has this ``board_key``."""
    occupied = int64(tables.masks[int64(key & uint64((1 << NUMBER_BITS) - 1))])
    return expand(key >> uint64(NUMBER_BITS), occupied), occupied


@inlined
def board_word(lanes: int, occupied: int, hand: int, tables: Symmetries) -> int:
    """The pieces of a canonical board and the hand (0 if there is none) as a uint64: exact beside ``occupied``.

    The hand is in the lowest four bits, the squeezed lanes above it: 4 n + 4 bits. The top one is 0, since the highest
    piece of a canonical board is 0: a signed word holds it.
    """
    return squeeze(lanes, occupied, tables) << uint64(HAND_BITS) | uint64(hand)
