"""jclarte/quarto: python3 jclarte.py .../src/logic/mcts.py ITERATIONS. Its search chooses the cell, then the gift."""

import sys
from pathlib import Path

from engine import serve

program, iterations = sys.argv[1:]
sys.path.insert(0, str(Path(program).parents[1]))  # its package src would import pygame
from logic.mcts import MCTS  # noqa: E402
from logic.mcts_quarto import QuartoInterface  # noqa: E402
from logic.quarto_logic import Quarto, State  # noqa: E402


def search(game):
    return MCTS(QuartoInterface()).run(game, int(iterations))


def choose(pieces, hand):
    game, cell = Quarto(), None
    for place, piece in enumerate(pieces):
        if piece is not None:
            game.transition(piece)
            game.transition(place)
    if hand is not None:
        game.transition(hand)
        cell = search(game) if pieces.count(None) > 1 else pieces.index(None)  # its search takes the end for a draw
        game.transition(cell)
    return cell, None if game.state == State.END else search(game)


serve(choose)
