"""Sparse features of an afterstate from its lines, so that weights can value boards that no game has reached.

An afterstate is the board after a placement with the gift in the opponent's hand. All pieces are compared with the
gift, which is the same as XORing every piece with it. A value of an attribute *matches* the gift or *opposes* it.

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

from agents.learning.line_boards import (
    BYTES,
    CELLS_OF,
    CLASS_OF_CELL,
    CLASS_OF_LINE,
    COUNTS,
    DANGERS,
    HOT_BY_VALUE,
    HOT_CELLS,
    LINES,
    MASKS,
    MAX_LINES,
    MIN_OF,
    OFFSETS,
    ON_LINE,
    OPEN,
    OPEN_BASE,
    OPEN_HAVING,
    OPEN_VALUES,
    STAGE_SIZE,
    STATES,
    THREES_ALIVE,
    THROUGH,
    TWOS_ALIVE,
    TWOS_BY_VALUE,
    WORDS,
    dangers_after,
    fill_lines_and_dangers_after,
    piece_byte,
    safe_gifts_after,
)
from agents.learning.line_turns import SHARP_TURNS, count_unrefuted_turns_and_fewest_replies
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS
from quarto.rules import ATTRIBUTES, CELLS, MAX_LINES_THROUGH_A_CELL, PIECES, Rules
from quarto.symmetry import build_symmetries
from quarto.threats import SAFE_PIECES

NUMBERS_TYPE = types.int64[::1]
MOBILE_PIECES = 4  # on the board from which the opponent's placements matter; with fewer, none can do harm
REPLIES_FROM = 7  # pieces on the board from which the turns after each reply are looked at
MAX_EMPTY = CELLS - REPLIES_FROM
MAX_PAIRS = MAX_LINES_THROUGH_A_CELL * (MAX_LINES_THROUGH_A_CELL - 1) // 2  # of lines through a cell
MAX_FEATURES = MAX_LINES + 4 + ATTRIBUTES + CELLS + 10 + MAX_EMPTY * (2 * MAX_EMPTY + 1 + MAX_PAIRS)

# Groups of features: see ``fill_features_returning_count_or_outcome``
LINE, DANGER, SUPPLY, THREES, HOT, ATTRIBUTE, CELL, WIDEST, FEW, PARITY, TOTAL, SPREAD_OUT, UNION = range(13)
REPLY, CELL_REPLIES, PIECE_REPLIES, REPLIES, CROSSING, SHARP, REFUTED = range(13, 20)
MULTISETS, PAIR_MULTISETS = 5985, 3876  # of four among 18, and among 16
FEATURES = 4  # version, which changes when the numbers of features change their meaning
MAX_TURNS = 31  # that are distinguished
DECIDED_PIECES = 4  # with at most so many pieces left, replies always show how the game ends

VALUE_PIECES = np.array(  # [4, 2] the pieces with each value of each attribute
    [[sum(1 << piece for piece in range(PIECES) if piece >> a & 1 == value) for value in (0, 1)] for a in range(4)]
)
# Instead of a number of features: how a game ends for the giver whatever weights say
WON_AFTER, DRAWN_AFTER, LOST_AFTER = -1, -2, -3

NIBBLES, BYTES_OF_ONE = uint64(0x0F0F_0F0F_0F0F_0F0F), uint64(0x0101_0101_0101_0101)
ODD_NUMBERS = 0x0F0F_0F0F_0F0F_0F0F  # where cells with an odd number of gifts are counted: 15 is lowest
BINOMIALS = np.array(
    [[0, n, n * (n + 1) // 2, n * (n + 1) * (n + 2) // 6, n * (n + 1) * (n + 2) * (n + 3) // 24] for n in range(18)]
)


def _number_classes(images: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the equivalence class of each of N lines or cells under the symmetries, numbered from 0: [N] int64.

    ``images`` [S, N] has the images of the lines or cells under each of S symmetries. Classes are numbered in the
    order of their least members.
    """
    least = images.min(axis=0)
    classes: NDArray[np.int64] = np.searchsorted(np.unique(least), least).astype(np.int64)
    return classes


