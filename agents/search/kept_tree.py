"""The memory of a Monte Carlo search within a game: the part of its tree below the turn that it played.

The opponent's reply is not known yet, so the whole part is kept. When the next turn is asked for, the node that the
reply leads to becomes the root. Memory holds as many nodes as a turn has iterations. A larger tree is cut from below.
The walk is breadth first. A node whose children no longer fit keeps its own statistics and loses its children, as if it
had never been expanded.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from agents.base import memory
from agents.search.playout import NO_MOVE, encode_move
from agents.search.tree import LOST, NOBODY, NODE, NODE_WORDS, Tree
from quarto.bits import LANE_ONES, array_pointer
from quarto.jit import inlined, int64, uint64
from quarto.position import Position, piece_at
from quarto.rules import NONE

# The first words: how many nodes follow (0: nothing is kept), then the board after the turn that was played.
COUNT, LANES, OCCUPIED, HEADER_WORDS = 0, 1, 2, 3


def words_of_kept_tree(nodes: int) -> int:
    """Words of a game's memory that so many nodes need."""
    return HEADER_WORDS + NODE_WORDS * nodes


@inlined
def kept_nodes(own: Any) -> Any:
    """The nodes in memory, [K] NODE, breadth first: every family side by side, in the order in which it was made."""
    room = (own.memory_size - HEADER_WORDS) // NODE_WORDS
    return numba.carray(array_pointer(own.memory_address + uint64(8 * HEADER_WORDS)), room, NODE)


@inlined
def keep_tree(own: Any, grown: Tree, chosen: int, after: Position) -> None:
    """Store the part of the tree below ``chosen``, which leads to the position ``after``."""
    words, kept, nodes = memory(own), kept_nodes(own), grown.nodes
    kept[0] = nodes[chosen]
    count, parent = int64(1), int64(0)
    while parent < count:
        node = kept[parent]
        made, child = int64(node.made), int64(node.child)
        if count + made > kept.shape[0]:
            node.child, node.made, node.unmade = NOBODY, 0, NO_MOVE
        elif made > 0:
            for index in range(count + made - 1, count - 1, -1):  # the last one first: so a list runs
                if node.unmade == NO_MOVE:
                    kept[index] = nodes[child + index - count]
                else:
                    kept[index] = nodes[child]
                    child = int64(nodes[child].older)
            node.child = count
            count += made
        parent += 1
    words[COUNT], words[LANES], words[OCCUPIED] = count, after.lanes, after.occupied


@inlined
def kept_reply(own: Any, position: Position, rules: Any) -> int:
    """The kept node of this position, or NOBODY: the tree is of another game, or the reply was not expanded."""
    words, kept = memory(own), kept_nodes(own)
    last = position.last_cell
    if words[COUNT] == 0 or last == NONE:
        return int64(NOBODY)
    board = position.lanes & ~(LANE_ONES << uint64(last))
    if words[LANES] != board or words[OCCUPIED] != uint64(position.occupied & ~(int64(1) << last)):
        return int64(NOBODY)
    gift = piece_at(position.lanes, last) if rules.mover_chooses != 0 else position.hand
    reply, first = encode_move(last, gift), int64(kept[0].child)
    for node in range(first, first + kept[0].made):
        if kept[node].move == reply:
            return int64(node)
    return int64(NOBODY)


@inlined
def recall_tree(own: Any, grown: Tree, reply: int, c: float, solver: bool) -> int:
    """Make the kept part of the tree below ``reply`` the tree; returns its size."""
    kept, nodes = kept_nodes(own), grown.nodes
    nodes[0] = kept[reply]
    size, parent = int64(1), int64(0)
    while parent < size:
        node = nodes[parent]
        made, child = int64(node.made), int64(node.child)
        grown.values[parent] = node.total / node.visits
        grown.spreads[parent] = c / math.sqrt(node.visits)
        if solver and node.proven == LOST:
            grown.values[parent] = -math.inf
        for i in range(made):
            nodes[size + i] = kept[child + i]
            nodes[size + i].older = size + i - 1 if i > 0 else NOBODY
        if made > 0:
            node.child = size if node.unmade == NO_MOVE else size + made - 1
        size += made
        parent += 1
    return size
