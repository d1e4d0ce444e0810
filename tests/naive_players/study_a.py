"""The slow twins of study A's players as its program plays them, with what it remembers; pieces in ascending order."""

from __future__ import annotations

from itertools import count

from tests.naive import (
    NONE,
    Board,
    View,
    any_cell,
    any_piece,
    draw,
    safe_pieces,
    winning_cells,
    with_piece,
)

Turn = tuple[int, int]


def pieces_left(board: Board, hand: int = NONE) -> list[int]:
    return sorted({*range(16)} - {*board, hand})


class FaithfulRuleBased:
    """One game of it: boards are rows of columns."""

    def __init__(self, version: str = "last") -> None:
        self.version = version
        self.board = [[NONE] * 4 for _ in range(4)]  # as it remembers it
        self.changed: tuple[int, int] | None = None  # row and column of what it takes for the opponent's last cell
        self.placed = NONE
        self.gave_first = False

    def turn(self, view: View, seed: int) -> Turn:
        cell, board = NONE, view.board
        if view.hand != NONE:
            cell = self.cell(view, seed)
            board, self.placed = with_piece(board, view.hand, cell), view.hand
        return cell, self.gift(view._replace(board=board), seed)

    def cell(self, view: View, seed: int) -> int:
        wins = winning_cells(view.board, view.hand, view.rules)
        return wins[0] if wins else self.mirrored(view, seed)

    def mirrored(self, view: View, seed: int) -> int:
        """Asked until it names an empty cell."""
        for asked in count():
            row, column = self.answer(view, draw(seed, asked))
            if view.board[4 * row + column] == NONE:
                return 4 * row + column
        raise AssertionError("unreachable")

    def answer(self, view: View, word: int) -> tuple[int, int]:
        now = [view.board[4 * row : 4 * row + 4] for row in range(4)]
        for row in range(4):
            for column in range(4):
                if now[row][column] != self.board[row][column]:
                    self.changed = row, column
                    break
        free = [(row, column) for row in range(4) for column in range(4) if self.board[row][column] == NONE]
        row, column = self.chosen(free, word)
        self.board = now
        self.board[row][column] = view.hand
        return row, column

    def chosen(self, free: list[tuple[int, int]], word: int) -> tuple[int, int]:
        everywhere = [(row, column) for row in range(4) for column in range(4)]
        if self.changed is None:
            return everywhere[any_cell(word, [*range(16)])]
        mirror = 3 - self.changed[0], 3 - self.changed[1]
        if self.version == "earlier":
            if self.gave_first and mirror in free:
                return mirror
            return free[any_cell(word, [*range(len(free))])]
        return mirror if mirror in free else free[0]

    def gift(self, view: View, seed: int) -> int:
        left = pieces_left(view.board)
        safe = safe_pieces(view.board, left, view.rules)
        return safe[0] if len(safe) in (1, 2) else self.mirror_gift(left, seed)

    def mirror_gift(self, left: list[int], seed: int) -> int:
        if self.placed == NONE:
            self.gave_first = True
            return any_piece(draw(seed, 0), left)
        return max(left, key=lambda piece: (piece ^ self.placed).bit_count(), default=NONE)
