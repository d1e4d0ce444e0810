"""The slow twins of ``rl_tabular`` and of how it learns: study A's text, on canonical boards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from agents.learning.policy import Policy
from quarto.rules import Rules
from quarto.symmetry import build_symmetries
from tests.naive import NONE, Board, View, any_cell, any_piece, draw, empty_cells, has_line, with_piece
from tests.naive_players.ga import unit

Form = tuple[int, int]  # occupied cells, then lanes: the canonical form of a board
Action = tuple[str, int]  # 'cell' or 'gift', and which in the canonical form
Counters = dict[Form, dict[Action, int]]


class Image:
    """A board under one permutation of the cells, each attribute turned so that the piece on the highest cell is 0."""

    def __init__(self, board: Board, cells: list[int]) -> None:
        self.cells = cells
        moved = {cells[cell]: piece for cell, piece in enumerate(board) if piece != NONE}
        self.xor = moved[max(moved)] if moved else 0
        lanes = [sum(((piece ^ self.xor) >> bit & 1) << cell for cell, piece in moved.items()) for bit in range(4)]
        self.order = sorted(range(4), key=lambda bit: -lanes[bit])
        word = sum(lanes[bit] << 16 * place for place, bit in enumerate(self.order))
        self.form = (sum(1 << cell for cell in moved), word)

    def cell(self, cell: int) -> int:
        return self.cells[cell]

    def piece(self, piece: int) -> int:
        return sum(((piece ^ self.xor) >> bit & 1) << place for place, bit in enumerate(self.order))


def canonical_image(board: Board, rules: Rules, known: dict[tuple[int, ...], Image]) -> Image:
    """Return the first least image; ``known`` are those that were found before."""
    key = tuple(board)
    if key not in known:
        known[key] = min(
            (Image(board, cells) for cells in build_symmetries(rules).cells.tolist()), key=lambda i: i.form
        )
    return known[key]


class RlTabular:
    def __init__(self, counters: Counters | None = None) -> None:
        self.counters: Counters = counters or {}
        self.images: dict[tuple[int, ...], Image] = {}

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, self.gift(view.board, view, seed)
        cell = self.cell(view, seed)
        return cell, self.gift(with_piece(view.board, view.hand, cell), view, seed)

    def cell(self, view: View, seed: int) -> int:
        cell = self.best(view.board, "cell", empty_cells(view.board), view.rules)
        return cell if cell != NONE else any_cell(draw(seed, 0), empty_cells(view.board))

    def gift(self, board: Board, view: View, seed: int) -> int:
        gift = self.best(board, "gift", view.available, view.rules)
        return gift if gift != NONE else any_piece(draw(seed, 0), view.available)

    def action(self, board: Board, kind: str, item: int, rules: Rules) -> tuple[Form, Action]:
        image = canonical_image(board, rules, self.images)
        return image.form, (kind, image.cell(item) if kind == "cell" else image.piece(item))

    def best(self, board: Board, kind: str, items: Iterable[int], rules: Rules) -> int:
        """Return the item with the highest counter; NONE if none has one."""
        counts = {}
        for item in items:
            form, action = self.action(board, kind, item, rules)
            if action in self.counters.get(form, {}):
                counts[item] = self.counters[form][action]
        return max(counts, key=counts.__getitem__, default=NONE)


class TabularLearner(RlTabular):
    def __init__(self, exploration: float = 0.7, exploration_step: float = 0.01) -> None:
        super().__init__()
        self.counters = defaultdict(dict)
        self.exploration = exploration
        self.exploration_step = exploration_step
        self.explored: list[tuple[Form, Action]] = []  # in this game

    def cell(self, view: View, seed: int) -> int:
        if unit(draw(seed, 1)) >= self.exploration:
            return super().cell(view, seed)
        cell = any_cell(draw(seed, 0), empty_cells(view.board))
        self.explored.append(self.action(view.board, "cell", cell, view.rules))
        return cell

    def gift(self, board: Board, view: View, seed: int) -> int:
        if unit(draw(seed, 2)) >= self.exploration:
            return super().gift(board, view, seed)
        gift = any_piece(draw(seed, 0), view.available)
        if gift != NONE and not has_line(board, view.rules):  # else the game is over, and nothing is given
            self.explored.append(self.action(board, "gift", gift, view.rules))
        return gift

    def learn(self, result: str) -> None:
        for form, action in self.explored:
            self.counters[form][action] = self.counters[form].get(action, 0) + (1 if result == "win" else -1)
        self.explored = []
        self.exploration = max(0.0, self.exploration - self.exploration_step)


def policy_of(counters: Counters) -> Policy:
    """Return counters as a policy has them."""
    rows = []
    for (occupied, word), actions in counters.items():
        for (kind, item), count in actions.items():
            cell, gift = (item, NONE) if kind == "cell" else (NONE, item)
            rows.append((word - (word >> 63 << 64), occupied, cell, gift, count))
    types = {"lanes": np.int64, "occupied": np.int32, "cell": np.int8, "gift": np.int8, "count": np.int64}
    columns = zip(*sorted(rows), strict=True) if rows else [()] * len(types)
    table = {name: np.array(column, types[name]) for name, column in zip(types, columns, strict=True)}
    return Policy("counters", table=table)


def counters_of(policy: Policy) -> Counters:
    """Return the rows of a policy, by board."""
    counters: Counters = defaultdict(dict)
    columns = (policy.table[name].tolist() for name in ("lanes", "occupied", "cell", "gift", "count"))
    for lanes, occupied, cell, gift, count in zip(*columns, strict=True):
        counters[occupied, lanes % (1 << 64)]["cell" if gift == NONE else "gift", max(cell, gift)] = count
    return dict(counters)
