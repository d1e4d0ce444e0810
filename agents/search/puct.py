"""Monte Carlo tree search by a learned policy: PUCT (C. D. Rosin, Multi-armed bandits with episode context, 2011).

An iteration goes down from the root by the greatest Q + c P sqrt(N) / (1 + n). Q is the mean value of a turn's visits.
The learned value of the turn counts there as one visit more. P is the prior: the softmax of the learned values of the
node's turns. The last node gets its children. The value of its best turn, or its exact value, goes back to the root.
There is no playout and no randomness.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from agents.base.agent import encode_turn, params, think, turn
from agents.line_values import Work
from agents.search.exact import SOLVER_WORDS
from agents.search.valued import (
    UNDECIDED,
    after_turn,
    exact_value,
    find_turns,
    is_exact,
    number_of,
    root_turns,
    value_at,
)
from quarto.bits import array_pointer
from quarto.jit import float64, inlined, int64, uint64
from quarto.position import Position
from quarto.rules import CELLS, NONE

BREADTH = 16  # of the best turns of a node, those that are searched
TEMPERATURE = 0.15  # of the priors: differences of values that count
STEPS = 2.0**30  # of an exponential, whose last bit differs from machine to machine
ITERATIONS, C = 1, 2  # indices of the parameters
NODE = np.dtype(
    [
        ("total", np.float64),  # of the values of its visits, for the player who moved here
        ("value", np.float64),  # learned; once it was visited: learned by its best reply, or exact
        ("prior", np.float64),
        ("visits", np.int32),
        ("child", np.int32),  # the first of its children, which lie side by side
        ("made", np.int16),  # how many there are
        ("cell", np.int8),
        ("gift", np.int8),
    ],
    align=True,
)
NODE_WORDS = NODE.itemsize // 8


def words_of_nodes(iterations: int) -> int:
    """Words of scratch for the tree of a search."""
    return NODE_WORDS * (1 + BREADTH * iterations)


@inlined
def nodes_of(agent: Any) -> Any:
    """The nodes in this thread's scratch, [S] NODE. The root is node 0."""
    room = (agent.scratch_size - SOLVER_WORDS) // NODE_WORDS
    return numba.carray(array_pointer(agent.scratch_address + uint64(8 * SOLVER_WORDS)), room, NODE)


@inlined
def add_children(nodes: Any, parent: int, size: int, turns: Work) -> int:
    """Give a node its children; returns the new size of the tree."""
    count, total = number_of(turns), float64(0.0)
    for k in range(count):
        node = nodes[size + k]
        node.total, node.value, node.visits, node.made = 0.0, value_at(turns, k), 0, 0
        node.cell, node.gift = turns.cells[0, k], turns.gifts[0, k]
        node.prior = np.rint(STEPS * math.exp((value_at(turns, k) - value_at(turns, 0)) / TEMPERATURE)) / STEPS
        total += node.prior
    for k in range(count):
        nodes[size + k].prior /= total
    nodes[parent].child, nodes[parent].made = size, count
    return size + count


@inlined
def mean_of(node: Any) -> float:
    """The mean value of a turn's visits and, before the first one, of the policy."""
    return float64((node.total + node.value) / (1 + node.visits))


@inlined
def best_child(nodes: Any, parent: int, c: float) -> int:
    """The child with the greatest bound, the first on ties."""
    first, root = int64(nodes[parent].child), math.sqrt(nodes[parent].visits)
    best, highest = first, -math.inf
    for child in range(first, first + nodes[parent].made):
        node = nodes[child]
        bound = mean_of(node) + c * node.prior * root / (1 + node.visits)
        if bound > highest:
            best, highest = child, bound
    return best


@inlined
def visit(position: Position, here: int, size: int, nodes: Any, rules: Any, agent: Any) -> Any:
    """The value of a node for the player who moved there, and the new size of the tree: it may get children."""
    if position.available == 0:
        return float64(0.0), size
    if is_exact(position, agent):
        return float64(-exact_value(position, rules, agent)), size
    turns = find_turns(position, BREADTH, agent)
    if turns.gifts[0, 0] == NONE:
        return float64(1.0), size
    return -value_at(turns, 0), add_children(nodes, here, size, turns)


@inlined
def most_visited(nodes: Any) -> int:
    """The root's child with the most visits; on ties by the mean value, then the first."""
    first = int64(nodes[0].child)
    best = first
    for child in range(first + 1, first + nodes[0].made):
        more = nodes[child].visits - nodes[best].visits
        if more > 0 or (more == 0 and mean_of(nodes[child]) > mean_of(nodes[best])):
            best = child
    return best


@turn
def puct_turn(position: Position, seed: int, rules: Any, agent: Any) -> int:
    decided, turns = root_turns(position, BREADTH, seed, rules, agent)
    if decided != UNDECIDED:
        return decided
    nodes, path = nodes_of(agent), np.zeros(CELLS + 2, np.int64)
    nodes[0].total, nodes[0].visits = 0.0, 1
    size, c = add_children(nodes, 0, 1, turns), params(agent)[C]
    for _ in range(int64(params(agent)[ITERATIONS]) - 1):
        here, depth, state = int64(0), int64(0), position
        while nodes[here].made != 0:
            here = best_child(nodes, here, c)
            state = after_turn(state, int64(nodes[here].cell), int64(nodes[here].gift))
            depth += 1
            path[depth] = here
        value = nodes[here].value
        if nodes[here].visits == 0:
            value, size = visit(state, here, size, nodes, rules, agent)
            nodes[here].value = value
        for step in range(depth, -1, -1):
            node = nodes[path[step]]
            node.total += value
            node.visits += 1
            value = -value
    best = most_visited(nodes)
    think(agent, mean_of(nodes[best]), int64(nodes[best].visits))
    return encode_turn(int64(nodes[best].cell), int64(nodes[best].gift))
