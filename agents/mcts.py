"""Study E's Monte Carlo tree search: UCT over whole turns, with random playouts."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, params, scratch, table, turn
from agents.parameters import checked_flag, checked_number, checked_probability, checked_whole
from agents.search.playout import (
    GOES_ON,
    LINE,
    LONGEST_GAME,
    NO_MOVE,
    move_cell,
    move_gift,
    next_move,
    play_move,
    playout,
)
from quarto.kernel import array_pointer, inlined, int64, uint64
from quarto.position import Position
from quarto.rules import Rules

FINALS = ("visits", "value")
MOST_ITERATIONS = 1_000_000

# One node. Children are made one by one, in the order in which they would be visited first, so that there is one node
# an iteration and no more; an unmade child is one that has not been visited. A node's children form a list, last first.
NODE = np.dtype(
    [
        ("total", np.float64),  # rewards of its visits, to the player who moved here (faithful: to the root's)
        ("bound", np.float64),  # faithful: its UCB1 when it was last visited
        ("visits", np.int32),
        ("youngest", np.int32),  # the child made last, or NOBODY
        ("older", np.int32),  # the next in its parent's list, or NOBODY
        ("move", np.int16),  # that leads here
        ("unmade", np.int16),  # the first move that has no child yet, or NO_MOVE; valid once there is a child
        ("came_to", np.int8),  # GOES_ON, LINE or FULL_BOARD
        ("proven", np.int8),  # OPEN, WON or LOST
    ],
    align=True,
)
NODE_WORDS = NODE.itemsize // 8
NOBODY = -1
OPEN, WON, LOST = 0, 1, 2  # for the player who moved here

PATH_WORDS = LONGEST_GAME + 1  # the nodes from the root to where an iteration ends lie before the tree


@inlined
def tree(own: Any) -> Any:
    """The nodes, [iterations + 1] NODE; the root is the first."""
    words = scratch(own)
    room = (words.shape[0] - PATH_WORDS) // NODE_WORDS
    return numba.carray(array_pointer(own.scratch_address + uint64(8 * PATH_WORDS)), room, NODE)


@inlined
def add_node(nodes: Any, size: int, move: int, came_to: int) -> None:
    """Make the node number ``size``, unvisited and without a family."""
    node = nodes[size]
    node.total, node.bound, node.visits = 0.0, 0.0, 0
    node.youngest, node.older = NOBODY, NOBODY
    node.move, node.unmade, node.came_to, node.proven = move, NO_MOVE, came_to, OPEN


@inlined
def best_child(nodes: Any, parent: int, c: float, log_visits: float, solver: bool) -> int:
    """The child with the highest UCB1, first on ties, among those not proven lost; all have been visited."""
    best, best_bound = int64(NOBODY), -math.inf
    child = int64(nodes[parent].youngest)
    while child != NOBODY:
        node = nodes[child]
        bound = node.total / node.visits + c * math.sqrt(log_visits / node.visits)
        if bound >= best_bound and not (solver and node.proven == LOST):  # the list runs from the last to the first
            best, best_bound = child, bound
        child = int64(node.older)
    return best


@inlined
def highest_bound(nodes: Any, parent: int) -> int:
    """The child with the highest stored bound, first on ties."""
    best, highest = int64(NOBODY), -math.inf
    child = int64(nodes[parent].youngest)
    while child != NOBODY:
        if nodes[child].bound >= highest:
            best, highest = child, nodes[child].bound
        child = int64(nodes[child].older)
    return best


@inlined
def reward(result: int, draw_reward: float) -> float:
    """What a result (1, 0, -1) is worth to the player whose it is."""
    return 1.0 if result > 0 else (0.0 if result < 0 else draw_reward)


@inlined
def prove(nodes: Any, parent: int, child: int) -> None:
    """Carry what is proven of ``child`` to its parent: one winning reply loses, and so does having only losing ones."""
    if nodes[child].proven == WON:
        nodes[parent].proven = LOST
    elif nodes[child].proven == LOST and nodes[parent].unmade == NO_MOVE:
        sibling = int64(nodes[parent].youngest)
        while sibling != NOBODY and nodes[sibling].proven == LOST:
            sibling = int64(nodes[sibling].older)
        if sibling == NOBODY:
            nodes[parent].proven = WON


@inlined
def back_up(nodes: Any, path: Any, depth: int, result: int, draw_reward: float, solver: bool) -> None:
    """Enter a result, seen by the player who moved into the last node of the path, into all nodes of it."""
    for step in range(depth, -1, -1):
        node = nodes[path[step]]
        if solver:
            if step < depth:
                prove(nodes, int64(path[step]), int64(path[step + 1]))
            if node.proven != OPEN:
                result = int64(1) if node.proven == WON else int64(-1)
        node.visits += 1
        node.total += reward(result, draw_reward)
        result = -result


@inlined
def count_visit(node: Any, value: float, c: float, log_parent: float) -> None:
    """Faithful: one visit, and the bound that it leaves."""
    node.visits += 1
    node.total += value
    node.bound = node.total / node.visits + c * math.sqrt(log_parent / node.visits)


@inlined
def back_up_faithfully(nodes: Any, path: Any, depth: int, value: float, expanded: bool, c: float, logs: Any) -> None:
    """Enter a value for the root's player as the study's code does.

    The node where selection ended counts twice: for itself, and as a child of the one before. If it got its first
    child, that child counts once. The root counts only while it is the end itself.
    """
    end = depth - 1 if expanded else depth
    if expanded:
        nodes[path[end]].visits += 1
        nodes[path[end]].total += value
        count_visit(nodes[path[depth]], value, c, logs[nodes[path[end]].visits])
    elif end == 0:
        nodes[path[0]].visits += 1
    else:
        count_visit(nodes[path[end]], value, c, logs[nodes[path[end - 1]].visits])
    for step in range(end, 0, -1):
        count_visit(nodes[path[step]], value, c, logs[nodes[path[step - 1]].visits])


@inlined
def final_child(nodes: Any, by_value: bool, solver: bool) -> int:
    """The root's child to play: most visits, then best value, then first; or best value, then first.

    What is proven to win comes before everything, what is proven to lose after.
    """
    best, best_rank, best_visits, best_value = int64(NOBODY), int64(-1), int64(-1), -math.inf
    child = int64(nodes[0].youngest)
    while child != NOBODY:
        node = nodes[child]
        rank = int64(1)
        if solver:
            rank = int64(2) if node.proven == WON else (int64(0) if node.proven == LOST else int64(1))
        visits = int64(0) if by_value else int64(node.visits)
        value = node.total / node.visits
        if rank > best_rank or (
            rank == best_rank and (visits > best_visits or (visits == best_visits and value >= best_value))
        ):
            best, best_rank, best_visits, best_value = child, rank, visits, value
        child = int64(node.older)
    return best


@inlined
def make_child(nodes: Any, parent: int, child: int, position: Position, safe_gifts: bool, rules: Any) -> Position:
    """Make the parent's next child, as node number ``child``; returns its position."""
    elder = int64(nodes[parent].youngest)
    move = int64(nodes[parent].unmade) if elder != NOBODY else next_move(position, NO_MOVE, safe_gifts, rules)
    after, came_to = play_move(position, move, rules)
    add_node(nodes, child, move, came_to)
    nodes[child].older = elder
    nodes[parent].youngest = child
    nodes[parent].unmade = next_move(position, move, safe_gifts, rules)
    return after


