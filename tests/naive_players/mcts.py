"""The slow twin of ``mcts``: study E's tree search with all nodes as objects. The game is a tree of moves."""

from __future__ import annotations

from math import inf, log, sqrt

from tests.naive import (
    NONE,
    View,
    any_cell,
    any_piece,
    draw,
    empty_cells,
    finishes_line,
    safe_pieces,
    with_piece,
)

Move = tuple[int, int]  # cell, gift
LINE, FULL_BOARD = "line", "full board"


def gives_only(view: View) -> bool:
    return view.hand == NONE and not view.rules.mover_chooses


def placed_piece(view: View, move: Move) -> int:
    return move[1] if view.rules.mover_chooses else view.hand


def after(view: View, move: Move) -> View:
    cell, gift = move
    available = [piece for piece in view.available if piece != gift]
    if cell == NONE:
        return view._replace(available=available, hand=gift)
    board = with_piece(view.board, placed_piece(view, move), cell)
    hand = NONE if view.rules.mover_chooses else gift
    return View(board, available, hand, cell, view.rules)


def what_comes_of(view: View, move: Move) -> str | None:
    """Return LINE or FULL_BOARD if the move ends the game."""
    if move[0] == NONE:
        return None
    if finishes_line(view.board, placed_piece(view, move), move[0], view.rules):
        return LINE
    return FULL_BOARD if len(empty_cells(view.board)) == 1 else None


def moves(view: View, safe_gifts: bool = False) -> list[Move]:
    cells = [NONE] if gives_only(view) else empty_cells(view.board)
    return [(cell, gift) for cell in cells for gift in gifts_with(view, cell, safe_gifts) or [NONE]]


def gifts_with(view: View, cell: int, safe_gifts: bool) -> list[int]:
    """Return the pieces that may be given along with this placement."""
    if not safe_gifts or what_comes_of(view, (cell, NONE)) == LINE:
        return view.available
    board = view.board if cell == NONE else with_piece(view.board, view.hand, cell)
    return safe_pieces(board, view.available, view.rules) or view.available


