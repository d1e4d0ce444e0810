"""Sparse features of an afterstate from its lines, so that a few thousand weights value boards that were never met.

An afterstate is the board after a placement with the gift in the opponent's hand. All pieces are compared with the
gift, which is the same as XORing every piece with it. A value of an attribute *matches* the gift or *opposes* it. Lines
and cells count by their class under the symmetries of the rules. So afterstates that a symmetry exchanges have the same
features, whatever the rules.

Features are numbered within a *stage*, the number of pieces on the board. Method: linear values of sparse binary
features, as in M. Buro, Improving heuristic mini-max search by supervised learning (2002); the features are ours.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.bits import LANE, lowest_bit, popcount
from quarto.jit import inlined, int64, kernel, uint64
from quarto.position import ALL_CELLS
from quarto.rules import ATTRIBUTES, CELLS, MAX_LINES_THROUGH_A_CELL, PIECES, Line, Rules
from quarto.symmetry import symmetries
from quarto.threats import SAFE_PIECES

MOST_LINES = 32  # of a line's number there is one more: that of no line

NUMBERS = types.int64[::1]
MOBILE_PIECES = 4  # on the board, from which mobility is looked at: before, no reply can do harm

# Where a number or a table is in the words that describe the features of some rules
LINES, LINE_CLASSES, CELL_CLASSES, MOBILITY, FORESIGHT, STAGE_SIZE = range(6)
OFFSETS = 8  # of each group of features within a stage
MASKS = OFFSETS + 24  # [32] the cells of each line
CLASS_OF_LINE = MASKS + MOST_LINES
THROUGH = CLASS_OF_LINE + MOST_LINES  # [16, 8] the lines through each cell, then MOST_LINES
CLASS_OF_CELL = THROUGH + CELLS * MAX_LINES_THROUGH_A_CELL
WORDS = CLASS_OF_CELL + CELLS

# Groups of features: see ``features_of``
(DANGER, LINE, SUPPLY, THREES, HOT, ATTRIBUTE, CELL, WIDEST, FEW, PARITY, TOTAL, SPREAD_OUT, UNION, NARROW, LEAST) = (
    range(15)
)
COUNTS = 16  # of pieces left or of cells
STATES = 25  # of a line: the number of matching and of opposing values
MULTISETS = 5985  # of four among 18
MOST_FEATURES = MOST_LINES + 4 + ATTRIBUTES + CELLS + 10

VALUE_PIECES = np.array(  # [4, 2] the pieces with each value of each attribute
    [[sum(1 << piece for piece in range(PIECES) if piece >> a & 1 == value) for value in (0, 1)] for a in range(4)]
)
BINOMIALS = np.array(
    [[0, n, n * (n + 1) // 2, n * (n + 1) * (n + 2) // 6, n * (n + 1) * (n + 2) * (n + 3) // 24] for n in range(18)]
)

# Where the state of a board is in the numbers that a thread works with
BYTES = 0  # [33] the values that the pieces on each line share, as a byte (``quarto/threats.py``); 0: dead or full
ON_LINE = BYTES + MOST_LINES + 1  # [33] the number of its pieces
OPEN_VALUES = ON_LINE + MOST_LINES + 1  # [32] of the lines that are not full, the first ``OPEN``: their values
OPEN_HAVING = OPEN_VALUES + MOST_LINES  # [32] the pieces that have one of these values
OPEN_BASE = OPEN_HAVING + MOST_LINES  # [32] the first of the features of such a line with so many pieces
OTHERS_AT = OPEN_BASE + MOST_LINES  # [16] values that finish a line on another cell than this one
TWO_AT = OTHERS_AT + CELLS  # [16] values of lines of two pieces through each cell
TOTALS = TWO_AT + CELLS
DANGERS, THREES_ALIVE, TWOS_ALIVE, HOT_CELLS, TWOS_BY_VALUE, HOT_BY_VALUE, OPEN = range(TOTALS, TOTALS + 7)
BOARD = OPEN + 1  # numbers of one board

ALL_VALUES = 255  # of attributes, which the pieces on an empty line share
NIBBLES, BYTES_OF_ONE = uint64(0x0F0F_0F0F_0F0F_0F0F), uint64(0x0101_0101_0101_0101)
ODD_NUMBERS = 0x0F0F_0F0F_0F0F_0F0F  # where cells with an odd number of gifts are counted: 15 is lowest
BYTE_OF_BITS = np.array([sum((byte >> bit & 1) << (8 * bit) for bit in range(8)) for byte in range(256)], np.int64)


def _classes(images: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class of each thing, numbered by its first member; ``images`` [S, N] under each of the symmetries."""
    least = images.min(axis=0)
    classes: NDArray[np.int64] = np.searchsorted(np.unique(least), least).astype(np.int64)
    return classes


