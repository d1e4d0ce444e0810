"""Sparse features of an afterstate from its lines, so that a few thousand weights value boards that were never met.

An afterstate is the board after a placement with the gift in the opponent's hand. All pieces are compared with the
gift, which is the same as XORing every piece with it: a value of an attribute *matches* the gift or *opposes* it. Lines
and cells count by their class under the symmetries of the rules. So afterstates that a symmetry exchanges have the
same features, whatever the rules.

Features are numbered within a *stage*, the number of pieces on the board. Method: linear values of sparse binary
features, as in M. Buro, Improving heuristic mini-max search by supervised learning (2002); the features are ours.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64, uint64
from quarto.lanes import LANE
from quarto.position import ALL_CELLS
from quarto.rules import ATTRIBUTES, CELLS, MAX_LINES_THROUGH_A_CELL, PIECES, Line, Rules
from quarto.symmetry import symmetries
from quarto.threats import SAFE_PIECES

MOST_LINES = 32  # of a line's number there is one more: that of no line

# Where a number or a table is in the words that describe the features of some rules
LINES, LINE_CLASSES, CELL_CLASSES, MOBILITY, FORESIGHT, STAGE_SIZE = range(6)
OFFSETS = 8  # of each group of features within a stage
MASKS = OFFSETS + 24  # [32] the cells of each line
CLASS_OF_LINE = MASKS + MOST_LINES
THROUGH = CLASS_OF_LINE + MOST_LINES  # [16, 8] the lines through each cell, then MOST_LINES
CLASS_OF_CELL = THROUGH + CELLS * MAX_LINES_THROUGH_A_CELL
WORDS = CLASS_OF_CELL + CELLS

# Groups of features: see ``features_of``
(DANGER, LINE, SUPPLY, THREES, HOT, ATTRIBUTE, CELL, WIDEST, FEW, PARITY, TOTAL, SPREAD_OUT, UNION, TRAPS, NARROW) = (
    range(15)
)
COUNTS = 16  # of pieces left or of cells
STATES = 15  # of a line: (matching, opposing) values, at most 4 together
MULTISETS = 5985  # of four among 18
MOST_FEATURES = MOST_LINES + 4 + ATTRIBUTES + CELLS + 10

STATE_OF = np.zeros((ATTRIBUTES + 1, ATTRIBUTES + 1), np.int64)
for _number, (_match, _oppose) in enumerate((m, o) for m in range(5) for o in range(5 - m)):
    STATE_OF[_match, _oppose] = _number
VALUE_PIECES = np.array(  # [4, 2] the pieces with each value of each attribute
    [[sum(1 << piece for piece in range(PIECES) if piece >> a & 1 == value) for value in (0, 1)] for a in range(4)]
)
BINOMIALS = np.array(
    [[0, n, n * (n + 1) // 2, n * (n + 1) * (n + 2) // 6, n * (n + 1) * (n + 2) * (n + 3) // 24] for n in range(18)]
)

# Where the state of a board is in the numbers that a thread works with
BYTES = 0  # [33] the values that the pieces on each line share, as a byte (``quarto/threats.py``); 0: dead or full
ON_LINE = BYTES + MOST_LINES + 1  # [33] the number of its pieces
THREE_AT = ON_LINE + MOST_LINES + 1  # [16] values that finish a line on each cell
TWO_AT = THREE_AT + CELLS  # [16] values of lines of two pieces through each cell
ALL_DANGERS, SHARED_DANGERS, ALIVE_THREES, ALIVE_TWOS, HOT_CELLS = range(TWO_AT + CELLS, TWO_AT + CELLS + 5)
BOARD = HOT_CELLS + 1  # numbers of one board


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
        *(4 * COUNTS * COUNTS, 64 * COUNTS),
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
    byte = piece_byte(piece)
    for i in range(MAX_LINES_THROUGH_A_CELL):
        line = int64(words[THROUGH + cell * MAX_LINES_THROUGH_A_CELL + i])
        if line == MOST_LINES:
            break
        after[ON_LINE + line] += 1
        after[BYTES + line] = after[BYTES + line] & byte if after[ON_LINE + line] < 4 else 0


@inlined
def survey(occupied: int, words: Any, board: Any) -> None:
    """Everything about the cells of a board that its lines say and that no gift changes."""
    for cell in range(CELLS):
        board[THREE_AT + cell] = board[TWO_AT + cell] = 0
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
            board[THREE_AT + first] |= byte
        else:
            twos += 1
            board[TWO_AT + first] |= byte
            board[TWO_AT + lowest_bit(empty & (empty - 1))] |= byte
    cells = hot
    while cells != 0:
        values = board[THREE_AT + lowest_bit(cells)]
        cells &= cells - 1
        twice |= once & values
        once |= values
    board[ALL_DANGERS], board[SHARED_DANGERS] = once, twice
    board[ALIVE_THREES], board[ALIVE_TWOS], board[HOT_CELLS] = threes, twos, hot


@inlined
def dangers_after(cell: int, byte: int, board: Any) -> int:
    """The danger byte (``quarto/threats.py``) after a piece with this byte was placed on an empty cell."""
    others = board[SHARED_DANGERS] | (board[ALL_DANGERS] & ~board[THREE_AT + cell])
    return int64(others | (board[TWO_AT + cell] & byte))


@inlined
def multiset(a: int, b: int, c: int, d: int) -> int:
    """The number of a multiset of four numbers below 18, from 0."""
    a, b, c, d = min(a, b), max(a, b), min(c, d), max(c, d)
    a, c, b, d = min(a, c), max(a, c), min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    return int64(BINOMIALS[a, 1] + BINOMIALS[b, 2] + BINOMIALS[c, 3] + BINOMIALS[d, 4])


@inlined
def add_lines(board: Any, gift: int, left: int, safe: int, words: Any, found: Any) -> int:
    """Features of lines and of dangers: see ``features_of``."""
    byte = piece_byte(gift)
    count = int64(0)
    offset = int64(words[OFFSETS + LINE])
    for line in range(int64(words[LINES])):
        on_line, values = board[ON_LINE + line], board[BYTES + line]
        if on_line == 4:
            continue
        state = int64(0)
        if on_line != 0:
            state = STATE_OF[popcount(values & byte), popcount(values & ~byte)]
        having = int64(popcount(left & ~SAFE_PIECES[values]))
        group = int64(words[CLASS_OF_LINE + line]) * 4 + on_line
        found[count] = offset + (group * STATES + state) * COUNTS + having
        count += 1
    dangers = board[ALL_DANGERS]
    found[count] = int64(words[OFFSETS + DANGER]) + int64(popcount(dangers)) * COUNTS + safe
    threes, twos = min(board[ALIVE_THREES], 9), min(board[ALIVE_TWOS], 10)
    found[count + 1] = int64(words[OFFSETS + THREES]) + (threes * 11 + twos) * COUNTS + safe
    found[count + 2] = int64(words[OFFSETS + HOT]) + min(int64(popcount(board[HOT_CELLS])), 15) * COUNTS + safe
    return count + 3


@inlined
def add_attributes(
    board: Any, gift: int, left: int, safe: int, occupied: int, words: Any, found: Any, count: int
) -> int:
    """Features of each attribute: see ``features_of``."""
    many_hot = int64(popcount(board[HOT_CELLS]) > 2)
    offset, lines = int64(words[OFFSETS + ATTRIBUTE]), int64(words[LINES])
    a0, a1, a2, a3 = int64(0), int64(0), int64(0), int64(0)
    for attribute in range(ATTRIBUTES):
        value = (gift >> attribute) & 1
        match, oppose = attribute + ATTRIBUTES * (1 - value), attribute + ATTRIBUTES * value
        matching, opposing, cells = int64(0), int64(0), int64(0)
        for line in range(lines):
            if board[ON_LINE + line] == 2:
                matching += (board[BYTES + line] >> match) & 1
                opposing += (board[BYTES + line] >> oppose) & 1
            elif board[ON_LINE + line] == 3 and (board[BYTES + line] >> oppose) & 1:
                cells |= int64(words[MASKS + line]) & ~occupied
        having = int64(popcount(left & VALUE_PIECES[attribute, 1 - value]))
        key = ((having * 4 + min(matching, 3)) * 4 + min(opposing, 3)) * 4 + min(int64(popcount(cells)), 3)
        found[count] = offset + (key * 2 + many_hot) * COUNTS + safe
        count += 1
        state = ((board[ALL_DANGERS] >> oppose) & 1) * 9 + having
        if attribute == 0:
            a0 = state
        elif attribute == 1:
            a1 = state
        elif attribute == 2:
            a2 = state
        else:
            a3 = state
    found[count] = int64(words[OFFSETS + SUPPLY]) + multiset(a0, a1, a2, a3)
    return count + 1


@inlined
def add_mobility(board: Any, gift: int, left: int, safe: int, occupied: int, words: Any, found: Any, count: int) -> int:
    """Features of the safe gifts that the opponent has after each placement: see ``features_of``."""
    byte, empty = piece_byte(gift), ~occupied & ALL_CELLS
    none, one, two, even, odd, total, union = (int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
    most, second, third = int64(0), int64(0), int64(0)
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
        none += int64(number == 0)
        one += int64(number == 1)
        two += int64(number == 2)
        odd += number & 1
        even += int64(number != 0) & ~number
        total += number
        union |= gifts
        third = max(third, min(second, number))
        second = max(second, min(most, number))
        most = max(most, number)
    cells = min(even + odd, 15)
    found[count] = int64(words[OFFSETS + WIDEST]) + (cells * COUNTS + most) * COUNTS + safe
    found[count + 1] = int64(words[OFFSETS + FEW]) + (min(none, 15) * 8 + min(one, 7)) * 8 + min(two, 7)
    found[count + 2] = int64(words[OFFSETS + PARITY]) + min(even, 15) * COUNTS + min(odd, 15)
    found[count + 3] = int64(words[OFFSETS + TOTAL]) + min(total, 127)
    key = ((min(most, 7) * 8 + min(second, 7)) * 8 + min(third, 7)) * 8 + min(cells, 7)
    found[count + 4] = int64(words[OFFSETS + SPREAD_OUT]) + key
    found[count + 5] = int64(words[OFFSETS + UNION]) + cells * COUNTS + int64(popcount(union))
    return count + 6


@inlined
def add_second_replies(
    board: Any, gift: int, left: int, occupied: int, words: Any, after: Any, found: Any, count: int
) -> int:
    """Features of the turns that the giver has after each reply: see ``features_of``; ``after`` is overwritten."""
    byte, empty = piece_byte(gift), ~occupied & ALL_CELLS
    replies, traps, least, narrow = int64(0), int64(0), int64(63), int64(0)
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        gifts = left & SAFE_PIECES[dangers_after(cell, byte, board)]
        if gifts == 0:
            continue
        filled = occupied | int64(1) << cell
        place_on_lines(board, gift, cell, words, after)
        survey(filled, words, after)
        while gifts != 0:
            piece = lowest_bit(gifts)
            gifts &= gifts - 1
            rest, turns, cells = left & ~(int64(1) << piece), int64(0), ~filled & ALL_CELLS
            if rest == 0:
                turns = int64(1)
            own = piece_byte(piece)
            while cells != 0:
                turns += int64(popcount(rest & SAFE_PIECES[dangers_after(lowest_bit(cells), own, after)]))
                cells &= cells - 1
            replies += 1
            traps += int64(turns == 0)
            narrow += int64(turns == 1)
            least = min(least, turns)
    found[count] = (
        int64(words[OFFSETS + TRAPS]) + (min(traps, 3) * COUNTS + min(replies, 15)) * COUNTS + min(narrow, 15)
    )
    found[count + 1] = int64(words[OFFSETS + NARROW]) + least * COUNTS + min(replies, 15)
    return count + 2


@inlined
def features_of(occupied: int, gift: int, left: int, words: Any, board: Any, after: Any, found: Any) -> int:
    """Write the numbers of an afterstate's features within its stage into ``found``; returns how many.

    ``board`` was filled by ``survey``; ``left`` are the pieces neither on the board nor given; the gift is safe.
    """
    safe = int64(popcount(left & SAFE_PIECES[board[ALL_DANGERS]]))
    count = add_lines(board, gift, left, safe, words, found)
    count = add_attributes(board, gift, left, safe, occupied, words, found, count)
    if words[MOBILITY] != 0:
        count = add_mobility(board, gift, left, safe, occupied, words, found, count)
    if int64(popcount(occupied)) >= int64(words[FORESIGHT]):
        count = add_second_replies(board, gift, left, occupied, words, after, found, count)
    return count
