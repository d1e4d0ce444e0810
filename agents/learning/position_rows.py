"""The table of a tabular learner: a row of values for each position that it met, under the position as the key.

``Knowledge.keys`` is an open-addressing map with linear probing. It begins with two words, its numbers of positions and
values. Each slot has two words:

- The first is the position's lanes.
- The lowest bits of the second are 16 bits of occupied cells and five of the piece in hand plus one. The rest is the
  index in ``Knowledge.table`` where its row begins, plus one, so 0 is an empty slot.

Both words together are the position: no two positions share a key. An unknown value is NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import Knowledge
from agents.learning.learner import Learner
from quarto.bits import popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS
from quarto.rng import GAMMA, mix
from quarto.rules import CELLS

HEADER = 2  # words before the slots: positions, values
OCCUPIED_BITS, HAND_BITS = 16, 5
KEY_BITS = OCCUPIED_BITS + HAND_BITS
KEY = uint64((1 << KEY_BITS) - 1)
FIRST_SLOTS, FIRST_VALUES = 1 << 12, 1 << 14  # of a new learner
MAX_POSITIONS, MAX_VALUES = 32, 1 << 10  # that one game can add: 17 boards of at most 32 values each, rounded up


@inline_function
def position_key(occupied: int, hand: int) -> int:
    """Pack the occupied cells and the piece in hand into the key of a position.

    Two positions are equal if both their keys and their lanes (a mask of cells for each attribute) are equal. ``hand``
    is a piece or NONE.
    """
    return uint64(occupied) | (uint64(hand + 1) << uint64(OCCUPIED_BITS))


@inline_function
def find_slot(lanes: int, key: int, words: Any) -> int:
    """Return the index of the second word of a position's slot in the map ``words``.

    If the position has no slot, return the index of the second word of the empty slot that it would take. ``key`` is
    the position's ``position_key``.
    """
    last = uint64(words.shape[0] - HEADER) // uint64(2) - uint64(1)  # slots are a power of two
    slot = mix(lanes + key * GAMMA) & last
    while True:
        index = uint64(HEADER + 1) + uint64(2) * slot
        word = words[index]
        if word == uint64(0) or ((word & KEY) == key and words[index - uint64(1)] == lanes):
            return int64(index)
        slot = (slot + uint64(1)) & last


@inline_function
def find_row_start(lanes: int, occupied: int, hand: int, words: Any) -> int:
    """Return the index in the table at which the position's row begins, or NONE if the position has no row."""
    return int64(words[find_slot(lanes, position_key(occupied, hand), words)] >> uint64(KEY_BITS)) - 1


@inline_function
def find_or_add_nan_row_start(position: Any, width: int, words: Any, values: Any) -> int:
    """Find or add the row of a position (lanes, occupied, hand), and return the index at which the row begins.

    A new row has ``width`` unknown values. The caller must have checked ``has_room_for_game``.
    """
    lanes, key = position[0], position_key(position[1], position[2])
    index = find_slot(lanes, key, words)
    if words[index] == uint64(0):
        first = words[1]
        words[0] += uint64(1)
        words[1] += uint64(width)
        words[index - 1], words[index] = lanes, key | ((first + uint64(1)) << uint64(KEY_BITS))
        for i in range(width):
            values[int64(first) + i] = np.nan
    return int64(words[index] >> uint64(KEY_BITS)) - 1


@inline_function
def has_room_for_game(words: Any, values: Any) -> bool:
    """Return whether one more game can be added with at least half of the slots still empty afterwards.

    There must be room for all positions of the game and all their values.
    """
    positions, used = int64(words[0]) + MAX_POSITIONS, int64(words[1]) + MAX_VALUES
    enough: bool = 2 * positions <= (words.shape[0] - HEADER) // 2 and used <= values.shape[0]
    return enough


@inline_function
def bit_rank(bit: int, mask: int) -> int:
    """Count the set bits of ``mask`` below ``bit``.

    In a row with one value for each set bit of ``mask``, this is the index of the value of ``bit``.
    """
    return int64(popcount(mask & ((int64(1) << bit) - 1)))


@inline_function
def row_width(occupied: int) -> int:
    """Return the number of empty cells of a board, which is also the number of pieces off the board.

    A row has this many values for cells and, if it has values for gifts, as many for pieces.
    """
    return int64(popcount(~occupied & ALL_CELLS))


def build_empty_row_knowledge(params: NDArray[np.float64]) -> Knowledge:
    """Build knowledge without positions, with room for the positions of at least one game."""
    return Knowledge(params=params, table=np.zeros(FIRST_VALUES), keys=np.zeros(HEADER + 2 * FIRST_SLOTS, np.uint64))


