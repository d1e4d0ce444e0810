"""The slow twin of ``mixed_rl``: study A's text."""

from __future__ import annotations

from tests.naive import NONE, RuleBased, View, any_piece, draw, winning_cells, with_piece
from tests.naive_players.minimax import Minimax, Turn
from tests.naive_players.rl_tabular import Counters, RlTabular


class MixedRl:
    def __init__(self, counters: Counters | None = None, few_unused: int = 7, depth: int = 4, above: int = 60) -> None:
        self.learned = RlTabular(counters)
        self.few_unused = few_unused
        self.depth = depth
        self.above = above

    def turn(self, view: View, seed: int) -> Turn:
        if view.hand == NONE:
            gift = self.learned.best(view.board, "gift", view.available, view.rules)
            return NONE, gift if gift != NONE else any_piece(draw(seed, 0), view.available)
        cell, gift = self.searched(view)
        if cell == NONE:
            cell = self.cell(view, seed)
        if gift == NONE:
            board = with_piece(view.board, view.hand, cell)
            gift = self.learned.best(board, "gift", view.available, view.rules)
        if gift == NONE:
            gift = max(view.available, key=lambda piece: (piece ^ view.hand).bit_count(), default=NONE)
        return cell, gift

    def searched(self, view: View) -> Turn:
        """A cell that wins, or the turn that is accepted; (NONE, NONE) if there is neither."""
        for cell in winning_cells(view.board, view.hand, view.rules):
            return cell, NONE
        if len(view.available) >= self.few_unused:
            return NONE, NONE
        value, turn = Minimax(self.depth).best(view, self.depth, True)
        return turn if value > self.above else (NONE, NONE)

    def cell(self, view: View, seed: int) -> int:
        cells = [cell for cell in range(16) if view.board[cell] == NONE]
        cell = self.learned.best(view.board, "cell", cells, view.rules)
        return cell if cell != NONE else RuleBased().cell(view, draw(seed, 0))
