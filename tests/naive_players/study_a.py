"""The slow twins of study A's players: ``mixed``, ``best_mixed`` and ``mixed_rl`` by its text, and all by its program.

The program remembers the game; pieces are in ascending order.
"""

from __future__ import annotations

from itertools import count

from tests.naive import (
    NONE,
    RuleBased,
    View,
    any_cell,
    any_piece,
    draw,
    safe_pieces,
    winning_cells,
    with_piece,
)
from tests.naive_players.minimax import FaithfulMinimax, Minimax, Turn, pieces_left
from tests.naive_players.rl_tabular import Counters, RlTabular


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
        """Ask until the answer is an empty cell."""
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


class Mixed:
    """The text."""

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
        """Return the turn that is accepted, (NONE, NONE) if none is."""
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


class MixedRl:
    """The text, with a policy."""

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
        """Return a cell that wins, or the turn that is accepted; (NONE, NONE) if there is neither."""
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
