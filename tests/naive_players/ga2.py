"""The slow twin of ``ga2``: study B's text, word for word."""

from __future__ import annotations

from itertools import combinations

from tests.naive import NONE, Board, View, below, below_again, draw, empty_cells, with_piece

ROWS = [[4 * row + column for column in range(4)] for row in range(4)]
COLUMNS = [[4 * row + column for row in range(4)] for column in range(4)]
DIAGONALS = [[0, 5, 10, 15], [3, 6, 9, 12]]


def unit(word: int) -> float:
    return (word >> 11) / 2**53


def frequencies(board: Board) -> list[tuple[int, int]]:
    """(how many pieces on the board have it, its bit) for high, coloured, solid, square and their opposites."""
    pieces = [piece for piece in board if piece != NONE]
    having = [(sum(piece & bit == bit for piece in pieces), bit) for bit in (8, 4, 2, 1)]
    lacking = [(sum(piece & bit == 0 for piece in pieces), 0) for bit in (8, 4, 2, 1)]
    return having + lacking


def in_order(board: Board, alpha: float, seed: int) -> list[int]:
    """The bits of the values as they are tried: rarest first, but with probability alpha commonest first."""
    commonest_first = unit(draw(seed, 0)) < alpha
    return [bit for _, bit in sorted(frequencies(board), key=lambda pair: pair[0], reverse=commonest_first)]


def holes(board: Board, line: list[int]) -> list[int]:
    return [cell for cell in line if board[cell] == NONE]


def lines_lacking(board: Board, lines: list[list[int]], counts: tuple[int, ...]) -> list[list[int]]:
    return [line for line in lines if len(holes(board, line)) in counts]


class Ga2:
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
