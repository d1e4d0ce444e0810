"""The slow twin of ``ga_minimax``: study B's text and its code."""

from __future__ import annotations

from itertools import combinations
from math import inf

from tests.naive import (
    NONE,
    Board,
    View,
    below,
    draw,
    empty_cells,
    finishes_line,
    lines,
    safe_pieces,
    winning_cells,
    with_piece,
)
from tests.naive_players.alpha_beta import AlphaBeta
from tests.naive_players.ga2 import Ga2, holes, in_order


def off_the_board(board: Board) -> list[int]:
    return [piece for piece in range(16) if piece not in board]


class GaMinimax(Ga2):
    def __init__(self, alpha: float = 0.1, beta: float = 0.3, depth: int = 1, faithful: bool = False) -> None:
        super().__init__(alpha, beta)
        self.depth = depth
        self.faithful = faithful

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, self.safe_gift(view, view.board, seed)
        cell = self.searched(view) if self.threatened(view, view.board) else NONE
        if cell == NONE:
            cell = self.cell(view.board, seed)
        return cell, self.safe_gift(view, with_piece(view.board, view.hand, cell), seed)

    def threatened(self, view: View, board: Board) -> bool:
        return any(len(holes(board, list(line))) == 1 for line in lines(view.rules))

    def safe_gift(self, view: View, board: Board, seed: int) -> int:
        if not view.available:
            return NONE
        allowed = view.available
        if self.threatened(view, board):
            allowed = safe_pieces(board, view.available, view.rules) or allowed
        bits = in_order(board, self.alpha, seed)
        for size in range(4, 9):
            sums = [sum(chosen) for chosen in combinations(bits[:size], 4)]
            good = sorted(piece for piece in sums if piece in allowed)
            if good:  # the first good one of a random order is any of the good ones
                return good[below(draw(seed, 4), len(good))]
        raise AssertionError("every piece is the sum of some four of the eight values")

    def searched(self, view: View) -> int:
        empty = empty_cells(view.board)
        depth = self.depth if len(empty) < 8 else 1
        if self.faithful:
            return max(empty, key=lambda cell: self.phantom_root(view, cell, depth))
        if depth == 1:
            return min(winning_cells(view.board, view.hand, view.rules), default=NONE)
        value, cell, _ = AlphaBeta().best(view, depth)
        return cell if value > 0 else NONE

    def phantom_root(self, view: View, cell: int, depth: int) -> float:
        line = finishes_line(view.board, view.hand, cell, view.rules)
        return self.phantom(view, with_piece(view.board, view.hand, cell), view.hand, depth, False, line)

    def phantom(self, view: View, board: Board, hand: int, depth: int, maximising: bool, line: bool) -> float:
        """The study's minimax, whose hand is placed before another is selected."""
        if line:
            return -inf if maximising else 1 + depth
        if depth == 0:
            return 0
        values = []
        for cell in empty_cells(board):
            after, finished = with_piece(board, hand, cell), finishes_line(board, hand, cell, view.rules)
            for piece in off_the_board(board) if depth > 1 else [hand]:  # at the limit nothing more is placed
                selected = hand if piece in after else piece  # selecting a piece on the board does nothing
                values.append(self.phantom(view, after, selected, depth - 1, not maximising, finished))
        return max(values, default=-inf) if maximising else min(values, default=inf)
