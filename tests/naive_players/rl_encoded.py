"""The slow twins of ``rl_encoded`` and of how it learns: study C's text, word for word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from tests.naive import (
    GAMMA,
    NONE,
    WORD,
    Board,
    View,
    any_cell,
    any_piece,
    draw,
    empty_cells,
    lines,
    mix,
    safe_pieces,
    winning_cells,
    with_piece,
)
from tests.naive_players.ga import unit

ATTRIBUTES = (8, 4, 2, 1)  # high, coloured, solid, square
REWARDS = {"win": 5.0, "loss": -5.0, "draw": -2.0, "else": 0.0}


def first_value(code: int, seed: int) -> float:
    return 0.1 + (1.0 - 0.1) * unit(draw(mix((seed + GAMMA) & WORD), code))


@cache
def counted(pieces: tuple[int, ...]) -> list[int]:
    """Count the pieces on a line that lack and have each attribute."""
    held = [piece for piece in pieces if piece != NONE]
    return [[piece & bit for piece in held].count(wanted) for bit in ATTRIBUTES for wanted in (0, bit)]


class RlEncoded:
    def __init__(
        self, values: Mapping[int, float] | None = None, gift_rule: str = "mean", values_seed: int = 0
    ) -> None:
        self.values = dict(values or {})  # by code, as far as they are known
        self.values_seed = values_seed
        self.worth: Callable[[list[float]], float] = max if gift_rule == "min_max" else mean
        self.codes: dict[tuple[int, ...], int] = {}  # of boards that were looked at

    def value(self, code: int) -> float:
        if code not in self.values:
            self.values[code] = first_value(code, self.values_seed)
        return self.values[code]

    def code(self, board: Board, view: View) -> int:
        if tuple(board) not in self.codes:
            on_lines = [counted((board[a], board[b], board[c], board[d])) for a, b, c, d in lines(view.rules)]
            digits = map(max, zip(*on_lines, strict=True))
            self.codes[tuple(board)] = int("".join(map(str, digits)), 5)
        return self.codes[tuple(board)]

    def made(self, board: Board, piece: int, view: View) -> list[float]:
        """Return the values of the boards that the piece makes, by empty cell."""
        return [self.value(self.code(with_piece(board, piece, cell), view)) for cell in empty_cells(board)]

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, self.gift(view.board, view, seed)
        cell = self.cell(view, seed)
        return cell, self.gift(with_piece(view.board, view.hand, cell), view, seed)

    def cell(self, view: View, seed: int) -> int:
        for cell in winning_cells(view.board, view.hand, view.rules):
            return cell
        worth = dict(zip(empty_cells(view.board), self.made(view.board, view.hand, view), strict=True))
        return max(worth, key=worth.__getitem__)

    def gift(self, board: Board, view: View, seed: int) -> int:
        pieces = safe_pieces(board, view.available, view.rules) or view.available
        return min(pieces, key=lambda piece: self.worth(self.made(board, piece, view)), default=NONE)


def mean(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value  # one after the other: sum() would round less
    return total / len(values)


class EncodedLearner(RlEncoded):
    def __init__(
        self,
        learning_rate: float = 0.1,
        discount: float = 0.7,
        exploration: float = 0.2,
        exploration_step: float = 0.0001,
        rewards: Mapping[str, float] = REWARDS,
        gift_rule: str = "mean",
        values_seed: int = 0,
    ) -> None:
        super().__init__(None, gift_rule, values_seed)
        self.learning_rate = learning_rate
        self.discount = discount
        self.exploration = exploration
        self.exploration_step = exploration_step
        self.rewards = rewards
        self.made_codes: list[int] = []  # of the boards after its own placements in this game

    def cell(self, view: View, seed: int) -> int:
        if unit(draw(seed, 1)) < self.exploration:
            cell = any_cell(draw(seed, 0), empty_cells(view.board))
        else:
            cell = super().cell(view, seed)
        self.made_codes.append(self.code(with_piece(view.board, view.hand, cell), view))
        return cell

    def gift(self, board: Board, view: View, seed: int) -> int:
        if unit(draw(seed, 2)) < self.exploration:
            return any_piece(draw(seed, 0), view.available)
        return super().gift(board, view, seed)

    def learn(self, result: str) -> None:
        target = 0.0
        for code in reversed(self.made_codes):
            target += self.rewards[result]
            self.values[code] = self.value(code) + self.learning_rate * (target - self.value(code))
            target *= self.discount
            result = "else"
        self.made_codes = []
        self.exploration = max(0.0, self.exploration - self.exploration_step)
