"""Positions to ask players about, and what a slow twin sees of them."""

from __future__ import annotations

from quarto.position import Position, board, from_plies
from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, View


def view_of(position: Position, rules: Rules) -> View:
    """The position as a slow twin sees it."""
    available = [piece for piece in range(16) if position.available >> piece & 1]
    return View(board(position), available, position.hand, position.last_cell, rules)


def asked(rules: Rules, games: int) -> list[Position]:
    """Every position of some random games in which a player is asked, or is after an opening of as many plies."""
    positions = []
    for pair in range(games):
        game = naive.play_game(rules, (naive.Random(), naive.Random()), 17, pair, 0)
        plies = list(zip(game.pieces, game.cells, strict=True))
        for ply, (piece, _) in enumerate(plies):
            hands = (NONE,) if rules.mover_chooses else (NONE, piece)
            positions += [from_plies(plies[:ply], hand) for hand in hands]
    return positions