def _count_group_features(line_classes: int, cell_classes: int) -> list[int]:
    """Return the number of features in each group, in the order of the constants ``LINE`` to ``REFUTED``.

    Each of these constants names a group: the features of one kind. ``line_classes`` and ``cell_classes`` are the
    numbers of classes of lines and of cells.
    """
    return [
        *(line_classes * 4 * STATES * COUNTS, 5 * COUNTS, MULTISETS, 10 * 11 * COUNTS, COUNTS * COUNTS),
        9 * 4 * 4 * 4 * 2 * COUNTS,
        *(cell_classes * COUNTS * 9, COUNTS**3, COUNTS * 8 * 8, COUNTS**2, 128, 8**4, COUNTS**2),
        *(
            2 * 8**4,
            *[(MAX_TURNS + 1) * COUNTS] * 3,
            4 * 4 * PAIR_MULTISETS,
            (SHARP_TURNS + 1) ** 2 * COUNTS,
            COUNTS**2,
        ),
    ]


@cache
def build_feature_words(rules: Rules) -> NDArray[np.uint64]:
    """Build the table from which kernels read how features are numbered under these rules: [WORDS] uint64.

    The array is cached, so callers must not change it.
    """
    lines, cells = rules.lines, build_symmetries(rules).cells.astype(np.int64)
    masks = np.array([sum(1 << cell for cell in line) for line in lines])
    moved = np.array([[sum(1 << int(image[cell]) for cell in line) for line in lines] for image in cells])
    words = np.zeros(WORDS, np.uint64)
    of_lines, of_cells = _number_classes(moved), _number_classes(cells)
    sizes = _count_group_features(int(of_lines.max()) + 1, int(of_cells.max()) + 1)
    words[LINES], words[STAGE_SIZE] = len(lines), sum(sizes)
    words[OFFSETS : OFFSETS + len(sizes)] = np.cumsum(sizes) - sizes
    words[MASKS : MASKS + len(lines)] = masks
    words[CLASS_OF_LINE : CLASS_OF_LINE + len(lines)] = of_lines
    through = np.full((CELLS, MAX_LINES_THROUGH_A_CELL), MAX_LINES)
    for cell in range(CELLS):
        line_numbers = [number for number, line in enumerate(lines) if cell in line]
        through[cell, : len(line_numbers)] = line_numbers
    words[THROUGH:CLASS_OF_CELL] = through.reshape(-1)
    words[CLASS_OF_CELL:] = of_cells
    return words


def compute_feature_hash(rules: Rules) -> float:
    """Compute a hash of the rules' lines and of the version of the features.

    The result has 48 bits, which a float64 holds exactly.
    """
    description = repr((rules.lines, FEATURES))
    return float(int(hashlib.sha256(description.encode()).hexdigest()[:12], 16))


@inline_function
def sum_nibbles(word: int) -> int:
    """Sum the sixteen numbers of four bits that are packed into ``word``."""
    pairs = (uint64(word) & NIBBLES) + ((uint64(word) >> uint64(4)) & NIBBLES)
    return int64((pairs * BYTES_OF_ONE) >> uint64(56))


@inline_function
def multiset_number(a: int, b: int, c: int, d: int) -> int:
    """Return the index, from 0, of the multiset {a, b, c, d} among all multisets of four numbers below 18."""
    a, b, c, d = min(a, b), max(a, b), min(c, d), max(c, d)
    a, c, b, d = min(a, c), max(a, c), min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    return int64(BINOMIALS[a, 1] + BINOMIALS[b, 2] + BINOMIALS[c, 3] + BINOMIALS[d, 4])


@inline_function
def append_line_features(
    board: Any, byte: int, pieces_left: int, safe: int, words: Any, features: Any, count: int
) -> int:
    """Append the features of the lines and of the dangers to ``features``, and return the new number of features.

    ``fill_features_returning_count_or_outcome`` explains the features. ``byte`` has the attribute values of the gift,
    ``safe`` is the number of pieces left that are safe, and ``count`` is the number of features so far.
    """
    for i in range(board[OPEN]):
        values = board[OPEN_VALUES + i]
        state = int64(popcount(values & byte)) * 5 + int64(popcount(values & ~byte))
        features[count] = board[OPEN_BASE + i] + state * COUNTS + int64(popcount(pieces_left & board[OPEN_HAVING + i]))
        count += 1
    features[count] = int64(words[OFFSETS + DANGER]) + int64(popcount(board[DANGERS])) * COUNTS + safe
    threes, twos = min(board[THREES_ALIVE], 9), min(board[TWOS_ALIVE], 10)
    features[count + 1] = int64(words[OFFSETS + THREES]) + (threes * 11 + twos) * COUNTS + safe
    features[count + 2] = int64(words[OFFSETS + HOT]) + min(int64(popcount(board[HOT_CELLS])), 15) * COUNTS + safe
    return count + 3


