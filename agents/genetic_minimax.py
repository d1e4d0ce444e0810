"""Study E's genetic minimax: it breeds whole games, and judges them by the tree that they form together."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from agents.base.agent import KernelAgent, Knowledge, encode_turn, params, scratch, turn
from agents.base.parameters import check_flag, check_integer
from agents.search.playout import LINE, LONGEST_GAME, NOT_OVER, move_cell, move_gift, play_move, random_move
from quarto.bits import array_pointer
from quarto.jit import inline_function, int64, uint64
from quarto.position import PackedPosition
from quarto.rng import draw, integer_below
from quarto.rules import Rules

MAX_INDIVIDUALS = 100_000
TOURNAMENT, FAITHFUL_TOURNAMENT = 2, 20

# One game from the present position to its end.
INDIVIDUAL = np.dtype(
    [
        ("length", np.int32),  # how many moves it has
        ("leaf", np.int32),  # its node in the reservation tree
        ("value", np.int32),  # 1 if the player at the root wins it, -1 if the other does, 0 for a draw
        ("fitness", np.int32),  # how far up the tree its value survives
        ("judged", np.int32),  # faithful: the value that the code ascribes to it, or UNKNOWN
        ("copy", np.int32),  # faithful: 1 if the code takes it for a copy of another game
    ]
)
# One node of the reservation tree. A node's children form a list, last first.
NODE = np.dtype(
    [
        ("parent", np.int32),  # NO_INDEX for the root
        ("youngest", np.int32),  # the child made last, or NO_INDEX
        ("older", np.int32),  # the next in its parent's list, or NO_INDEX
        ("move", np.int16),  # that leads here
        ("depth", np.int8),
        ("value", np.int8),
    ]
)
INDIVIDUAL_WORDS, NODE_WORDS = INDIVIDUAL.itemsize // 8, NODE.itemsize // 8
GENE_WORDS = -(-LONGEST_GAME // 4)  # a row of int16
NO_INDEX = -1
BELOW_ALL, ABOVE_ALL = -2, 2
UNKNOWN = 3  # no value
UNSET, COPY_FITNESS = -1000, -100
# For each depth: how many games pass through the node, how many were looked at, least and largest value
FRAME_WORDS = 4


@inline_function
def scratch_arrays(agent: Any, rows: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five arrays that the search uses, as views of the agent's scratch.

    They are ``genes`` [rows, 4 * GENE_WORDS] int16, ``individuals`` [rows] of dtype ``INDIVIDUAL``, ``order`` and
    ``spare`` [rows] uint64, and ``nodes`` [rows * LONGEST_GAME + 1] of dtype ``NODE``, the nodes of the tree.
    """
    words, address = scratch(agent), agent.scratch_address
    genes = numba.carray(array_pointer(address), (rows, 4 * GENE_WORDS), np.int16)
    start = rows * GENE_WORDS
    individuals = numba.carray(array_pointer(address + uint64(8 * start)), rows, INDIVIDUAL)
    start += rows * INDIVIDUAL_WORDS
    order, spare = words[start : start + rows], words[start + rows : start + 2 * rows]
    start += 2 * rows
    nodes = numba.carray(array_pointer(address + uint64(8 * start)), rows * LONGEST_GAME + 1, NODE)
    return genes, individuals, order, spare, nodes


@inline_function
def faithful_scratch_arrays(agent: Any, rows: int) -> tuple[Any, Any]:
    """Return the two arrays that a faithful player uses instead of the tree, as views of the agent's scratch.

    Row d of both arrays describes the current node at depth d. ``passing`` [17, rows] int32 lists the games through
    that node, as indices of individuals. ``frames`` [17, FRAME_WORDS] int64 has the number of these games, the number
    of them that were visited, and the least and greatest value of the node's children.
    """
    start = rows * (GENE_WORDS + INDIVIDUAL_WORDS + 2)
    frames = numba.carray(
        array_pointer(agent.scratch_address + uint64(8 * start)), (LONGEST_GAME, FRAME_WORDS), np.int64
    )
    start += LONGEST_GAME * FRAME_WORDS
    passing = numba.carray(array_pointer(agent.scratch_address + uint64(8 * start)), (LONGEST_GAME, rows), np.int32)
    return passing, frames


@inline_function
def complete_game_at_random_returning_next_index(
    genes: Any, individual: Any, position: PackedPosition, kept_moves: int, seed: int, index: int, rules: Any
) -> int:
    """Complete the game in ``genes``, a row of moves, with random moves after the first ``kept_moves``.

    The game begins at ``position``. Its length and its value are written into ``individual``. Random words are drawn
    from ``index`` on. Returns the index of the next unused word.
    """
    outcome, length = int64(NOT_OVER), int64(0)
    while outcome == NOT_OVER:
        if length < kept_moves:
            move = int64(genes[length])
        else:
            move = random_move(position, draw(seed, index), rules)
            index += 1
            genes[length] = move
        position, outcome = play_move(position, move, rules)
        length += 1
    individual.length, individual.judged, individual.copy = length, UNKNOWN, 0
    individual.value = 0 if outcome != LINE else (1 if length & 1 else -1)
    return index


