"""The slow twins of ``mixed`` and ``best_mixed``: study A's text, and its code."""

from __future__ import annotations

from tests.naive import NONE, RuleBased, View, any_piece, draw, safe_pieces, winning_cells, with_piece
from tests.naive_players.minimax import FaithfulMinimax, Minimax, Turn


class Mixed:
    def __init__(self, few_unused: int = 8, depth: int = 4, faithful: bool = False) -> None:
        self.few_unused = few_unused
        self.depth = depth
        self.faithful = faithful

    def turn(self, view: View, seed: int) -> Turn:
        word = draw(seed, 0)
        if view.hand == NONE:
            return NONE, any_piece(word, view.available)
        if not winning_cells(view.board, view.hand, view.rules):
            cell, gift = self.searched(view)
            if cell != NONE:
                return cell, gift if gift != NONE else self.gift(view, cell)
        cell = RuleBased(self.faithful).cell(view, word)
        return cell, self.gift(view, cell)

    def searched(self, view: View) -> Turn:
        """The turn that is accepted, (NONE, NONE) if none is."""
        if len(view.available) + self.faithful >= self.few_unused:
            return NONE, NONE
        if self.faithful:
            value, turn = FaithfulMinimax(self.depth).searched(view)
        else:
            value, turn = Minimax(self.depth).best(view, self.depth, True)
        return turn if value > 0 else (NONE, NONE)

    def gift(self, view: View, cell: int) -> int:
        safe = safe_pieces(with_piece(view.board, view.hand, cell), view.available, view.rules)
        if len(safe) in (1, 2):
            return safe[0]
        return max(view.available, key=lambda piece: (piece ^ view.hand).bit_count(), default=NONE)