def _group_sizes(line_classes: int, cell_classes: int) -> list[int]:
    """The number of features of each group."""
    return [
        *(5 * COUNTS, line_classes * 4 * STATES * COUNTS, MULTISETS, 10 * 11 * COUNTS, COUNTS * COUNTS),
        9 * 4 * 4 * 4 * 2 * COUNTS,
        *(cell_classes * COUNTS * 9, COUNTS**3, COUNTS * 8 * 8, COUNTS**2, 128, 8**4, COUNTS**2),
        *(COUNTS * COUNTS, 64 * COUNTS),
    ]


@cache
def _words(lines: tuple[Line, ...], rules: Rules, mobility: bool, foresight: int) -> NDArray[np.uint64]:
    cells = symmetries(rules).cells.astype(np.int64)
    masks = np.array([sum(1 << cell for cell in line) for line in lines])
    moved = np.array([[sum(1 << int(image[cell]) for cell in line) for line in lines] for image in cells])
    words = np.zeros(WORDS, np.uint64)
    of_lines, of_cells = _classes(moved), _classes(cells)
    words[LINES], words[LINE_CLASSES], words[CELL_CLASSES] = len(lines), of_lines.max() + 1, of_cells.max() + 1
    words[MOBILITY], words[FORESIGHT] = mobility, foresight
    sizes = _group_sizes(int(of_lines.max()) + 1, int(of_cells.max()) + 1)
    words[OFFSETS : OFFSETS + len(sizes)] = np.cumsum(sizes) - sizes
    words[STAGE_SIZE] = sum(sizes)
    words[MASKS : MASKS + len(lines)] = masks
    words[CLASS_OF_LINE : CLASS_OF_LINE + len(lines)] = of_lines
    through = np.full((CELLS, MAX_LINES_THROUGH_A_CELL), MOST_LINES)
    for cell in range(CELLS):
        own = [number for number, line in enumerate(lines) if cell in line]
        through[cell, : len(own)] = own
    words[THROUGH:CLASS_OF_CELL] = through.reshape(-1)
    words[CLASS_OF_CELL:] = of_cells
    return words


def words_of(rules: Rules, mobility: bool, foresight: int) -> NDArray[np.uint64]:
    """The description of the features under these rules, for kernels: [WORDS] uint64, read-only by convention."""
    return _words(rules.lines, rules, mobility, foresight)


def mark_of(rules: Rules) -> float:
    """A number that tells sets of lines apart: 48 bits of a hash of the lines, which a float64 holds exactly."""
    return float(int(hashlib.sha256(repr(rules.lines).encode()).hexdigest()[:12], 16))


@inlined
def piece_byte(piece: int) -> int:
    """The eight values of attributes that a piece has or lacks, as a byte."""
    return piece | (~piece & 15) << ATTRIBUTES


@inlined
def read_lines(lanes: int, occupied: int, words: Any, board: Any) -> None:
    """The state of every line of a board."""
    for line in range(int64(words[LINES])):
        mask = int64(words[MASKS + line])
        on_line = occupied & mask
        count, byte = int64(popcount(on_line)), int64(0)
        if count < 4:
            for attribute in range(ATTRIBUTES):
                lane = int64((lanes >> uint64(CELLS * attribute)) & LANE) & mask
                byte |= int64(lane == on_line) << attribute | int64(lane == 0) << (attribute + ATTRIBUTES)
        board[BYTES + line], board[ON_LINE + line] = byte, count