class Words:
    """A turn's random words, one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.index = -1

    def next(self) -> int:
        self.index += 1
        return draw(self.seed, self.index)


def random_move(view: View, words: Words) -> Move:
    word = words.next()
    cell = NONE if gives_only(view) else any_cell(word, empty_cells(view.board))
    return cell, any_piece(word, view.available)


class RandomOrder:
    """All moves in random order: a gift with all its cells, then another gift. Each draw takes a word."""

    def __init__(self, view: View, safe_gifts: bool) -> None:
        self.view = view
        self.allowed = moves(view, safe_gifts)
        self.gifts = list(view.available) or [NONE]
        self.gift = NONE
        self.cells: list[int] = []

    def next(self, words: Words) -> Move | None:
        while self.cells or self.gifts:
            word = words.next()
            if not self.cells:
                self.gift = any_piece(word, self.gifts) if self.view.available else NONE
                self.gifts.remove(self.gift)
                self.cells = [NONE] if gives_only(self.view) else empty_cells(self.view.board)
            cell = self.cells[0] if gives_only(self.view) else any_cell(word, self.cells)
            self.cells.remove(cell)
            if (cell, self.gift) in self.allowed:
                return cell, self.gift
        return None


class Node:
    def __init__(self, view: View, move: Move | None = None, ending: str | None = None) -> None:
        self.view = view
        self.move = move
        self.ending = ending
        self.children: list[Node] = []
        self.order: RandomOrder | None = None
        self.unmade: Move | None = None  # the next child's
        self.visits = 0
        self.total = 0.0
        self.bound = inf  # faithful: as it was when the node was last visited
        self.proven: bool | None = None  # whether the player who moved here wins, if that is known

    @property
    def value(self) -> float:
        return self.total / self.visits if self.visits else 0.0

    def make_child(self, safe_gifts: bool, words: Words) -> Node:
        if self.order is None:
            self.order = RandomOrder(self.view, safe_gifts)
            self.unmade = self.order.next(words)
        assert self.unmade
        self.children.append(self.child(self.unmade))
        self.unmade = self.order.next(words)
        return self.children[-1]

    def child(self, move: Move) -> Node:
        return Node(after(self.view, move), move, what_comes_of(self.view, move))

    def upper_bound(self, c: float, parent_visits: int) -> float:
        if self.visits == 0:
            return inf
        return self.total / self.visits + sqrt(round(log(parent_visits), 12)) * (c / sqrt(self.visits))


class Mcts:
    def __init__(
        self,
        iterations: int = 200,
        c: float = 2.0,
        draw_reward: float = 0.0,
        final: str = "visits",
        solver: bool = False,
        safe_gifts: bool = False,
        reuse: bool = False,
    ) -> None:
        self.iterations = iterations
        self.c = c
        self.draw_reward = draw_reward
        self.final = final
        self.solver = solver
        self.safe_gifts = safe_gifts
        self.reuse = reuse
        self.most_kept = iterations
        self.played: Node | None = None  # in this game; a new one needs a new player

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        root, words = self.root(view), Words(seed)
        for _ in range(self.iterations):
            if root.proven is None:
                self.iterate(root, words)
        self.played = self.decision(root)
        self.cut(self.played)
        assert self.played.move is not None
        return self.played.move

    def root(self, view: View) -> Node:
        replies = self.played.children if self.reuse and self.played else []
        for reply in replies:
            if reply.view == view and reply.visits and (reply.children or reply.proven is None):
                return reply
        return Node(view)

    def cut(self, root: Node) -> None:
        """Keep at most so many visited nodes: a family is kept whole or not at all."""
        count, queue = 1, [root]
        for node in queue:
            visited = [child for child in node.children if child.visits]
            if count + len(visited) > self.most_kept:
                node.children, node.order, node.unmade = [], None, None
            else:
                count += len(visited)
                queue += visited

    def iterate(self, root: Node, words: Words) -> None:
        path = self.descend(root, words)
        self.back_up(path, self.evaluate(path[-1], words))

    def descend(self, root: Node, words: Words) -> list[Node]:
        """Return the nodes from the root to the first that is unvisited or ends the game."""
        path = [root]
        while path[-1].visits > 0 and not path[-1].ending:
            here = path[-1]
            new = here.unmade or not here.children
            path.append(here.make_child(self.safe_gifts, words) if new else self.select(here))
        return path

    def select(self, parent: Node) -> Node:
        candidates = [child for child in parent.children if child.proven is not False]
        return max(candidates, key=lambda child: child.upper_bound(self.c, parent.visits))

    def evaluate(self, node: Node, words: Words) -> int:
        """Return 1 if the player who moved to this node wins, -1 if the other does, 0 for a draw."""
        if self.solver and node.ending == LINE:
            node.proven = True
        view, ending, result = node.view, node.ending, 1
        while not ending:
            move = random_move(view, words)
            ending, view, result = what_comes_of(view, move), after(view, move), -result
        return 0 if ending == FULL_BOARD else result

    def back_up(self, path: list[Node], result: int) -> None:
        for node in reversed(path):
            if any(child.proven is True for child in node.children):
                node.proven = False
            elif node.children and not node.unmade and all(child.proven is False for child in node.children):
                node.proven = True
            if node.proven is not None:
                result = 1 if node.proven else -1
            node.visits += 1
            node.total += self.reward(result)
            result = -result

    def reward(self, result: int) -> float:
        return {1: 1.0, 0: self.draw_reward, -1: 0.0}[result]

    def decision(self, root: Node) -> Node:
        """Choose proven wins first, proven losses last; then as ``final`` says; then the one that was made first."""

        def rank(child: Node) -> tuple[int, float, float]:
            known = {True: 1, None: 0, False: -1}[child.proven]
            return known, child.visits if self.final == "visits" else 0, child.value

        return max((child for child in root.children if child.visits), key=rank)


class FaithfulMcts(Mcts):
    """As the study's program counts: one recursive visit, whose caller counts the visited child once more."""

    def __init__(
        self, iterations: int = 200, c: float = 2.0, draw_reward: float = 0.0, final: str = "value", **pruning: bool
    ) -> None:
        super().__init__(iterations, c, draw_reward, final, **pruning)

    def iterate(self, root: Node, words: Words) -> None:
        self.visit(root, None, True, words)

    def visit(self, node: Node, parent: Node | None, root_to_move: bool, words: Words) -> float:
        """Return the value of one visit for the player at the root."""
        if node.children:
            child = max(node.children, key=lambda each: each.bound)
            value = self.visit(child, node, not root_to_move, words)
            self.count(child, node, value)
            return value
        if node.ending or node.visits == 0:
            value = self.value(node, root_to_move, words)
            self.count(node, parent, value)
            return value
        node.children = [node.child(move) for move in moves(node.view, self.safe_gifts)]
        value = self.value(node.children[0], not root_to_move, words)
        node.visits += 1
        node.total += value
        self.count(node.children[0], node, value)
        return value

    def value(self, node: Node, root_to_move: bool, words: Words) -> float:
        result = self.evaluate(node, words)
        return self.reward(-result if root_to_move else result)

    def count(self, node: Node, parent: Node | None, value: float) -> None:
        node.visits += 1
        node.total += value
        if parent:
            node.bound = node.upper_bound(self.c, parent.visits)
