"""The slow twins of ``ga2``, ``ga_minimax`` and ``ga5``: the studies' texts, word for word, and their programs."""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from math import inf

from tests.naive import (
    NONE,
    Board,
    View,
    below,
    below_again,
    draw,
    empty_cells,
    finishes_line,
    lines,
    safe_pieces,
    winning_cells,
    with_piece,
)
from tests.naive_players.minimax import AlphaBeta, pieces_left

ROWS = [[4 * row + column for column in range(4)] for row in range(4)]
COLUMNS = [[4 * row + column for row in range(4)] for column in range(4)]
DIAGONALS = [[0, 5, 10, 15], [3, 6, 9, 12]]


def unit(word: int) -> float:
    return (word >> 11) / 2**53


def frequencies(board: Board) -> list[tuple[int, int]]:
    """Return (pieces on the board that have it, its bit) for high, coloured, solid, square and their opposites."""
    pieces = [piece for piece in board if piece != NONE]
    having = [(sum(piece & bit == bit for piece in pieces), bit) for bit in (8, 4, 2, 1)]
    lacking = [(sum(piece & bit == 0 for piece in pieces), 0) for bit in (8, 4, 2, 1)]
    return having + lacking


def in_order(board: Board, alpha: float, seed: int) -> list[int]:
    """Return the bits of the values as they are tried: rarest first, but with probability alpha commonest first."""
    commonest_first = unit(draw(seed, 0)) < alpha
    return [bit for _, bit in sorted(frequencies(board), key=lambda pair: pair[0], reverse=commonest_first)]


def holes(board: Board, line: list[int]) -> list[int]:
    return [cell for cell in line if board[cell] == NONE]


def lines_lacking(board: Board, lines: list[list[int]], counts: tuple[int, ...]) -> list[list[int]]:
    return [line for line in lines if len(holes(board, line)) in counts]


class Ga2:
    """Study B's text."""

    def __init__(self, alpha: float = 0.1, beta: float = 0.3) -> None:
        self.alpha = alpha
        self.beta = beta

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, self.gift(view.board, view.available, seed)
        cell = self.cell(view.board, seed)
        return cell, self.gift(with_piece(view.board, view.hand, cell), view.available, seed)

    def gift(self, board: Board, available: list[int], seed: int) -> int:
        if not available:
            return NONE
        bits = in_order(board, self.alpha, seed)
        sums = (sum(chosen) for size in range(4, 9) for chosen in combinations(bits[:size], 4))
        return next(piece for piece in sums if piece in available)

    def cell(self, board: Board, seed: int) -> int:
        word, coin = draw(seed, 3), unit(draw(seed, 1)) < 0.5
        diagonals = lines_lacking(board, DIAGONALS, (1,))
        if diagonals:
            return holes(board, diagonals[below(word, len(diagonals))])[0]
        rows, columns = lines_lacking(board, ROWS, (1,)), lines_lacking(board, COLUMNS, (1,))
        if rows and columns:
            group = rows if coin else columns
        elif rows or columns:
            group = rows or columns
        else:
            kind = ROWS if coin else COLUMNS
            low_risk, high_risk = lines_lacking(board, kind, (3, 4)), lines_lacking(board, kind, (2,))
            group = low_risk if unit(draw(seed, 2)) < self.beta else high_risk
            group = group or low_risk or high_risk
        cells = holes(board, group[below(word, len(group))])
        assert set(cells) <= set(empty_cells(board))
        return cells[below_again(word, len(cells))]


PUBLISHED = (-94.03014146974122, -107.17350875193313, 152.6577141347451, -29.856838596915765, -12.095960806170313)


class Ga5:
    """Study A's text."""

    def __init__(self, genes: tuple[float, ...] = PUBLISHED) -> None:
        self.alpha, self.beta, self.gamma, self.delta, self.epsilon = genes

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        gift = min(view.available, key=lambda piece: self.weight_of_piece(view, piece), default=NONE)
        if view.hand == NONE:
            return NONE, gift
        empty = empty_cells(view.board)
        return min(empty, key=lambda cell: self.weight_of_cell(empty, cell)), gift

    def weight_of_piece(self, view: View, piece: int) -> float:
        others = [other for other in view.available if other != piece]
        used = sorted({*range(16)} - {*others})
        folded: int = reduce(lambda a, b: ~(a & b), used)
        return abs(self.alpha * sum(others) + self.beta * folded)

    def weight_of_cell(self, empty: list[int], cell: int) -> float:
        others = [other for other in empty if other != cell]
        if not others:
            return 0.0
        columns, rows = [other % 4 for other in others], [other // 4 for other in others]
        joined, met = reduce(lambda a, b: a | b, rows), reduce(lambda a, b: a & b, columns)
        return abs(self.gamma * sum(columns) + self.delta * joined + self.epsilon * met)


class FaithfulGa5(Ga5):
    """Study A's program: its list of cells changes while it is walked."""

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        _, gift = super().turn(view, seed)
        return NONE if view.hand == NONE else self.walked_cell(empty_cells(view.board)), gift

    def walked_cell(self, empty: list[int]) -> int:
        if len(empty) == 1:
            return empty[0]
        weights = []
        for cell in empty:
            empty.remove(cell)
            weights.append((self.weight_of_cell(empty, NONE), cell))
            empty.append(cell)
        return min(weights, key=lambda weight: weight[0])[1]


class GaMinimax(Ga2):
    """Study B's text, or its program."""

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
        """Search as the study's minimax, whose hand is placed before another piece is selected."""
        if line:
            return -inf if maximising else 1 + depth
        if depth == 0:
            return 0
        values = []
        for cell in empty_cells(board):
            after, finished = with_piece(board, hand, cell), finishes_line(board, hand, cell, view.rules)
            for piece in pieces_left(board) if depth > 1 else [hand]:  # at the limit nothing more is placed
                selected = hand if piece in after else piece  # selecting a piece on the board does nothing
                values.append(self.phantom(view, after, selected, depth - 1, not maximising, finished))
        return max(values, default=-inf) if maximising else min(values, default=inf)