@inline_function
def write_attribute_feature_returning_state(
    attribute: int, board: Any, gift: int, pieces_left: int, common: int, features: Any, count: int
) -> int:
    """Write the feature of one attribute to ``features[count]``, and return the state of the attribute.

    An attribute has two values; the opposing value is the one that the gift does not have. The state is the number of
    pieces left with the opposing value (0 to 8), plus 9 if a piece with this value can finish a line. ``common`` is the
    part of the feature that is the same for all four attributes.
    """
    value = (gift >> attribute) & 1
    match, oppose = attribute + ATTRIBUTES * (1 - value), attribute + ATTRIBUTES * value
    matching = min((board[TWOS_BY_VALUE] >> (8 * match)) & 255, 3)
    opposing = min((board[TWOS_BY_VALUE] >> (8 * oppose)) & 255, 3)
    cells = min((board[HOT_BY_VALUE] >> (8 * oppose)) & 255, 3)
    having = int64(popcount(pieces_left & VALUE_PIECES[attribute, 1 - value]))
    features[count] = common + (((having * 4 + matching) * 4 + opposing) * 4 + cells) * (2 * COUNTS)
    return int64(((board[DANGERS] >> oppose) & 1) * 9 + having)


@inline_function
def append_attribute_features(
    board: Any, gift: int, pieces_left: int, safe: int, words: Any, features: Any, count: int
) -> int:
    """Append the features of the four attributes to ``features``, and return the new number of features.

    ``fill_features_returning_count_or_outcome`` explains the features. ``safe`` is the number of pieces left that are
    safe, and ``count`` is the number of features so far.
    """
    common = int64(words[OFFSETS + ATTRIBUTE]) + int64(popcount(board[HOT_CELLS]) > 2) * COUNTS + safe
    states = (
        write_attribute_feature_returning_state(0, board, gift, pieces_left, common, features, count),
        write_attribute_feature_returning_state(1, board, gift, pieces_left, common, features, count + 1),
        write_attribute_feature_returning_state(2, board, gift, pieces_left, common, features, count + 2),
        write_attribute_feature_returning_state(3, board, gift, pieces_left, common, features, count + 3),
    )
    features[count + 4] = int64(words[OFFSETS + SUPPLY]) + multiset_number(states[0], states[1], states[2], states[3])
    return count + 5


@inline_function
def append_features_of_gifts_after_placements(
    board: Any, byte: int, pieces_left: int, safe: int, occupied: int, words: Any, features: Any, count: int
) -> int:
    """Append the features of the gifts that are safe after each placement, and return the new number of features.

    ``fill_features_returning_count_or_outcome`` explains the features. ``byte`` has the attribute values of the piece
    that is placed, ``safe`` is the number of pieces left that are safe before the placement, and ``count`` is the
    number of features so far.
    """
    empty = ~occupied & ALL_CELLS
    numbers = int64(0)  # cells by number of gifts, four bits each, 15 lowest
    total, union, offset = int64(0), int64(0), int64(words[OFFSETS + CELL])
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        dangers = dangers_after(cell, byte, board)
        gifts = pieces_left & SAFE_PIECES[dangers]
        number = int64(popcount(gifts))
        group = int64(words[CLASS_OF_CELL + cell]) * COUNTS + number
        features[count] = offset + group * 9 + int64(popcount(dangers))
        count += 1
        numbers += int64(1) << (60 - 4 * number)
        total += number
        union |= gifts
    none, one, two = (numbers >> 60) & 15, (numbers >> 56) & 15, (numbers >> 52) & 15
    odd = sum_nibbles(numbers & ODD_NUMBERS)
    even = sum_nibbles(numbers & ~ODD_NUMBERS) - none
    first = lowest_bit(numbers) >> 2
    numbers -= int64(1) << (4 * first)
    second = lowest_bit(numbers) >> 2 if numbers != 0 else int64(15)
    numbers -= int64(1) << (4 * second) if numbers != 0 else 0
    third = lowest_bit(numbers) >> 2 if numbers != 0 else int64(15)
    most, cells = 15 - first, even + odd
    features[count] = int64(words[OFFSETS + WIDEST]) + (cells * COUNTS + most) * COUNTS + safe
    features[count + 1] = int64(words[OFFSETS + FEW]) + (none * 8 + min(one, 7)) * 8 + min(two, 7)
    features[count + 2] = int64(words[OFFSETS + PARITY]) + even * COUNTS + odd
    features[count + 3] = int64(words[OFFSETS + TOTAL]) + min(total, 127)
    key = ((min(most, 7) * 8 + min(15 - second, 7)) * 8 + min(15 - third, 7)) * 8 + min(cells, 7)
    features[count + 4] = int64(words[OFFSETS + SPREAD_OUT]) + key
    features[count + 5] = int64(words[OFFSETS + UNION]) + cells * COUNTS + int64(popcount(union))
    return count + 6