@inline_function
def add_childless_node_to_parent(nodes: Any, number: int, parent: int, move: int, depth: int) -> None:
    """Write a childless node at index ``number`` and link it into its parent's list of children.

    The node starts with a value that is worse, for the player to move there, than any result of a game. Every value
    that is backed up from a child therefore replaces it.
    """
    node = nodes[number]
    node.parent, node.youngest, node.older, node.move, node.depth = parent, NO_INDEX, NO_INDEX, move, depth
    node.value = ABOVE_ALL if depth & 1 else BELOW_ALL
    if parent != NO_INDEX:
        node.older = nodes[parent].youngest
        nodes[parent].youngest = number


@inline_function
def merge_games_into_tree(genes: Any, individuals: Any, order: Any, size: int, nodes: Any) -> int:
    """Merge the games of the first ``size`` individuals in ``order`` into one tree, and return its number of nodes.

    The index of each individual's last node is written into its field ``leaf``.
    """
    add_childless_node_to_parent(nodes, 0, NO_INDEX, 0, 0)
    count = int64(1)
    for i in range(size):
        row, here = int64(order[i]), int64(0)
        for depth in range(individuals[row].length):
            child = int64(nodes[here].youngest)
            while child != NO_INDEX and nodes[child].move != genes[row, depth]:
                child = int64(nodes[child].older)
            if child == NO_INDEX:
                child = count
                add_childless_node_to_parent(nodes, child, here, genes[row, depth], depth + 1)
                count += 1
            here = child
        individuals[row].leaf = here
        nodes[here].value = individuals[row].value
    return count


@inline_function
def merge_games_and_set_fitness(genes: Any, individuals: Any, order: Any, size: int, nodes: Any) -> None:
    """Merge the games of the first ``size`` individuals in ``order`` into a tree, and set the fitness of each.

    Values are backed up by minimax. An individual's value survives up to a node if this node, and every node below it
    on the path to the individual's leaf, has this value. The fitness of the individual is the depth of the deepest leaf
    of the tree minus the depth of the highest node up to which the value survives.
    """
    count, deepest = merge_games_into_tree(genes, individuals, order, size, nodes), int64(0)
    for number in range(count - 1, 0, -1):  # children come after their parents
        value, parent = nodes[number].value, nodes[nodes[number].parent]
        if parent.depth & 1:
            parent.value = min(parent.value, value)
        else:
            parent.value = max(parent.value, value)
        deepest = max(deepest, int64(nodes[number].depth))
    for i in range(size):
        individual = individuals[order[i]]
        here = int64(individual.leaf)
        while here != 0 and nodes[nodes[here].parent].value == individual.value:
            here = int64(nodes[here].parent)
        individual.fitness = deepest - nodes[here].depth


@inline_function
def list_unjudged_games_beyond_node(
    genes: Any, individuals: Any, passing: Any, frames: Any, depth: int, move: int
) -> None:
    """List the games without a fitness that reach the node at ``depth`` by ``move`` and continue beyond it.

    The rows of these games are written into ``passing[depth]``, and ``frames[depth]`` is reset. Only faithful players
    use this function.
    """
    count = 0
    for i in range(frames[depth - 1, 0]):
        row = passing[depth - 1, i]
        individual = individuals[row]
        if individual.fitness == UNSET and individual.length > depth and genes[row, depth - 1] == move:
            passing[depth, count] = row
            count += 1
    frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = count, 0, ABOVE_ALL, BELOW_ALL


@inline_function
def widen_node_value_range(frames: Any, depth: int, value: int) -> None:
    """Extend the range of the values of the children of the node at ``depth`` so that it includes ``value``."""
    frames[depth, 2], frames[depth, 3] = min(frames[depth, 2], value), max(frames[depth, 3], value)


@inline_function
def judge_first_game_and_mark_copies(individuals: Any, passing: Any, frames: Any, depth: int, value: int) -> None:
    """Give the value of a leaf to the first game through its parent, and mark the other games as copies of the first.

    The parent is the node at ``depth``, and ``value`` is the value of the leaf below it. This follows the study's code,
    which takes all games through the parent for the same game.
    """
    individuals[passing[depth, 0]].judged = value
    for i in range(1, frames[depth, 0]):
        individual = individuals[passing[depth, i]]
        individual.copy, individual.fitness = 1, COPY_FITNESS
    widen_node_value_range(frames, depth, value)