@turn
def mcts_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    settings, logs, path, nodes = params(own), table(own), scratch(own), tree(own)
    iterations, c, draw_reward = int64(settings[0]), settings[1], settings[2]
    by_value, faithful = settings[3] != 0.0, settings[4] != 0.0
    solver, safe_gifts = settings[5] != 0.0, settings[6] != 0.0
    add_node(nodes, 0, NO_MOVE, GOES_ON)
    size, index = int64(1), int64(0)
    for _ in range(iterations):
        here, depth, state, expanded = int64(0), int64(0), position, False
        path[0] = uint64(0)
        while nodes[here].visits > 0 and nodes[here].came_to == GOES_ON:
            childless = nodes[here].youngest == NOBODY
            if childless or nodes[here].unmade != NO_MOVE:
                state = make_child(nodes, here, size, state, safe_gifts, rules)
                here, size, expanded = size, size + 1, childless
            else:
                if faithful:
                    here = highest_bound(nodes, here)
                else:
                    here = best_child(nodes, here, c, logs[nodes[here].visits], solver)
                state, _ = play_move(state, int64(nodes[here].move), rules)
            depth += 1
            path[depth] = uint64(here)
        if nodes[here].came_to == GOES_ON:
            result, index = playout(state, seed, index, rules)
            result = -result
        else:
            result = int64(nodes[here].came_to == LINE)
            nodes[here].proven = WON if result != 0 else OPEN
        if faithful:
            value = reward(result if depth & 1 else -result, draw_reward)
            back_up_faithfully(nodes, path, depth, value, expanded, c, logs)
        else:
            back_up(nodes, path, depth, result, draw_reward, solver)
        if nodes[0].proven != OPEN:
            break
    chosen = int64(nodes[final_child(nodes, by_value, solver)].move)
    return encode_turn(move_cell(chosen), move_gift(chosen))


