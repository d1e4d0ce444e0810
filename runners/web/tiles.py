"""Tiles: the cells of a board and the pieces beside it, as the templates show them; and the decisions of a game."""

from __future__ import annotations

from typing import NamedTuple

from analytics.store.records import PERSON_PREFIX
from quarto.game import Game, list_attribute_words
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE


class Badge(NamedTuple):
    """The short text that a page shows for a decision: its exact value, or how often it was made and how it scored."""

    kind: str  # CSS class: win, draw, loss or played
    text: str  # such as "win 3", or "win" while the distance is unknown; a share and a score: "12 % 54"
    words: str  # for screen readers, such as "win in 3"
    tint: float | None = None  # of the cell, from -1 (worse) to 1 (better)


class DecisionTile(NamedTuple):
    """A cell or a piece on a page.

    Pressing the tile makes a decision, chooses a piece, follows a link, or does nothing.
    """

    name: str
    piece: int  # NONE in an empty cell
    label: str
    decision: str = ""
    choice: str = ""
    href: str = ""
    line: bool = False  # the cell belongs to a finished line
    last: bool = False  # the cell was filled last
    played: bool = False  # the line that is shown continues with this decision
    hinted: bool = False
    held: str = "left"  # where the piece is: left (available), hand or board
    badge: Badge | None = None


MISTAKE_MARKS = {1: "?", 2: "??"}  # by regret, in half-points


class LineStep(NamedTuple):
    """One decision of a line, with the value after it."""

    word: str
    href: str  # page of the position after the decision
    label: str
    kind: str  # CSS class of the value after the decision: seat-0, seat-1, draw; "" while unknown
    mistake: str  # "?" if one half-point was given up, "??" if two, else ""
    current: bool
    branch: bool


def winning_seat_css_class(value_for_seat_0: int) -> str:
    """Return the CSS class of a value for seat 0: ``seat-0`` for 1 (won), ``draw`` for 0, ``seat-1`` for -1 (lost)."""
    return {1: "seat-0", 0: "draw", -1: "seat-1"}[value_for_seat_0]


def strip_person_prefix(label: str) -> str:
    """Return a player's name as readers see it: the label without the prefix that marks people."""
    return label.removeprefix(PERSON_PREFIX)


def describe_piece(piece: int) -> str:
    """Describe a piece by its attributes, as in ``F: high, coloured, solid, square``."""
    return f"{format_piece(piece)}: {', '.join(list_attribute_words(piece))}"


def build_filled_cell_tile(game: Game, cell: int) -> DecisionTile | None:
    """Build the tile for a cell that holds a piece; return None if the cell is empty."""
    name, piece = format_cell(cell), game.board[cell]
    if piece == NONE:
        return None
    won = any(cell in line for line in game.lines)
    label = f"{name}, {describe_piece(piece)}{', in a finished line' if won else ''}"
    return DecisionTile(name, piece, label, line=won, last=cell == game.last_cell)


def build_taken_piece_tile(game: Game, piece: int) -> DecisionTile | None:
    """Build the tile for a piece that is on the board or in hand; return None if the piece is still available."""
    name = format_piece(piece)
    if piece in game.board:
        return DecisionTile(
            name, piece, f"{describe_piece(piece)}; on {format_cell(game.board.index(piece))}", held="board"
        )
    return DecisionTile(name, piece, f"{describe_piece(piece)}; in hand", held="hand") if piece == game.hand else None
