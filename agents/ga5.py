"""Study A's genetic player: five genes weigh sums and logical folds over the remaining pieces and cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base.agent import KernelAgent, Knowledge, encode_turn, params, turn
from agents.base.parameters import check_flag, check_number
from quarto.bits import lowest_bit
from quarto.jit import inline_function, int64
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rules import CELLS, NONE, PIECES, SIDE, Rules


@inline_function
def sum_set_bits(mask: int) -> int:
    """Sum the indices of the set bits of ``mask``."""
    total = int64(0)
    for bit in range(16):
        total += bit * ((mask >> bit) & 1)
    return total


@inline_function
def fold_not_and(pieces: int) -> int:
    """Fold the pieces of a non-empty set with NOT (a AND b), from the left and in ascending order.

    The bits are inverted as those of a signed integer, so the result may be negative.
    """
    value = int64(lowest_bit(pieces))
    rest = pieces & (pieces - 1)
    while rest != 0:
        value = ~(value & lowest_bit(rest))
        rest &= rest - 1
    return value


@inline_function
def least_weight_gift(available: int, genes: Any) -> int:
    """Return the available piece with the least |alpha * A + beta * B|, or NONE if no piece is available.

    ``Ga5`` explains A and B. The lowest piece is returned on ties.
    """
    if available & (available - 1) == 0:
        return int64(lowest_bit(available)) if available != 0 else int64(NONE)
    used, total = ~available & ALL_CELLS, sum_set_bits(available)
    best, least = int64(NONE), np.inf
    for piece in range(PIECES):
        if (available >> piece) & 1:
            weight = abs(genes[0] * (total - piece) + genes[1] * fold_not_and(used | (int64(1) << piece)))
            if weight < least:
                best, least = int64(piece), weight
    return best


@inline_function
def sum_columns(cells: int) -> int:
    """Sum the column numbers of a set of cells, which is given as a mask."""
    total = int64(0)
    for cell in range(CELLS):
        total += (cell % SIDE) * ((cells >> cell) & 1)
    return total


@inline_function
def or_rows(cells: int) -> int:
    """Return the bitwise OR of the row numbers of a set of cells, which is given as a mask."""
    union = int64(0)
    for row in range(SIDE):
        union |= row if (cells >> SIDE * row) & 0xF else 0
    return union


@inline_function
def and_columns(cells: int) -> int:
    """Return the bitwise AND of the column numbers of a non-empty set of cells, which is given as a mask."""
    intersection = int64(SIDE - 1)
    for column in range(SIDE):
        intersection &= column if (cells >> column) & 0x1111 else SIDE - 1
    return intersection


@inline_function
def least_weight_cell(empty: int, genes: Any, every_second: bool) -> int:
    """Return the empty cell with the least |gamma * G + delta * D + epsilon * E|; the lowest on ties.

    ``Ga5`` explains G, D and E. If ``every_second`` is true, only the first, third, fifth … empty cell is considered.
    """
    if empty & (empty - 1) == 0:
        return int64(lowest_bit(empty))
    best, least, candidate = int64(NONE), np.inf, True
    for cell in range(CELLS):
        if (empty >> cell) & 1:
            if candidate:
                other_cells = empty & ~(int64(1) << cell)
                weight = abs(
                    genes[2] * sum_columns(other_cells)
                    + genes[3] * or_rows(other_cells)
                    + genes[4] * and_columns(other_cells)
                )
                if weight < least:
                    best, least = int64(cell), weight
            candidate = not candidate or not every_second
    return best


@turn
def ga5_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    genes = params(agent)
    empty, every_second = ~position.occupied & ALL_CELLS, genes[5] != 0.0
    cell = least_weight_cell(empty, genes, every_second) if position.hand != NONE else int64(NONE)
    return encode_turn(cell, least_weight_gift(position.available, genes))


class Ga5(KernelAgent):
    """Study A's genetic player (``lorenzobellino/quarto-player``): deterministic, blind to the hand and to wins.

    Gift: the unused piece with the least ``|alpha * A + beta * B|``. A is the sum of the other unused pieces. B is the
    left fold of NOT (a AND b) over this piece and the used pieces, in ascending order. Cell: the empty cell with the
    least ``|gamma * G + delta * D + epsilon * E|``. Over the other empty cells, G is the sum of the column numbers, D
    the OR of the row numbers, and E the AND of the column numbers. The first piece or cell is taken on ties.

    With ``faithful``, it considers only every second empty cell, as does the study's program, which changes the list of
    these cells while it iterates over it. The order of the program's sets is not reproduced. Raises ``ValueError`` for
    a gene that is not a finite number.
    """

    kernel = ga5_turn

    def __init__(
        self,
        alpha: float = -94.03014146974122,
        beta: float = -107.17350875193313,
        gamma: float = 152.6577141347451,
        delta: float = -29.856838596915765,
        epsilon: float = -12.095960806170313,
        faithful: bool = False,
    ) -> None:
        genes = {"alpha": alpha, "beta": beta, "gamma": gamma, "delta": delta, "epsilon": epsilon}
        self.genes = {name: check_number(name, value) for name, value in genes.items()}
        self.faithful = check_flag("faithful", faithful)

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([*self.genes.values(), self.faithful]))