@inline_function
def is_first_of_its_move(genes: Any, passing: Any, depth: int, i: int) -> bool:
    """Return whether no game before the i-th one in ``passing[depth]`` makes the same move at this depth."""
    k = 0
    while genes[passing[depth, k], depth] != genes[passing[depth, i], depth]:
        k += 1
    return k == i


@inline_function
def judge_deviating_games_returning_node_value(
    individuals: Any, passing: Any, frames: Any, depth: int, longest: int
) -> int:
    """Return the value of the node at ``depth``, and set the fitness of the games that deviate from it.

    These are the games through the node whose value differs from the node's value. Their fitness is ``longest``, the
    length of the longest game, minus ``depth``.
    """
    value = int64(frames[depth, 2] if depth & 1 else frames[depth, 3])
    for i in range(frames[depth, 0]):
        individual = individuals[passing[depth, i]]
        if individual.judged != value:
            individual.fitness = longest - depth
    return value


@inline_function
def set_fitness_faithfully(genes: Any, individuals: Any, size: int, longest: int, passing: Any, frames: Any) -> None:
    """Set the fitness of all individuals as the study's code does.

    It searches the tree of the games depth first. Children are visited in the order of the games that reach them.
    """
    for row in range(size):
        individuals[row].fitness, passing[0, row] = UNSET, row
    frames[0, 0], frames[0, 1], frames[0, 2], frames[0, 3] = size, 0, ABOVE_ALL, BELOW_ALL
    depth = 0
    while depth >= 0:
        i = frames[depth, 1]
        if i == frames[depth, 0]:
            value = judge_deviating_games_returning_node_value(individuals, passing, frames, depth, longest)
            depth -= 1
            if depth >= 0:
                widen_node_value_range(frames, depth, value)
            continue
        frames[depth, 1] += 1
        if is_first_of_its_move(genes, passing, depth, i):
            row = passing[depth, i]
            if individuals[row].length == depth + 1:
                judge_first_game_and_mark_copies(individuals, passing, frames, depth, int64(individuals[row].value))
            else:
                depth += 1
                list_unjudged_games_beyond_node(genes, individuals, passing, frames, depth, genes[row, depth - 1])
    for row in range(size):
        if individuals[row].copy != 0:
            individuals[row].fitness = COPY_FITNESS
        elif individuals[row].fitness == UNSET:
            individuals[row].fitness = longest + 1


@inline_function
def choose_by_result_then_fitness(individuals: Any, size: int) -> int:
    """Return the row of the game to play: the fittest win; if there is none, the fittest draw; else the least fit loss.

    Games count as wins, draws and losses by their judged value. On ties the first game is taken.
    """
    best, best_value, best_fitness = int64(NO_INDEX), int64(BELOW_ALL), int64(UNSET)
    for row in range(size):
        value, fitness = int64(individuals[row].judged), int64(individuals[row].fitness)
        if value == UNKNOWN:
            continue
        if value < 0:
            fitness = -fitness
        if value > best_value or (value == best_value and fitness > best_fitness):
            best, best_value, best_fitness = int64(row), value, fitness
    return best


@inline_function
def sort_by_fitness(individuals: Any, order: Any, spare: Any, size: int) -> None:
    """Sort the first ``size`` rows in ``order`` by descending fitness; earlier rows come first on ties.

    ``spare`` [size] is overwritten.
    """
    filled = 0
    for fitness in range(LONGEST_GAME, -1, -1):
        for i in range(size):
            if individuals[order[i]].fitness == fitness:
                spare[filled] = order[i]
                filled += 1
    for i in range(size):
        order[i] = spare[i]


@inline_function
def hold_tournament(individuals: Any, order: Any, size: int, entrants: int, seed: int, index: int) -> int:
    """Draw ``entrants`` individuals with replacement, and return the row of the fittest.

    On ties, the one that was drawn first wins. Each draw takes one random word, from ``index`` on.
    """
    best = int64(order[integer_below(draw(seed, index), size)])
    for k in range(1, entrants):
        row = int64(order[integer_below(draw(seed, index + k), size)])
        if individuals[row].fitness > individuals[best].fitness:
            best = row
    return best


@inline_function
def sample_kept_move_count(length: int, word: int, faithful: bool) -> int:
    """Sample the number of first moves that a mutation keeps from a game of ``length`` moves.

    The number is drawn uniformly with ``word``. The greatest is ``length`` - 1; the least is 0 or, with ``faithful``,
    half of the moves, rounded down.
    """
    least = length // 2 if faithful else int64(0)
    return least + integer_below(word, length - least)


