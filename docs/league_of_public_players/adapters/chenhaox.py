"""chenhaox/Quarto_AI: python3 chenhaox.py .../minimax2.py."""

import random
import sys
from pathlib import Path

from engine import serve

sys.path.insert(0, str(Path(sys.argv[1]).parent))
from bag import Bag
from board import Board
from minimax2 import AI


def choose(pieces, hand):
    board, bag = Board(), Bag()
    everything = {piece.type(): piece for piece in bag.bag}
    bag.bag = [piece for number, piece in everything.items() if number not in pieces and number != hand]
    if hand is None:  # its program lets a person give the first piece
        return None, random.choice(bag.bag).type()
    for cell, piece in enumerate(pieces):
        if piece is not None:
            board.placePiece(everything[piece], *divmod(cell, 4))
    answer = AI().getNext(board, bag, everything[hand])
    if isinstance(answer, tuple):  # the last cell
        return 4 * answer[0] + answer[1], None
    return 4 * answer.coordinate[0] + answer.coordinate[1], answer.next_piece.type()


serve(choose)
