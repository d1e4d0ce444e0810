"""The slow twin of ``ga5``: study A's text, word for word, and its program with a real list of cells."""

from __future__ import annotations

from functools import reduce

from tests.naive import NONE, View, empty_cells

PUBLISHED = (-94.03014146974122, -107.17350875193313, 152.6577141347451, -29.856838596915765, -12.095960806170313)


class Ga5:
    def __init__(self, genes: tuple[float, ...] = PUBLISHED) -> None:
        self.alpha, self.beta, self.gamma, self.delta, self.epsilon = genes

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        gift = min(view.available, key=lambda piece: self.weight_of_piece(view, piece), default=NONE)
        if view.hand == NONE:
            return NONE, gift
        empty = empty_cells(view.board)
        return min(empty, key=lambda cell: self.weight_of_cell(empty, cell)), gift

    def weight_of_piece(self, view: View, piece: int) -> float:
        others = [other for other in view.available if other != piece]
        used = sorted({*range(16)} - {*others})
        folded: int = reduce(lambda a, b: ~(a & b), used)
        return abs(self.alpha * sum(others) + self.beta * folded)

    def weight_of_cell(self, empty: list[int], cell: int) -> float:
        others = [other for other in empty if other != cell]
        if not others:
            return 0.0
        columns, rows = [other % 4 for other in others], [other // 4 for other in others]
        joined, met = reduce(lambda a, b: a | b, rows), reduce(lambda a, b: a & b, columns)
        return abs(self.gamma * sum(columns) + self.delta * joined + self.epsilon * met)


class FaithfulGa5(Ga5):
    """The program: its list of cells changes while it is walked."""

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        _, gift = super().turn(view, seed)
        return NONE if view.hand == NONE else self.walked_cell(empty_cells(view.board)), gift

    def walked_cell(self, empty: list[int]) -> int:
        if len(empty) == 1:
            return empty[0]
        weights = []
        for cell in empty:
            empty.remove(cell)
            weights.append((self.weight_of_cell(empty, NONE), cell))
            empty.append(cell)
        return min(weights, key=lambda weight: weight[0])[1]
