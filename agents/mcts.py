"""Study E's Monte Carlo tree search: UCT over whole turns, with random playouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from agents.base.agent import KernelAgent, Knowledge, TurnKernel, encode_turn, params, report_evaluation, table, turn
from agents.base.parameters import check_flag, check_integer, check_number, check_probability
from agents.learning.policy import Policy
from agents.line_values import check_weights
from agents.search.playout import LINE, NO_MOVE, NOT_OVER, move_cell, move_gift, play_move, play_out
from agents.search.policy_values import EXACT_FROM, build_search_knowledge
from agents.search.puct import puct_tree_words, puct_turn
from agents.search.tree import (
    LOST,
    NO_NODE,
    OPEN,
    WON,
    Tree,
    add_node,
    best_child,
    expand_node,
    find_kept_reply,
    keep_tree,
    kept_tree_words,
    move_children_into_row,
    recall_tree,
    scratch_tree,
    tree_words,
)
from quarto.jit import float64, inline_function, int64, uint64
from quarto.position import PackedPosition
from quarto.rules import CELLS, Rules

FINALS = ("visits", "value")
MAX_ITERATIONS = 1_000_000
MAX_TURNS = 9  # of one player in a game: the first gift and eight placements


@inline_function
def reward(result: int, draw_reward: float) -> float:
    """Return a player's reward: 1 for a win, 0 for a loss, ``draw_reward`` for a draw.

    ``result`` is 1, -1 or 0 if the player won, lost or drew.
    """
    return 1.0 if result > 0 else (0.0 if result < 0 else draw_reward)


@inline_function
def mark_parent_won_or_lost(nodes: Any, parent: int, child: int) -> None:
    """Mark the parent of a proven ``child`` as proven too, if the child's result decides that of the parent.

    A node is won or lost for the player who moved into it. The parent is therefore lost if one of its children is won,
    and won if all of its children are lost.
    """
    if nodes[child].proven == WON:
        nodes[parent].proven = LOST
    elif nodes[child].proven == LOST and nodes[parent].untried == NO_MOVE:
        first, lost = int64(nodes[parent].child), True
        for sibling in range(first, first + nodes[parent].child_count):
            lost &= nodes[sibling].proven == LOST
        if lost:
            nodes[parent].proven = WON


@inline_function
def back_up(tree: Tree, depth: int, result: int, c: float, draw_reward: float, solver: bool) -> None:
    """Add the result of an iteration to all nodes of the path.

    ``result`` is the result of the player who moved into the last node. ``depth`` is the index of that node in the
    path. With ``solver``, proofs are backed up too.
    """
    nodes, path = tree.nodes, tree.path
    for step in range(depth, -1, -1):
        number = int64(path[step])
        node = nodes[number]
        if solver:
            if step < depth:
                mark_parent_won_or_lost(nodes, number, int64(path[step + 1]))
            if node.proven != OPEN:
                result = int64(1) if node.proven == WON else int64(-1)
        node.visits += 1
        node.total += reward(result, draw_reward)
        tree.values[number] = node.total / node.visits
        tree.spreads[number] = c / math.sqrt(node.visits)
        if solver and node.proven == LOST:
            tree.values[number] = -math.inf
        result = -result


@inline_function
def add_visit_faithfully(tree: Tree, step: int, value: float, c: float, root_of_log: float) -> None:
    """Add a visit to the node at index ``step`` of the iteration's path, as the study's code does.

    The node's upper confidence bound is computed anew. ``value`` is the reward of the visit. ``root_of_log`` is the
    square root of the logarithm of the number of visits of the node's parent.
    """
    number = int64(tree.path[step])
    node = tree.nodes[number]
    node.visits += 1
    node.total += value
    tree.values[number] = node.total / node.visits + root_of_log * (c / math.sqrt(node.visits))
    tree.spreads[number] = 0.0


@inline_function
def back_up_faithfully(tree: Tree, depth: int, value: float, expanded: bool, c: float, roots_of_logs: Any) -> None:
    """Add the ``value`` of an iteration to the nodes of the path, as the study's code does.

    ``value`` is the reward of the root's player. The node where selection ended gets two visits: one for itself, and
    one as a child of its parent. If it was ``expanded``, the path ends at its first child, which gets one visit. The
    root gets one visit in each iteration whose selection ends at the root, and no other visits. ``roots_of_logs[n]`` is
    the square root of the logarithm of n.
    """
    nodes, path = tree.nodes, tree.path
    end = depth - 1 if expanded else depth
    if expanded:
        nodes[path[end]].visits += 1
        nodes[path[end]].total += value
        add_visit_faithfully(tree, depth, value, c, roots_of_logs[nodes[path[end]].visits])
    elif end == 0:
        nodes[path[0]].visits += 1
    else:
        add_visit_faithfully(tree, end, value, c, roots_of_logs[nodes[path[end - 1]].visits])
    for step in range(end, 0, -1):
        add_visit_faithfully(tree, step, value, c, roots_of_logs[nodes[path[step - 1]].visits])


@inline_function
def final_child(tree: Tree, size: int, by_value: bool, solver: bool) -> int:
    """Return the child of the root that is played; on ties the one that was made first.

    With ``by_value``, it is the child with the best value. Otherwise it is the child with the most visits; if several
    have the most, the one among them with the best value. With ``solver``, a child that is proven won comes before all
    others, and a child that is proven lost after all others.
    """
    nodes = tree.nodes
    if nodes[0].untried != NO_MOVE:
        move_children_into_row(tree, 0, size)
    best, best_rank, best_visits, best_value = int64(NO_NODE), int64(-1), int64(-1), -math.inf
    first = int64(nodes[0].child)
    for child in range(first, first + nodes[0].child_count):
        node = nodes[child]
        rank = int64(1)
        if solver:
            rank = int64(2) if node.proven == WON else (int64(0) if node.proven == LOST else int64(1))
        visits = int64(0) if by_value else int64(node.visits)
        value = node.total / node.visits
        if rank > best_rank or (
            rank == best_rank and (visits > best_visits or (visits == best_visits and value > best_value))
        ):
            best, best_rank, best_visits, best_value = child, rank, visits, value
    return best


@inline_function
def proven_or_mean_root_result(nodes: Any, root_child: int) -> float:
    """Return the result that the player expects after choosing ``root_child``, from -1 to 1.

    It is the proven result, if there is one. Otherwise it is computed from the mean reward of all turns that were
    searched. The mean reward of the chosen turn alone would be too high: with few iterations a turn has few visits, and
    a turn whose few visits happened to go well is the one that is chosen.
    """
    if nodes[root_child].proven != OPEN:
        return 1.0 if nodes[root_child].proven == WON else -1.0
    total, visits, first = 0.0, int64(0), int64(nodes[0].child)
    for child in range(first, first + nodes[0].child_count):
        total += nodes[child].total
        visits += nodes[child].visits
    return float64(2.0 * total / visits - 1.0)


@inline_function
def start_tree(
    agent: Any, tree: Tree, position: PackedPosition, reuse: bool, c: float, solver: bool, rules: Any
) -> int:
    """Set up the tree with which a search begins, and return its number of nodes.

    With ``reuse``, if the kept tree contains this position, it is the subtree of the kept tree whose root is the
    position. Otherwise it is a new root alone. A new root is also used if the kept root is proven but its children were
    not kept, because no turn could be chosen from it.
    """
    if reuse:
        reply = find_kept_reply(agent, position, rules)
        if reply != NO_NODE:
            size = recall_tree(agent, tree, reply, c, solver)
            if tree.nodes[0].child_count > 0 or tree.nodes[0].proven == OPEN:
                return size
    add_node(tree.nodes, 0, NO_MOVE, NOT_OVER)
    return int64(1)


@turn
def mcts_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings, roots_of_logs, tree = params(agent), table(agent), scratch_tree(agent)
    nodes, path = tree.nodes, tree.path
    iterations, c, draw_reward = int64(settings[0]), settings[1], settings[2]
    by_value, faithful = settings[3] != 0.0, settings[4] != 0.0
    solver, safe_gifts, reuse = settings[5] != 0.0, settings[6] != 0.0, agent.memory_size != 0
    size, index = start_tree(agent, tree, position, reuse, c, solver, rules), int64(0)
    for _ in range(iterations):
        if nodes[0].proven != OPEN:
            break
        here, depth, state, expanded = int64(0), int64(0), position, False
        path[0] = uint64(0)
        while nodes[here].visits > 0 and nodes[here].outcome == NOT_OVER:
            childless = nodes[here].child_count == 0
            if childless or nodes[here].untried != NO_MOVE:
                here, state, size, index = expand_node(
                    tree, here, size, state, (seed, index, faithful), safe_gifts, rules
                )
                expanded = childless
            else:
                here = best_child(tree, here, roots_of_logs[nodes[here].visits])
                state, _ = play_move(state, int64(nodes[here].move), rules)
            depth += 1
            path[depth] = uint64(here)
        if nodes[here].outcome == NOT_OVER:
            result, index = play_out(state, seed, index, rules)
            result = -result
        else:
            result = int64(nodes[here].outcome == LINE)
            nodes[here].proven = WON if result != 0 else OPEN
        if faithful:
            value = reward(result if depth & 1 else -result, draw_reward)
            back_up_faithfully(tree, depth, value, expanded, c, roots_of_logs)
        else:
            back_up(tree, depth, result, c, draw_reward, solver)
    chosen = final_child(tree, size, by_value, solver)
    move = int64(nodes[chosen].move)
    report_evaluation(agent, proven_or_mean_root_result(nodes, chosen), int64(nodes[chosen].visits))
    if reuse:
        after, _ = play_move(position, move, rules)
        keep_tree(agent, tree, chosen, after)
    return encode_turn(move_cell(move), move_gift(move))


class Mcts(KernelAgent):
    """Study E's ``mcts``: UCT with ``iterations`` iterations for each turn, which is a cell and a gift at once.

    An iteration goes down from the present position, each time to the child with the highest UCB1, W/n + c sqrt(ln N /
    n), for the player to move (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", ECML 2006). Here W is the
    sum of the child's rewards, n the number of its visits, and N the number of its parent's visits. Unvisited children
    come first, in random order: a random gift with all cells, then another gift. On ties the child that was entered
    first is chosen. If the last node was visited before, its children are added and the first of them is entered. One
    random playout follows, and all nodes of the path get its reward: 1 for the winner, 0 for the loser, ``draw_reward``
    for both after a draw. The first iteration is a playout from the position itself.

    ``final`` says which child of the root is played. With ``value``, it is the child with the best value. With
    ``visits``, it is the child with the most visits; if several have the most, the one among them with the best value.

    ``faithful`` follows the study's code:

    - Unvisited children come in the order of cells, then gifts, so low cells win ties.
    - All nodes are chosen for the benefit of the root's player, as if the opponent helped.
    - The root keeps 2 visits forever.
    - The node where selection ends counts each visit twice.
    - A bound is computed when its node is visited, and not updated when only the parent is visited.
    - The child with the best value is played.

    With ``solver``, proven wins and losses are backed up and never searched again (Winands, Bjornsson and Saito,
    "Monte-Carlo Tree Search Solver", CG 2008). With ``safe_gifts``, no move gives a piece with which the opponent could
    win at once, if there is another move. With ``reuse``, the subtree that begins with the turn that was played is
    kept, up to ``iterations`` nodes. The next search of the game starts from the part of it that begins with the
    opponent's reply, and adds ``iterations`` iterations (see ``agents.search.tree``).

    As its evaluation of a turn the agent reports the proven result or, if nothing is proven, 2 * mean - 1, where mean
    is the mean reward of the whole search. A draw therefore counts as ``draw_reward`` says: as a draw with 0.5, as a
    loss with 0. The reported visits are those of the turn.

    ``value`` is a policy of kind 'line_values'. It replaces playouts and chooses the turns to consider
    (``agents/search/puct.py``). Positions with ``exact_from`` or more pieces on the board have exact values instead. In
    those positions the agent plays the turn with the greatest learned value among the turns that keep the exact value.
    With a policy, the agent reports the mean value of the turn's visits, or the exact value.

    Randomness: words are drawn in order from index 0. Each move of a playout takes one word. Each move by which a node
    is expanded takes at least one word, because a move that ``safe_gifts`` forbids is skipped and the next word draws
    another.
    """

    kernel = mcts_turn
    choosers = ("opponent", "mover")

    def __init__(  # noqa: PLR0913, PLR0917  (each is a key of the yaml)
        self,
        iterations: int = 200,
        c: float = 2.0,
        draw_reward: float = 0.0,
        final: str | None = None,
        faithful: bool = False,
        solver: bool = False,
        safe_gifts: bool = False,
        reuse: bool = False,
        value: Policy | None = None,
        exact_from: int = EXACT_FROM,
    ) -> None:
        self.iterations = check_integer("iterations", iterations, 2, MAX_ITERATIONS)  # the first has no turn yet
        self.c = check_number("c", c)
        if c < 0:
            raise ValueError(f"c={c} is below 0: exploring would be punished")
        self.draw_reward = check_probability("draw_reward", draw_reward)
        self.faithful = check_flag("faithful", faithful)
        self.solver = check_flag("solver", solver)
        self.safe_gifts = check_flag("safe_gifts", safe_gifts)
        self.reuse = check_flag("reuse", reuse)
        self.most_kept = iterations if reuse else 0  # nodes from one turn to the next
        if final not in (None, *FINALS):
            raise ValueError(f"final={final!r} is neither null nor one of {', '.join(FINALS)}")
        if solver and faithful:
            raise ValueError("solver=true needs faithful=false: nothing can be proven about an opponent that helps")
        if reuse and faithful:
            raise ValueError("reuse=true needs faithful=false: the study's code throws its tree away")
        if value is not None:
            check_weights(value, "mcts")
        self.value = value
        self.exact_from = check_integer("exact_from", exact_from, 5, CELLS)
        playout_options = {"draw_reward": draw_reward, "final": final, "faithful": faithful, "solver": solver}
        for name, setting in (playout_options | {"safe_gifts": safe_gifts, "reuse": reuse}).items() if value else ():
            if setting:
                raise ValueError(
                    f"{name}={setting} is for playouts, and value=POLICY has none: leave out one of the two"
                )
        self.final = final or ("value" if faithful else "visits")

    def turn_kernel(self) -> TurnKernel:
        return mcts_turn if self.value is None else puct_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        if self.value is not None:
            settings = [float(self.iterations), self.c]
            return build_search_knowledge(
                self.value, rules, self.exact_from, settings, puct_tree_words(self.iterations)
            )
        if self.safe_gifts and rules.mover_chooses:
            raise ValueError("safe_gifts=true has no meaning where the mover chooses the piece: nothing is given")
        by_value = self.final == "value"
        flags = (by_value, self.faithful, self.solver, self.safe_gifts)
        # Faithful counts some visits twice; a kept root has those of all turns that a player may have.
        most_visits = self.iterations * (MAX_TURNS if self.reuse else 2) + 1
        # Rounded, so that logarithms which differ in their last bit from machine to machine lead to the same games.
        roots_of_logs = np.sqrt(np.log(np.maximum(np.arange(most_visits + 1), 1)).round(12))
        return Knowledge(
            params=np.array([self.iterations, self.c, self.draw_reward, *flags], np.float64),
            table=roots_of_logs,
            scratch_size=tree_words(self.iterations + self.most_kept + 1),
            game_words=kept_tree_words(self.most_kept) if self.reuse else 0,
        )
