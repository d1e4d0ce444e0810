"""Descriptions of illegal turns: what was answered, and why the answer is illegal."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quarto.notation import format_cell, format_piece, format_position
from quarto.position import PackedPosition
from quarto.rules import CELLS, NONE, PIECES, Rules


class IllegalTurnReport(NamedTuple):
    """An illegal answer together with the reason why it is illegal, and the full report about it in several lines."""

    answer: str
    lines: str


def describe_illegal_turn(
    position: PackedPosition, turn: tuple[int, int], rules: Rules, names_only: bool
) -> IllegalTurnReport:
    """Describe why a turn is illegal, in a report that also shows the position and lists the legal cells and pieces.

    With ``names_only``, cells and pieces are written by their names, ``b1`` and ``A``, without the numbers that Python
    agents use.
    """
    text, name = format_position(position), "" if rules.name == "classic" else f", rules {rules.name}"
    free_cells = [cell for cell in range(CELLS) if not position.occupied >> cell & 1]
    remaining_pieces = [piece for piece in range(PIECES) if position.available >> piece & 1]
    gives_only = position.hand == NONE and not rules.mover_chooses
    if names_only:
        answer = f"{format_turn(turn)}: {describe_turn_faults(position, turn, rules) or 'no turn'}"
    else:
        faults = _describe_wrong_numbers(turn, None if gives_only else free_cells, remaining_pieces)
        answer = f"(cell, gift) = {turn}: {faults or 'no turn'}"
    lines = [
        f"position: {text}{name}",
        *(f"    {row}" for row in text.split()[0].split("/")),
        f"answered: {answer}",
        *([] if gives_only else [f"legal cells: {_format_numbers(free_cells, format_cell, names_only)}"]),
        f"legal pieces: {_format_numbers(remaining_pieces, format_piece, names_only)}",
    ]
    return IllegalTurnReport(answer, "\n".join(f"  {line}" for line in lines))


def format_turn(turn: tuple[int, int]) -> str:
    """Format a turn as the names of its cell and its piece, as in ``b1 A``; a dash stands for a missing one."""
    cell, gift = turn
    return f"{'-' if cell == NONE else format_cell(cell)} {'-' if gift == NONE else format_piece(gift)}"


def describe_turn_faults(position: PackedPosition, turn: tuple[int, int], rules: Rules) -> str:
    """Return the reasons why a turn is illegal, or "" if it is legal.

    The turn must consist of a cell's number and a piece's number, either of which may be NONE. An unavailable gift is
    reported even if the placement wins, although after a win any gift is legal.
    """
    cell, gift = turn
    faults = []
    if position.hand == NONE and not rules.mover_chooses:
        pass  # no cell is needed
    elif cell == NONE:
        hand = "a piece must be placed" if rules.mover_chooses else f"piece {format_piece(position.hand)} is in hand"
        faults.append(f"'-' for the cell, but {hand}")
    elif position.occupied >> cell & 1:
        faults.append(f"{format_cell(cell)} is occupied")
    if gift == NONE and position.available:
        faults.append("'-' for the piece, but pieces are left")
    elif gift != NONE and position.available and not position.available >> gift & 1:
        faults.append(f"piece {format_piece(gift)} is {'in hand' if gift == position.hand else 'on the board'}")
    return " and ".join(faults)


def _describe_wrong_numbers(turn: tuple[int, int], free_cells: list[int] | None, remaining_pieces: list[int]) -> str:
    """Say whether the cell or the gift of a turn, or both, are unavailable; return "" if neither is.

    The cell must be in ``free_cells`` and the gift in ``remaining_pieces``. ``free_cells`` is None if the turn needs no
    cell.
    """
    cell, gift = turn
    faults = []
    if free_cells is not None and cell not in free_cells:
        faults.append(f"cell {cell}{f' ({format_cell(cell)})' if 0 <= cell < CELLS else ''} is not an empty cell")
    if gift not in remaining_pieces:
        piece = f" ({format_piece(gift)})" if 0 <= gift < PIECES else ""
        faults.append(f"piece {gift}{piece} is not among those left")
    return " and ".join(faults)


def _format_numbers(numbers: list[int], format_name: Callable[[int], str], names_only: bool) -> str:
    return ", ".join(format_name(number) if names_only else f"{number} ({format_name(number)})" for number in numbers)
