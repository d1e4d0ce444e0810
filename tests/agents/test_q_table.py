"""Q-learning of turns: what it learns while it plays is what a dictionary learns from the same games."""

from __future__ import annotations

import pytest

from agents.q_table import QTableLearner
from agents.semi_random import SemiRandom
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.naive import PRESETS, View, draw
from tests.naive_players.agreement import assert_same_turns, relearn, same_bytes, train
from tests.naive_players.ga import unit
from tests.naive_policies.afterstates import Afterstates, q_table
from tests.naive_policies.games import Game
from tests.positions import asked


def games_of(played: list[naive.Outcome]) -> list[Game]:
    return [Game(list(zip(game.pieces, game.cells, strict=True)), game.winner, 0) for game in played]


@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["square"]], ids=lambda rules: rules.name)
def test_what_it_learns_is_what_the_slow_twin_learns(rules: Rules) -> None:
    learner = QTableLearner(0.3, 0.9, exploration=0.5)
    policy, played = train(learner, SemiRandom(), rules, 20)
    table = {name: column.tolist() for name, column in policy.table.items()}
    keys = list(zip(table["lanes"], table["occupied"], strict=True))
    assert dict(zip(keys, table["value"], strict=True)) == q_table(games_of(played), rules, 0.3, 0.9)
    assert keys == sorted(keys)
    assert same_bytes(relearn(learner, rules, played), policy)


class Exploring:
    """The slow twin of its turns."""

    def __init__(self, values: dict[tuple[int, int], float], exploration: float) -> None:
        self.player = Afterstates(values)
        self.exploration = exploration

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if unit(draw(seed, 1)) < self.exploration:
            word = draw(seed, 2)
            return naive.any_cell(word, naive.empty_cells(view.board)), naive.any_piece(word, view.available)
        return self.player.turn(view, seed)


def test_its_turns_are_those_of_the_slow_twin() -> None:
    learner = QTableLearner(exploration=0.5)
    assert assert_same_turns(learner, Exploring({}, 0.5), CLASSIC, asked(CLASSIC, 5)) > 50
