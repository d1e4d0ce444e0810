"""Text forms of pieces, cells, positions and games. Parsing a printed text gives the same value again.

Piece: one hex digit ``0``-``F``. Cell: ``a1``-``d4``, letter = column, digit = row. Position: four rows of pieces or
dots from row 1 down, the hand or ``-``, the rules if not classic: ``...F/.3../..../.... 7``. Game: ``F@b1 3@b2 7@c4``.
A text that cannot be parsed raises ``RequestError``: one line with the value and where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from quarto.errors import RequestError
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import CELLS, NONE, PIECES, SIDE, wrapped_cell_at

PIECE_DIGITS = "0123456789ABCDEF"
COLUMN_LETTERS = "abcd"
ROW_DIGITS = "1234"
# By attribute bit 3 to 0: the word for the bit set, and clear.
ATTRIBUTE_WORDS = (("high", "low"), ("coloured", "uncoloured"), ("solid", "hollow"), ("square", "round"))
CLASSIC_NAME = "classic"
RULES_NAME = re.compile(r"[A-Za-z0-9_.-]+")
MAX_QUOTED_CHARACTERS = 60  # of a wrong text, in a message
POSITION_FORM = "write four rows and a hand, such as ...F/.3../..../.... 7"


def parse_piece(text: str, hint: str = "write 0 to 9 or A to F") -> int:
    """Return the number of the piece that a hex digit, in either case, stands for.

    Raises ``RequestError`` for any other text; ``hint`` ends its message.
    """
    digit = text.upper()
    if len(digit) != 1 or digit not in PIECE_DIGITS:
        raise RequestError(f"piece {_quote_shortened(text)} is not a hex digit 0-F ({hint})")
    return PIECE_DIGITS.index(digit)


def format_piece(piece: int) -> str:
    """Format a piece as one hex digit. Raises ``ValueError`` for a number that is not a piece."""
    if not 0 <= piece < PIECES:
        raise ValueError(f"piece {piece} is not in 0..15")
    return PIECE_DIGITS[piece]


def parse_cell(text: str, hint: str = "letter = column, digit = row") -> int:
    """Return the number of the cell that a text such as ``b3``, in either case, stands for.

    Raises ``RequestError`` for any other text; ``hint`` ends its message.
    """
    name = text.lower()
    if len(name) != 2 or name[0] not in COLUMN_LETTERS or name[1] not in ROW_DIGITS:
        raise RequestError(f"cell {_quote_shortened(text)} is not one of a1 to d4 ({hint})")
    return wrapped_cell_at(ROW_DIGITS.index(name[1]), COLUMN_LETTERS.index(name[0]))


def format_cell(cell: int) -> str:
    """Format a cell as a column letter and a row digit. Raises ``ValueError`` for a number that is not a cell."""
    if not 0 <= cell < CELLS:
        raise ValueError(f"cell {cell} is not in 0..15")
    return COLUMN_LETTERS[cell % SIDE] + ROW_DIGITS[cell // SIDE]


class ParsedPosition(NamedTuple):
    """The position and the name of the rules that a text contains."""

    position: PackedPosition  # its ``last_cell`` is NONE
    rules_name: str


def parse_position(text: str) -> ParsedPosition:
    """Parse a position and the name of its rules from a text.

    The fields are separated by spaces: the rows, the piece in hand and, optionally, the name of the rules. The function
    does not check that rules with this name exist. A finished line on the board is accepted. Raises ``RequestError``
    for a text that is not a position.
    """
    fields = text.split()
    if len(fields) not in (2, 3):
        raise RequestError(
            f"position {_quote_shortened(text)} must have 2 or 3 fields and has {len(fields)}: {POSITION_FORM}"
        )
    name = fields[2] if len(fields) == 3 else CLASSIC_NAME
    if not RULES_NAME.fullmatch(name):
        raise RequestError(f"rules {_quote_shortened(name)} is not a name (position {_quote_shortened(text)}, field 3)")
    where = f"position {_quote_shortened(text)}, field "
    plies = _parse_rows(fields[0], where + "1")
    hand = NONE
    if fields[1] != "-":
        hand = parse_piece(fields[1], where + "2")
        for piece, cell in plies:
            if piece == hand:
                raise RequestError(f"piece {fields[1]!r} is in hand and on {format_cell(cell)} ({where}2)")
    return ParsedPosition(position_from_plies(plies, hand)._replace(last_cell=NONE), name)


def format_position(position: PackedPosition, rules_name: str = CLASSIC_NAME) -> str:
    """Format a position as text, without its ``last_cell``.

    Raises ``ValueError`` if ``rules_name`` is not a word of letters, digits, ``_``, ``.`` and ``-``.
    """
    if not RULES_NAME.fullmatch(rules_name):
        raise ValueError(f"rules name {rules_name!r} would not parse")
    digits = ["." if piece == NONE else format_piece(piece) for piece in board(position)]
    rows = "/".join("".join(digits[start : start + SIDE]) for start in range(0, CELLS, SIDE))
    hand = "-" if position.hand == NONE else format_piece(position.hand)
    return f"{rows} {hand}" + ("" if rules_name == CLASSIC_NAME else f" {rules_name}")


def parse_game(text: str) -> list[tuple[int, int]]:
    """Return the plies of the game that a text describes, each as (piece, cell). An empty text has no plies.

    Raises ``RequestError`` for a text that is not a game; its message numbers the plies from 0. The function does not
    check whether the game should have ended before its last ply, because that depends on the rules.
    """
    plies: list[tuple[int, int]] = []
    for ply, word in enumerate(text.split()):
        where = f"game {_quote_shortened(text)}, ply {ply}"
        piece_text, at, cell_text = word.partition("@")
        if not at:
            raise RequestError(f"{_quote_shortened(word)} is not piece@cell, such as F@b1 ({where})")
        piece, cell = parse_piece(piece_text, where), parse_cell(cell_text, where)
        for earlier_ply, (other_piece, other_cell) in enumerate(plies):
            if piece == other_piece:
                raise RequestError(f"piece {piece_text!r} was already placed at ply {earlier_ply} ({where})")
            if cell == other_cell:
                raise RequestError(f"cell {cell_text!r} was already taken at ply {earlier_ply} ({where})")
        plies.append((piece, cell))
    return plies


def format_game(plies: Iterable[tuple[int, int]]) -> str:
    """Format the plies of a game, each (piece, cell), as text."""
    return " ".join(f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in plies)


def _parse_rows(text: str, where: str) -> list[tuple[int, int]]:
    rows = text.split("/")
    if len(rows) != SIDE:
        raise RequestError(f"rows with / between them: {len(rows)} instead of {SIDE} ({where}): {POSITION_FORM}")
    plies: list[tuple[int, int]] = []
    for number, row in enumerate(rows):
        if len(row) != SIDE:
            raise RequestError(
                f"row {number + 1} {_quote_shortened(row)} has cells: {len(row)} instead of {SIDE} ({where})"
            )
        for column, digit in enumerate(row):
            if digit != ".":
                plies.append((parse_piece(digit, where), wrapped_cell_at(number, column)))
    cell_of_piece: dict[int, int] = {}
    for piece, cell in plies:
        if piece in cell_of_piece:
            first, second = format_cell(cell_of_piece[piece]), format_cell(cell)
            raise RequestError(f"piece {format_piece(piece)!r} is on {first} and on {second} ({where})")
        cell_of_piece[piece] = cell
    return plies


def _quote_shortened(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED_CHARACTERS else text[:MAX_QUOTED_CHARACTERS] + "…")
