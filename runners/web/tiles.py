"""Cells of a board and pieces beside it, as the templates of all boards show them."""

from __future__ import annotations

from typing import NamedTuple

from quarto.notation import format_piece
from runners.play.wording import attributes


class Badge(NamedTuple):
    """The value of a decision for the player that makes it."""

    kind: str  # win, draw, loss
    text: str  # "win 3"; without a number while the distance is not known
    words: str  # "win in 3"


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
    place: str = "left"  # of a piece beside the board: left, hand, board
    badge: Badge | None = None


def named(piece: int) -> str:
    """A piece with its attributes: ``F: high, coloured, solid, square``."""
    return f"{format_piece(piece)}: {', '.join(attributes(piece))}"