@turn
def genetic_minimax_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings = params(agent)
    population, offspring, generations = int64(settings[0]), int64(settings[1]), int64(settings[2])
    entrants, faithful, rows = int64(settings[3]), settings[4] != 0.0, int64(settings[5])
    genes, individuals, order, spare, nodes = scratch_arrays(agent, rows)
    passing, frames = faithful_scratch_arrays(agent, rows)
    index, size, longest = int64(0), population, int64(0)
    for row in range(rows):
        order[row] = uint64(row)
    for row in range(population):
        index = complete_game_at_random_returning_next_index(
            genes[row], individuals[row], position, int64(0), seed, index, rules
        )
        longest = max(longest, int64(individuals[row].length))
    for generation in range(generations + 1):
        if generation > 0:
            for child in range(size, size + offspring):
                parent = hold_tournament(individuals, order, size, entrants, seed, index)
                index += entrants
                kept_moves = sample_kept_move_count(int64(individuals[parent].length), draw(seed, index), faithful)
                index += 1
                row = int64(order[child])
                for k in range(kept_moves):
                    genes[row, k] = genes[parent, k]
                index = complete_game_at_random_returning_next_index(
                    genes[row], individuals[row], position, kept_moves, seed, index, rules
                )
            size += offspring
        if faithful:
            set_fitness_faithfully(genes, individuals, size, longest, passing, frames)
        else:
            merge_games_and_set_fitness(genes, individuals, order, size, nodes)
            sort_by_fitness(individuals, order, spare, size)
            size = population
    best = choose_by_result_then_fitness(individuals, size) if faithful else int64(order[0])
    move = int64(genes[best, 0])
    return encode_turn(move_cell(move), move_gift(move))


class GeneticMinimax(KernelAgent):
    """Study E's ``genetic_minimax``, after Hong, Huang and Lin, "A genetic minimax game-playing strategy" (1998).

    An individual is a whole game from the present position to its end, worth 1, 0 or -1 to the player to move. All
    individuals together form the reservation tree, in which values are backed up by minimax. On the way from an
    individual's leaf to the root, the individual's value survives as long as the nodes have this value; the nearer to
    the root it survives, the greater the fitness of the individual.

    Each generation adds ``offspring`` games to the ``population`` games. An offspring copies the first moves of the
    winner of a tournament between ``tournament`` games, up to a uniformly drawn point of mutation, and continues with
    random moves. Then the fittest ``population`` games are kept; earlier games come first on ties. In the end, the
    first move of the fittest game is played.

    ``faithful`` follows the study's code:

    - No game is ever dropped.
    - Points of mutation lie in the second half of a game.
    - A tournament has 20 entrants unless ``tournament`` is given.
    - At a leaf, the first game through the node above the leaf gets the leaf's value, and all other games through that
      node are treated as copies of it. Copies have the least fitness, and branches that are visited later leave them
      out.
    - Fitness is measured at the highest node of the game's path whose value differs from the game's. (Without
      ``faithful``, it is measured just below the lowest such node, because the value does not survive past that node.)
    - The move comes from the fittest game judged a win; if there is none, from the fittest draw; otherwise from the
      least fit loss.

    Randomness: words are drawn in order from index 0. The first population takes one word for each move of each game.
    Each offspring then takes one word for each entrant, one for the point of mutation, and one for each random move.
    """

    kernel = genetic_minimax_turn
    choosers = ("opponent", "mover")

    def __init__(
        self,
        population: int = 70,
        offspring: int = 40,
        generations: int = 10,
        tournament: int | None = None,
        faithful: bool = False,
    ) -> None:
        self.population = check_integer("population", population, 1, MAX_INDIVIDUALS)
        self.offspring = check_integer("offspring", offspring, 1, MAX_INDIVIDUALS)
        self.generations = check_integer("generations", generations, 1, MAX_INDIVIDUALS)
        self.faithful = check_flag("faithful", faithful)
        default_tournament = FAITHFUL_TOURNAMENT if faithful else TOURNAMENT
        self.tournament = (
            default_tournament if tournament is None else check_integer("tournament", tournament, 1, MAX_INDIVIDUALS)
        )
        self.rows = population + offspring * (generations if faithful else 1)
        if self.rows > MAX_INDIVIDUALS:
            raise ValueError(
                f"population={population} with all offspring is {self.rows}, above {MAX_INDIVIDUALS} games"
            )

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = (self.population, self.offspring, self.generations, self.tournament, self.faithful, self.rows)
        row_words = GENE_WORDS + INDIVIDUAL_WORDS + 2 + NODE_WORDS * LONGEST_GAME
        fixed_words = NODE_WORDS + LONGEST_GAME * FRAME_WORDS
        return Knowledge(params=np.array(settings, np.float64), scratch_size=self.rows * row_words + fixed_words)
