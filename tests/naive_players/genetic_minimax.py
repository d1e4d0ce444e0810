"""The slow twin of ``genetic_minimax``: games as lists of moves, the reservation tree as groups of games."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tests.naive import View, below
from tests.naive_players.mcts import LINE, Move, Words, after, random_move, what_comes_of


class Individual:
    """A whole game: the first moves as given, the rest at random."""

    def __init__(self, view: View, kept: list[Move], words: Words) -> None:
        self.genome: list[Move] = []
        self.fitness: int | None = None
        self.judged: float | None = None  # faithful: its value, as the code has it
        self.copy = False  # faithful: whether the code takes it for a copy
        ending = None
        while not ending:
            move = kept[len(self.genome)] if len(self.genome) < len(kept) else random_move(view, words)
            ending, view = what_comes_of(view, move), after(view, move)
            self.genome.append(move)
        self.value = 0
        if ending == LINE:
            self.value = 1 if len(self.genome) % 2 == 1 else -1


def minimax(games: Sequence[Individual], depth: int) -> int:
    """Return the value of the node that these games, alike in their first ``depth`` moves, pass through or end in."""
    if len(games[0].genome) == depth:
        return games[0].value
    replies = {game.genome[depth] for game in games}
    values = [minimax([game for game in games if game.genome[depth] == reply], depth + 1) for reply in replies]
    return max(values) if depth % 2 == 0 else min(values)


def judge(games: Sequence[Individual]) -> None:
    """Set the fitness: from the longest game's depth up to where a game's value is no longer that of the node above."""
    deepest = max(len(game.genome) for game in games)
    value_of: dict[tuple[Move, ...], int] = {}
    for game in games:
        for depth in range(len(game.genome) + 1):
            start = tuple(game.genome[:depth])
            if start not in value_of:
                value_of[start] = minimax([other for other in games if tuple(other.genome[:depth]) == start], depth)
    for game in games:
        depth = len(game.genome)
        while depth > 0 and value_of[tuple(game.genome[: depth - 1])] == game.value:
            depth -= 1
        game.fitness = deepest - depth


def judge_like_the_code(games: Sequence[Individual], longest: int) -> None:
    for game in games:
        game.fitness = None
    judge_node_like_the_code(games, 0, longest)
    for game in games:
        if game.copy:
            game.fitness = -100
        elif game.fitness is None:
            game.fitness = longest + 1


def judge_node_like_the_code(games: Sequence[Individual], depth: int, longest: int) -> float:
    """Return the value of a node above leaves; games with another value get their fitness, even if they have one."""
    passing = [game for game in games if game.fitness is None and len(game.genome) > depth]
    values: dict[Move, float] = {}
    for game in passing:
        move = game.genome[depth]
        if move in values:
            continue
        if len(game.genome) > depth + 1:
            followers = [other for other in passing if other.genome[depth] == move]
            values[move] = judge_node_like_the_code(followers, depth + 1, longest)
        else:
            values[move] = passing[0].judged = game.value
            for other in passing[1:]:
                other.copy, other.fitness = True, -100
    value = max(values.values(), default=-inf) if depth % 2 == 0 else min(values.values(), default=inf)
    for game in passing:
        if game.judged != value:
            game.fitness = longest - depth
    return value


def choice_of_the_code(games: Sequence[Individual]) -> Individual:
    for value in (1, 0):
        judged_so = [game for game in games if game.judged == value]
        if judged_so:
            return fittest_first(judged_so)[0]
    return min((game for game in games if game.judged == -1), key=fitness)


def fitness(game: Individual) -> int:
    assert game.fitness is not None
    return game.fitness


def fittest_first(games: Sequence[Individual]) -> list[Individual]:
    return sorted(games, key=fitness, reverse=True)


class GeneticMinimax:
    def __init__(
        self,
        population: int = 70,
        offspring: int = 40,
        generations: int = 10,
        tournament: int | None = None,
        faithful: bool = False,
    ) -> None:
        self.population = population
        self.offspring = offspring
        self.generations = generations
        self.tournament = tournament or (20 if faithful else 2)
        self.faithful = faithful

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        words = Words(seed)
        games = [Individual(view, [], words) for _ in range(self.population)]
        longest = max(len(game.genome) for game in games)
        games = self.survivors(games, longest)
        for _ in range(self.generations):
            games = self.survivors(games + [self.child(view, games, words) for _ in range(self.offspring)], longest)
        return (choice_of_the_code(games) if self.faithful else games[0]).genome[0]

    def survivors(self, games: list[Individual], longest: int) -> list[Individual]:
        if self.faithful:
            judge_like_the_code(games, longest)
            return games
        judge(games)
        return fittest_first(games)[: self.population]

    def child(self, view: View, games: list[Individual], words: Words) -> Individual:
        entrants = [games[below(words.next(), len(games))] for _ in range(self.tournament)]
        genome = max(entrants, key=fitness).genome
        least = len(genome) // 2 if self.faithful else 0
        point_of_mutation = least + below(words.next(), len(genome) - least)
        return Individual(view, genome[:point_of_mutation], words)
