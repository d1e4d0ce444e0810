"""Positions to ask players about, and what a slow twin sees of them."""

from __future__ import annotations

from functools import cache

from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, View


def build_view(position: PackedPosition, rules: Rules) -> View:
    """Return the position as a slow twin sees it."""
    available = [piece for piece in range(16) if position.available >> piece & 1]
    return View(board(position), available, position.hand, position.last_cell, rules)


def list_positions(rules: Rules, games: int) -> list[PackedPosition]:
    """List the positions of random games in which a player is asked, or is after an opening of as many plies."""
    return [position for pair in range(games) for position in list_positions_of_game(rules, pair)]


@cache
def list_positions_of_game(rules: Rules, pair: int) -> list[PackedPosition]:
    game = naive.play_game(rules, (naive.Random(), naive.Random()), 17, pair, 0)
    plies = list(zip(game.pieces, game.cells, strict=True))
    hands = [(NONE,) if rules.mover_chooses else (NONE, piece) for piece in game.pieces]
    return [position_from_plies(plies[:ply], hand) for ply, choices in enumerate(hands) for hand in choices]