@inlined
def place_on_lines(before: Any, piece: int, cell: int, words: Any, after: Any) -> None:
    """The state of every line after ``piece`` was placed on ``cell``."""
    for line in range(int64(words[LINES])):
        after[BYTES + line], after[ON_LINE + line] = before[BYTES + line], before[ON_LINE + line]
    put_on_lines(after, piece, cell, words)


@inlined
def clear_lines(words: Any, board: Any) -> None:
    """The state of every line of the empty board."""
    for line in range(int64(words[LINES])):
        board[BYTES + line], board[ON_LINE + line] = ALL_VALUES, 0


@inlined
def put_on_lines(board: Any, piece: int, cell: int, words: Any) -> None:
    """Change the state of the lines through a cell on which ``piece`` was placed."""
    byte = piece_byte(piece)
    for i in range(MAX_LINES_THROUGH_A_CELL):
        line = int64(words[THROUGH + cell * MAX_LINES_THROUGH_A_CELL + i])
        if line == MOST_LINES:
            break
        board[ON_LINE + line] += 1
        board[BYTES + line] = board[BYTES + line] & byte if board[ON_LINE + line] < 4 else 0


@inlined
def survey_cells(occupied: int, words: Any, board: Any) -> None:
    """The dangers of a board, now and after a piece was placed on each cell, from its lines."""
    for cell in range(CELLS):
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
    for cell in range(CELLS):
        board[OTHERS_AT + cell] = twice | (once & ~board[OTHERS_AT + cell])
    board[DANGERS], board[HOT_BY_VALUE] = once, by_value
    board[THREES_ALIVE], board[TWOS_ALIVE], board[HOT_CELLS] = threes, twos, hot


@inlined
def survey(occupied: int, words: Any, board: Any) -> None:
    """Everything that the lines of a board say and that no gift changes."""
    survey_cells(occupied, words, board)
    twos, offset, number = int64(0), int64(words[OFFSETS + LINE]), int64(0)
    for line in range(int64(words[LINES])):
        values, count = board[BYTES + line], board[ON_LINE + line]
        if count == 4:
            continue
        board[OPEN_VALUES + number], board[OPEN_HAVING + number] = values, ~SAFE_PIECES[values]
        board[OPEN_BASE + number] = offset + (int64(words[CLASS_OF_LINE + line]) * 4 + count) * (STATES * COUNTS)
        twos += BYTE_OF_BITS[values] if count == 2 else 0
        number += 1
    board[TWOS_BY_VALUE], board[OPEN] = twos, number


@inlined
def dangers_after(cell: int, byte: int, board: Any) -> int:
    """The danger byte (``quarto/threats.py``) after a piece with this byte was placed on an empty cell."""
    return int64(board[OTHERS_AT + cell] | (board[TWO_AT + cell] & byte))


@inlined
def nibbles(word: int) -> int:
    """The sum of the sixteen numbers of four bits in a word."""
    pairs = (uint64(word) & NIBBLES) + ((uint64(word) >> uint64(4)) & NIBBLES)
    return int64((pairs * BYTES_OF_ONE) >> uint64(56))


@inlined
def multiset(a: int, b: int, c: int, d: int) -> int:
    """The number of a multiset of four numbers below 18, from 0."""
    a, b, c, d = min(a, b), max(a, b), min(c, d), max(c, d)
    a, c, b, d = min(a, c), max(a, c), min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    return int64(BINOMIALS[a, 1] + BINOMIALS[b, 2] + BINOMIALS[c, 3] + BINOMIALS[d, 4])


