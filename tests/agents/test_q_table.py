"""Q-learning of turns: what it learns while it plays is what a dictionary learns from the same games."""

from __future__ import annotations

import pytest

from agents.q_table import QTableLearner
from agents.semi_random import SemiRandom
from quarto.rules import CLASSIC, Rules
from tests import naive
from tests.naive import PRESETS
from tests.naive_players.agreement import relearn, same_bytes, train
from tests.naive_policies.afterstates import q_table
from tests.naive_policies.games import Game


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
