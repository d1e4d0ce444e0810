"""Monte Carlo tree search by a learned policy: PUCT (C. D. Rosin, Multi-armed bandits with episode context, 2011).

An iteration goes down from the root by the greatest Q + c P sqrt(N) / (1 + n). Q is the mean value of a turn's visits.
In this mean the learned value of the turn counts as one visit more. P is the prior: the softmax of the learned values
of the node's turns. The last node gets its children. The value of its best turn, or its exact value, goes back to the
root. There is no playout and no randomness.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from agents.base.agent import encode_turn, params, report_evaluation, turn
from agents.line_values import WorkMemory
from agents.search.exact_solver import SOLVER_WORDS
from agents.search.policy_values import (
    UNDECIDED,
    count_turns,
    exact_value,
    find_best_turns,
    find_candidates,
    is_exact,
    position_after_turn,
    turn_value,
)
from quarto.bits import array_pointer
from quarto.jit import float64, inline_function, int64, uint64
from quarto.position import PackedPosition
from quarto.rules import CELLS, NONE

BREADTH = 16  # number of a node's best turns that are searched
TEMPERATURE = 0.15  # of the priors: differences of values that count
STEPS = 2.0**30  # of an exponential, whose last bit differs from machine to machine
ITERATIONS, PUCT_C = 1, 2  # indices of the parameters
NODE = np.dtype(
    [
        ("total", np.float64),  # of the values of its visits, for the player who moved here
        ("value", np.float64),  # learned; once it was visited: learned by its best reply, or exact
        ("prior", np.float64),
        ("visits", np.int32),
        ("child", np.int32),  # the first of its children, which lie side by side
        ("child_count", np.int16),
        ("cell", np.int8),
        ("gift", np.int8),
    ],
    align=True,
)
NODE_WORDS = NODE.itemsize // 8


def puct_tree_words(iterations: int) -> int:
    """Return the number of words of scratch that the tree of a search with this many iterations needs."""
    return NODE_WORDS * (1 + BREADTH * iterations)


@inline_function
def scratch_nodes(agent: Any) -> Any:
    """Return the nodes in this thread's scratch: [S] NODE. The root is node 0."""
    room = (agent.scratch_size - SOLVER_WORDS) // NODE_WORDS
    return numba.carray(array_pointer(agent.scratch_address + uint64(8 * SOLVER_WORDS)), room, NODE)


@inline_function
def add_children(nodes: Any, parent: int, size: int, turns: WorkMemory) -> int:
    """For each of ``turns``, add a child of ``parent`` to a tree of ``size`` nodes; return the tree's new size."""
    count, total = count_turns(turns), float64(0.0)
    for k in range(count):
        node = nodes[size + k]
        node.total, node.value, node.visits, node.child_count = 0.0, turn_value(turns, k), 0, 0
        node.cell, node.gift = turns.cells[0, k], turns.gifts[0, k]
        node.prior = np.rint(STEPS * math.exp((turn_value(turns, k) - turn_value(turns, 0)) / TEMPERATURE)) / STEPS
        total += node.prior
    for k in range(count):
        nodes[size + k].prior /= total
    nodes[parent].child, nodes[parent].child_count = size, count
    return size + count


@inline_function
def mean_value_with_prior_visit(node: Any) -> float:
    """Return the mean value over a turn's visits, counting the turn's learned value as one additional visit."""
    return float64((node.total + node.value) / (1 + node.visits))


@inline_function
def best_child(nodes: Any, parent: int, c: float) -> int:
    """Return the child with the greatest upper confidence bound, the first on ties."""
    first, root = int64(nodes[parent].child), math.sqrt(nodes[parent].visits)
    best, highest = first, -math.inf
    for child in range(first, first + nodes[parent].child_count):
        node = nodes[child]
        bound = mean_value_with_prior_visit(node) + c * node.prior * root / (1 + node.visits)
        if bound > highest:
            best, highest = child, bound
    return best


class NodeVisit(NamedTuple):
    """The result of the first visit to a node."""

    value: float  # for the player who moved there
    tree_size: int  # nodes


@inline_function
def evaluate_and_expand_node(
    position: PackedPosition, node: int, size: int, nodes: Any, rules: Any, agent: Any
) -> NodeVisit:
    """Find the value of a node in a tree of ``size`` nodes, and add its children unless its value is already final.

    The value is final if no piece is left, if the agent uses the solver's exact value of the position, or if every turn
    lets the opponent win at once.
    """
    if position.available == 0:
        return NodeVisit(float64(0.0), size)
    if is_exact(position, agent):
        return NodeVisit(float64(-exact_value(position, rules, agent)), size)
    turns = find_best_turns(position, BREADTH, agent)
    if turns.gifts[0, 0] == NONE:
        return NodeVisit(float64(1.0), size)
    return NodeVisit(-turn_value(turns, 0), add_children(nodes, node, size, turns))


@inline_function
def most_visited_child(nodes: Any) -> int:
    """Return the root's child with the most visits; on ties the one with the greatest mean value, then the first."""
    first = int64(nodes[0].child)
    best = first
    for child in range(first + 1, first + nodes[0].child_count):
        more = nodes[child].visits - nodes[best].visits
        if more > 0 or (
            more == 0 and mean_value_with_prior_visit(nodes[child]) > mean_value_with_prior_visit(nodes[best])
        ):
            best = child
    return best


@turn
def puct_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    immediate_turn, turns = find_candidates(position, BREADTH, seed, rules, agent)
    if immediate_turn != UNDECIDED:
        return immediate_turn
    nodes, path = scratch_nodes(agent), np.zeros(CELLS + 2, np.int64)
    nodes[0].total, nodes[0].visits = 0.0, 1
    size, c = add_children(nodes, 0, 1, turns), params(agent)[PUCT_C]
    for _ in range(int64(params(agent)[ITERATIONS]) - 1):
        here, depth, state = int64(0), int64(0), position
        while nodes[here].child_count != 0:
            here = best_child(nodes, here, c)
            state = position_after_turn(state, int64(nodes[here].cell), int64(nodes[here].gift))
            depth += 1
            path[depth] = here
        value = nodes[here].value
        if nodes[here].visits == 0:
            value, size = evaluate_and_expand_node(state, here, size, nodes, rules, agent)
            nodes[here].value = value
        for step in range(depth, -1, -1):
            node = nodes[path[step]]
            node.total += value
            node.visits += 1
            value = -value
    best = most_visited_child(nodes)
    report_evaluation(agent, mean_value_with_prior_visit(nodes[best]), int64(nodes[best].visits))
    return encode_turn(int64(nodes[best].cell), int64(nodes[best].gift))