@inline_function
def add_reply_feature_counting_turns(reply: int, rest: int, cells: int, after: Any, features: Any, count: int) -> int:
    """Write a reply's feature to ``features[count]``, and return how many turns the giver has after the reply.

    A turn is a placement on one of ``cells`` and a safe gift from ``rest``. ``reply`` encodes the reply: 2 * gift + 1
    if the gift is also safe on the board before the reply, otherwise 2 * gift. ``after`` is the board after the reply's
    placement.
    """
    byte, turns, union, one, two, more = piece_byte(reply >> 1), int64(0), int64(0), int64(0), int64(0), int64(0)
    while cells != 0:
        gifts = safe_gifts_after(lowest_bit(cells), byte, rest, after)
        cells &= cells - 1
        number = int64(popcount(gifts))
        one, two, more = one + int64(number == 1), two + int64(number == 2), more + int64(number > 2)
        turns += number
        union |= gifts
    key = ((min(one, 7) * 8 + min(two, 7)) * 8 + min(more, 7)) * 8 + min(int64(popcount(union)), 7)
    features[count] = key * 2 + (reply & 1)
    return turns


@inline_function
def append_reply_features_or_outcome(
    board: Any, gift: int, pieces_left: int, occupied: int, words: Any, after: Any, features: Any
) -> int:
    """Append the features of the opponent's replies, and return the number of features.

    If the replies show how the game ends, return ``WON_AFTER``, ``DRAWN_AFTER`` or ``LOST_AFTER`` instead.
    ``fill_features_returning_count_or_outcome`` explains the features and the outcomes. ``after`` [3, BOARD] is
    overwritten.
    """
    for piece in range(PIECES):
        board[MIN_OF + piece], board[CELLS_OF + piece] = MAX_TURNS, 0
    byte, empty, count = piece_byte(gift), ~occupied & ALL_CELLS, int64(0)
    safe, replies, least, refuted = SAFE_PIECES[board[DANGERS]], int64(0), int64(MAX_TURNS), int64(0)
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        gifts = safe_gifts_after(cell, byte, pieces_left, board)
        if gifts == 0:
            continue
        filled, least_here, number = occupied | int64(1) << cell, int64(MAX_TURNS), int64(popcount(gifts))
        fill_lines_and_dangers_after(board, gift, cell, filled, words, after[0])
        while gifts != 0:
            piece = lowest_bit(gifts)
            gifts &= gifts - 1
            rest = pieces_left & ~(int64(1) << piece)
            turns = add_reply_feature_counting_turns(
                piece * 2 + ((safe >> piece) & 1), rest, ~filled & ALL_CELLS, after[0], features, count
            )
            if turns == 0 and rest != 0:
                return int64(LOST_AFTER)
            features[count] += int64(words[OFFSETS + REPLY])
            if rest & (rest - 1) != 0 and (turns <= SHARP_TURNS or int64(popcount(rest)) < DECIDED_PIECES):
                survivors, fewest = count_unrefuted_turns_and_fewest_replies(piece, rest, filled, words, after)
                if survivors == 0:
                    return int64(LOST_AFTER)
                count += 1
                key = min(turns, SHARP_TURNS) * (SHARP_TURNS + 1) + min(survivors, SHARP_TURNS)
                features[count] = int64(words[OFFSETS + SHARP]) + key * COUNTS + fewest
                refuted += int64(fewest == 0)
                turns = survivors
            least_here = min(least_here, turns)
            board[MIN_OF + piece] = min(board[MIN_OF + piece], turns)
            board[CELLS_OF + piece] += 1
            count += 1
        replies += number
        least = min(least, least_here)
        features[count] = int64(words[OFFSETS + CELL_REPLIES]) + least_here * COUNTS + number
        count += 1
    if pieces_left != 0 and replies == refuted:
        return int64(WON_AFTER)
    if int64(popcount(pieces_left)) <= DECIDED_PIECES:
        return int64(DRAWN_AFTER)
    while pieces_left != 0:
        piece = lowest_bit(pieces_left)
        pieces_left &= pieces_left - 1
        if board[CELLS_OF + piece] != 0:
            key = board[MIN_OF + piece] * COUNTS + board[CELLS_OF + piece]
            features[count] = int64(words[OFFSETS + PIECE_REPLIES]) + key
            count += 1
    features[count] = int64(words[OFFSETS + REPLIES]) + least * COUNTS + min(replies, 15)
    features[count + 1] = int64(words[OFFSETS + REFUTED]) + min(refuted, 15) * COUNTS + min(replies - refuted, 15)
    return count + 2


