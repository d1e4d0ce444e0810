"""The agent `network`: its turns are those of a twin in plain Python; policies that no network has are refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from agents.network import INPUTS, UNIT, Layers, Network, to_policy
from quarto.observations import TURN_CODES
from quarto.rules import CLASSIC
from tests import naive
from tests.naive import NONE, View
from tests.naive_players.agreement import assert_same_turns
from tests.positions import list_positions


def layers(units: int = 3) -> Layers:
    """Draw random weights, multiples of ``UNIT``, as a policy has them."""
    chance = np.random.default_rng(4)

    def draw_weights(*shape: int) -> Any:
        return np.rint(chance.normal(0, 0.5, shape) / UNIT) * UNIT

    return [
        (draw_weights(INPUTS, units), draw_weights(units)),
        (draw_weights(units, TURN_CODES), draw_weights(TURN_CODES)),
    ]


class NetworkTwin:
    """The turn of the greatest value, in exact fractions, by the text of ``agents/network.py``."""

    def __init__(self, network: Layers) -> None:
        self.layers = [
            [[Fraction(x) for x in row] for row in (*weights.tolist(), biases.tolist())] for weights, biases in network
        ]

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        legal = []
        for cell in range(17):
            for gift in range(17):
                ends = (
                    view.hand != NONE
                    and cell < 16
                    and (not view.available or cell in naive.winning_cells(view.board, view.hand, view.rules))
                )
                places = cell == 16 if view.hand == NONE else cell < 16 and view.board[cell] == NONE
                gives = gift == 16 if ends else gift in view.available
                legal.append(places and gives)
        seen = [
            (1 if piece >> bit & 1 else -1) if piece != NONE else 0
            for piece in (*view.board, view.hand)
            for bit in range(4)
        ]
        units = [Fraction(x) for x in (*seen, *map(int, legal))]
        for number, rows in enumerate(self.layers):
            sums = [
                sum((x * row[k] for x, row in zip(units, rows, strict=False) if x), rows[-1][k])
                for k in range(len(rows[0]))
            ]
            last = number == len(self.layers) - 1
            units = (
                sums
                if last
                else [
                    Fraction(round(max(min(x, Fraction(64)), Fraction(0)) / Fraction(UNIT))) * Fraction(UNIT)
                    for x in sums
                ]
            )
        best = max(
            (action for action in range(TURN_CODES) if legal[action]), key=lambda action: (units[action], -action)
        )
        cell, gift = divmod(best, 17)
        return (NONE if cell == 16 else cell), (NONE if gift == 16 else gift)


def test_turns_are_those_of_the_twin() -> None:
    network = layers()
    assert (
        assert_same_turns(Network(to_policy(network)), NetworkTwin(network), CLASSIC, list_positions(CLASSIC, 4)) > 30
    )
