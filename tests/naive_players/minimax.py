"""The slow twins of ``alpha_beta``, ``minimax`` and ``own_piece_alpha_beta``: without pruning or memory.

Only that of study A's code stops looking where the code does.
"""

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

Turn = tuple[int, int]
Value = Fraction | float


def without(pieces: list[int], piece: int) -> list[int]:
    return [other for other in pieces if other != piece]


def pieces_left(board: Board, hand: int = NONE) -> list[int]:
    return sorted({*range(16)} - {*board, hand})


def percent_safe(view: View, pieces: list[int]) -> Fraction:
    return Fraction(100 * len(safe_pieces(view.board, pieces, view.rules)), len(pieces))


def placed(view: View, cell: int) -> View:
    return view._replace(board=with_piece(view.board, view.hand, cell))


def given(view: View, piece: int) -> View:
    return view._replace(available=without(view.available, piece), hand=piece)


class AlphaBeta:
    """The first best turn by who wins, sooner rather than later."""

    def __init__(self, depth: int = 2) -> None:
        self.depth = depth

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, max(view.available, key=lambda piece: -self.value(given(view, piece), self.depth))
        _, *turn = self.best(view, self.depth)
        return turn[0], turn[1]

    def value(self, view: View, depth: int) -> int:
        """Return the value of the position for the mover, with ``depth`` placements to go."""
        return 0 if depth == 0 else self.best(view, depth)[0]

    def best(self, view: View, depth: int) -> tuple[int, int, int]:
        """Return the first best turn: its value, its cell, its gift."""
        turns = []
        for cell in empty_cells(view.board):
            if finishes_line(view.board, view.hand, cell, view.rules):
                turns.append((depth, cell, min(view.available, default=NONE)))
            elif not view.available:
                turns.append((0, cell, NONE))
            else:
                after = placed(view, cell)
                turns += [(-self.value(given(after, gift), depth - 1), cell, gift) for gift in view.available]
        return max(turns, key=lambda turn: turn[0])


class Minimax:
    """Study A's text: values are percentages in its own view throughout."""

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
    """Study A's code, with the order in which it stops looking."""

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
        safe = percent_safe(view, pieces_left(view.board))
        return safe if maximising else 100 - safe


class OwnPieceAlphaBeta:
    """Study D's, where the mover chooses."""

    def __init__(self, depth: int = 4, faithful: bool = False) -> None:
        self.depth = depth
        self.faithful = faithful

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        column_by_column = sorted(empty_cells(view.board), key=lambda cell: (cell % 4, cell // 4))
        turns = [(cell, piece) for cell in column_by_column for piece in view.available]
        return max(turns, key=lambda turn: self.payoff(view, turn[0], turn[1], 1, True))

    def payoff(self, view: View, cell: int, piece: int, depth: int, maximising: bool) -> int:
        """Return the payoff to the maximiser once ``piece`` is on ``cell`` as the placement number ``depth``."""
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