@inlined
def add_lines(board: Any, byte: int, left: int, safe: int, words: Any, found: Any) -> int:
    """Features of lines and of dangers: see ``features_of``."""
    count = board[OPEN]
    for i in range(count):
        values = board[OPEN_VALUES + i]
        state = int64(popcount(values & byte)) * 5 + int64(popcount(values & ~byte))
        found[i] = board[OPEN_BASE + i] + state * COUNTS + int64(popcount(left & board[OPEN_HAVING + i]))
    found[count] = int64(words[OFFSETS + DANGER]) + int64(popcount(board[DANGERS])) * COUNTS + safe
    threes, twos = min(board[THREES_ALIVE], 9), min(board[TWOS_ALIVE], 10)
    found[count + 1] = int64(words[OFFSETS + THREES]) + (threes * 11 + twos) * COUNTS + safe
    found[count + 2] = int64(words[OFFSETS + HOT]) + min(int64(popcount(board[HOT_CELLS])), 15) * COUNTS + safe
    return int64(count + 3)


@inlined
def add_attribute(attribute: int, board: Any, gift: int, left: int, common: int, found: Any, count: int) -> int:
    """The feature of one attribute; returns whether its other value is a danger, and how many pieces left have it."""
    value = (gift >> attribute) & 1
    match, oppose = attribute + ATTRIBUTES * (1 - value), attribute + ATTRIBUTES * value
    matching = min((board[TWOS_BY_VALUE] >> (8 * match)) & 255, 3)
    opposing = min((board[TWOS_BY_VALUE] >> (8 * oppose)) & 255, 3)
    cells = min((board[HOT_BY_VALUE] >> (8 * oppose)) & 255, 3)
    having = int64(popcount(left & VALUE_PIECES[attribute, 1 - value]))
    found[count] = common + (((having * 4 + matching) * 4 + opposing) * 4 + cells) * (2 * COUNTS)
    return int64(((board[DANGERS] >> oppose) & 1) * 9 + having)


@inlined
def add_attributes(board: Any, gift: int, left: int, safe: int, words: Any, found: Any, count: int) -> int:
    """Features of the attributes: see ``features_of``."""
    common = int64(words[OFFSETS + ATTRIBUTE]) + int64(popcount(board[HOT_CELLS]) > 2) * COUNTS + safe
    states = (
        add_attribute(0, board, gift, left, common, found, count),
        add_attribute(1, board, gift, left, common, found, count + 1),
        add_attribute(2, board, gift, left, common, found, count + 2),
        add_attribute(3, board, gift, left, common, found, count + 3),
    )
    found[count + 4] = int64(words[OFFSETS + SUPPLY]) + multiset(states[0], states[1], states[2], states[3])
    return count + 5


@inlined
def add_mobility(board: Any, byte: int, left: int, safe: int, occupied: int, words: Any, found: Any, count: int) -> int:
    """Features of the safe gifts that the opponent has after each placement: see ``features_of``."""
    empty = ~occupied & ALL_CELLS
    numbers, total, union = (
        int64(0),
        int64(0),
        int64(0),
    )  # cells by number of gifts, four bits each, 15 lowest
    offset = int64(words[OFFSETS + CELL])
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        dangers = dangers_after(cell, byte, board)
        gifts = left & SAFE_PIECES[dangers]
        number = int64(popcount(gifts))
        group = int64(words[CLASS_OF_CELL + cell]) * COUNTS + number
        found[count] = offset + group * 9 + int64(popcount(dangers))
        count += 1
        numbers += int64(1) << (60 - 4 * number)
        total += number
        union |= gifts
    none, one, two = (numbers >> 60) & 15, (numbers >> 56) & 15, (numbers >> 52) & 15
    odd = nibbles(numbers & ODD_NUMBERS)
    even = nibbles(numbers & ~ODD_NUMBERS) - none
    first = lowest_bit(numbers) >> 2
    numbers -= int64(1) << (4 * first)
    second = lowest_bit(numbers) >> 2 if numbers != 0 else int64(15)
    numbers -= int64(1) << (4 * second) if numbers != 0 else 0
    third = lowest_bit(numbers) >> 2 if numbers != 0 else int64(15)
    most, cells = 15 - first, even + odd
    found[count] = int64(words[OFFSETS + WIDEST]) + (cells * COUNTS + most) * COUNTS + safe
    found[count + 1] = int64(words[OFFSETS + FEW]) + (none * 8 + min(one, 7)) * 8 + min(two, 7)
    found[count + 2] = int64(words[OFFSETS + PARITY]) + even * COUNTS + odd
    found[count + 3] = int64(words[OFFSETS + TOTAL]) + min(total, 127)
    key = ((min(most, 7) * 8 + min(15 - second, 7)) * 8 + min(15 - third, 7)) * 8 + min(cells, 7)
    found[count + 4] = int64(words[OFFSETS + SPREAD_OUT]) + key
    found[count + 5] = int64(words[OFFSETS + UNION]) + cells * COUNTS + int64(popcount(union))
    return count + 6


