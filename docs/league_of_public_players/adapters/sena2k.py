"""Sena2K/QuartoAI: python3 sena2k.py .../jogo.py. Its main.py searches two turns, and so does this."""

import random
import sys
from pathlib import Path

from engine import serve

sys.path.insert(0, str(Path(sys.argv[1]).parent))
from jogo import minimax
from tabuleiro import Tabuleiro


def search(board, is_giving):
    return minimax(board, 2, float("-inf"), float("inf"), is_giving)[1]


def place(board, piece, cell):
    numbers = [left.get_atributos() for left in board.get_pecas()]  # its pieces are named by their place in a list
    board.colocar_peca(numbers.index(piece), *divmod(cell, 4))


def choose(pieces, hand):
    board = Tabuleiro()
    if hand is None:  # its program lets a person give the first piece
        return None, random.randrange(16)
    for cell, piece in enumerate(pieces):
        if piece is not None:
            place(board, piece, cell)
    _, row, column = search(board, False)
    place(board, hand, 4 * row + column)
    move = search(board, True)
    return 4 * row + column, None if move is None else board.get_pecas()[move[0]].get_atributos()


serve(choose)
