"""The slow twin of ``own_piece_alpha_beta``: study D's minimax without pruning."""

from __future__ import annotations

from tests.naive import View, empty_cells, finishes_line, with_piece
from tests.naive_players.alpha_beta import without


class OwnPieceAlphaBeta:
    def __init__(self, depth: int = 4, faithful: bool = False) -> None:
        self.depth = depth
        self.faithful = faithful

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        column_by_column = sorted(empty_cells(view.board), key=lambda cell: (cell % 4, cell // 4))
        turns = [(cell, piece) for cell in column_by_column for piece in view.available]
        return max(turns, key=lambda turn: self.payoff(view, turn[0], turn[1], 1, True))

    def payoff(self, view: View, cell: int, piece: int, depth: int, maximising: bool) -> int:
        """The payoff to the maximiser once ``piece`` is on ``cell`` as the placement number ``depth``."""
        after = view._replace(board=with_piece(view.board, piece, cell), available=without(view.available, piece))
        line = finishes_line(view.board, piece, cell, view.rules)
        if line or (self.faithful and not after.available):
            return 10 - depth if maximising else depth - 10
        if depth == self.depth or not after.available:
            return 0
        replies = [
            self.payoff(after, cell, piece, depth + 1, not maximising)
            for cell in empty_cells(after.board)
            for piece in after.available
        ]
        return min(replies) if maximising else max(replies)
