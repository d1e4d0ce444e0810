"""The search of endings with at most six empty cells. It keeps no boards, only what each empty cell lacks.

Number the empty cells. An unfinished line has some filled cells and a set of empty ones. The pieces on the filled cells
share some attribute values (one byte, see ``threats``). For each such set keep the OR of those bytes over all its
lines. Then a piece with byte ``b`` wins on cell ``i`` iff ``b`` meets the byte of the set {i}. When it is placed there,
the byte of each other set changes. The new byte is the old one OR (that of the set with ``i`` added AND ``b``). So a
turn is a shift, an AND and an OR on a few words, whatever the rules. The last cell takes the number of the one that was
filled.

Of ``k`` cells there are 2^k sets: byte ``s & 7`` of word ``s >> 3`` is that of the set with mask ``s``. Three cells
take one word, four take two (without and with cell 3), five take four, and six take eight.
"""

from __future__ import annotations

from typing import Any

from numba import types

from quarto.bits import LANE_MASK, LANE_ONES, LANE_TOPS, lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS
from quarto.rules import CELLS
from quarto.solver.table import DRAW, RULES_TYPE, WIN
from quarto.threats import SAFE_PIECES

ENDGAME_CELLS = 6
BYTES = uint64(0x0101_0101_0101_0101)
WITHOUT_ZERO = uint64(0x00FF_00FF_00FF_00FF)  # the bytes of sets that lack cell 0
WITHOUT_ONE = uint64(0x0000_FFFF_0000_FFFF)
WITHOUT_TWO = uint64(0x0000_0000_FFFF_FFFF)
BELOW_TOPS = uint64(0x7FFF_7FFF_7FFF_7FFF)

TwoWords = tuple[int, int]
FourWords = tuple[int, int, int, int]
EightWords = tuple[int, int, int, int, int, int, int, int]


@inline_function
def _repeat_piece_values_byte(piece: int) -> int:
    """Return a word in which each of the eight bytes has the attribute values of ``piece``."""
    return uint64(piece | ((~piece & 15) << 4)) * BYTES


@inline_function
def _place_on_low_cell_without_packing(word: int, cell: int, byte: int) -> int:
    """Place a piece on ``cell`` (0, 1 or 2), and keep the bytes of the sets of empty cells without ``cell``.

    ``word`` has one byte for each set of empty cells: see the docstring of this module. Every byte of the word ``byte``
    has the attribute values of the piece. In the returned word each kept byte is updated and stays in its place; all
    other bytes are 0.
    """
    shift = uint64(8) << uint64(cell)
    keep = WITHOUT_TWO
    if cell == 0:
        keep = WITHOUT_ZERO
    elif cell == 1:
        keep = WITHOUT_ONE
    return (word | ((word >> shift) & byte)) & keep


@inline_function
def _place_on_one_of_six(sets: EightWords, cell: int, byte: int) -> FourWords:
    """Place a piece on ``cell``, one of six empty cells, and return the words for the five cells that stay empty.

    ``sets`` and the returned words have one byte for each set of empty cells: see the docstring of this module. Every
    byte of the word ``byte`` has the attribute values of the piece.
    """
    a, b, c, d, e, f, g, h = sets
    if cell == 5:
        return a | (e & byte), b | (f & byte), c | (g & byte), d | (h & byte)
    if cell == 4:
        return a | (c & byte), b | (d & byte), e | (g & byte), f | (h & byte)
    if cell == 3:
        return a | (b & byte), e | (f & byte), c | (d & byte), g | (h & byte)
    shift = uint64(8) << uint64(cell)
    return (
        _place_on_low_cell_without_packing(a, cell, byte) | _place_on_low_cell_without_packing(e, cell, byte) << shift,
        _place_on_low_cell_without_packing(b, cell, byte) | _place_on_low_cell_without_packing(f, cell, byte) << shift,
        _place_on_low_cell_without_packing(c, cell, byte) | _place_on_low_cell_without_packing(g, cell, byte) << shift,
        _place_on_low_cell_without_packing(d, cell, byte) | _place_on_low_cell_without_packing(h, cell, byte) << shift,
    )


