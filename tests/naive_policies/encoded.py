"""The slow twin of the kind 'encoded_q': study C's update by what each seat came to."""

from __future__ import annotations

from collections.abc import Iterable

from quarto.position import board, position_from_plies
from quarto.rules import Rules
from tests.naive import NONE, View
from tests.naive_players.rl_encoded import EncodedLearner
from tests.naive_policies.games import Game, result_for


def encoded_q(games: Iterable[Game], rules: Rules, learner: EncodedLearner, agent: str | None) -> dict[int, float]:
    """Return the values by code that were changed."""
    for game in games:
        for seat in (0, 1):
            if agent in (None, game.labels[seat]):
                for ply in range(len(game.plies)):
                    if (ply + 1) % 2 == seat:
                        made = board(position_from_plies(game.plies[: ply + 1]))
                        learner.made_codes.append(learner.code(made, View(made, [], NONE, NONE, rules)))
                learner.learn({1: "win", 0: "draw", -1: "loss"}[result_for(seat, game)])
    return dict(learner.values)
