"""Study B's genetic player: two genes govern its gifts and cells.

Gifts are chosen by how rare their values are, cells by how full their lines are. From ``quarto_ci_2022_2023``
(Carachino, Atanasio, Sorrentino, Di Gangi). Words of a turn that are drawn here:

0   Below alpha, the commonest values come first in the gift, not the rarest.
1   Below one half, it takes rows rather than columns.
2   Below beta, it takes a line with three or four empty cells rather than two.
3   The upper half chooses the line, the lower half one of its empty cells.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, params, turn
from agents.base.parameters import check_probability
from quarto.bits import lowest_bit, nth_bit, popcount
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition, place_hand
from quarto.rng import draw, integer_below, second_integer_below, unit_float
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, SIDE, Rules
from quarto.threats import VALUES

# By the study's order of attribute values: high, coloured, solid, square, low, not coloured, hollow, round.
VALUE_BITS = (8, 4, 2, 1, 0, 0, 0, 0)
ROWS = tuple(0xF << SIDE * row for row in range(SIDE))
COLUMNS = tuple(0x1111 << column for column in range(SIDE))
MAIN_DIAGONALS = (0x8421, 0x1248)
BYTES = uint64(0x0101_0101_0101_0101)
TOPS = uint64(0x8080_8080_8080_8080)


def _pack_pieces_by_preferred_values(value_bits: list[int]) -> int:
    """Pack the pieces in study B's order of preference, the n-th piece in the n-th group of four bits.

    ``value_bits`` lists the eight attribute values in order of preference, each as the bit that it sets in a piece: 8,
    4, 2 or 1 for high, coloured, solid or square, and 0 for each of the opposite values.

    The study forms a piece from four values, whose bits add up to the piece. It tries all ways to choose four of the
    first four values, then four of the first five, and so on up to all eight, each time in lexicographic order. A piece
    comes the earlier, the sooner it is formed.
    """
    preferences: list[int] = []
    for size in range(ATTRIBUTES, VALUES + 1):
        preferences += [sum(chosen) for chosen in combinations(value_bits[:size], ATTRIBUTES)]
    return sum(piece << 4 * rank for rank, piece in enumerate(dict.fromkeys(preferences)))


def _build_preference_tables() -> NDArray[np.uint64]:
    """Build the table of the orders that ``_pack_pieces_by_preferred_values`` packs: [4096] uint64.

    The index of an order consists of the ranks of high, coloured, solid and square among the eight attribute values,
    with three bits for each.
    """
    lists = np.zeros(VALUES**ATTRIBUTES, np.uint64)
    for ranks in permutations(range(VALUES), ATTRIBUTES):
        order = [0] * VALUES
        for bit, rank in zip(VALUE_BITS, ranks, strict=False):
            order[rank] = bit
        lists[sum(rank << 3 * i for i, rank in enumerate(ranks))] = _pack_pieces_by_preferred_values(order)
    return lists


PREFERENCES = _build_preference_tables()


@inline_function
def pack_value_ranks(lanes: int, occupied: int, rarest_first: bool) -> int:
    """Rank the eight attribute values by frequency, and pack four of the ranks: of high, coloured, solid and square.

    The values are sorted by how often they occur on the board, the rarest first if ``rarest_first``, otherwise the
    commonest first. Ties are broken by the study's order of the values (``VALUE_BITS``). The rank of a value is its
    place among the sorted values, from 0; it takes three bits.

    For sorting, each value gets a key of one byte: 8 * n + i. Here i is the value's place in the study's order, and n
    is its count or, if the commonest value comes first, 15 minus its count. The rank of a value is the number of keys
    below its own. The eight keys are packed in one word. At least one cell must be empty: then all keys are below 128,
    so the top bit of each byte is free, and one subtraction compares a key with all eight.
    """
    total, keys = int64(popcount(occupied)), uint64(0)
    for i in range(ATTRIBUTES):
        count = int64(popcount((lanes >> uint64(CELLS * (ATTRIBUTES - 1 - i))) & uint64(0xFFFF)))
        rare, common = (count, total - count) if rarest_first else (CELLS - 1 - count, CELLS - 1 - total + count)
        keys |= uint64(rare * 8 + i) << uint64(8 * i)
        keys |= uint64(common * 8 + i + ATTRIBUTES) << uint64(8 * (i + ATTRIBUTES))
    ranks = uint64(0)
    for i in range(ATTRIBUTES):
        key = (keys >> uint64(8 * i)) & uint64(0xFF)
        not_above = (((key * BYTES) | TOPS) - keys) & TOPS
        ranks |= (popcount(not_above) - uint64(1)) << uint64(3 * i)
    return int64(ranks)


@inline_function
def gift_by_frequency(position: PackedPosition, commonest_first_probability: float, seed: int) -> int:
    """Return the available piece that comes first in the study's order of preference, or NONE if no piece is available.

    With probability ``commonest_first_probability`` the order prefers common values, otherwise rare ones.
    """
    if position.available == 0:
        return int64(NONE)
    preferences = PREFERENCES[
        pack_value_ranks(position.lanes, position.occupied, unit_float(draw(seed, 0)) >= commonest_first_probability)
    ]
    for rank in range(PIECES):
        piece = int64((preferences >> uint64(4 * rank)) & uint64(15))
        if (position.available >> piece) & 1:
            return piece
    return int64(NONE)


@inline_function
def select_lines_by_empty_cells(empty: int, lines: Any, fewest: int, most: int) -> int:
    """Select those of ``lines`` that have from ``fewest`` to ``most`` empty cells; bit i of the result is line i."""
    selected_lines = int64(0)
    for i in range(len(lines)):
        count = popcount(empty & lines[i])
        selected_lines |= int64((count >= fewest) & (count <= most)) << i
    return selected_lines


@inline_function
def cell_of_nearly_full_or_random_line(occupied: int, emptier_line_probability: float, seed: int) -> int:
    """Return the empty cell of a line that lacks only one cell, preferring diagonals.

    If there is no such line, return a random empty cell of a random row or column. This row or column has three or four
    empty cells with probability ``emptier_line_probability``, otherwise two. If no row or column has the number of
    empty cells that was drawn, one with the other number is taken.
    """
    empty = ~occupied & ALL_CELLS
    word, prefers_rows = draw(seed, 3), unit_float(draw(seed, 1)) < 0.5
    diagonals = select_lines_by_empty_cells(empty, MAIN_DIAGONALS, 1, 1)
    if diagonals != 0:
        return int64(lowest_bit(empty & MAIN_DIAGONALS[nth_bit(diagonals, integer_below(word, popcount(diagonals)))]))
    rows, columns = select_lines_by_empty_cells(empty, ROWS, 1, 1), select_lines_by_empty_cells(empty, COLUMNS, 1, 1)
    if rows == 0 and columns == 0:
        lines = ROWS if prefers_rows else COLUMNS
        emptier, fuller = (
            select_lines_by_empty_cells(empty, lines, 3, 4),
            select_lines_by_empty_cells(empty, lines, 2, 2),
        )
        low_risk = fuller == 0 or (emptier != 0 and unit_float(draw(seed, 2)) < emptier_line_probability)
        group = emptier if low_risk else fuller
    else:
        by_row = columns == 0 or (rows != 0 and prefers_rows)
        lines, group = (ROWS, rows) if by_row else (COLUMNS, columns)
    cells = empty & lines[nth_bit(group, integer_below(word, popcount(group)))]
    return nth_bit(cells, second_integer_below(word, popcount(cells)))


@turn
def ga2_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    genes = params(agent)
    cell, after = int64(NONE), position
    if position.hand != NONE:
        cell = cell_of_nearly_full_or_random_line(position.occupied, genes[1], seed)
        after = place_hand(position, cell)
    return encode_turn(cell, gift_by_frequency(after, genes[0], seed))


class Ga2(KernelAgent):
    """Study B's genetic player (``quarto_ci_2022_2023``), which does not look for wins.

    Gift: with probability 1 - ``alpha`` a piece whose values are rare on the board, otherwise one whose values are
    common. Cell: the only empty cell of a diagonal or, if there is none, of a row or column. If no line lacks only one
    cell, the player takes a cell of a row or column that has two empty cells or, with probability ``beta``, three or
    four. The player knows only rows, columns and the main diagonals, whatever the rules.

    ``agents/ga2.py`` lists the random words of a turn. Raises ``ValueError`` for a gene outside 0 to 1.
    """

    kernel = ga2_turn

    def __init__(self, alpha: float = 0.1, beta: float = 0.3) -> None:
        self.alpha = check_probability("alpha", alpha)
        self.beta = check_probability("beta", beta)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([self.alpha, self.beta]))
