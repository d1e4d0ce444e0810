"""The slow twins of the kinds with values of afterstates, and of their player: dictionaries by position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, View
from tests.naive_policies.games import Game, Key, key_of, position_of, result_for, steps, turns, wins


def mc_afterstate(games: Iterable[Game], rules: Rules, least: int) -> dict[Key, tuple[int, float]]:
    """Count and mean outcome by afterstate."""
    outcomes: defaultdict[Key, list[int]] = defaultdict(list)
    for game in games:
        for ply, step in enumerate(steps(game, rules)):
            if ply >= game.opening:
                outcomes[step.key].append(result_for(step.mover, game))
    return {key: (len(each), sum(each) / len(each)) for key, each in outcomes.items() if len(each) >= least}


def q_table(games: Iterable[Game], rules: Rules, rate: float, discount: float) -> dict[Key, float]:
    """Return the value by afterstate, game after game."""
    values: dict[Key, float] = {}
    for game in games:
        path = steps(game, rules)
        for ply in reversed(range(len(path))):
            step = path[ply]
            if wins(step, rules):
                worth = 1.0
            elif ply == len(path) - 1:
                worth = float(result_for(1 - step.mover, game))
            else:
                keys = [key_of(after, rules) for after in turns(step.position)]
                worth = max(values[key] for key in keys if key in values)
            value = values.get(step.key, 0.0)
            values[step.key] = value + rate * (-discount * worth - value)
    return values


def fitted_q(games: Iterable[Game], rules: Rules, discount: float) -> dict[Key, tuple[int, float]]:
    """Count and value by afterstate: sweeps over all transitions, in the games' order, until one changes nothing."""
    paths = [(game, steps(game, rules)) for game in games]
    counts: defaultdict[Key, int] = defaultdict(int)
    values: dict[Key, float] = {}
    for _, path in paths:
        for step in path:
            counts[step.key] += 1
    changed = True
    while changed:
        worth: defaultdict[Key, float] = defaultdict(lambda: -2.0)
        for game, path in paths:
            for ply, step in enumerate(path):
                if wins(step, rules):
                    found = 1.0
                elif ply == len(path) - 1:
                    found = float(result_for(1 - step.mover, game))
                else:
                    found = values.get(path[ply + 1].key, 0.0)
                worth[step.key] = max(worth[step.key], found)
        swept = {key: -discount * each for key, each in worth.items()}
        changed, values = swept != values, swept
    return {key: (counts[key], value) for key, value in values.items()}


class Afterstates:
    """A win; else the best known turn that gives no win, if it is worth enough; else the fallback's."""

    def __init__(self, values: Mapping[Key, float], fallback: str = "semi_random", unknown: float = -1.0) -> None:
        self.values = values
        self.fallback = naive.SemiRandom() if fallback == "semi_random" else naive.Random()
        self.unknown = unknown

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand != NONE and naive.winning_cells(view.board, view.hand, view.rules):
            return naive.SemiRandom().turn(view, seed)
        best, choice = -2.0, (NONE, NONE)
        for cell in naive.empty_cells(view.board) if view.hand != NONE else [NONE]:
            after = view.board if cell == NONE else naive.with_piece(view.board, view.hand, cell)
            for gift in naive.safe_pieces(after, view.available, view.rules):
                value = self.values.get(key_of(position_of(after, gift), view.rules), -3.0)
                if value > best:
                    best, choice = value, (cell, gift)
        return choice if best >= self.unknown else self.fallback.turn(view, seed)