class Mcts(KernelAgent):
    """Study E's ``mcts``: UCT with ``iterations`` iterations for each turn, a cell and a gift at once.

    An iteration goes down from the position asked about by the highest UCB1, W/n + c sqrt(ln N / n), as the player to
    move sees it (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", ECML 2006); unvisited children come first,
    in the order of cells, then gifts. Where it ends, a node that was visited before gets its children and the first of
    them is entered. One random playout follows, and its reward is entered in all nodes passed: 1 to the winner, 0 to
    the loser, ``draw_reward`` to both. The position itself is the first such node: its first iteration is a playout.

    ``final``: the child of the root with the most visits is played, ties by value, or the one with the best value.

    ``faithful`` follows the study's code: all nodes are chosen for the root player's sake, as if the opponent helped;
    the root has 2 visits for good; the node where selection ends counts each visit twice; a bound is computed when its
    node is visited and is not kept up to date with the parent's visits; the best value is played.

    ``solver``: proven wins and losses are backed up and never searched again (Winands, Bjornsson and Saito,
    "Monte-Carlo Tree Search Solver", CG 2008). ``safe_gifts``: nodes have only moves that give no piece with which the
    opponent could win at once, if there are such.

    Randomness: words are drawn in order from index 0, one for each move of each playout.
    """

    kernel = mcts_turn
    choosers = ("opponent", "mover")

    def __init__(
        self,
        iterations: int = 200,
        c: float = 2.0,
        draw_reward: float = 0.0,
        final: str | None = None,
        faithful: bool = False,
        solver: bool = False,
        safe_gifts: bool = False,
    ) -> None:
        self.iterations = checked_whole("iterations", iterations, 2, MOST_ITERATIONS)  # the first has no turn yet
        self.c = checked_number("c", c)
        if c < 0:
            raise ValueError(f"c={c} is below 0: exploring would be punished")
        self.draw_reward = checked_probability("draw_reward", draw_reward)
        self.faithful = checked_flag("faithful", faithful)
        self.solver = checked_flag("solver", solver)
        self.safe_gifts = checked_flag("safe_gifts", safe_gifts)
        if final not in (None, *FINALS):
            raise ValueError(f"final={final!r} is neither null nor one of {', '.join(FINALS)}")
        if solver and faithful:
            raise ValueError("solver=true needs faithful=false: nothing is proven of an opponent who helps")
        self.final = final or ("value" if faithful else "visits")

    def knowledge(self, rules: Rules) -> Knowledge:
        if self.safe_gifts and rules.mover_chooses:
            raise ValueError("safe_gifts=true has no meaning where the mover chooses the piece: nothing is given")
        by_value = self.final == "value"
        flags = (by_value, self.faithful, self.solver, self.safe_gifts)
        most_visits = 2 * self.iterations + 1  # faithful counts some visits twice
        # Rounded, so that logarithms which differ in their last bit from machine to machine lead to the same games.
        logarithms = np.log(np.maximum(np.arange(most_visits + 1), 1)).round(12).astype(np.float64)
        return Knowledge(
            params=np.array([self.iterations, self.c, self.draw_reward, *flags], np.float64),
            table=logarithms,
            scratch_size=PATH_WORDS + NODE_WORDS * (self.iterations + 1),
        )