@inline_function
def match_and_oppose_line_values(line: int, byte: int, board: Any) -> int:
    """Return, as a byte, the attributes whose shared value on a line matches or opposes the value of the gift.

    The lower four bits are the attributes with a shared value that matches, the upper four bits those with a shared
    value that opposes. ``byte`` has the attribute values of the gift.
    """
    match, oppose = board[BYTES + line] & byte, board[BYTES + line] & ~byte
    return int64(((match | match >> 4) & 15) | ((oppose | oppose >> 4) & 15) << 4)


@inline_function
def attribute_state(attribute: int, values: int) -> int:
    """Return two bits for an attribute on a line: whether all pieces have the matching, and the opposing value.

    The lower bit is for the matching value. ``values`` is what ``match_and_oppose_line_values`` returned for the line.
    """
    return ((values >> attribute) & 1) | ((values >> (attribute + 3)) & 2)


@inline_function
def number_attribute_states_of_two_lines(line_values: int, other_line_values: int) -> int:
    """Return a number for the states of the four attributes on two lines, regardless of the order of attributes.

    The number is the index of a multiset (``multiset_number``) with one member for each attribute. A member combines
    the attribute's state on the one line with its state on the other (``attribute_state``). ``line_values`` and
    ``other_line_values`` are what ``match_and_oppose_line_values`` returned for the lines.
    """
    return multiset_number(
        attribute_state(0, line_values) * 4 + attribute_state(0, other_line_values),
        attribute_state(1, line_values) * 4 + attribute_state(1, other_line_values),
        attribute_state(2, line_values) * 4 + attribute_state(2, other_line_values),
        attribute_state(3, line_values) * 4 + attribute_state(3, other_line_values),
    )


@inline_function
def append_crossing_features(board: Any, byte: int, occupied: int, words: Any, features: Any, count: int) -> int:
    """Append a feature for each pair of lines that cross in an empty cell, and return the new number of features.

    ``fill_features_returning_count_or_outcome`` explains the features. ``byte`` has the attribute values of the gift,
    and ``count`` is the number of features so far.
    """
    empty, offset = ~occupied & ALL_CELLS, int64(words[OFFSETS + CROSSING])
    while empty != 0:
        through = THROUGH + lowest_bit(empty) * MAX_LINES_THROUGH_A_CELL
        empty &= empty - 1
        for i in range(1, MAX_LINES_THROUGH_A_CELL):
            line = int64(words[through + i])
            if line == MAX_LINES:
                break
            values, on_line = match_and_oppose_line_values(line, byte, board), board[ON_LINE + line]
            for k in range(i):
                other = int64(words[through + k])
                other_values, on_other = match_and_oppose_line_values(other, byte, board), board[ON_LINE + other]
                number = int64(PAIR_MULTISETS)
                if on_line <= on_other:
                    number = number_attribute_states_of_two_lines(values, other_values)
                if on_other <= on_line:
                    number = min(number, number_attribute_states_of_two_lines(other_values, values))
                pieces = min(on_line, on_other) * 4 + max(on_line, on_other)
                features[count] = offset + pieces * PAIR_MULTISETS + number
                count += 1
    return count


