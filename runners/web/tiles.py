"""Cells of a board, pieces beside it and the decisions of a game, as the templates of all boards show them."""

from __future__ import annotations

from typing import NamedTuple

from analytics.store.records import PERSON_PREFIX
from quarto.game import Game, list_attribute_words
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE


class Badge(NamedTuple):
    """What a board says of a decision: its exact value, or how often it was made and with which score."""

    kind: str  # win, draw, loss, played
    text: str  # "win 3", without a number while the distance is not known; "12 % 54"
    words: str  # "win in 3"
    tint: float | None = None  # of the cell, from -1 (worse) to 1 (better)


class DecisionTile(NamedTuple):
    """A cell or a piece; a press of it sends a decision, chooses a piece, leads to a page, or does nothing."""

    name: str
    piece: int  # NONE in an empty cell
    label: str
    decision: str = ""
    choice: str = ""
    href: str = ""
    line: bool = False  # a cell of a finished line
    last: bool = False  # the cell that was filled last
    played: bool = False  # what the game goes on with
    hinted: bool = False
    held: str = "left"  # where a piece is: left, hand, board
    badge: Badge | None = None


MISTAKE_MARKS = {1: "?", 2: "??"}  # by what was given up, in half-points


class LineStep(NamedTuple):
    """A decision of a line or a game, with the value after it."""

    word: str
    href: str  # the page after it
    label: str
    kind: str  # by the value after it: seat-0, seat-1, draw; "" while it is not known
    mistake: str  # "?" for one half-point that was given up, "??" for two
    current: bool
    branch: bool


def value_css_class(value: int) -> str:
    """The class of a value for seat 0, by which its colour is chosen."""
    return {1: "seat-0", 0: "draw", -1: "seat-1"}[value]


def player_name(label: str) -> str:
    """The name of a player: a person's without the mark that it is one."""
    return label.removeprefix(PERSON_PREFIX)


def describe_piece(piece: int) -> str:
    """A piece with its attributes: ``F: high, coloured, solid, square``."""
    return f"{format_piece(piece)}: {', '.join(list_attribute_words(piece))}"


def build_filled_cell_tile(game: Game, cell: int) -> DecisionTile | None:
    """The tile of a cell with a piece, None if the cell is empty."""
    name, piece = format_cell(cell), game.board[cell]
    if piece == NONE:
        return None
    won = any(cell in line for line in game.lines)
    label = f"{name}, {describe_piece(piece)}{', in a finished line' if won else ''}"
    return DecisionTile(name, piece, label, line=won, last=cell == game.last_cell)


def build_taken_piece_tile(game: Game, piece: int) -> DecisionTile | None:
    """The tile of a piece that is on the board or in hand; None if it is left."""
    name = format_piece(piece)
    if piece in game.board:
        return DecisionTile(
            name, piece, f"{describe_piece(piece)}; on {format_cell(game.board.index(piece))}", held="board"
        )
    return DecisionTile(name, piece, f"{describe_piece(piece)}; in hand", held="hand") if piece == game.hand else None