@inlined
def turns_after(piece: int, rest: int, cells: int, board: Any) -> int:
    """The number of turns, each a placement of ``piece`` and a safe gift from ``rest``; 1 if no gift is left."""
    byte, turns = piece_byte(piece), int64(rest == 0)
    while cells != 0:
        turns += int64(popcount(rest & SAFE_PIECES[dangers_after(lowest_bit(cells), byte, board)]))
        cells &= cells - 1
    return turns


@inlined
def add_second_replies(
    board: Any, gift: int, left: int, occupied: int, words: Any, after: Any, found: Any, count: int
) -> int:
    """Features of the turns that the giver has after each reply: see ``features_of``; ``after`` is overwritten."""
    byte, empty = piece_byte(gift), ~occupied & ALL_CELLS
    replies, least, narrow = int64(0), int64(63), int64(0)
    while empty != 0 and least > 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        gifts = left & SAFE_PIECES[dangers_after(cell, byte, board)]
        if gifts == 0:
            continue
        filled = occupied | int64(1) << cell
        place_on_lines(board, gift, cell, words, after)
        survey_cells(filled, words, after)
        while gifts != 0 and least > 0:
            piece = lowest_bit(gifts)
            gifts &= gifts - 1
            turns = turns_after(piece, left & ~(int64(1) << piece), ~filled & ALL_CELLS, after)
            replies += 1
            narrow += int64(turns == 1)
            least = min(least, turns)
    replies = min(replies, 15) if least > 0 else 0
    narrow = min(narrow, 15) if least > 0 else 0
    found[count] = int64(words[OFFSETS + NARROW]) + replies * COUNTS + narrow
    found[count + 1] = int64(words[OFFSETS + LEAST]) + least * COUNTS + replies
    return count + 2


@kernel(types.int64(types.int64, types.int64, types.int64, types.uint64[::1], NUMBERS, NUMBERS, NUMBERS))
def features_of(occupied: int, gift: int, left: int, words: Any, board: Any, after: Any, found: Any) -> int:
    """Write the numbers of an afterstate's features within its stage into ``found``; returns how many.

    ``board`` was filled by ``survey``. ``left`` are the pieces neither on the board nor given. The gift is safe. A
    value matches or opposes that of the gift. *Safe* are pieces left that finish no line on this board. Features are
    numbers of:

    - for each line: its pieces, its shared values that match, those that oppose, and the pieces left with such a value;
    - the dangers, the lines of three and of two that can be finished, and the cells that finish one, each with the safe
      pieces;
    - for each attribute: the pieces left with the opposing value, the lines of two with either value, the cells where
      the opposing one wins;
    - the four attributes together, in no order;
    - with ``mobility``, for each cell: the safe gifts that are left if the opponent places there;
    - how these numbers are distributed;
    - from ``foresight`` pieces on: the least number of turns that a reply leaves to the giver, and the number of
      replies. A reply is a cell and a safe gift;
    - how many replies leave one turn. If some reply leaves none, both numbers of replies are 0.
    """
    byte, pieces = piece_byte(gift), int64(popcount(occupied))
    safe = int64(popcount(left & SAFE_PIECES[board[DANGERS]]))
    count = add_lines(board, byte, left, safe, words, found)
    count = add_attributes(board, gift, left, safe, words, found, count)
    if words[MOBILITY] != 0 and pieces >= MOBILE_PIECES:
        count = add_mobility(board, byte, left, safe, occupied, words, found, count)
    if pieces >= int64(words[FORESIGHT]):
        count = add_second_replies(board, gift, left, occupied, words, after, found, count)
    return count
