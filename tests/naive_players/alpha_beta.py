"""The slow twin of ``alpha_beta``: minimax without pruning or memory."""

from __future__ import annotations

from tests.naive import NONE, View, empty_cells, finishes_line, with_piece


def without(pieces: list[int], piece: int) -> list[int]:
    return [other for other in pieces if other != piece]


class AlphaBeta:
    def __init__(self, depth: int = 2) -> None:
        self.depth = depth

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, max(view.available, key=lambda piece: -self.value(self.given(view, piece), self.depth))
        _, *turn = self.best(view, self.depth)
        return turn[0], turn[1]

    def given(self, view: View, piece: int) -> View:
        return view._replace(available=without(view.available, piece), hand=piece)

    def value(self, view: View, depth: int) -> int:
        """The value of the position for the mover, with ``depth`` placements to go."""
        return 0 if depth == 0 else self.best(view, depth)[0]

    def best(self, view: View, depth: int) -> tuple[int, int, int]:
        """The first best turn: its value, its cell, its gift."""
        turns = []
        for cell in empty_cells(view.board):
            after = view._replace(board=with_piece(view.board, view.hand, cell))
            if finishes_line(view.board, view.hand, cell, view.rules):
                turns.append((depth, cell, min(view.available, default=NONE)))
            elif not view.available:
                turns.append((0, cell, NONE))
            else:
                turns += [(-self.value(self.given(after, gift), depth - 1), cell, gift) for gift in view.available]
        return max(turns, key=lambda turn: turn[0])
