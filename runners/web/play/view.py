"""A game as its page shows it: cells and pieces with their labels, and what may be done with each."""

from __future__ import annotations

from typing import NamedTuple

from quarto.notation import format_cell, format_game, format_piece
from quarto.rules import CELLS, NONE, PIECES
from runners.play.game import Game, NextDecision, attributes
from runners.play.hints import Hint
from runners.web.play.games import Seen
from runners.web.tiles import DecisionTile, filled_cell, named, taken_piece


class GameView(NamedTuple):
    """Everything that the page of a game shows."""

    cells: list[DecisionTile]
    pieces: list[DecisionTile]
    hand: int  # in hand, or chosen to be placed; NONE
    words: list[str]  # attributes of that piece
    task: str  # what the person is to do
    asked: NextDecision
    yours: bool  # the person decides
    text: str  # the plies so far
    hints: list[str]


def view_of(seen: Seen, chosen: int, found: Hint | None, closed: bool = False) -> GameView:
    """The view of a game; ``chosen`` is the piece to place where the mover chooses, NONE before that.

    ``closed``: the game is in the archive, and this may be an earlier moment of it: nothing can be decided.
    """
    game = seen.game
    yours = not (closed or seen.session.over or seen.thinking)
    asked = game.asked if yours else NextDecision.NOTHING
    hand = game.hand if asked is not NextDecision.PLY or chosen not in game.left else chosen
    best = {word for each in (found.best if found and yours else ()) for word in (each, each.partition("@")[0])}
    return GameView(
        [_marked(_cell(game, asked, cell, hand), best) for cell in range(CELLS)],
        [_marked(_piece(game, asked, piece, hand), best) for piece in range(PIECES)],
        hand,
        [] if hand == NONE else attributes(hand),
        _task(asked, hand),
        asked,
        yours,
        format_game(game.plies),
        found.lines if found and yours else [],
    )


def _marked(tile: DecisionTile, best: set[str]) -> DecisionTile:
    """The tile with a mark if a hint recommends it."""
    if (tile.decision or tile.choice) not in best:
        return tile
    return tile._replace(hinted=True, label=f"{tile.label} (hint)")


def _cell(game: Game, asked: NextDecision, cell: int, hand: int) -> DecisionTile:
    name, filled = format_cell(cell), filled_cell(game, cell)
    if filled is not None:
        return filled
    if hand == NONE or asked not in (NextDecision.PLACEMENT, NextDecision.PLY):
        return DecisionTile(name, NONE, f"{name}, empty")
    decision = name if asked is NextDecision.PLACEMENT else f"{format_piece(hand)}@{name}"
    return DecisionTile(name, NONE, f"{name}, empty: place {format_piece(hand)} here", decision=decision)


def _piece(game: Game, asked: NextDecision, piece: int, hand: int) -> DecisionTile:
    name, taken = format_piece(piece), taken_piece(game, piece)
    if taken is not None:
        return taken
    if asked is NextDecision.PLY:
        held = "hand" if piece == hand else "left"
        return DecisionTile(name, piece, f"Place {named(piece)}", choice=name, held=held)
    if asked is NextDecision.GIFT:
        return DecisionTile(name, piece, f"Give {named(piece)}", decision=name)
    return DecisionTile(name, piece, named(piece))


def _task(asked: NextDecision, hand: int) -> str:
    if asked is NextDecision.GIFT:
        return "Your turn: give a piece."
    if asked is NextDecision.PLACEMENT or (asked is NextDecision.PLY and hand != NONE):
        return f"Your turn: place piece {format_piece(hand)} on an empty cell."
    return "Your turn: choose a piece to place." if asked is NextDecision.PLY else ""
