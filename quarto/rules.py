"""The rule book: which cells form lines, when a line wins, and who chooses the piece.

Quarto is played with sixteen pieces, all different in four attributes of two values each, on a board of 4 x 4 cells. A
player places the piece in hand on an empty cell. The player wins if this finishes a line: four cells whose pieces share
a value of an attribute. Otherwise the opponent's next piece is given (or, under ``chooser='mover'``, nothing is given:
the mover chooses the piece as well as the cell). A full board without a line is a draw.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from quarto.bits import LANE_MASK, LANE_ONES, has_zero_lane, piece_to_lanes
from quarto.jit import inline_function, uint64

SIDE = 4
CELLS = SIDE * SIDE
PIECES = 16
ATTRIBUTES = 4
NONE = -1  # no piece in hand, no last cell, no winner
MAX_LINES_THROUGH_A_CELL = 8  # torus_square: row, column, two broken diagonals, four squares
NO_LINE = (1 << 64) - 1  # all cells: no value is shared by more than eight pieces, so it is never finished

Line = tuple[int, ...]

DIAGONALS = ("none", "main", "broken")
SQUARES = ("none", "plain", "wrapped")
CHOOSERS = ("opponent", "mover")

# What kernels need of the rules, as one record, so that it travels as a single pointer.
RULE_TABLES = np.dtype(
    [
        ("completes", np.uint16, 1 << CELLS),  # by a mask of cells that share a value: cells that finish a line of it
        (
            "through",
            np.uint64,
            (CELLS, MAX_LINES_THROUGH_A_CELL),
        ),  # by cell: the lines through it, in all four lanes; then NO_LINE
        ("lines_through", np.int64),  # the greatest number of lines through a cell
        ("mover_chooses", np.int64),  # 1 under chooser='mover', else 0
    ],
    align=True,
)


def wrapped_cell_at(row: int, column: int) -> int:
    """Return the cell in a row and a column, both taken modulo 4."""
    return SIDE * (row % SIDE) + column % SIDE


@dataclass(frozen=True)
class Rules:
    """A variant of the game.

    Args:
        name: The name of the variant.
        rows_and_columns: Whether the four rows and the four columns are lines.
        diagonals: Which diagonals are lines: ``none``, ``main`` (two) or ``broken`` (all eight).
        squares: Which 2x2 squares are lines: ``none``, ``plain`` (nine) or ``wrapped`` (sixteen).
        chooser: Who chooses the piece that is placed: ``opponent`` or ``mover``.

    Raises:
        ValueError: An argument has a value that is not listed above, or the rules have no lines.

    Examples:
        >>> from quarto import CLASSIC, Rules
        >>> len(CLASSIC.lines), len(Rules("squares", squares="plain").lines)
        (10, 19)

    """

    name: str = "classic"
    rows_and_columns: bool = True
    diagonals: str = "main"  # none, the two main ones, or all eight broken ones
    squares: str = "none"  # none, the nine plain 2x2 squares, or all sixteen wrapped ones
    chooser: str = "opponent"  # who chooses the piece that is placed: the opponent or the mover

    def __post_init__(self) -> None:
        for field, allowed in (("diagonals", DIAGONALS), ("squares", SQUARES), ("chooser", CHOOSERS)):
            value = getattr(self, field)
            if value not in allowed:
                raise ValueError(f"rules {self.name!r}: {field}={value!r} is not one of {', '.join(allowed)}")
        if not self.lines:
            raise ValueError(f"rules {self.name!r}: no family of lines is switched on, so no game could be won")

    @property
    def mover_chooses(self) -> bool:
        return self.chooser == "mover"

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All lines, each as four cells in ascending order: first the rows, then the columns, diagonals and squares."""
        side = range(SIDE)
        lines: list[list[int]] = []
        if self.rows_and_columns:
            lines += [[wrapped_cell_at(row, column) for column in side] for row in side]
            lines += [[wrapped_cell_at(row, column) for row in side] for column in side]
        starts = {"none": (), "main": (0,), "broken": side}[self.diagonals]
        lines += [[wrapped_cell_at(row, start + row) for row in side] for start in starts]
        lines += [[wrapped_cell_at(row, SIDE - 1 - start - row) for row in side] for start in starts]
        corners = {"none": 0, "plain": SIDE - 1, "wrapped": SIDE}[self.squares]
        lines += [
            [wrapped_cell_at(row + down, column + right) for down in (0, 1) for right in (0, 1)]
            for row in range(corners)
            for column in range(corners)
        ]
        return tuple(tuple(sorted(line)) for line in lines)

    @cached_property
    def tables(self) -> np.void:
        """The ``RULE_TABLES`` record of these rules, which is read-only by convention.

        It is built once for each variant, in a few milliseconds.
        """
        return _build_rule_tables(self.lines, self.mover_chooses)

    @cached_property
    def completing_cells(self) -> array[int]:
        """The column ``completes`` of ``tables`` for code in plain Python, which reads an array of Python's faster."""
        return array("H", self.tables["completes"].tobytes())


