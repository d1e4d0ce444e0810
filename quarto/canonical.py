"""The canonical form of a position, board or turn, the symmetry that takes it there, and its exact key.

The canonical form is the least board among all images under the symmetries of cells (``quarto/symmetry.py``) and of
pieces: XOR of all pieces with a constant (16) and any permutation of the four attributes (24). Two positions have the
same form if and only if some symmetry maps one to the other. Method: the seed study, after M. Kerner's count of 12,288
symmetries.

A turn, which is a position and a decision in it, has one form too. The board comes first: it is made canonical as
boards without a hand are. Of all symmetries that do so, the form takes the one that makes the hand, then the cell, then
the chosen piece the least. Hence positions that differ in the gift alone are neighbours, and turns that a symmetry of
the position exchanges have one form.

A key is the lanes of a canonical form in one machine word. Only the occupied cells of a lane carry information.
Squeezed to these cells, the four lanes of ``n`` pieces take 4 n bits, lane 0 lowest. A key has one more part: in
``board_key`` the number of the canonical mask, in ``pack_lanes_and_hand`` the hand, because there the mask has a column
of its own. A key is never a hash: different forms have different keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.bits import LANE_MASK, LANE_ONES, lowest_bit, piece_to_lanes, popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_PIECES, PackedPosition, board, piece_at
from quarto.rules import ATTRIBUTES, CELLS, NONE, Rules
from quarto.symmetry import Symmetries, build_symmetries, move_lanes

PIECE_SYMMETRIES = 384


class Transform(NamedTuple):
    """A symmetry of cells and pieces that takes a position to its canonical form. All fields are int64 in kernels."""

    permutation: int  # index into ``Symmetries.cells``
    xor: int  # piece that is XORed into all pieces before ``order`` applies
    order: int  # two bits for each new attribute, lowest first: the old attribute that moves there


@inline_function
def sort_lanes(lanes: int) -> int:
    """Return the lanes in descending order from lane 0 to lane 3, which makes the 64-bit word as small as possible."""
    a = int64(lanes & LANE_MASK)
    b = int64((lanes >> uint64(16)) & LANE_MASK)
    c = int64((lanes >> uint64(32)) & LANE_MASK)
    d = int64(lanes >> uint64(48))
    a, b, c, d = max(a, b), min(a, b), max(c, d), min(c, d)
    a, b, c, d = max(a, c), max(b, d), min(a, c), min(b, d)
    b, c = max(b, c), min(b, c)
    return uint64(a) | uint64(b) << uint64(16) | uint64(c) << uint64(32) | uint64(d) << uint64(48)


@inline_function
def highest_cell(occupied: int) -> int:
    """Return the highest occupied cell as uint64, or 15 for the empty board.

    On the empty board any cell would serve the callers, because all lanes are 0.
    """
    smeared = occupied | occupied >> 1
    smeared |= smeared >> 2
    smeared |= smeared >> 4
    smeared |= smeared >> 8
    return uint64((popcount(smeared) - 1) & 15)


@inline_function
def least_lane_complements(lanes: int, occupied: int, cell: int) -> int:
    """Replace each lane by its complement within ``occupied`` if the complement is less.

    ``cell`` must be the highest occupied cell, because its bit decides whether the lane or the complement is less.
    """
    return lanes ^ (((lanes >> cell) & LANE_ONES) * uint64(occupied))


@inline_function
def canonical_lanes_and_occupied(
    lanes: int, occupied: int, hand_mapped_to_zero: int, tables: Symmetries
) -> tuple[int, int]:
    """Return the canonical form (lanes uint64, occupied int64) of a position or, if no piece is in hand, of a board.

    The form has the least ``occupied`` of all images under symmetries and, among the images with this ``occupied``, the
    least ``lanes``. ``hand_mapped_to_zero`` is the piece in hand, or NONE for a board. Only symmetries that map this
    piece to piece 0 are used.

    Do not compare the form of a position with the form of a board: they may be equal, because a form does not show
    whether a piece is in hand. The computation takes about 15 ns.
    """
    minimal = int64(tables.minimal[occupied])
    if hand_mapped_to_zero >= 0:
        lanes ^= piece_to_lanes(hand_mapped_to_zero) * uint64(occupied)
    top = highest_cell(minimal)
    least = ~uint64(0)
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        image = move_lanes(lanes, int64(tables.attaining[i]), tables)
        if hand_mapped_to_zero < 0:
            image = least_lane_complements(image, minimal, top)
        least = min(least, sort_lanes(image))
    return least, minimal


@inline_function
def canonical_transform(lanes: int, occupied: int, hand: int, tables: Symmetries) -> Transform:
    """Return the symmetry that takes a position, or a board if ``hand`` is NONE, to its canonical form.

    If several symmetries do, it is the one whose permutation of the cells comes first in ``tables.cells``.
    """
    minimal = int64(tables.minimal[occupied])
    if hand >= 0:
        lanes ^= piece_to_lanes(hand) * uint64(occupied)
    top = highest_cell(minimal)
    least, permutation = ~uint64(0), int64(0)
    xor, unsorted = max(hand, 0), lanes
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        moved = move_lanes(lanes, int64(tables.attaining[i]), tables)
        image = least_lane_complements(moved, minimal, top) if hand < 0 else moved
        if i == tables.first[occupied] or sort_lanes(image) < least:
            least, permutation, unsorted = sort_lanes(image), int64(tables.attaining[i]), image
            if hand < 0:
                xor = piece_at(moved, top)
    return Transform(permutation, xor, _descending_order(unsorted))


@inline_function
def _descending_order(lanes: int) -> int:
    """Return the ``Transform.order`` that sorts the four lanes in descending order. The sort is stable."""
    order = int64(0)
    for a in range(ATTRIBUTES):
        lane = (lanes >> uint64(CELLS * a)) & LANE_MASK
        rank = 0
        for b in range(ATTRIBUTES):
            other = (lanes >> uint64(CELLS * b)) & LANE_MASK
            rank += int64(other > lane or (other == lane and b < a))
        order |= int64(a) << (2 * rank)
    return order


@inline_function
def map_cell(cell: int, transform: Transform, tables: Symmetries) -> int:
    """Return the cell of the canonical form to which ``transform`` moves a cell of the position."""
    return int64(tables.cells[transform.permutation, cell])


@inline_function
def map_piece(piece: int, transform: Transform) -> int:
    """Return the piece of the canonical form to which ``transform`` maps a piece of the position."""
    mapped = int64(0)
    for attribute in range(ATTRIBUTES):
        mapped |= (((piece ^ transform.xor) >> ((transform.order >> (2 * attribute)) & 3)) & 1) << attribute
    return mapped


@inline_function
def orbit_size(lanes: int, occupied: int, hand: int, tables: Symmetries) -> int:
    """Return the number of positions, or of boards if ``hand`` is NONE, that share the canonical form of this one.

    This position or board is counted too. The number is the order of the symmetry group divided by the number of
    symmetries that leave this position unchanged.
    """
    least, minimal = canonical_lanes_and_occupied(lanes, occupied, hand, tables)
    if hand >= 0:
        lanes ^= piece_to_lanes(hand) * uint64(occupied)
    top = highest_cell(minimal)
    keep = int64(0)
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        image = move_lanes(lanes, int64(tables.attaining[i]), tables)
        if hand < 0:
            image = least_lane_complements(image, minimal, top)
        keep += int64(sort_lanes(image) == least)
    run = 1
    for shift in range(CELLS, ATTRIBUTES * CELLS, CELLS):  # equal lanes, which lie side by side, may be exchanged
        equal = ((least >> uint64(shift)) ^ (least >> uint64(shift - CELLS))) & LANE_MASK == uint64(0)
        run = run + 1 if equal else 1
        keep *= run
    if occupied == 0 and hand < 0:
        keep *= 16  # nothing on the board or in hand that an XOR could change
    return int64(tables.cells.shape[0] * PIECE_SYMMETRIES // keep)


@kernel()
def canonical_forms(
    lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], hand: NDArray[np.int8], tables: Symmetries
) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """Compute the canonical forms of ``B`` positions or boards, and return their lanes [B] and occupied cells [B].

    ``lanes``, ``occupied`` and ``hand`` are [B]; ``hand`` is NONE for a board. See ``canonical_lanes_and_occupied``.
    """
    least = np.empty(lanes.shape[0], np.uint64)
    minimal = np.empty(lanes.shape[0], np.uint16)
    for i in range(lanes.shape[0]):
        least[i], minimal[i] = canonical_lanes_and_occupied(lanes[i], int64(occupied[i]), int64(hand[i]), tables)
    return least, minimal


def canonical_position(position: PackedPosition, rules: Rules) -> PackedPosition:
    """Return the canonical form of a position, or of a board if the hand of the position is NONE.

    The fields of the result are Python integers, and its ``last_cell`` is NONE.
    """
    lanes, occupied = canonical_forms(
        np.array([position.lanes], np.uint64),
        np.array([position.occupied], np.uint16),
        np.array([position.hand], np.int8),
        build_symmetries(rules),
    )
    hand = NONE if position.hand == NONE else 0
    canonical_one = PackedPosition(int(lanes[0]), int(occupied[0]), ALL_PIECES, hand, NONE)
    used_pieces = {hand, *board(canonical_one)} - {NONE}
    return canonical_one._replace(available=ALL_PIECES - sum(1 << piece for piece in used_pieces))


class CanonicalTurn(NamedTuple):
    """The canonical form of a position and of a decision made in it.

    In kernels ``board`` is uint64 and every other field is int64.
    """

    occupied: int  # 16 bits: cells that hold a piece
    board: int  # the pieces on these cells, and the hand: see ``pack_lanes_and_hand``
    cell: int  # where the piece in hand was placed or, if the mover chooses, where ``piece`` was placed
    piece: int  # the gift or, if the mover chooses, the piece that was placed; NONE if there was no gift


CANONICAL_TURN_TYPE = types.NamedTuple((types.int64, types.uint64, types.int64, types.int64), CanonicalTurn)


@inline_function
def _pack_lane_and_choice(lane: int, hand: int, piece: int, attribute: int) -> int:
    """Pack a lane, the bit of ``attribute`` in ``hand`` and its bit in ``piece`` into one number.

    The numbers sort by the lane, then by the bit of ``hand``, then by the bit of ``piece``. Callers pass piece 0 in
    place of NONE.
    """
    return lane << 2 | ((hand >> attribute) & 1) << 1 | ((piece >> attribute) & 1)


@inline_function
def canonical_first_turn(hand: int, choice: tuple[int, int], tables: Symmetries) -> CanonicalTurn:
    """Return the ``canonical_turn`` of a turn on the empty board.

    On this board any piece may become piece 0, and attributes may be exchanged freely.
    """
    cell, piece = choice
    least = cell
    for permutation in range(tables.cells.shape[0]):
        least = min(least, int64(tables.cells[permutation, cell]))
    differing = popcount(piece ^ hand) if hand >= 0 else int64(0)
    return CanonicalTurn(int64(0), uint64(0), least, (int64(1) << differing) - 1 if piece >= 0 else int64(NONE))


@inline_function
def canonical_turn(lanes: int, occupied: int, hand: int, choice: tuple[int, int], tables: Symmetries) -> CanonicalTurn:
    """Return the canonical form of a turn. This takes about 40 ns.

    ``choice`` is (cell, piece). Both ``piece`` and ``hand``, the piece in hand, may be NONE.
    """
    cell, piece = choice
    minimal = int64(tables.minimal[occupied])
    top = highest_cell(minimal)
    least, least_decision = ~uint64(0), int64(1) << 12
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        permutation = int64(tables.attaining[i])
        moved = move_lanes(lanes, permutation, tables)
        flip = piece_at(moved, top)
        image = moved ^ (((moved >> top) & LANE_ONES) * uint64(minimal))
        in_hand = hand ^ flip if hand >= 0 else int64(0)
        chosen = piece ^ flip if piece >= 0 else int64(0)
        a = _pack_lane_and_choice(int64(image & LANE_MASK), in_hand, chosen, 0)
        b = _pack_lane_and_choice(int64((image >> uint64(16)) & LANE_MASK), in_hand, chosen, 1)
        c = _pack_lane_and_choice(int64((image >> uint64(32)) & LANE_MASK), in_hand, chosen, 2)
        d = _pack_lane_and_choice(int64(image >> uint64(48)), in_hand, chosen, 3)
        a, b, c, d = max(a, b), min(a, b), max(c, d), min(c, d)
        a, b, c, d = max(a, c), max(b, d), min(a, c), min(b, d)
        b, c = max(b, c), min(b, c)
        sorted_lanes = (
            uint64(a >> 2) | uint64(b >> 2) << uint64(16) | uint64(c >> 2) << uint64(32) | uint64(d >> 2) << uint64(48)
        )
        in_hand = ((a >> 1) & 1) | (b & 2) | ((c >> 1) & 1) << 2 | ((d >> 1) & 1) << 3
        chosen = (a & 1) | (b & 1) << 1 | (c & 1) << 2 | (d & 1) << 3
        decision = in_hand << 8 | int64(tables.cells[permutation, cell]) << 4 | chosen
        if sorted_lanes < least or (sorted_lanes == least and decision < least_decision):
            least, least_decision = sorted_lanes, decision
    word = pack_lanes_and_hand(least, minimal, least_decision >> 8, tables)
    return CanonicalTurn(minimal, word, (least_decision >> 4) & 15, least_decision & 15 if piece >= 0 else int64(NONE))


LARGEST_KEY_BOARD = 12  # pieces of the largest board whose key fits one word: 14 + 4 x 12 = 62 bits
NUMBER_BITS = 14  # the number of a canonical mask: at most 8,548, since all rules have the 8 symmetries of the square
HAND_BITS = 4  # of a board word: the lowest


@inline_function
def squeeze_lanes(lanes: int, occupied: int, tables: Symmetries) -> int:
    """Pack the bits of the four lanes on the ``n`` occupied cells into 4 n bits (uint64), with lane 0 lowest."""
    low, high = occupied & 255, occupied >> 8
    low_count, count = popcount(low), popcount(occupied)
    word = uint64(0)
    for attribute in range(ATTRIBUTES):
        lane = int64((lanes >> uint64(CELLS * attribute)) & LANE_MASK)
        bits = int64(tables.squeezed[low, lane & 255]) | int64(tables.squeezed[high, lane >> 8]) << low_count
        word |= uint64(bits) << uint64(count * attribute)
    return word


@inline_function
def unsqueeze_lanes(word: int, occupied: int) -> int:
    """Return the lanes (uint64) that ``squeeze_lanes`` packed into ``word``.

    Bits of ``word`` above the lowest 4 n are ignored, where ``n`` is the number of occupied cells.
    """
    lanes = uint64(0)
    for attribute in range(ATTRIBUTES):
        rest = occupied
        while rest:
            lanes |= (word & uint64(1)) << uint64(CELLS * attribute + lowest_bit(rest))
            word >>= uint64(1)
            rest &= rest - 1
    return lanes


@inline_function
def board_key(lanes: int, occupied: int, tables: Symmetries) -> int:
    """Return the exact key (uint64) of a canonical form with up to ``LARGEST_KEY_BOARD`` pieces.

    The form must already be canonical. No two forms have the same key. The lowest 14 bits are the index of ``occupied``
    in ``tables.masks``, which lists all values that ``occupied`` has in canonical forms. The squeezed lanes take the
    bits above these, so the key of a form with ``n`` pieces has ``14 + 4 n`` bits.
    """
    return squeeze_lanes(lanes, occupied, tables) << uint64(NUMBER_BITS) | uint64(tables.number[occupied])


@inline_function
def decode_board_key(key: int, tables: Symmetries) -> tuple[int, int]:
    """Return the canonical form (lanes uint64, occupied int64) whose ``board_key`` is ``key``."""
    occupied = int64(tables.masks[int64(key & uint64((1 << NUMBER_BITS) - 1))])
    return unsqueeze_lanes(key >> uint64(NUMBER_BITS), occupied), occupied


@inline_function
def pack_lanes_and_hand(lanes: int, occupied: int, hand: int, tables: Symmetries) -> int:
    """Pack the pieces of a canonical board and the piece in hand (0 if there is none) into a uint64.

    The word does not contain ``occupied``, but the two together identify the board and the piece in hand exactly. The
    piece in hand is in the lowest four bits and the squeezed lanes are above it, so a board with ``n`` pieces takes 4 n
    + 4 bits.

    The word also fits into an int64, because its top bit is 0: on a canonical board the piece on the highest occupied
    cell is piece 0.
    """
    return squeeze_lanes(lanes, occupied, tables) << uint64(HAND_BITS) | uint64(hand)
