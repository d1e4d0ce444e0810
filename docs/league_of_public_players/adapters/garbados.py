"""garbados/Quarto: python3 garbados.py .../algos.py CLASS. Written for Python 2; these classes also run on 3."""

import sys
from pathlib import Path

from engine import serve

program, name = sys.argv[1:]
sys.path.insert(0, str(Path(program).parent))
import algos  # noqa: E402
from board import Board  # noqa: E402


def choose(pieces, hand):
    board = Board()
    board.in_play = [-1 if piece is None else piece for piece in pieces]
    board.next_piece = -1 if hand is None else hand
    board.pieces_available = [piece for piece in range(16) if piece not in pieces and piece != hand]
    move = getattr(algos, name)("x").next_move(board)
    return None if hand is None else move.index, None if move.next_piece < 0 else move.next_piece


serve(choose)