@kernel(
    types.int64(
        types.int64, types.int64, types.int64, types.uint64[::1], NUMBERS_TYPE, types.int64[:, ::1], NUMBERS_TYPE
    )
)
def fill_features_returning_count_or_outcome(
    occupied: int, gift: int, pieces_left: int, words: Any, board: Any, after: Any, features: Any
) -> int:
    """Write the numbers of an afterstate's features into ``features``, and return how many features there are.

    Features are numbered within a stage, which is the number of pieces on the board. If the replies show how the game
    ends, return ``WON_AFTER``, ``DRAWN_AFTER`` or ``LOST_AFTER`` for the giver instead.

    ``board`` was filled by ``fill_board_survey``; ``after`` [3, BOARD] is overwritten. ``pieces_left`` are the pieces
    that are neither on the board nor given. The gift must be safe.

    A value of an attribute *matches* the gift if the gift has it, and otherwise *opposes* it. A *danger* is a value
    with which a piece can finish a line. A piece is *safe* on a board if it finishes no line there. There are features
    for:

    - each line: the number of its pieces, the number of its shared values that match, the number of those that oppose,
      and the number of pieces left that have one of its shared values;
    - four numbers, each combined with the number of pieces left that are safe on the afterstate's board: the number of
      dangers, the number of lines with three pieces that can still be finished, the number of such lines with two
      pieces, and the number of cells on which a piece can finish a line;
    - each attribute: the number of pieces left with the opposing value, the numbers of lines with two pieces that share
      the matching and the opposing value, and the number of cells on which the opposing value wins;
    - the four attributes together, regardless of order;
    - each empty cell: the number of safe gifts that are left if the opponent places there;
    - the distribution of the numbers of safe gifts over the cells.

    With ``REPLIES_FROM`` or more pieces on the board, there are also features for replies:

    - A *reply* is the opponent's placement and a gift that is safe after it.
    - A *turn* is what the giver can do after a reply: again a placement and a gift that is safe after it.
    - A turn *survives* if the giver will have another turn, whatever the opponent does in between (``line_turns.py``).
    - A reply is *sharp* if it leaves the giver at most ``SHARP_TURNS`` turns, or if ``pieces_left`` has at most
      ``DECIDED_PIECES`` pieces. At least two pieces must be left to give after a sharp reply.
    - A sharp reply is *refuted* if a surviving turn leaves the opponent no turn.

    These features are for:

    - each reply: the number of cells that leave the giver one, two or more safe gifts, the number of different pieces
      among these gifts, and whether the reply's gift is safe on the afterstate's board too;
    - each sharp reply: the number of turns, the number of turns that survive, and the least number of turns that a
      surviving turn leaves to the opponent;
    - the least number of turns that a reply leaves, and the number of replies: on each cell, with each gift, and in
      all. After a sharp reply only the turns that survive are counted;
    - the number of refuted replies, and the number of all other replies;
    - each pair of lines that cross in an empty cell: the numbers of their pieces and, for the four attributes
      regardless of order, whether each line has the matching and the opposing value.

    The giver wins if every reply is refuted, or if there is no reply. The giver loses if, after some reply, pieces are
    left to give but no turn survives. Otherwise the game is drawn if ``pieces_left`` has at most ``DECIDED_PIECES``
    pieces.
    """
    byte, pieces, count = piece_byte(gift), int64(popcount(occupied)), int64(0)
    if pieces >= REPLIES_FROM:
        count = append_reply_features_or_outcome(board, gift, pieces_left, occupied, words, after, features)
        if count < 0:
            return count
        count = append_crossing_features(board, byte, occupied, words, features, count)
    safe = int64(popcount(pieces_left & SAFE_PIECES[board[DANGERS]]))
    count = append_line_features(board, byte, pieces_left, safe, words, features, count)
    count = append_attribute_features(board, gift, pieces_left, safe, words, features, count)
    if pieces >= MOBILE_PIECES:
        count = append_features_of_gifts_after_placements(
            board, byte, pieces_left, safe, occupied, words, features, count
        )
    return count
