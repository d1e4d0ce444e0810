"""Stickykenny/Quarto_simpleAI: python3 stickykenny.py .../game/AI.py DIFFICULTY, which is 1 to 3."""

import sys
from pathlib import Path

from engine import serve

program, difficulty = sys.argv[1:]
sys.path.insert(0, str(Path(program).parent))
from AI import AI  # noqa: E402
from plateau import Board  # noqa: E402


def choose(pieces, hand):
    board, player = Board(), AI(int(difficulty))
    for cell, piece in enumerate(pieces):
        if piece is not None:
            board.placerPiece(board.getPiece(piece), *divmod(cell, 4))
    turn, cell = len(pieces) - pieces.count(None) + 1, None
    if hand is not None:
        row, column = player.choosePosition(board, board.getPiece(hand), turn)
        board.placerPiece(board.getPiece(hand), row, column)
        cell = 4 * row + column
    gift = int(player.choosePiece(board).id) if board.getPieceRemained and not board.checkWin() else None
    return cell, gift


serve(choose)
