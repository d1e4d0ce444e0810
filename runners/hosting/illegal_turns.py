"""Illegal turns in words: what was answered, and why it is illegal."""

from __future__ import annotations

from collections.abc import Callable

from quarto.notation import format_cell, format_piece, format_position
from quarto.position import Position
from quarto.rules import CELLS, NONE, PIECES, Rules


def format_answer_and_illegality_report(
    position: Position, turn: tuple[int, int], rules: Rules, names_only: bool
) -> tuple[str, str]:
    """The answer and the reason why it is illegal; lines with the position, its board, and the legal turns besides.

    ``names_only``: cells and pieces have their names alone, ``b1`` and ``A``, not the numbers of agents in Python.
    """
    text, name = format_position(position), "" if rules.name == "classic" else f", rules {rules.name}"
    free = [each for each in range(CELLS) if not position.occupied >> each & 1]
    left = [each for each in range(PIECES) if position.available >> each & 1]
    gives_only = position.hand == NONE and not rules.mover_chooses
    if names_only:
        answered = f"{format_turn(turn)}: {describe_turn_faults(position, turn, rules) or 'no turn'}"
    else:
        wrong = _describe_wrong_numbers(turn, None if gives_only else free, left)
        answered = f"(cell, gift) = {turn}: {wrong or 'no turn'}"
    lines = [
        f"position: {text}{name}",
        *(f"    {row}" for row in text.split()[0].split("/")),
        f"answered: {answered}",
        *([] if gives_only else [f"legal cells: {_format_numbers(free, format_cell, names_only)}"]),
        f"legal pieces: {_format_numbers(left, format_piece, names_only)}",
    ]
    return answered, "\n".join(f"  {line}" for line in lines)


def format_turn(turn: tuple[int, int]) -> str:
    """A turn by the names of its cell and its piece, ``b1 A``; a dash for none."""
    cell, gift = turn
    return f"{'-' if cell == NONE else format_cell(cell)} {'-' if gift == NONE else format_piece(gift)}"


def describe_turn_faults(position: Position, turn: tuple[int, int], rules: Rules) -> str:
    """The reasons why a turn of cells and pieces, or none, is illegal; nothing if it is legal.

    A placement that wins is not looked at: any piece may be given after it.
    """
    cell, gift = turn
    wrong = []
    if position.hand == NONE and not rules.mover_chooses:
        pass  # no cell is asked for
    elif cell == NONE:
        hand = "a piece must be placed" if rules.mover_chooses else f"piece {format_piece(position.hand)} is in hand"
        wrong.append(f"'-' for the cell, but {hand}")
    elif position.occupied >> cell & 1:
        wrong.append(f"{format_cell(cell)} is occupied")
    if gift == NONE and position.available:
        wrong.append("'-' for the piece, but pieces are left")
    elif gift != NONE and position.available and not position.available >> gift & 1:
        wrong.append(f"piece {format_piece(gift)} is {'in hand' if gift == position.hand else 'on the board'}")
    return " and ".join(wrong)


def _describe_wrong_numbers(turn: tuple[int, int], free: list[int] | None, left: list[int]) -> str:
    """The numbers of a turn that are no empty cell and no piece that is left; without ``free`` no cell is needed."""
    cell, gift = turn
    wrong = []
    if free is not None and cell not in free:
        wrong.append(f"cell {cell}{f' ({format_cell(cell)})' if 0 <= cell < CELLS else ''} is not an empty cell")
    if gift not in left:
        piece = f" ({format_piece(gift)})" if 0 <= gift < PIECES else ""
        wrong.append(f"piece {gift}{piece} is not among those left")
    return " and ".join(wrong)


def _format_numbers(numbers: list[int], format_name: Callable[[int], str], names_only: bool) -> str:
    return ", ".join(format_name(number) if names_only else f"{number} ({format_name(number)})" for number in numbers)
