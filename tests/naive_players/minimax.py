"""The slow twins of ``minimax``: study A's text without pruning or memory, and its code with its pruning."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from tests.naive import (
    NONE,
    Board,
    View,
    any_piece,
    draw,
    empty_cells,
    finishes_line,
    has_line,
    safe_pieces,
    with_piece,
)
from tests.naive_players.alpha_beta import without
from tests.naive_players.study_a import pieces_left

Turn = tuple[int, int]
Value = Fraction | float


def percent_safe(view: View, pieces: list[int]) -> Fraction:
    return Fraction(100 * len(safe_pieces(view.board, pieces, view.rules)), len(pieces))


def placed(view: View, cell: int) -> View:
    return view._replace(board=with_piece(view.board, view.hand, cell))


def given(view: View, piece: int) -> View:
    return view._replace(available=without(view.available, piece), hand=piece)


class Minimax:
    """The text: values are percentages in its own view throughout."""

    def __init__(self, depth: int = 1) -> None:
        self.depth = depth

    def turn(self, view: View, seed: int) -> Turn:
        if view.hand == NONE:
            return NONE, any_piece(draw(seed, 0), view.available)
        return self.best(view, self.depth, True)[1]

    def best(self, view: View, depth: int, mine: bool) -> tuple[Value, Turn]:
        turns: list[tuple[Value, Turn]] = []
        for cell in empty_cells(view.board):
            if finishes_line(view.board, view.hand, cell, view.rules):
                turns.append((100 if mine else 0, (cell, min(view.available, default=NONE))))
            elif not view.available:
                turns.append((50, (cell, NONE)))
            else:
                after = placed(view, cell)
                turns += [
                    (self.value(given(after, gift), depth - 1, not mine), (cell, gift)) for gift in view.available
                ]
        return (max if mine else min)(turns, key=lambda turn: turn[0])

    def value(self, view: View, depth: int, mine: bool) -> Value:
        if depth > 0:
            return self.best(view, depth, mine)[0]
        if not view.available:
            return 50
        safe = percent_safe(view, view.available)
        return safe if mine else 100 - safe


class FaithfulMinimax:
    """The code, with the order in which it stops looking."""

    def __init__(self, depth: int = 1) -> None:
        self.depth = depth

    def turn(self, view: View, seed: int) -> Turn:
        gift = any_piece(draw(seed, 0), view.available)
        if view.hand == NONE:
            return NONE, gift
        _, (cell, _) = self.searched(view)
        return cell if cell != NONE else empty_cells(view.board)[0], gift

    def searched(self, view: View) -> tuple[Value, Turn]:
        return self.search(view, self.depth, -inf, inf, True, (NONE, NONE))

    def search(
        self, view: View, depth: int, alpha: Value, beta: Value, maximising: bool, last: Turn
    ) -> tuple[Value, Turn]:
        if depth == 0 or (maximising and has_line(view.board, view.rules)):
            return self.leaf(view, maximising), last
        best: tuple[Value, Turn] = (-inf if maximising else inf, (NONE, NONE))
        for cell in empty_cells(view.board):
            after = placed(view, cell)
            for gift in pieces_left(view.board, view.hand):
                found = self.search(given(after, gift), depth - 1, alpha, beta, not maximising, (cell, gift))
                if maximising:
                    best = max(best, found, key=lambda entry: entry[0])
                    alpha = max(alpha, best[0])
                else:
                    best = min(best, found, key=lambda entry: entry[0])
                    beta = min(beta, best[0])
                if beta <= alpha or best[0] == (100 if maximising else 0):
                    break
            if best[0] == (100 if maximising else 0):
                break
        return best

    def leaf(self, view: View, maximising: bool) -> Value:
        if has_line(view.board, view.rules):
            return 100
        safe = percent_safe(view, off_the_board(view.board))
        return safe if maximising else 100 - safe


def off_the_board(board: Board) -> list[int]:
    return [piece for piece in range(16) if piece not in board]
