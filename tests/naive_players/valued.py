"""The slow twins of ``alpha_beta`` and ``mcts`` with a learned policy: positions as trees of objects."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, sqrt

from tests import naive
from tests.naive import NONE, View
from tests.naive_players.mcts import after
from tests.naive_policies.lines import Afterstate, safe_turns
from tests.naive_quarto import build_lanes, build_occupied
from tests.naive_solver import solve

Move = tuple[int, int]  # cell, gift


class Valued:
    """The shared part of both searches; ``value_of`` is the mean of an afterstate's chances not to lose and to win."""

    def __init__(self, value_of: Callable[[Afterstate], float], exact_from: int) -> None:
        self.value_of, self.exact_from = value_of, exact_from
        self._known: dict[tuple[int, int, int], list[tuple[float, Move]]] = {}

    def turns(self, view: View) -> list[tuple[float, Move]]:
        """Return every safe turn with its learned value, the best first."""
        key = build_lanes(view.board), build_occupied(view.board), view.hand
        if key not in self._known:
            found = safe_turns(view.board, view.hand, view.available, view.rules)
            valued = [(2.0 * self.value_of(then) - 1.0, (cell, gift)) for cell, gift, then in found]
            self._known[key] = sorted(valued, key=lambda each: -each[0])
        return self._known[key]

    def is_exact(self, view: View) -> bool:
        return 16 - view.board.count(NONE) >= self.exact_from

    def exact(self, view: View) -> int:
        return solve(tuple(view.board), view.hand, view.rules).value

    def turn(self, view: View, seed: int) -> Move:
        won = view.hand != NONE and naive.winning_cells(view.board, view.hand, view.rules)
        if won or not view.available or not self.turns(view):
            return naive.SemiRandom().turn(view, seed)
        if not self.is_exact(view):
            return self.search(view)
        value, turns = self.exact(view), [move for _, move in self.turns(view)]
        keeping = [move for move in turns if value < 0 or -self.exact(after(view, move)) == value]
        return [*keeping, turns[-1]][0]

    def search(self, view: View) -> Move:
        raise NotImplementedError


class AlphaBeta(Valued):
    """Without pruning: the first of the best turns by the value of the tree to the depth."""

    def __init__(self, value_of: Callable[[Afterstate], float], exact_from: int, depth: int, breadth: int) -> None:
        super().__init__(value_of, exact_from)
        self.depth, self.breadth = depth, breadth

    def search(self, view: View) -> Move:
        if self.depth == 1:
            return self.turns(view)[0][1]
        moves = [move for _, move in self.turns(view)[: self.breadth]]
        return max(moves, key=lambda move: -self.value(after(view, move), self.depth - 1))

    def value(self, view: View, depth: int) -> float:
        if not view.available:
            return 0.0
        if self.is_exact(view):
            return self.exact(view)
        turns = self.turns(view)[: self.breadth]
        if not turns or depth == 1:
            return turns[0][0] if turns else -1.0
        return max(-self.value(after(view, move), depth - 1) for _, move in turns)


class Node:
    """A turn that was found, as the player sees it who makes it."""

    def __init__(self, value: float, move: Move, prior: float) -> None:
        self.value, self.move, self.prior = value, move, prior
        self.total, self.visits = 0.0, 0
        self.children: list[Node] = []

    @property
    def mean(self) -> float:
        return (self.total + self.value) / (1 + self.visits)


class Puct(Valued):
    """PUCT with so many iterations; ``breadth`` and ``temperature`` as in ``agents/search/puct.py``."""

    iterations: int
    c: float
    breadth: int
    temperature: float

    def search(self, view: View) -> Move:
        root = Node(0.0, (NONE, NONE), 1.0)
        for _ in range(self.iterations):
            self.visit(root, view, is_root=True)
        most = max(child.visits for child in root.children)
        return max((child for child in root.children if child.visits == most), key=lambda child: child.mean).move

    def visit(self, node: Node, view: View, is_root: bool = False) -> float:
        """Make one iteration below a node; return the value that goes back, for the player who moved there."""
        if node.children:
            best, highest = node.children[0], -inf
            for child in node.children:
                bound = child.mean + self.c * child.prior * sqrt(node.visits) / (1 + child.visits)
                if bound > highest:
                    best, highest = child, bound
            value = -self.visit(best, after(view, best.move))
        elif node.visits:
            value = node.value
        else:
            value = node.value = self.first_visit(node, view, is_root)
        node.total += value
        node.visits += 1
        return value

    def first_visit(self, node: Node, view: View, is_root: bool) -> float:
        if not view.available:
            return 0.0
        if self.is_exact(view) and not is_root:
            return -self.exact(view)
        turns = self.turns(view)[: self.breadth]
        if not turns:
            return 1.0
        weights = [round(2**30 * exp((value - turns[0][0]) / self.temperature)) / 2**30 for value, _ in turns]
        for (value, move), weight in zip(turns, weights, strict=True):
            node.children.append(Node(value, move, weight / sum(weights)))
        return -turns[0][0]
