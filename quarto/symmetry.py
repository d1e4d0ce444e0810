"""What is the same position: symmetries of cells and pieces, canonical forms, exact one-word keys.

Two kinds of symmetry keep every line and every match. Permutations of the cells that map the set of lines onto itself:
32 under classic rules (the 8 of the square, and exchanges of the inner with the outer cells), found here from the lines
of whatever rules are in force. And 384 of the pieces: XOR of all pieces with a constant (16) and any permutation of the
four attributes (24). The canonical form is the least board among all images, so two positions have the same one if and
only if some symmetry maps one to the other. Method: the seed study, after L. Kerner's count of 12,288 symmetries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.kernel import inlined, int64, kernel, lowest_bit, popcount, uint64
from quarto.position import ALL_PIECES, Position, board, piece_at
from quarto.rules import ATTRIBUTES, CELLS, LANE, LANE_ONES, NONE, SIDE, Line, Rules, cell_at, spread

PIECE_SYMMETRIES = 384
MASKS = 1 << CELLS
# Rules with very few lines have millions of symmetries (the two main diagonals alone: 46 million). A subgroup also
# makes exact canonical forms, it only merges less; beyond this many the symmetries of the torus are used.
LARGEST_GROUP = 2048
LARGEST_KEY_BOARD = 12  # pieces of the largest board whose key fits one word: 14 + 4 x 12 = 62 bits
NUMBER_BITS = 14  # the number of a canonical mask: at most 8,548, since all rules have the 8 symmetries of the square


class Symmetries(NamedTuple):
    """The cell symmetries of some rules as tables for kernels: ``S`` permutations, ``C`` canonical masks.

    Read-only by convention. Permutations are in lexicographic order: number 0 is the identity.
    """

    cells: NDArray[np.int8]  # [S, 16] image of each cell
    cells_back: NDArray[np.int8]  # [S, 16] the cell whose image it is
    images: NDArray[np.uint16]  # [S, 2, 256] image of the low and of the high byte of a mask
    minimal: NDArray[np.uint16]  # [65536] the least image of each mask: the canonical mask
    first: NDArray[np.int32]  # [65537] where the list of a mask begins in ``attaining``
    attaining: NDArray[np.int16]  # [C S] for each mask, the permutations that take it to its least image
    number: NDArray[np.int16]  # [65536] number of each mask's canonical mask
    masks: NDArray[np.uint16]  # [C] the canonical masks by number: by count of cells, then by value
    squeezed: NDArray[np.uint8]  # [256, 256] bits of the second byte at the places where the first has ones


_TYPES_AND_DIMENSIONS = (
    *((types.int8, 2), (types.int8, 2), (types.uint16, 3), (types.uint16, 1), (types.int32, 1)),
    *((types.int16, 1), (types.int16, 1), (types.uint16, 1), (types.uint8, 2)),
)
SYMMETRIES_TYPE = types.NamedTuple(
    tuple(types.Array(dtype, dimensions, "C") for dtype, dimensions in _TYPES_AND_DIMENSIONS), Symmetries
)


class Transform(NamedTuple):
    """One symmetry of cells and pieces: what took a position to its canonical form. All int64 in kernels."""

    permutation: int  # index into ``Symmetries.cells``
    xor: int  # piece XORed into all pieces, before:
    order: int  # two bits for each attribute, lowest first: the attribute that moves to its place


TRANSFORM_TYPE = types.NamedUniTuple(types.int64, 3, Transform)


def cell_symmetries(rules: Rules) -> NDArray[np.int8]:
    """All permutations of the cells that map the set of lines onto itself: ``[S, 16]`` int8, the image of each cell.

    Where there are more than ``LARGEST_GROUP``, those among the 128 symmetries of the 4 x 4 torus.
    """
    return symmetries(rules).cells


def symmetries(rules: Rules) -> Symmetries:
    """The tables of these rules; built once per set of lines, in some tens of milliseconds."""
    return _tables(rules.lines)


def _line_symmetries(lines: tuple[Line, ...]) -> Iterator[tuple[int, ...]]:
    """Every permutation that maps lines to lines, by backtracking: cells get their images in order."""
    known = set(lines)
    closing = [[line for line in known if line[-1] == cell] for cell in range(CELLS)]  # lines whose last cell it is
    common = [[sum(a in line and b in line for line in known) for b in range(CELLS)] for a in range(CELLS)]
    images: list[int] = []

    def fits(image: int) -> bool:
        cell = len(images)
        if image in images or common[cell][cell] != common[image][image]:
            return False
        if any(common[before][cell] != common[images[before]][image] for before in range(cell)):
            return False
        moved = [*images, image]
        return all(tuple(sorted(moved[on_line] for on_line in line)) in known for line in closing[cell])

    def extend() -> Iterator[tuple[int, ...]]:
        if len(images) == CELLS:
            yield tuple(images)
            return
        for image in range(CELLS):
            if fits(image):
                images.append(image)
                yield from extend()
                images.pop()

    return extend()


def _torus_symmetries(lines: tuple[Line, ...]) -> Iterator[tuple[int, ...]]:
    """Those of the shifts, turns and reflections of the 4 x 4 torus that map lines to lines."""
    known = set(lines)
    for turn in range(8):
        row_sign, column_sign, exchange = 1 - 2 * (turn & 1), 1 - (turn & 2), turn & 4
        for shift in range(CELLS):
            images = []
            for cell in range(CELLS):
                row, column = row_sign * (cell // SIDE) + shift // SIDE, column_sign * (cell % SIDE) + shift % SIDE
                images.append(cell_at(column, row) if exchange else cell_at(row, column))
            if all(tuple(sorted(images[cell] for cell in line)) in known for line in known):
                yield tuple(images)


@functools.cache
def _tables(lines: tuple[Line, ...]) -> Symmetries:
    found = list(islice(_line_symmetries(lines), LARGEST_GROUP + 1))
    cells = np.array(found if len(found) <= LARGEST_GROUP else sorted(_torus_symmetries(lines)), np.int8)
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1  # [256, 8]
    images = np.stack([(1 << cells[:, half].astype(np.int64)) @ bits.T for half in (slice(8), slice(8, CELLS))], axis=1)
    images = np.ascontiguousarray(images, np.uint16)
    minimal, first, attaining = _least_images(images)
    every = np.arange(MASKS)
    masks = every[minimal == every]
    masks = masks[np.lexsort((masks, np.bitwise_count(masks)))].astype(np.uint16)
    number = np.zeros(MASKS, np.int16)
    number[masks] = np.arange(len(masks))
    places = np.cumsum(bits, axis=1) - bits  # [256, 8] how many ones are below each bit
    squeezed = ((bits[None] * bits[:, None]) << places[:, None]).sum(axis=2).astype(np.uint8)
    cells_back = np.argsort(cells, axis=1).astype(np.int8)
    return Symmetries(cells, cells_back, images, minimal, first, attaining, number[minimal], masks, squeezed)


@kernel()
def _least_images(images: NDArray[np.uint16]) -> tuple[NDArray[np.uint16], NDArray[np.int32], NDArray[np.int16]]:
    """``minimal``, ``first`` and ``attaining`` of ``Symmetries``, from its ``images``."""
    order = images.shape[0]
    minimal = np.empty(MASKS, np.uint16)
    first = np.zeros(MASKS + 1, np.int32)
    for mask in range(MASKS):
        least, ties = MASKS, 0
        for permutation in range(order):
            image = int64(images[permutation, 0, mask & 255]) | int64(images[permutation, 1, mask >> 8])
            if image < least:
                least, ties = image, 0
            ties += image == least
        minimal[mask] = least
        first[mask + 1] = first[mask] + ties
    attaining = np.empty(first[MASKS], np.int16)
    for mask in range(MASKS):
        place = first[mask]
        for permutation in range(order):
            image = int64(images[permutation, 0, mask & 255]) | int64(images[permutation, 1, mask >> 8])
            if image == int64(minimal[mask]):
                attaining[place] = permutation
                place += 1
    return minimal, first, attaining


@inlined
def move_mask(mask: int, permutation: int, tables: Symmetries) -> int:
    """The image (int64) of a 16-bit ``mask`` under a cell permutation."""
    low = int64(tables.images[permutation, 0, mask & 255])
    return low | int64(tables.images[permutation, 1, (mask >> 8) & 255])


@inlined
def move_lanes(lanes: int, permutation: int, tables: Symmetries) -> int:
    """The image (uint64) of all four lanes under a cell permutation."""
    moved = uint64(0)
    for shift in range(0, ATTRIBUTES * CELLS, CELLS):
        mask = int64((lanes >> uint64(shift)) & LANE)
        moved |= uint64(move_mask(mask, permutation, tables)) << uint64(shift)
    return moved


@inlined
def sort_lanes(lanes: int) -> int:
    """The least word that the four lanes make in any order: lane 3 is the least of them."""
    a = int64(lanes & LANE)
    b = int64((lanes >> uint64(16)) & LANE)
    c = int64((lanes >> uint64(32)) & LANE)
    d = int64(lanes >> uint64(48))
    a, b, c, d = max(a, b), min(a, b), max(c, d), min(c, d)
    a, b, c, d = max(a, c), max(b, d), min(a, c), min(b, d)
    b, c = max(b, c), min(b, c)
    return uint64(a) | uint64(b) << uint64(16) | uint64(c) << uint64(32) | uint64(d) << uint64(48)


@inlined
def highest_cell(occupied: int) -> int:
    """The highest occupied cell as uint64; 15 on the empty board, where it makes no difference."""
    smeared = occupied | occupied >> 1
    smeared |= smeared >> 2
    smeared |= smeared >> 4
    smeared |= smeared >> 8
    return uint64((popcount(smeared) - 1) & 15)


@inlined
def least_lanes(lanes: int, occupied: int, cell: int) -> int:
    """Each lane replaced by the lesser of itself and its complement within ``occupied``: its highest ``cell`` tells."""
    return lanes ^ (((lanes >> cell) & LANE_ONES) * uint64(occupied))


@inlined
def canonical(lanes: int, occupied: int, hand: int, tables: Symmetries) -> tuple[int, int]:
    """The canonical form of a position (``hand`` 0-15, which becomes 0) or of a board (``hand`` NONE).

    Returns (lanes uint64, occupied int64): among all images under the symmetries of cells and pieces those with the
    least ``occupied`` and, with a hand, those whose hand is 0; of these the least ``lanes``. Forms of positions and
    of boards are different things: do not compare one with the other. About 15 ns.
    """
    minimal = int64(tables.minimal[occupied])
    if hand >= 0:
        lanes ^= spread(hand) * uint64(occupied)
    top = highest_cell(minimal)
    least = ~uint64(0)
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        image = move_lanes(lanes, int64(tables.attaining[i]), tables)
        if hand < 0:
            image = least_lanes(image, minimal, top)
        least = min(least, sort_lanes(image))
    return least, minimal


@inlined
def canonical_transform(lanes: int, occupied: int, hand: int, tables: Symmetries) -> Transform:
    """A symmetry that takes this position (or board, ``hand`` NONE) to its ``canonical`` form; the first one found."""
    minimal = int64(tables.minimal[occupied])
    if hand >= 0:
        lanes ^= spread(hand) * uint64(occupied)
    top = highest_cell(minimal)
    least, permutation = ~uint64(0), int64(0)
    xor, unsorted = max(hand, 0), lanes
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        moved = move_lanes(lanes, int64(tables.attaining[i]), tables)
        image = least_lanes(moved, minimal, top) if hand < 0 else moved
        if i == tables.first[occupied] or sort_lanes(image) < least:
            least, permutation, unsorted = sort_lanes(image), int64(tables.attaining[i]), image
            if hand < 0:
                xor = piece_at(moved, top)
    return Transform(permutation, xor, _descending_order(unsorted))


@inlined
def _descending_order(lanes: int) -> int:
    """``Transform.order`` that sorts these lanes, greatest first; equal lanes keep their order."""
    order = int64(0)
    for a in range(ATTRIBUTES):
        lane = (lanes >> uint64(CELLS * a)) & LANE
        place = 0
        for b in range(ATTRIBUTES):
            other = (lanes >> uint64(CELLS * b)) & LANE
            place += int64(other > lane or (other == lane and b < a))
        order |= int64(a) << (2 * place)
    return order


@inlined
def map_cell(cell: int, transform: Transform, tables: Symmetries) -> int:
    """Where a cell of the position lies in the canonical one."""
    return int64(tables.cells[transform.permutation, cell])


@inlined
def unmap_cell(cell: int, transform: Transform, tables: Symmetries) -> int:
    """The cell of the position that lies on this cell of the canonical one."""
    return int64(tables.cells_back[transform.permutation, cell])


@inlined
def map_piece(piece: int, transform: Transform) -> int:
    """What a piece of the position is in the canonical one."""
    mapped = int64(0)
    for attribute in range(ATTRIBUTES):
        mapped |= (((piece ^ transform.xor) >> ((transform.order >> (2 * attribute)) & 3)) & 1) << attribute
    return mapped


@inlined
def unmap_piece(piece: int, transform: Transform) -> int:
    """The piece of the position that is this piece in the canonical one."""
    mapped = int64(0)
    for attribute in range(ATTRIBUTES):
        mapped |= ((piece >> attribute) & 1) << ((transform.order >> (2 * attribute)) & 3)
    return mapped ^ transform.xor


@inlined
def orbit_size(lanes: int, occupied: int, hand: int, tables: Symmetries) -> int:
    """How many positions (``hand`` 0-15) or boards (``hand`` NONE) have the canonical form of this one, which counts.

    The order of the group over the number of its symmetries that change nothing here.
    """
    least, minimal = canonical(lanes, occupied, hand, tables)
    if hand >= 0:
        lanes ^= spread(hand) * uint64(occupied)
    top = highest_cell(minimal)
    keep = int64(0)
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        image = move_lanes(lanes, int64(tables.attaining[i]), tables)
        if hand < 0:
            image = least_lanes(image, minimal, top)
        keep += int64(sort_lanes(image) == least)
    run = 1
    for shift in range(CELLS, ATTRIBUTES * CELLS, CELLS):  # equal lanes, which lie side by side, may change places
        equal = ((least >> uint64(shift)) ^ (least >> uint64(shift - CELLS))) & LANE == uint64(0)
        run = run + 1 if equal else 1
        keep *= run
    if occupied == 0 and hand < 0:
        keep *= 16  # nothing on the board or in hand that an XOR could change
    return int64(tables.cells.shape[0] * PIECE_SYMMETRIES // keep)


@inlined
def board_key(lanes: int, occupied: int, tables: Symmetries) -> int:
    """One uint64 for a canonical form of up to ``LARGEST_KEY_BOARD`` pieces: exact, no two forms share one.

    The lowest 14 bits number the canonical mask; above them come the four lanes, lane 0 lowest, squeezed to the
    occupied cells. ``14 + 4 n`` bits for ``n`` pieces. What is not canonical must be made so first.
    """
    low, high = occupied & 255, occupied >> 8
    low_count, count = popcount(low), popcount(occupied)
    word = uint64(0)
    for attribute in range(ATTRIBUTES):
        lane = int64((lanes >> uint64(CELLS * attribute)) & LANE)
        bits = int64(tables.squeezed[low, lane & 255]) | int64(tables.squeezed[high, lane >> 8]) << low_count
        word |= uint64(bits) << uint64(count * attribute)
    return word << uint64(NUMBER_BITS) | uint64(tables.number[occupied])


@inlined
def board_of_key(key: int, tables: Symmetries) -> tuple[int, int]:
    """The canonical form (lanes uint64, occupied int64) that has this ``board_key``."""
    occupied = int64(tables.masks[int64(key & uint64((1 << NUMBER_BITS) - 1))])
    word = key >> uint64(NUMBER_BITS)
    lanes = uint64(0)
    for attribute in range(ATTRIBUTES):
        rest = occupied
        while rest:
            cell = lowest_bit(rest)
            lanes |= (word & uint64(1)) << uint64(CELLS * attribute + cell)
            word >>= uint64(1)
            rest &= rest - 1
    return lanes, occupied


@inlined
def pieces_on(lanes: int, occupied: int) -> int:
    """The pieces on a board, as 16 bits (int64)."""
    pieces = int64(0)
    while occupied:
        pieces |= int64(1) << piece_at(lanes, lowest_bit(occupied))
        occupied &= occupied - 1
    return pieces


@kernel()
def canonical_forms(
    lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], hand: NDArray[np.int8], tables: Symmetries
) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """``canonical`` of ``B`` positions or boards: three ``[B]`` arrays in, lanes and occupied out."""
    least = np.empty(lanes.shape[0], np.uint64)
    minimal = np.empty(lanes.shape[0], np.uint16)
    for i in range(lanes.shape[0]):
        least[i], minimal[i] = canonical(lanes[i], int64(occupied[i]), int64(hand[i]), tables)
    return least, minimal


@kernel()
def transforms(
    lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], hand: NDArray[np.int8], tables: Symmetries
) -> NDArray[np.int16]:
    """``canonical_transform`` of ``B`` positions or boards: ``[B, 3]`` int16, the fields of ``Transform``."""
    found = np.empty((lanes.shape[0], 3), np.int16)
    for i in range(lanes.shape[0]):
        transform = canonical_transform(lanes[i], int64(occupied[i]), int64(hand[i]), tables)
        found[i, 0], found[i, 1], found[i, 2] = transform.permutation, transform.xor, transform.order
    return found


def canonical_position(position: Position, rules: Rules) -> Position:
    """The canonical form of a position, or of a board when its hand is NONE, as Python integers; no last cell."""
    lanes, occupied = canonical_forms(
        np.array([position.lanes], np.uint64),
        np.array([position.occupied], np.uint16),
        np.array([position.hand], np.int8),
        symmetries(rules),
    )
    hand = NONE if position.hand == NONE else 0
    canonical_one = Position(int(lanes[0]), int(occupied[0]), ALL_PIECES, hand, NONE)
    taken = {hand, *board(canonical_one)} - {NONE}
    return canonical_one._replace(available=ALL_PIECES - sum(1 << piece for piece in taken))
