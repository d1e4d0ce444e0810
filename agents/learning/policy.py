"""A policy in memory: a table or parameters learned from games, in the form that all its players read.

Its columns are checked when it is read. A board has two columns, lanes and occupied (``quarto/position.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.bits import LANE_ONES
from quarto.canonical import canonical_forms
from quarto.jit import kernel
from quarto.position import ALL_CELLS, board_piece_mask
from quarto.rules import NONE, Rules
from quarto.symmetry import build_symmetries

GENOME = "genome"  # the kind without a table: its parameters are a player's


@dataclass(frozen=True)
class Policy:
    """A learned policy, ready to be stored.

    The columns of ``table`` have the same length and contain signed integers or float64. The order of the rows depends
    only on their contents. Two policies with the same knowledge are therefore stored as the same bytes, however they
    were learned. The values of the policy are in the float64 column, of which there is at most one; without such a
    column they are in the column ``count``.
    """

    kind: str  # decides what columns and parameters mean, and so which players can read it
    parameters: Mapping[str, float] = field(default_factory=dict)
    table: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def load_checked_columns(policy: Policy, kind: str, player: str, names: Mapping[str, type[Any]]) -> list[NDArray[Any]]:
    """Load the named columns of a policy of this kind, in the order of ``names``.

    ``names`` maps each name to np.int64 or np.float64, the type of the returned column. Raises ``ValueError`` if the
    policy is of another kind, or if a column is missing, has the wrong type or length, or contains a number that is
    not finite. ``player`` names the reader in messages.
    """
    if not isinstance(policy, Policy):
        raise ValueError(f"policy={policy!r} is not a policy; {player} reads one of kind '{kind}'")
    if policy.kind != kind:
        raise ValueError(f"policy of kind '{policy.kind}' is for other players; {player} reads '{kind}'")
    return [_load_checked_column(policy, name, type_, next(iter(names))) for name, type_ in names.items()]


def _load_checked_column(policy: Policy, name: str, type_: type[Any], first: str) -> NDArray[Any]:
    """Load one column, which must be as long as the column ``first``: [rows] int64 or float64."""
    if name not in policy.table:
        columns = ", ".join(policy.table) or "none"
        raise ValueError(f"policy of kind '{policy.kind}' has no column '{name}'; its columns: {columns}")
    column, length = np.asarray(policy.table[name]), len(policy.table[first])
    if column.dtype.kind != ("i" if type_ is np.int64 else "f") or column.ndim != 1:
        numbers = "integers" if type_ is np.int64 else "floats"
        raise ValueError(f"column '{name}' of a policy is {column.dtype} {column.shape}, not one row of {numbers}")
    if len(column) != length:
        raise ValueError(f"column '{name}' of a policy has rows: {len(column)}, and '{first}' {length}")
    if type_ is np.float64 and not np.isfinite(column).all():
        row = int(np.argmin(np.isfinite(column)))
        raise ValueError(f"column '{name}' of a policy is {column[row]} in row {row}, where a finite number belongs")
    return np.ascontiguousarray(column, type_)


def compute_checked_board_pieces(lanes: NDArray[np.int64], occupied: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the set of pieces on each board, as 16 bits: [rows] int64.

    ``lanes`` has a mask of cells for each attribute (``quarto/bits.py``). Raises ``ValueError`` if ``lanes`` and
    ``occupied`` are not a valid board in some row.
    """
    check_range("occupied", occupied, 0, ALL_CELLS)
    words = lanes.view(np.uint64)
    outside = words & ~(occupied.astype(np.uint64) * np.uint64(LANE_ONES))
    check_no_wrong_row("lanes", lanes, outside != 0, "has a piece where no cell is occupied")
    pieces = _compute_board_pieces(words, occupied)
    check_no_wrong_row("lanes", lanes, np.bitwise_count(pieces) != np.bitwise_count(occupied), "has a piece twice")
    return pieces


@kernel()
def _compute_board_pieces(lanes: NDArray[np.uint64], occupied: NDArray[np.int64]) -> NDArray[np.int64]:
    pieces = np.empty(lanes.shape[0], np.int64)
    for i in range(lanes.shape[0]):
        pieces[i] = board_piece_mask(lanes[i], occupied[i])
    return pieces


def check_range(name: str, column: NDArray[np.int64], least: int, most: int) -> None:
    """Raise ``ValueError`` if any value of ``column`` is outside ``least`` to ``most``.

    The message names the first such value.
    """
    check_no_wrong_row(name, column, (column < least) | (column > most), f"is not from {least} to {most}")


def check_ascending(columns: Mapping[str, NDArray[np.int64]]) -> None:
    """Raise ``ValueError`` unless the rows are in strictly ascending lexicographic order.

    The first column is the most significant one.
    """
    (first, lanes), *_ = columns.items()
    greater, equal = np.zeros(max(len(lanes) - 1, 0), np.bool_), np.ones(max(len(lanes) - 1, 0), np.bool_)
    for column in columns.values():
        greater |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    names = ", ".join(columns)
    check_no_wrong_row(first, lanes[1:], equal, f"has the same {names} as the row before", 1)
    check_no_wrong_row(first, lanes[1:], ~greater, f"comes too late: rows ascend by {names}", 1)


def check_canonical(lanes: NDArray[np.int64], occupied: NDArray[np.int64], hand: int, rules: Rules) -> None:
    """Raise ``ValueError`` if a board is not in its canonical form under these rules.

    All boards have the same piece ``hand`` in hand, or none if ``hand`` is NONE.
    """
    board = lanes.view(np.uint64), occupied.astype(np.uint16)
    least, minimal = canonical_forms(*board, np.full(len(lanes), hand, np.int8), build_symmetries(rules))
    fault = f"is no {'board' if hand == NONE else 'afterstate'}'s canonical form under rules '{rules.name}'"
    check_no_wrong_row(
        "lanes", lanes, (least != board[0]) | (minimal != board[1]), f"{fault}: it was learned under other rules"
    )


def mark_group_starts(*columns: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
    """Mark the first row, and every row that differs from the row before it in any column: [rows] bool."""
    begins = np.ones(len(columns[0]), np.bool_)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return begins


def check_no_wrong_row(
    name: str, column: NDArray[np.int64], wrong: NDArray[np.bool_], reason: str, first_row: int = 0
) -> None:
    """Raise ``ValueError`` if ``wrong`` [rows] is true in any row.

    The message gives the number of the first such row, its value in ``column``, the column's ``name``, and the
    ``reason`` why the value is wrong. ``first_row`` is the number of the row at index 0.
    """
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{name} {column[row]} in row {first_row + row} of a policy {reason}")