@inline_function
def _place_on_one_of_five(sets: FourWords, cell: int, byte: int) -> TwoWords:
    """Place a piece on ``cell``, one of five empty cells, and return the words for the four cells that stay empty.

    See ``_place_on_one_of_six``.
    """
    none, three, four, both = sets
    if cell == 4:
        return none | (four & byte), three | (both & byte)
    if cell == 3:
        return none | (three & byte), four | (both & byte)
    shift = uint64(8) << uint64(cell)
    low = (
        _place_on_low_cell_without_packing(none, cell, byte)
        | _place_on_low_cell_without_packing(four, cell, byte) << shift
    )
    return low, _place_on_low_cell_without_packing(three, cell, byte) | _place_on_low_cell_without_packing(
        both, cell, byte
    ) << shift


@inline_function
def _place_on_one_of_four(sets: TwoWords, cell: int, byte: int) -> int:
    """Place a piece on ``cell``, one of four empty cells, and return the word for the three cells that stay empty.

    See ``_place_on_one_of_six``.
    """
    none, three = sets
    if cell == 3:
        return none | (three & byte)
    return _place_on_low_cell_without_packing(none, cell, byte) | _place_on_low_cell_without_packing(
        three, cell, byte
    ) << (uint64(8) << uint64(cell))


@inline_function
def _place_on_one_of_three(word: int, cell: int, byte: int) -> int:
    """Place a piece on ``cell``, one of three empty cells, and return the word for the two cells that stay empty.

    Only the four lowest bytes of the returned word are used, because two cells have four subsets. See
    ``_place_on_one_of_six``.
    """
    if cell == 2:
        return (word | ((word >> uint64(32)) & byte)) & uint64(0xFFFF_FFFF)
    half_filled = _place_on_low_cell_without_packing(word, cell, byte)
    return (half_filled | (half_filled >> uint64(32)) << (uint64(8) << uint64(cell))) & uint64(0xFFFF_FFFF)


@inline_function
def _safe_pieces(singles: int, available: int) -> int:
    """Return the available pieces that win on no cell.

    The lowest byte of ``singles`` is the OR of the bytes of all one-cell sets: see the docstring of this module.
    """
    return available & int64(SAFE_PIECES[int64(singles & uint64(255))])


@inline_function
def _safe_pieces_of_two(word: int, available: int) -> int:
    return _safe_pieces(word >> uint64(8) | word >> uint64(16), available)


@inline_function
def _safe_pieces_of_three(word: int, available: int) -> int:
    return _safe_pieces(word >> uint64(8) | word >> uint64(16) | word >> uint64(32), available)


@inline_function
def _safe_pieces_of_four(sets: TwoWords, available: int) -> int:
    word = sets[0]
    return _safe_pieces(word >> uint64(8) | word >> uint64(16) | word >> uint64(32) | sets[1], available)


@inline_function
def _safe_pieces_of_five(sets: FourWords, available: int) -> int:
    word = sets[0]
    return _safe_pieces(word >> uint64(8) | word >> uint64(16) | word >> uint64(32) | sets[1] | sets[2], available)


@inline_function
def _can_win_giving_two(word: int, available: int) -> int:
    """Return 1 if the player who gives the next-to-last piece can win, else 0.

    This player wins if there is a safe gift after which the last piece wins on the remaining cell, whichever of the two
    empty cells the opponent takes. ``word`` has the bytes of the sets of these two cells.
    """
    safe = _safe_pieces_of_two(word, available)
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        pair = (word >> uint64(24)) & _repeat_piece_values_byte(gift)
        last = _repeat_piece_values_byte(lowest_bit(available & ~(int64(1) << gift))) & uint64(255)
        if (pair | word >> uint64(8)) & last != uint64(0) and (pair | word >> uint64(16)) & last != uint64(0):
            return 1
    return 0


