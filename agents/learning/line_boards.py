"""The lines of a board as kernels read them, and the words that describe the lines of some rules.

Lines and cells count by their class under the symmetries of the rules. So afterstates that a symmetry exchanges have
the same features (``line_features.py``), whatever the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quarto.bits import LANE_MASK, lowest_bit, popcount
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS
from quarto.rules import ATTRIBUTES, CELLS, MAX_LINES_THROUGH_A_CELL, PIECES
from quarto.threats import SAFE_PIECES

MAX_LINES = 32  # also the number that stands for no line

# Where each number or table is in the words that describe the features of some rules
LINES, STAGE_SIZE = range(2)
OFFSETS = 2  # of each group of features (``line_features.py``) within a stage, that of lines first
MASKS = OFFSETS + 24  # [32] the cells of each line
CLASS_OF_LINE = MASKS + MAX_LINES
THROUGH = CLASS_OF_LINE + MAX_LINES  # [16, 8] the lines through each cell, then MAX_LINES
CLASS_OF_CELL = THROUGH + CELLS * MAX_LINES_THROUGH_A_CELL
WORDS = CLASS_OF_CELL + CELLS

COUNTS = 16  # of pieces left or of cells
STATES = 25  # of a line: the number of matching and of opposing values
# Where each part of a board's state is in the numbers that a thread works with
BYTES = 0  # [33] the values that the pieces on each line share, as a byte (``quarto/threats.py``); 0: dead or full
ON_LINE = BYTES + MAX_LINES + 1  # [33] the number of its pieces
OPEN_VALUES = ON_LINE + MAX_LINES + 1  # [32] of the lines that are not full, the first ``OPEN``: their values
OPEN_HAVING = OPEN_VALUES + MAX_LINES  # [32] the pieces that have one of these values
OPEN_BASE = OPEN_HAVING + MAX_LINES  # [32] the first of the features of such a line with so many pieces
OTHERS_AT = OPEN_BASE + MAX_LINES  # [16] values that finish a line on another cell than this one
TWO_AT = OTHERS_AT + CELLS  # [16] values of lines of two pieces through each cell
TOTALS = TWO_AT + CELLS
DANGERS, THREES_ALIVE, TWOS_ALIVE, HOT_CELLS, TWOS_BY_VALUE, HOT_BY_VALUE, OPEN = range(TOTALS, TOTALS + 7)
MIN_OF, CELLS_OF = OPEN + 1, OPEN + 1 + PIECES  # [16] of each gift of a reply: the least turns after it, its cells
BOARD = CELLS_OF + PIECES  # numbers of one board

ALL_VALUES = 255  # of attributes, which the pieces on an empty line share
BYTE_OF_BITS = np.array([sum((byte >> bit & 1) << (8 * bit) for bit in range(8)) for byte in range(256)], np.int64)


@inline_function
def piece_byte(piece: int) -> int:
    """Return the attribute values of a piece as a byte.

    The lower four bits are the attributes that the piece has, the upper four bits those that it lacks.
    """
    return piece | (~piece & 15) << ATTRIBUTES


@inline_function
def fill_line_states(lanes: int, occupied: int, words: Any, board: Any) -> None:
    """Write the state of each line into ``board``: the number of its pieces, and the attribute values that they share.

    ``lanes`` (a mask of cells for each attribute) and ``occupied`` describe the position. ``words`` is the table that
    ``build_feature_words`` builds for the rules.
    """
    for line in range(int64(words[LINES])):
        mask = int64(words[MASKS + line])
        on_line = occupied & mask
        count, byte = int64(popcount(on_line)), int64(0)
        if count < 4:
            for attribute in range(ATTRIBUTES):
                lane = int64((lanes >> uint64(CELLS * attribute)) & LANE_MASK) & mask
                byte |= int64(lane == on_line) << attribute | int64(lane == 0) << (attribute + ATTRIBUTES)
        board[BYTES + line], board[ON_LINE + line] = byte, count


@inline_function
def fill_line_states_after(before: Any, piece: int, cell: int, words: Any, after: Any) -> None:
    """Write into ``after`` the state that every line of ``before`` has once ``piece`` is placed on ``cell``.

    ``words`` is the table that ``build_feature_words`` builds for the rules.
    """
    for line in range(int64(words[LINES])):
        after[BYTES + line], after[ON_LINE + line] = before[BYTES + line], before[ON_LINE + line]
    update_line_states(after, piece, cell, words)


@inline_function
def fill_empty_line_states(words: Any, board: Any) -> None:
    """Set every line of ``board`` to the state that it has on the empty board.

    ``words`` is the table that ``build_feature_words`` builds for the rules.
    """
    for line in range(int64(words[LINES])):
        board[BYTES + line], board[ON_LINE + line] = ALL_VALUES, 0


@inline_function
def update_line_states(board: Any, piece: int, cell: int, words: Any) -> None:
    """Update the states of the lines through ``cell``, on which ``piece`` was placed.

    ``words`` is the table that ``build_feature_words`` builds for the rules.
    """
    byte = piece_byte(piece)
    for i in range(MAX_LINES_THROUGH_A_CELL):
        line = int64(words[THROUGH + cell * MAX_LINES_THROUGH_A_CELL + i])
        if line == MAX_LINES:
            break
        board[ON_LINE + line] += 1
        board[BYTES + line] = board[BYTES + line] & byte if board[ON_LINE + line] < 4 else 0


@inline_function
def fill_dangers_now_and_after_placements(occupied: int, words: Any, board: Any) -> None:
    """Write into ``board`` its present dangers, and what determines the dangers after a placement on each empty cell.

    A danger is an attribute value with which a piece can finish a line. ``dangers_after`` finds the dangers after a
    given piece is placed. The states of the lines must already be in ``board``. ``words`` is the table that
    ``build_feature_words`` builds for the rules.
    """
    cells = ~occupied & ALL_CELLS
    while cells != 0:
        cell = lowest_bit(cells)
        cells &= cells - 1
        board[OTHERS_AT + cell] = board[TWO_AT + cell] = 0  # at first the values that finish a line on this cell
    threes, twos, hot, once, twice = int64(0), int64(0), int64(0), int64(0), int64(0)
    for line in range(int64(words[LINES])):
        byte, count = board[BYTES + line], board[ON_LINE + line]
        if byte == 0 or count < 2:
            continue
        empty = int64(words[MASKS + line]) & ~occupied
        first = lowest_bit(empty)
        if count == 3:
            threes += 1
            hot |= empty
            board[OTHERS_AT + first] |= byte
        else:
            twos += 1
            board[TWO_AT + first] |= byte
            board[TWO_AT + lowest_bit(empty & (empty - 1))] |= byte
    cells, by_value = hot, int64(0)
    while cells != 0:
        values = board[OTHERS_AT + lowest_bit(cells)]
        cells &= cells - 1
        twice |= once & values
        once |= values
        by_value += BYTE_OF_BITS[values]
    cells = ~occupied & ALL_CELLS
    while cells != 0:
        cell = lowest_bit(cells)
        cells &= cells - 1
        board[OTHERS_AT + cell] = twice | (once & ~board[OTHERS_AT + cell])
    board[DANGERS], board[HOT_BY_VALUE] = once, by_value
    board[THREES_ALIVE], board[TWOS_ALIVE], board[HOT_CELLS] = threes, twos, hot


@inline_function
def fill_board_survey(occupied: int, words: Any, board: Any) -> None:
    """Write into ``board`` all that follows from the states of its lines and does not depend on the gift.

    This includes the dangers (``fill_dangers_now_and_after_placements``). It also includes an entry for each line that
    is not full: the values that its pieces share, the pieces that have one of these values, and the base of the line's
    feature number. ``words`` is the table that ``build_feature_words`` builds for the rules.
    """
    fill_dangers_now_and_after_placements(occupied, words, board)
    twos, offset, number = int64(0), int64(words[OFFSETS]), int64(0)
    for line in range(int64(words[LINES])):
        values, count = board[BYTES + line], board[ON_LINE + line]
        if count == 4:
            continue
        board[OPEN_VALUES + number], board[OPEN_HAVING + number] = values, ~SAFE_PIECES[values]
        board[OPEN_BASE + number] = offset + (int64(words[CLASS_OF_LINE + line]) * 4 + count) * (STATES * COUNTS)
        twos += BYTE_OF_BITS[values] if count == 2 else 0
        number += 1
    board[TWOS_BY_VALUE], board[OPEN] = twos, number


@inline_function
def dangers_after(cell: int, byte: int, board: Any) -> int:
    """Return, as a byte, the attribute values that can finish a line after a placement on an empty cell.

    ``byte`` has the attribute values of the piece that is placed (``piece_byte``). The result has the form of
    ``danger_byte`` in ``quarto/threats.py``.
    """
    return int64(board[OTHERS_AT + cell] | (board[TWO_AT + cell] & byte))


@inline_function
def safe_gifts_after(cell: int, byte: int, rest: int, board: Any) -> int:
    """Return the pieces of ``rest`` that are safe gifts after a placement on an empty cell, as 16 bits.

    ``byte`` has the attribute values of the piece that is placed (``piece_byte``).
    """
    return int64(rest & SAFE_PIECES[dangers_after(cell, byte, board)])


@inline_function
def fill_lines_and_dangers_after(before: Any, piece: int, cell: int, filled: int, words: Any, after: Any) -> None:
    """Write into ``after`` the line states and the dangers of the board once ``piece`` is placed on ``cell``.

    ``before`` has the line states before the placement, and ``filled`` is the set of occupied cells after it. A danger
    is an attribute value with which a piece can finish a line. ``words`` is the table that ``build_feature_words``
    builds for the rules.
    """
    fill_line_states_after(before, piece, cell, words, after)
    fill_dangers_now_and_after_placements(filled, words, after)