def build_row_knowledge(
    params: NDArray[np.float64], position: tuple[NDArray[np.int64], ...], widths: NDArray[np.int64]
) -> tuple[Knowledge, NDArray[np.int64]]:
    """Build knowledge of distinct positions, with a row of unknown values for each.

    ``position`` has the lanes, the occupied cells and the hands of the positions, and ``widths`` the numbers of values
    in their rows. Returns the knowledge, and the index in its table at which each row begins.
    """
    slots = 1 << (2 * len(widths)).bit_length()
    knowledge = Knowledge(params, np.zeros(int(widths.sum())), np.zeros(HEADER + 2 * slots, np.uint64))
    return knowledge, _add_rows_and_list_starts(position, widths, knowledge.keys, knowledge.table)


@kernel()
def _add_rows_and_list_starts(
    position: tuple[NDArray[np.int64], ...], widths: NDArray[np.int64], words: Any, values: Any
) -> NDArray[np.int64]:
    """Add a row for each position, and return the index in the table at which each row begins: [positions] int64.

    ``widths`` are the numbers of values in the rows.
    """
    firsts, (lanes, occupied, hand) = np.empty(len(widths), np.int64), position
    for i in range(len(widths)):
        firsts[i] = find_or_add_nan_row_start((uint64(lanes[i]), occupied[i], hand[i]), widths[i], words, values)
    return firsts


def enlarge_rows(knowledge: Knowledge) -> Knowledge:
    """Return knowledge with the same rows, and with room for twice as many positions and values."""
    table = np.zeros(2 * len(knowledge.table))
    table[: len(knowledge.table)] = knowledge.table
    keys = np.zeros(HEADER + 2 * (len(knowledge.keys) - HEADER), np.uint64)
    _move_slots(knowledge.keys, keys)
    return replace(knowledge, table=table, keys=keys)


class RowLearner(Learner):
    """A learner whose knowledge consists of a row of values for each position that it met."""

    def enlarge(self, knowledge: Knowledge) -> Knowledge:
        return enlarge_rows(knowledge)


@kernel()
def _move_slots(words: NDArray[np.uint64], larger: NDArray[np.uint64]) -> None:
    """Enter every position of the map ``words`` into the empty map ``larger``. The rows of values are not moved."""
    larger[0], larger[1] = words[0], words[1]
    for index in range(HEADER + 1, words.shape[0], 2):
        if words[index] != uint64(0):
            free = find_slot(words[index - 1], words[index] & KEY, larger)
            larger[free - 1], larger[free] = words[index - 1], words[index]


class PositionRows(NamedTuple):
    """Positions, and the index of the first value of each position's row in the flat table of values.

    All arrays are [positions] int64.
    """

    lanes: NDArray[np.int64]
    occupied: NDArray[np.int64]
    hand: NDArray[np.int64]
    row_start: NDArray[np.int64]


def list_position_rows(knowledge: Knowledge) -> PositionRows:
    """List all positions in ascending order, and the index in the table at which each position's row begins."""
    slots = knowledge.keys[HEADER:].reshape(-1, 2)
    lanes, words = slots[slots[:, 1] != 0].T.copy()
    occupied = (words & np.uint64(ALL_CELLS)).astype(np.int64)
    hand = ((words & KEY) >> np.uint64(OCCUPIED_BITS)).astype(np.int64) - 1
    first = (words >> np.uint64(KEY_BITS)).astype(np.int64) - 1
    order = np.lexsort((hand, occupied, lanes.view(np.int64)))
    return PositionRows(lanes.view(np.int64)[order], occupied[order], hand[order], first[order])


class RowBits(NamedTuple):
    """The set bits in the masks of several rows, and the table index of each bit's value.

    All arrays are [bits] int64.
    """

    row: NDArray[np.int64]
    bit: NDArray[np.int64]
    table_index: NDArray[np.int64]  # of the bit's value


def list_row_bits(row_starts: NDArray[np.int64], masks: NDArray[np.int64]) -> RowBits:
    """List the set bits in each row's mask in ascending order, and the table index of each bit's value.

    ``row_starts`` [rows] are the table indices at which the rows begin. A row has one value for each set bit of its
    mask.
    """
    rows, bits = np.nonzero((masks[:, None] >> np.arange(CELLS)) & 1)
    widths = np.bitwise_count(masks).astype(np.int64)
    before = np.repeat(np.cumsum(widths) - widths, widths)
    return RowBits(rows, bits, row_starts[rows] + np.arange(len(rows)) - before)


def bit_ranks(bits: NDArray[np.int64], masks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute ``bit_rank`` for each of ``bits`` and its mask: [rows] int64."""
    ranks: NDArray[np.int64] = np.bitwise_count(masks & ((1 << bits) - 1)).astype(np.int64)
    return ranks
