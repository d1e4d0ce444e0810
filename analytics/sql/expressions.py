"""The macros of SQL as expressions of Polars, under their names.

Arguments are expressions or names of columns. ``docs/sql.md`` has an example of each.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.statistics.intervals import quantile
from quarto.notation import COLUMN_LETTERS, PIECE_DIGITS, ROW_DIGITS
from quarto.rules import ATTRIBUTES, CELLS, PIECES, SIDE

Columns = pl.Expr | str

_CELLS = list(range(CELLS))
_CELL_NAMES = [COLUMN_LETTERS[cell % SIDE] + ROW_DIGITS[cell // SIDE] for cell in _CELLS]
_EDGES = (0, SIDE - 1)


def _column(column: Columns) -> pl.Expr:
    return pl.col(column) if isinstance(column, str) else column


PLY_BITS = 4  # of a ply in the pieces, and in the cells, of an ordered opening; the first ply is highest


def cell_name(cell: Columns) -> pl.Expr:
    """The name of a cell, ``a1`` to ``d4``; null for other numbers."""
    return _column(cell).replace_strict(_CELLS, _CELL_NAMES, default=None, return_dtype=pl.String)


def cell_class(cell: Columns) -> pl.Expr:
    """``corner``, ``edge`` or ``centre``; null for other numbers."""
    outer = [(cell // SIDE in _EDGES) + (cell % SIDE in _EDGES) for cell in _CELLS]
    classes = [("centre", "edge", "corner")[sides] for sides in outer]
    return _column(cell).replace_strict(_CELLS, classes, default=None, return_dtype=pl.String)


def piece_name(piece: Columns) -> pl.Expr:
    """The hex digit of a piece; null for other numbers."""
    return _column(piece).replace_strict(list(range(PIECES)), list(PIECE_DIGITS), default=None, return_dtype=pl.String)


def opening_text(pieces: Columns, cells: Columns, plies: int) -> pl.Expr:
    """The first ``plies`` (1 to 8) of an opening as text, ``0@a1 3@d4``, from its pieces and cells as numbers."""
    shifts = (PLY_BITS * (7 - ply) for ply in range(plies))
    each = (
        piece_name(_column(pieces) // (1 << shift) & 15) + "@" + cell_name(_column(cells) // (1 << shift) & 15)
        for shift in shifts
    )
    return pl.concat_str(*each, separator=" ")


def high(piece: Columns) -> pl.Expr:
    """Whether a piece is high."""
    return _column(piece) & 8 != 0


def coloured(piece: Columns) -> pl.Expr:
    """Whether a piece is coloured."""
    return _column(piece) & 4 != 0


def solid(piece: Columns) -> pl.Expr:
    """Whether a piece is solid."""
    return _column(piece) & 2 != 0


def square(piece: Columns) -> pl.Expr:
    """Whether a piece is square."""
    return _column(piece) & 1 != 0


def shared(piece: Columns, other: Columns) -> pl.Expr:
    """The number of attributes that two pieces have in common, 0 to 4."""
    differing = (_column(piece) ^ _column(other)) & (PIECES - 1)
    return ATTRIBUTES - differing.bitwise_count_ones().cast(pl.Int32)


def board_text(occupied: Columns, board: Columns) -> pl.Expr:
    """The four rows of a board by the columns ``occupied`` and ``board`` of the view ``positions``."""
    return pl.struct(_column(occupied).alias("occupied"), _column(board).alias("board")).map_batches(
        _board_texts, return_dtype=pl.String, is_elementwise=True
    )


def position_text(occupied: Columns, board: Columns) -> pl.Expr:
    """A position by the columns ``occupied`` and ``board`` of the view ``positions``, with its hand."""
    return pl.concat_str(board_text(occupied, board), pl.lit(" "), piece_name(_column(board) & 15))


def wilson_low(wins: Columns, n: Columns) -> pl.Expr:
    """The lower end of Wilson's 95 % interval of a share; see ``analytics.statistics.intervals.wilson``."""
    wins, n = _column(wins), _column(n)
    middle, reach = _wilson(wins, n)
    return pl.when((wins <= 0) | (n <= 0)).then(0.0).otherwise(pl.max_horizontal(0.0, middle - reach))


def wilson_high(wins: Columns, n: Columns) -> pl.Expr:
    """The upper end of Wilson's 95 % interval of a share."""
    wins, n = _column(wins), _column(n)
    middle, reach = _wilson(wins, n)
    return pl.when((wins >= n) | (n <= 0)).then(1.0).otherwise(pl.min_horizontal(1.0, middle + reach))


def _wilson(wins: pl.Expr, n: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The middle of the interval and half its width."""
    z, share = quantile(), wins / n
    scale = 1 + z * z / n
    reach = z * (share * (1 - share) / n + z * z / (4 * n * n)).sqrt()
    return (share + z * z / (2 * n)) / scale, reach / scale


def _board_texts(rows: pl.Series) -> pl.Series:
    occupied = rows.struct.field("occupied").to_numpy().astype(np.int64)
    board = rows.struct.field("board").to_numpy().astype(np.int64)
    texts = np.full((len(rows), CELLS + SIDE - 1), ord("/"), np.uint8)
    digits = np.frombuffer(PIECE_DIGITS.encode(), np.uint8)
    pieces = np.bitwise_count(occupied).astype(np.int64)
    for cell in range(CELLS):
        digit = digits[_piece_on(cell, occupied, board, pieces)]
        texts[:, cell + cell // SIDE] = np.where(occupied >> cell & 1, digit, ord("."))
    return pl.Series(texts.view(f"S{texts.shape[1]}").ravel().astype(str), dtype=pl.String)


def _piece_on(
    cell: int, occupied: NDArray[np.int64], board: NDArray[np.int64], pieces: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[N] the piece on a cell, if there is one; ``board`` is documented in ``data/README.md``."""
    place = 4 + np.bitwise_count(occupied & ((1 << cell) - 1)).astype(np.int64)
    found = np.zeros_like(board)
    for attribute in range(ATTRIBUTES):
        # Beyond the last piece there may be fewer bits than the shift: what it then reads is not used.
        found |= (board >> np.minimum(place + attribute * pieces, 63) & 1) << attribute
    return found
