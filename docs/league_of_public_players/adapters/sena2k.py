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


def choose(pieces, hand):
    board, cell = Tabuleiro(), None
    numbers = {piece.get_atributos(): number for number, piece in enumerate(board.get_pecas())}
    if hand is None:  # its program lets a person give the first piece
        return None, random.randrange(16)
    for place, piece in enumerate(pieces):
        if piece is not None:
            board.colocar_peca(numbers[piece], *divmod(place, 4))
    _, row, column = search(board, False)
    cell = 4 * row + column
    gifts = {number: piece.get_atributos() for number, piece in enumerate(board.get_pecas()) if piece}
    board.colocar_peca(numbers[hand], row, column)
    move = search(board, True)
    return cell, None if move is None else gifts[move[0]]


serve(choose)
