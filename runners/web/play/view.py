"""A game as its page shows it: cells and pieces with their labels, and what may be done with each."""

from __future__ import annotations

from typing import NamedTuple

from quarto.notation import format_cell, format_game, format_piece
from quarto.rules import CELLS, NONE, PIECES
from runners.play.game import Game, NextDecision
from runners.play.hints import hint
from runners.play.wording import attributes
from runners.web.play.games import HeldGame, Seen


class CellView(NamedTuple):
    """A cell of the board."""

    name: str
    piece: int  # NONE if it is empty
    label: str
    decision: str  # that a press of its button is; "" if it cannot be pressed now
    line: bool  # part of a finished line
    last: bool  # filled last


class PieceView(NamedTuple):
    """A piece beside the board."""

    name: str
    number: int
    label: str
    decision: str  # that a press of its button is; "" if it cannot be pressed now
    choice: str  # the piece that a press of its button chooses to place; "" if that cannot be done now
    place: str  # "left", "hand", "board"


class GameView(NamedTuple):
    """Everything that the page of a game shows."""

    cells: list[CellView]
    pieces: list[PieceView]
    hand: int  # in hand, or chosen to be placed; NONE
    words: list[str]  # attributes of that piece
    task: str  # what the person is to do
    asked: NextDecision
    yours: bool  # the person decides
    text: str  # the plies so far
    hints: list[str]


def view_of(held: HeldGame, seen: Seen, chosen: int, with_hint: bool) -> GameView:
    """The view of a game; ``chosen`` is the piece to place where the mover chooses, NONE before that."""
    game = seen.game
    yours = not seen.session.over and not seen.thinking
    asked = game.asked if yours else NextDecision.NOTHING
    hand = game.hand if asked is not NextDecision.PLY else chosen
    hints = hint(game) if yours and with_hint and "hint" in held.aids else []
    return GameView(
        _cells(game, asked, hand),
        [_piece(game, asked, piece, hand) for piece in range(PIECES)],
        hand,
        [] if hand == NONE else attributes(hand),
        _task(asked, hand),
        asked,
        yours,
        format_game(game.plies),
        hints,
    )


def named(piece: int) -> str:
    """A piece with its attributes: ``F: high, coloured, solid, square``."""
    return f"{format_piece(piece)}: {', '.join(attributes(piece))}"


def _cells(game: Game, asked: NextDecision, hand: int) -> list[CellView]:
    lines = {cell for line in game.lines for cell in line}
    last = game.plies[-1][1] if game.plies else NONE
    found = []
    for cell in range(CELLS):
        name, piece = format_cell(cell), game.board[cell]
        decision = ""
        if piece != NONE:
            label = f"{name}, {named(piece)}{', in a finished line' if cell in lines else ''}"
        elif hand != NONE and asked in (NextDecision.PLACEMENT, NextDecision.PLY):
            label = f"{name}, empty: place {format_piece(hand)} here"
            decision = name if asked is NextDecision.PLACEMENT else f"{format_piece(hand)}@{name}"
        else:
            label = f"{name}, empty"
        found.append(CellView(name, piece, label, decision, cell in lines, cell == last))
    return found


def _piece(game: Game, asked: NextDecision, piece: int, hand: int) -> PieceView:
    name, words = format_piece(piece), named(piece)
    if piece in game.board:
        where = format_cell(game.board.index(piece))
        return PieceView(name, piece, f"{words}; on {where}", "", "", "board")
    if asked is NextDecision.PLY:
        return PieceView(name, piece, f"Place {words}", "", name, "hand" if piece == hand else "left")
    if piece == game.hand:
        return PieceView(name, piece, f"{words}; in hand", "", "", "hand")
    if asked is NextDecision.GIFT:
        return PieceView(name, piece, f"Give {words}", name, "", "left")
    return PieceView(name, piece, words, "", "", "left")


def _task(asked: NextDecision, hand: int) -> str:
    if asked is NextDecision.GIFT:
        return "Your turn: give a piece."
    if asked is NextDecision.PLACEMENT or (asked is NextDecision.PLY and hand != NONE):
        return f"Your turn: place piece {format_piece(hand)} on an empty cell."
    return "Your turn: choose a piece to place." if asked is NextDecision.PLY else ""
