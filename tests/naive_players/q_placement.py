"""The slow twins of ``q_placement`` and of how it learns: study B's text in one pair, its code in the other."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from agents.learning.policy import Policy
from quarto.position import PackedPosition, board
from tests.naive import NONE, View, any_cell, draw, empty_cells, with_piece
from tests.naive_players.ga import Ga2, unit

Board = tuple[int, ...]
Cells = dict[int, float]  # what is known of them
Entry = tuple[Board, int, int, float]  # board, hand, cell, value: a row of a policy


def random_cell(view: View, seed: int) -> int:
    return any_cell(draw(seed, 5), empty_cells(view.board))


def explores(seed: int, exploration: float) -> bool:
    return unit(draw(seed, 4)) < exploration


class WithGenes:
    """The gift is ga2's."""

    def __init__(self, alpha: float = 0.1) -> None:
        self.genes = Ga2(alpha, 0.0)

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand == NONE:
            return NONE, self.genes.gift(view.board, view.available, seed)
        cell = self.cell(view, seed)
        return cell, self.genes.gift(with_piece(view.board, view.hand, cell), view.available, seed)

    def cell(self, view: View, seed: int) -> int:
        raise NotImplementedError


class QPlacement(WithGenes):
    """By the text."""

    def __init__(self, policy: list[Entry] | None = None, alpha: float = 0.1) -> None:
        super().__init__(alpha)
        self.values: defaultdict[tuple[Board, int], Cells] = defaultdict(dict)
        for of_board, hand, cell, value in policy or ():
            self.values[of_board, hand][cell] = value

    def cell(self, view: View, seed: int) -> int:
        if (tuple(view.board), view.hand) not in self.values:
            return random_cell(view, seed)
        known = self.values[tuple(view.board), view.hand]
        return max(empty_cells(view.board), key=lambda cell: known.get(cell, 0.0))


class FaithfulQPlacement(WithGenes):
    """By the code, with pieces in ascending order instead of that in which they were met."""

    def __init__(self, policy: list[Entry] | None = None, alpha: float = 0.1) -> None:
        super().__init__(alpha)
        self.values: defaultdict[Board, dict[int, Cells]] = defaultdict(dict)
        for of_board, hand, cell, value in policy or ():
            self.values[of_board].setdefault(hand, {})[cell] = value

    def cell(self, view: View, seed: int) -> int:
        pieces = self.values.get(tuple(view.board))
        if not pieces:
            return random_cell(view, seed)
        actions = [(piece, cell) for piece in sorted(pieces) for cell in empty_cells(view.board)]
        return max(actions, key=lambda action: pieces[action[0]].get(action[1], 0.0))[1]


class QPlacementLearner(WithGenes):
    """By the text: Q-learning while it plays."""

    def __init__(
        self,
        learning_rate: float = 0.1,
        discount: float = 0.9,
        reward: float = 100.0,
        exploration: float = 1.0,
        decay: float = 0.9995,
        floor: float = 0.1,
        alpha: float = 0.1,
    ) -> None:
        super().__init__(alpha)
        self.learning_rate = learning_rate
        self.discount = discount
        self.rewards = {"win": reward, "loss": -reward, "draw": 0.0}
        self.exploration = exploration
        self.decay = decay
        self.floor = floor
        self.values: defaultdict[tuple[Board, int], Cells] = defaultdict(dict)
        self.before: tuple[Cells, int] | None = None  # its last placement in this game

    def cell(self, view: View, seed: int) -> int:
        known, empty = self.values[tuple(view.board), view.hand], empty_cells(view.board)
        if self.before is not None:
            self.move_towards(0.0 + self.discount * max(known.get(cell, 0.0) for cell in empty))
        if explores(seed, self.exploration):
            cell = random_cell(view, seed)
        else:
            cell = max(empty, key=lambda cell: known.get(cell, 0.0))
        known.setdefault(cell, 0.0)
        self.before = known, cell
        return cell

    def move_towards(self, target: float) -> None:
        assert self.before is not None
        known, cell = self.before
        known[cell] += self.learning_rate * (target - known[cell])

    def learn(self, result: str) -> None:
        if self.before is not None:
            self.move_towards(self.rewards[result])
        self.before = None
        self.exploration = max(self.floor, self.exploration * self.decay)

    def entries(self) -> list[Entry]:
        return [(*position, cell, value) for position, known in self.values.items() for cell, value in known.items()]


class FaithfulQPlacementLearner(QPlacementLearner):
    """By the code: a table of (piece, cell) for each board, where coming back with another piece sets zeros."""

    def __init__(self, **parameters: float) -> None:
        super().__init__(**parameters)
        self.actions: defaultdict[Board, dict[tuple[int, int], float]] = defaultdict(dict)
        self.tried: set[tuple[Board, int, int]] = set()  # since they were last set to zero, but for what was met once
        self.last: tuple[Board, tuple[int, int]] | None = None

    def cell(self, view: View, seed: int) -> int:
        here = tuple(view.board)
        possible = [(view.hand, cell) for cell in empty_cells(view.board)]
        known = self.actions[here]
        if list(known) != possible:
            known.update(dict.fromkeys(possible, 0.0))
            self.tried -= {(here, *action) for action in possible}
        if explores(seed, self.exploration):
            action = (view.hand, random_cell(view, seed))
        else:
            action = max(possible, key=known.__getitem__)
        self.tried.add((here, *action))
        if self.last is not None:
            never_stored = 0.0
            known[action] += self.learning_rate * (0.0 + self.discount * never_stored - known[action])
        self.last = here, action
        return action[1]

    def learn(self, result: str) -> None:
        if self.last is not None:
            here, action = self.last
            self.actions[here][action] += self.learning_rate * self.rewards[result]
        self.last = None
        self.exploration = max(self.floor, self.exploration * self.decay)

    def entries(self) -> list[Entry]:
        return [(here, hand, cell, self.actions[here][hand, cell]) for here, hand, cell in self.tried]


def policy_of(entries: list[Entry]) -> Policy:
    """Return rows as a policy has them."""
    rows = sorted((*words_of(of_board), hand, cell, value) for of_board, hand, cell, value in entries)
    types = {"lanes": np.int64, "occupied": np.int32, "hand": np.int8, "cell": np.int8, "value": np.float64}
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    table = {name: np.array(column, types[name]) for name, column in zip(types, columns, strict=True)}
    return Policy("q_placement", table=table)


def words_of(of_board: Board) -> tuple[int, int]:
    """Return the lanes, as a signed number, and the occupied cells."""
    pieces = [(piece, cell) for cell, piece in enumerate(of_board) if piece != NONE]
    lanes = sum((piece >> attribute & 1) << (16 * attribute + cell) for piece, cell in pieces for attribute in range(4))
    return lanes - (lanes >> 63 << 64), sum(1 << cell for _, cell in pieces)


def entries_of(policy: Policy) -> list[Entry]:
    """Return the rows of a policy, as boards."""
    table = {name: column.tolist() for name, column in policy.table.items()}
    entries = []
    for lanes, occupied, hand, cell, value in zip(
        *(table[name] for name in ("lanes", "occupied", "hand", "cell", "value")), strict=True
    ):
        of_board = board(PackedPosition(lanes % (1 << 64), occupied, 0, NONE, NONE))
        entries.append((tuple(of_board), hand, cell, value))
    return entries
