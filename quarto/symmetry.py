"""The symmetries of the cells: the permutations that map the set of lines onto itself, as tables for kernels.

There are 32 under classic rules (the 8 of the square, and exchanges of the inner with the outer cells). They are
computed from the lines of the rules in force.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.bits import LANE_MASK
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.rules import ATTRIBUTES, CELLS, SIDE, Line, Rules, wrapped_cell_at

MASKS = 1 << CELLS
# Rules with very few lines have millions of symmetries (the two main diagonals alone: 46 million). A subgroup also
# makes exact canonical forms, it only merges less; beyond this many the symmetries of the torus are used.
MAX_SYMMETRIES = 2048


class Symmetries(NamedTuple):
    """The symmetries of the cells under one set of rules, as tables for kernels.

    There are ``S`` permutations and ``C`` canonical masks. The tables are read-only by convention. Permutations are in
    lexicographic order, so number 0 is the identity.
    """

    cells: NDArray[np.int8]  # [S, 16] image of each cell
    images: NDArray[np.uint16]  # [S, 2, 256] image of the low and of the high byte of a mask
    minimal: NDArray[np.uint16]  # [65536] the least image of each mask: the canonical mask
    first: NDArray[np.int32]  # [65537] where the list of a mask begins in ``attaining``
    attaining: NDArray[np.int16]  # [C S] for each mask, the permutations that take it to its least image
    number: NDArray[np.int16]  # [65536] number of each mask's canonical mask
    masks: NDArray[np.uint16]  # [C] the canonical masks by number: by count of cells, then by value
    squeezed: NDArray[np.uint8]  # [256, 256] bits of the second byte at the places where the first has ones


_TYPES_AND_DIMENSIONS = (
    *((types.int8, 2), (types.uint16, 3), (types.uint16, 1), (types.int32, 1), (types.int16, 1)),
    *((types.int16, 1), (types.uint16, 1), (types.uint8, 2)),
)
SYMMETRIES_TYPE = types.NamedTuple(
    tuple(types.Array(dtype, dimensions, "C") for dtype, dimensions in _TYPES_AND_DIMENSIONS), Symmetries
)


def build_symmetries(rules: Rules) -> Symmetries:
    """Return the symmetry tables of these rules.

    They are built once for each set of lines, in some tens of milliseconds.
    """
    return _build_tables(rules.lines)


def _find_line_symmetries(lines: tuple[Line, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every permutation of the cells that maps lines to lines.

    Method: backtracking over the cells in ascending order, in which each step chooses the image of one cell.
    """
    line_set = set(lines)
    # By cell: the lines whose last cell it is.
    closing = [[line for line in line_set if line[-1] == cell] for cell in range(CELLS)]
    common = [[sum(a in line and b in line for line in line_set) for b in range(CELLS)] for a in range(CELLS)]
    images: list[int] = []

    def is_line_preserving(image: int) -> bool:
        cell = len(images)
        if image in images or common[cell][cell] != common[image][image]:
            return False
        if any(common[before][cell] != common[images[before]][image] for before in range(cell)):
            return False
        moved = [*images, image]
        return all(tuple(sorted(moved[on_line] for on_line in line)) in line_set for line in closing[cell])

    def generate_images() -> Iterator[tuple[int, ...]]:
        if len(images) == CELLS:
            yield tuple(images)
            return
        for image in range(CELLS):
            if is_line_preserving(image):
                images.append(image)
                yield from generate_images()
                images.pop()

    return generate_images()


def _find_shifts_turns_and_reflections(lines: tuple[Line, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the shifts, rotations and reflections of the 4 x 4 torus that map lines to lines.

    "Turns" in the name are rotations, not turns of a game.
    """
    line_set = set(lines)
    for turn in range(8):
        row_sign, column_sign, exchange = 1 - 2 * (turn & 1), 1 - (turn & 2), turn & 4
        for shift in range(CELLS):
            images = []
            for cell in range(CELLS):
                row, column = row_sign * (cell // SIDE) + shift // SIDE, column_sign * (cell % SIDE) + shift % SIDE
                images.append(wrapped_cell_at(column, row) if exchange else wrapped_cell_at(row, column))
            if all(tuple(sorted(images[cell] for cell in line)) in line_set for line in line_set):
                yield tuple(images)


@functools.cache
def _build_tables(lines: tuple[Line, ...]) -> Symmetries:
    permutations = list(islice(_find_line_symmetries(lines), MAX_SYMMETRIES + 1))
    cells = np.array(
        permutations if len(permutations) <= MAX_SYMMETRIES else sorted(_find_shifts_turns_and_reflections(lines)),
        np.int8,
    )
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1  # [256, 8]
    images = np.stack([(1 << cells[:, half].astype(np.int64)) @ bits.T for half in (slice(8), slice(8, CELLS))], axis=1)
    images = np.ascontiguousarray(images, np.uint16)
    minimal, first, attaining = _compute_least_images_and_permutations(images)
    all_masks = np.arange(MASKS)
    masks = all_masks[minimal == all_masks]
    masks = masks[np.lexsort((masks, np.bitwise_count(masks)))].astype(np.uint16)
    number = np.zeros(MASKS, np.int16)
    number[masks] = np.arange(len(masks))
    ranks = np.cumsum(bits, axis=1) - bits  # [256, 8] how many ones are below each bit
    squeezed = ((bits[None] * bits[:, None]) << ranks[:, None]).sum(axis=2).astype(np.uint8)
    return Symmetries(cells, images, minimal, first, attaining, number[minimal], masks, squeezed)


@kernel()
def _compute_least_images_and_permutations(
    images: NDArray[np.uint16],
) -> tuple[NDArray[np.uint16], NDArray[np.int32], NDArray[np.int16]]:
    """Find the least image of each mask, and the permutations that lead to it.

    ``images`` is the field ``Symmetries.images``. Returns three fields of ``Symmetries``: ``minimal``, the least image
    of each of the 65,536 masks; ``attaining``, for one mask after the other, the indices of all permutations that take
    it to its least image; and ``first``, the index in ``attaining`` at which the list of each mask begins.
    """
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
        index = first[mask]
        for permutation in range(order):
            image = int64(images[permutation, 0, mask & 255]) | int64(images[permutation, 1, mask >> 8])
            if image == int64(minimal[mask]):
                attaining[index] = permutation
                index += 1
    return minimal, first, attaining


@inline_function
def move_mask(mask: int, permutation: int, tables: Symmetries) -> int:
    """Return the image (int64) of a 16-bit ``mask`` under the permutation with the number ``permutation``."""
    low = int64(tables.images[permutation, 0, mask & 255])
    return low | int64(tables.images[permutation, 1, (mask >> 8) & 255])


@inline_function
def move_lanes(lanes: int, permutation: int, tables: Symmetries) -> int:
    """Return the image (uint64) of all four lanes under the permutation with the number ``permutation``."""
    moved = uint64(0)
    for shift in range(0, ATTRIBUTES * CELLS, CELLS):
        mask = int64((lanes >> uint64(shift)) & LANE_MASK)
        moved |= uint64(move_mask(mask, permutation, tables)) << uint64(shift)
    return moved