@cache  # rules are made again from each record of a run
def _build_rule_tables(lines: tuple[Line, ...], mover_chooses: bool) -> np.void:
    tables = np.zeros(1, RULE_TABLES)
    masks = np.arange(1 << CELLS, dtype=np.uint32)
    completes = np.zeros(1 << CELLS, np.uint16)
    through: list[list[int]] = [[] for _ in range(CELLS)]
    for line in lines:
        line_mask = sum(1 << cell for cell in line)
        for cell in line:
            rest = line_mask & ~(1 << cell)
            completes[(masks & line_mask) == rest] |= np.uint16(1 << cell)
            through[cell].append(line_mask * 0x0001_0001_0001_0001)
    for cell, through_cell in enumerate(through):
        # Padded to a fixed number: a loop whose length varied from cell to cell would be mispredicted.
        padding = [NO_LINE] * MAX_LINES_THROUGH_A_CELL
        tables["through"][0, cell] = (through_cell + padding)[:MAX_LINES_THROUGH_A_CELL]
    tables["completes"][0] = completes
    tables["lines_through"] = max(len(through_cell) for through_cell in through)
    tables["mover_chooses"] = mover_chooses
    record: np.void = tables[0]
    return record


CLASSIC = Rules()


def find_finished_lines(pieces: Sequence[int], rules: Rules) -> list[Line]:
    """Return the lines whose four pieces share an attribute value.

    ``pieces`` has the piece on each of the 16 cells, or NONE for an empty cell.
    """

    def is_finished(on_line: list[int]) -> bool:
        return NONE not in on_line and any(len({piece >> a & 1 for piece in on_line}) == 1 for a in range(ATTRIBUTES))

    return [line for line in rules.lines if is_finished([pieces[cell] for cell in line])]


HALF_LINES_THROUGH_A_CELL = 4  # of those of a cell, as many as are compared at once; classic rules need no more


@inline_function
def has_finished_line_at(lanes: int, occupied: int, piece: int, cell: int, rules: Any) -> bool:
    """Return whether ``piece``, which is already on ``cell``, belongs to a finished line.

    All four attributes are compared at once, because each of them has its own lane: it is zero if no cell of a line is
    empty or has another value of the attribute.
    """
    different = (lanes ^ (piece_to_lanes(piece) * LANE_MASK)) | ~(uint64(occupied) * LANE_ONES)
    through = rules.through
    finished: bool = has_zero_lane(
        different & through[cell, 0],
        different & through[cell, 1],
        different & through[cell, 2],
        different & through[cell, 3],
    )
    if rules.lines_through > HALF_LINES_THROUGH_A_CELL:
        finished |= has_zero_lane(
            different & through[cell, 4],
            different & through[cell, 5],
            different & through[cell, 6],
            different & through[cell, 7],
        )
    return finished
