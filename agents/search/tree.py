"""The tree of a Monte Carlo search in flat arrays, laid out for its most frequent step: finding the highest bound.

Children are made one by one, in the order of their first visits, so an iteration makes one node at most. A child that
was not made was not visited. While some are missing, a node's children form a list, last first. Their bounds are not
compared before the last one is made. Then the children move into a row, side by side, where a comparison reads two
neighbouring numbers for each.

A player may keep the part of its tree below the turn that it played. The opponent's reply is not known yet, so the
whole part is kept. When the next turn is asked for, the node that the reply leads to becomes the root. Memory holds as
many nodes as a turn has iterations. A larger tree is cut from below. The walk is breadth first. A node whose children
no longer fit keeps its own statistics and loses its children, as if it had never been expanded.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from agents.base.agent import memory, scratch
from agents.search.playout import (
    LONGEST_GAME,
    NO_MOVE,
    encode_move,
    next_move,
    play_move,
    set_untried_move_returning_next_word,
)
from quarto.bits import LANE_ONES, array_pointer, float_bits
from quarto.jit import inline_function, int64, uint64
from quarto.position import PackedPosition, piece_at
from quarto.rules import NONE

NODE = np.dtype(
    [
        ("total", np.float64),  # rewards of its visits, for the player who moved here (faithful: for the root's player)
        ("visits", np.int32),
        ("child", np.int32),  # the first of the row, or the child made last in a list, or NO_NODE
        ("older", np.int32),  # in a list: the child made before, or NO_NODE
        ("move", np.int16),  # that leads here
        ("untried", np.int16),  # the next move to get a child, or NO_MOVE; valid once there is a child
        ("cells", np.uint16),  # not drawn yet with the gift of ``untried``
        ("gifts", np.uint16),  # not drawn yet
        ("child_count", np.int16),  # the children are a row if no move is untried
        ("outcome", np.int8),  # NOT_OVER, LINE or FULL_BOARD
        ("proven", np.int8),  # OPEN, WON or LOST
    ],
    align=True,
)
NODE_WORDS = NODE.itemsize // 8
NO_NODE = -1
OPEN, WON, LOST = 0, 1, 2  # for the player who moved here

PATH_WORDS = LONGEST_GAME + 1  # the nodes from the root to where an iteration ends lie before the tree
MIN_BOUND = -(1 << 63)


class Tree(NamedTuple):
    """The arrays to which a search writes. The root is node 0.

    The UCB1 of a node is ``value + sqrt(ln N) * spread``, where N is the number of its parent's visits, and ``value``
    and ``spread`` are the node's entries in ``values`` and ``spreads``. A visit therefore changes these two entries of
    the visited node only, and no square root is computed for the other nodes.
    """

    path: Any  # [PATH_WORDS] uint64: from the root to where an iteration ends
    nodes: Any  # [S] NODE
    values: Any  # [S] float64: mean reward; faithful: the whole bound as it was at the last visit; lost for good: -inf
    spreads: Any  # [S] float64: c / sqrt(visits); faithful: 0


def tree_words(nodes: int) -> int:
    """Return the number of words of scratch that a tree of this many nodes needs.

    Each node needs space twice: in its parent's list of children, and again in the row into which the list is moved.
    """
    return PATH_WORDS + (NODE_WORDS + 2) * 2 * nodes


@inline_function
def scratch_tree(agent: Any) -> Tree:
    words = scratch(agent)
    room = (words.shape[0] - PATH_WORDS) // (NODE_WORDS + 2)
    address = agent.scratch_address + uint64(8 * PATH_WORDS)
    values = numba.carray(array_pointer(address), room, np.float64)
    spreads = numba.carray(array_pointer(address + uint64(8 * room)), room, np.float64)
    nodes = numba.carray(array_pointer(address + uint64(16 * room)), room, NODE)
    return Tree(words[:PATH_WORDS], nodes, values, spreads)


@inline_function
def add_node(nodes: Any, number: int, move: int, outcome: int) -> None:
    """Write a new node, which has no visits and no children, at index ``number``.

    ``move`` leads to the node, and ``outcome`` is the outcome of the move: NOT_OVER, LINE or FULL_BOARD.
    """
    node = nodes[number]
    node.total, node.visits = 0.0, 0
    node.child, node.older, node.child_count = NO_NODE, NO_NODE, 0
    node.move, node.untried, node.outcome, node.proven = move, NO_MOVE, outcome, OPEN


class Expansion(NamedTuple):
    """A child that was added to a tree."""

    child: int  # number of its node
    position: PackedPosition  # there
    tree_size: int  # nodes
    next_word: int  # index of the turn's next unused random word


@inline_function
def expand_node(
    tree: Tree, parent: int, size: int, position: PackedPosition, draw_state: Any, safe_gifts: bool, rules: Any
) -> Expansion:
    """Add the parent's next child to a tree of ``size`` nodes.

    ``draw_state`` is a tuple: the turn's seed, the index of its next unused word, and whether children come in the
    order of their moves instead of at random. ``position`` is the parent's position.
    """
    seed, index, in_order = draw_state
    nodes, child = tree.nodes, size
    node = nodes[parent]
    elder = int64(node.child)
    if elder == NO_NODE:
        if in_order:
            node.untried = next_move(position, NO_MOVE, safe_gifts, rules)
        else:
            index = set_untried_move_returning_next_word(node, position, seed, index, safe_gifts, rules)
    move = int64(node.untried)
    after, outcome = play_move(position, move, rules)
    add_node(nodes, child, move, outcome)
    nodes[child].older = elder
    node.child = child
    node.child_count += 1
    if in_order:
        node.untried = next_move(position, move, safe_gifts, rules)
    else:
        index = set_untried_move_returning_next_word(node, position, seed, index, safe_gifts, rules)
    size += 1
    if node.untried == NO_MOVE:
        size = move_children_into_row(tree, parent, size)
        child = size - 1
    return Expansion(child, after, size, index)


@inline_function
def move_children_into_row(tree: Tree, parent: int, size: int) -> int:
    """Move the children of a node from a list into a row, in the order in which they were made.

    Returns the new size of the tree.
    """
    nodes, values, spreads = tree.nodes, tree.values, tree.spreads
    child_count = int64(nodes[parent].child_count)
    child = int64(nodes[parent].child)
    for index in range(size + child_count - 1, size - 1, -1):
        nodes[index] = nodes[child]
        values[index], spreads[index] = values[child], spreads[child]
        child = int64(nodes[child].older)
    nodes[parent].child = size
    return size + child_count


@inline_function
def best_child(tree: Tree, parent: int, root_of_log: float) -> int:
    """Return the child with the highest bound in the parent's row; on ties the child that was made first.

    ``root_of_log`` is the square root of the logarithm of the parent's visits.
    """
    values, spreads = tree.values, tree.spreads
    first = uint64(tree.nodes[parent].child)
    end = first + uint64(tree.nodes[parent].child_count)
    highest = int64(MIN_BOUND)
    for child in range(first, end):
        highest = max(highest, float_bits(values[child] + root_of_log * spreads[child]))
    best = first
    while float_bits(values[best] + root_of_log * spreads[best]) != highest:
        best += uint64(1)
    return int64(best)


# The first words: how many nodes follow (0: nothing is kept), then the board after the turn that was played.
COUNT, LANES, OCCUPIED, HEADER_WORDS = 0, 1, 2, 3


def kept_tree_words(nodes: int) -> int:
    """Return the number of words in a game's memory that a kept tree of this many nodes needs."""
    return HEADER_WORDS + NODE_WORDS * nodes