@inline_function
def _can_achieve_placing_three(word: int, available: int, hand: int, question: int) -> int:
    """Return 1 if the player who places ``hand`` on one of the last three empty cells can achieve the aim, else 0.

    The aim is a win if ``question`` is ``WIN``, and at least a draw if it is ``DRAW``. ``word`` has the bytes of the
    sets of the three cells.
    """
    byte = _repeat_piece_values_byte(hand)
    for cell in range(3):
        next_word = _place_on_one_of_three(word, cell, byte)
        if question == DRAW:  # any safe gift will do: its giver has no other placement to fear
            if _safe_pieces_of_two(next_word, available) != 0:
                return 1
        elif _can_win_giving_two(next_word, available):
            return 1
    return 0


@inline_function
def _can_achieve_giving_three(word: int, available: int, safe: int, question: int) -> int:
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        if _can_achieve_placing_three(word, available & ~(int64(1) << gift), gift, 1 - question) == 0:
            return 1
    return 0


@inline_function
def _can_achieve_placing_four(sets: TwoWords, available: int, hand: int, question: int) -> int:
    byte = _repeat_piece_values_byte(hand)
    for cell in range(4):
        next_word = _place_on_one_of_four(sets, cell, byte)
        if _can_achieve_giving_three(next_word, available, _safe_pieces_of_three(next_word, available), question):
            return 1
    return 0


@kernel(types.int64(types.uint64, types.uint64, types.int64, types.int64, types.int64))
def _can_achieve_giving_four(none: int, three: int, available: int, safe: int, question: int) -> int:
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        if _can_achieve_placing_four((none, three), available & ~(int64(1) << gift), gift, 1 - question) == 0:
            return 1
    return 0


@inline_function
def _can_achieve_placing_five(sets: FourWords, available: int, hand: int, question: int) -> int:
    byte = _repeat_piece_values_byte(hand)
    for cell in range(5):
        next_sets = _place_on_one_of_five(sets, cell, byte)
        safe = _safe_pieces_of_four(next_sets, available)
        if safe != 0 and _can_achieve_giving_four(next_sets[0], next_sets[1], available, safe, question):
            return 1
    return 0


@inline_function
def _can_achieve_giving_five(sets: FourWords, available: int, safe: int, question: int) -> int:
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        if _can_achieve_placing_five(sets, available & ~(int64(1) << gift), gift, 1 - question) == 0:
            return 1
    return 0


@inline_function
def _can_achieve_placing_six(sets: EightWords, available: int, hand: int, question: int) -> int:
    """Return 1 if the player who places ``hand`` on one of the last six empty cells can achieve the aim, else 0.

    The aim is a win if ``question`` is ``WIN``, and at least a draw if it is ``DRAW``. ``sets`` are the words for the
    six cells: see the docstring of this module.
    """
    byte, counts = _repeat_piece_values_byte(hand), int64(0)
    for cell in range(6):
        safe = _safe_pieces_of_five(_place_on_one_of_six(sets, cell, byte), available)
        counts |= int64(popcount(uint64(safe))) << (4 * cell)
    for count in range(1, 6):
        for cell in range(6):
            if (counts >> (4 * cell)) & 15 == count:
                next_sets = _place_on_one_of_six(sets, cell, byte)
                if _can_achieve_giving_five(next_sets, available, _safe_pieces_of_five(next_sets, available), question):
                    return 1
    return 0


@inline_function
def _shared_values(lanes: int, filled: int) -> int:
    """Return the byte of the attribute values that all pieces on some cells share.

    ``filled`` is the mask of these cells, repeated in each of the four lanes. If there are no cells, all values are
    shared.
    """
    ones, zeros = lanes & filled, ~lanes & filled
    lacking = ~(((ones & BELOW_TOPS) + BELOW_TOPS) | ones) & LANE_TOPS  # a lane without ones has its highest bit set
    having = ~(((zeros & BELOW_TOPS) + BELOW_TOPS) | zeros) & LANE_TOPS
    having, lacking = having >> uint64(15), lacking >> uint64(15)
    low = having | having >> uint64(15) | having >> uint64(30) | having >> uint64(45)
    high = lacking | lacking >> uint64(15) | lacking >> uint64(30) | lacking >> uint64(45)
    return (low & uint64(15)) | (high & uint64(15)) << uint64(4)


