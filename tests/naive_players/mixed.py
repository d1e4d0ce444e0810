"""The slow twins of ``mixed`` and ``best_mixed``: study A's text, and its program, which ``mixed_rl`` shares."""

from __future__ import annotations

from tests.naive import NONE, RuleBased, View, any_piece, draw, safe_pieces, winning_cells, with_piece
from tests.naive_players.minimax import FaithfulMinimax, Minimax
from tests.naive_players.study_a import FaithfulRuleBased, Turn, pieces_left


class Mixed:
    def __init__(self, few_unused: int = 8, depth: int = 4) -> None:
        self.few_unused = few_unused
        self.depth = depth

    def turn(self, view: View, seed: int) -> Turn:
        word = draw(seed, 0)
        if view.hand == NONE:
            return NONE, any_piece(word, view.available)
        if not winning_cells(view.board, view.hand, view.rules):
            cell, gift = self.searched(view)
            if cell != NONE:
                return cell, gift if gift != NONE else self.gift(view, cell)
        cell = RuleBased().cell(view, word)
        return cell, self.gift(view, cell)

    def searched(self, view: View) -> Turn:
        """The turn that is accepted, (NONE, NONE) if none is."""
        if len(view.available) >= self.few_unused:
            return NONE, NONE
        value, turn = Minimax(self.depth).best(view, self.depth, True)
        return turn if value > 0 else (NONE, NONE)

    def gift(self, view: View, cell: int) -> int:
        safe = safe_pieces(with_piece(view.board, view.hand, cell), view.available, view.rules)
        if len(safe) in (1, 2):
            return safe[0]
        return max(view.available, key=lambda piece: (piece ^ view.hand).bit_count(), default=NONE)


class FaithfulMixed(FaithfulRuleBased):
    """One game of it. ``above``: percent that a turn has to be worth more than."""

    def __init__(self, few_unused: int = 6, depth: int = 3, version: str = "last", above: int = 0) -> None:
        super().__init__(version)
        self.few_unused = few_unused
        self.depth = depth
        self.above = above
        self.found = NONE  # the gift of the last turn that was found

    def mirrored(self, view: View, seed: int) -> int:
        if len(pieces_left(view.board)) < self.few_unused:
            value, (cell, gift) = FaithfulMinimax(self.depth).searched(view)
            if gift != NONE and value > self.above:
                self.found = gift
                row, column = divmod(cell, 4)
                self.board[column][row] = view.hand  # the wrong way round
                return cell
        return super().mirrored(view, seed)

    def gift(self, view: View, seed: int) -> int:
        left = pieces_left(view.board)
        return self.found if self.found in left else self.other_gift(view, left, seed)

    def other_gift(self, view: View, left: list[int], seed: int) -> int:
        return super().gift(view, seed)


class FaithfulMixedRl(FaithfulMixed):
    def __init__(self, few_unused: int = 6, depth: int = 3, above: int = 60) -> None:
        super().__init__(few_unused, depth, "last", above)

    def other_gift(self, view: View, left: list[int], seed: int) -> int:
        return self.mirror_gift(left, seed)