@inline_function
def kept_nodes(agent: Any) -> Any:
    """Return the nodes in the memory of the game, in breadth-first order: [K] NODE.

    The children of a node are next to each other, in the order in which they were made.
    """
    room = (agent.memory_size - HEADER_WORDS) // NODE_WORDS
    return numba.carray(array_pointer(agent.memory_address + uint64(8 * HEADER_WORDS)), room, NODE)


@inline_function
def keep_tree(agent: Any, tree: Tree, chosen_node: int, after: PackedPosition) -> None:
    """Store the subtree whose root is ``chosen_node`` in the memory of the game.

    ``after`` is the position at ``chosen_node``. If the children of a node no longer fit into the memory, the node is
    stored without them.
    """
    words, stored_nodes, nodes = memory(agent), kept_nodes(agent), tree.nodes
    stored_nodes[0] = nodes[chosen_node]
    count, parent = int64(1), int64(0)
    while parent < count:
        node = stored_nodes[parent]
        child_count, child = int64(node.child_count), int64(node.child)
        if count + child_count > stored_nodes.shape[0]:
            node.child, node.child_count, node.untried = NO_NODE, 0, NO_MOVE
        elif child_count > 0:
            for index in range(count + child_count - 1, count - 1, -1):  # the last one first: so a list runs
                if node.untried == NO_MOVE:
                    stored_nodes[index] = nodes[child + index - count]
                else:
                    stored_nodes[index] = nodes[child]
                    child = int64(nodes[child].older)
            node.child = count
            count += child_count
        parent += 1
    words[COUNT], words[LANES], words[OCCUPIED] = count, after.lanes, after.occupied


@inline_function
def find_kept_reply(agent: Any, position: PackedPosition, rules: Any) -> int:
    """Return the kept node of this position, or NO_NODE if there is none.

    There is none if the kept tree belongs to another game, or if the opponent's reply was not expanded.
    """
    words, stored_nodes = memory(agent), kept_nodes(agent)
    last = position.last_cell
    if words[COUNT] == 0 or last == NONE:
        return int64(NO_NODE)
    board = position.lanes & ~(LANE_ONES << uint64(last))
    if words[LANES] != board or words[OCCUPIED] != uint64(position.occupied & ~(int64(1) << last)):
        return int64(NO_NODE)
    gift = piece_at(position.lanes, last) if rules.mover_chooses != 0 else position.hand
    reply, first = encode_move(last, gift), int64(stored_nodes[0].child)
    for node in range(first, first + stored_nodes[0].child_count):
        if stored_nodes[node].move == reply:
            return int64(node)
    return int64(NO_NODE)


@inline_function
def recall_tree(agent: Any, tree: Tree, reply: int, c: float, solver: bool) -> int:
    """Copy the kept subtree whose root is ``reply`` to the tree of this search, and return its number of nodes.

    ``c`` is the exploration constant, for the bounds of the copied nodes. With ``solver``, nodes that are proven lost
    get a value of minus infinity, so that the search does not choose them.
    """
    stored_nodes, nodes = kept_nodes(agent), tree.nodes
    nodes[0] = stored_nodes[reply]
    size, parent = int64(1), int64(0)
    while parent < size:
        node = nodes[parent]
        child_count, child = int64(node.child_count), int64(node.child)
        tree.values[parent] = node.total / node.visits
        tree.spreads[parent] = c / math.sqrt(node.visits)
        if solver and node.proven == LOST:
            tree.values[parent] = -math.inf
        for i in range(child_count):
            nodes[size + i] = stored_nodes[child + i]
            nodes[size + i].older = size + i - 1 if i > 0 else NO_NODE
        if child_count > 0:
            node.child = size if node.untried == NO_MOVE else size + child_count - 1
        size += child_count
        parent += 1
    return size