@inline_function
def _build_needed_values(lanes: int, occupied: int, rules: Any) -> EightWords:
    """Build the words of a board with at most six empty cells, which are numbered in ascending order.

    The words have one byte for each set of empty cells: see the docstring of this module. On each line whose empty
    cells are exactly this set, all pieces share some attribute values. The byte is the OR of the values of all these
    lines.
    """
    a, b, c, d = uint64(0), uint64(0), uint64(0), uint64(0)
    e, f, g, h = uint64(0), uint64(0), uint64(0), uint64(0)
    open_cells = ~occupied & ALL_CELLS
    empty = open_cells
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        for k in range(rules.lines_through):
            line = rules.through[cell, k]
            missing = int64(line & LANE_MASK) & open_cells
            if missing & ((int64(1) << cell) - 1):
                continue  # the line is seen at its lowest empty cell
            shared = _shared_values(lanes, line & (uint64(occupied) * LANE_ONES))
            cells, members, number = open_cells, int64(0), int64(0)
            while cells:
                members |= ((missing >> lowest_bit(cells)) & 1) << number
                cells &= cells - 1
                number += 1
            word, group = shared << uint64(8 * (members & 7)), members >> 3
            a |= word if group == 0 else uint64(0)
            b |= word if group == 1 else uint64(0)
            c |= word if group == 2 else uint64(0)
            d |= word if group == 3 else uint64(0)
            e |= word if group == 4 else uint64(0)
            f |= word if group == 5 else uint64(0)
            g |= word if group == 6 else uint64(0)
            h |= word if group == 7 else uint64(0)
    return a, b, c, d, e, f, g, h


# (lanes, occupied, available, safe gifts or piece in hand, question, rules) -> yes or no
ENDGAME_SIGNATURE = types.int64(types.uint64, types.int64, types.int64, types.int64, types.int64, RULES_TYPE)


@kernel(ENDGAME_SIGNATURE)
def can_placer_achieve_in_endgame(
    lanes: int, occupied: int, available: int, hand: int, question: int, rules: Any
) -> int:
    """Return 1 if the mover can win (if ``question`` is ``WIN``) or at least draw (if it is ``DRAW``), else 0.

    The board has at most six empty cells, and the piece in ``hand`` must not be able to win at once.
    """
    sets = _build_needed_values(lanes, occupied, rules)
    cells = CELLS - int64(popcount(occupied))
    if cells == 6:
        return _can_achieve_placing_six(sets, available, hand, question)
    if cells == 5:
        return _can_achieve_placing_five(sets[:4], available, hand, question)
    if cells == 4:
        return _can_achieve_placing_four(sets[:2], available, hand, question)
    if cells == 3:
        return _can_achieve_placing_three(sets[0], available, hand, question)
    if question == WIN:
        return 0
    if cells == 1:
        return 1
    pair = (sets[0] >> uint64(24)) & _repeat_piece_values_byte(
        hand
    )  # two cells: the last piece must not win on the other cell
    safe = _safe_pieces(pair | sets[0] >> uint64(8), available) | _safe_pieces(pair | sets[0] >> uint64(16), available)
    return int64(safe != 0)


@kernel(ENDGAME_SIGNATURE)
def can_giver_achieve_with_six_cells(
    lanes: int, occupied: int, available: int, safe: int, question: int, rules: Any
) -> int:
    """Return 1 if the giver of one of the ``safe`` pieces can achieve what ``question`` asks for, else 0.

    The question ``WIN`` asks for a win, and ``DRAW`` for at least a draw. The board has six empty cells.
    """
    sets = _build_needed_values(lanes, occupied, rules)
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        if _can_achieve_placing_six(sets, available & ~(int64(1) << gift), gift, 1 - question) == 0:
            return 1
    return 0
