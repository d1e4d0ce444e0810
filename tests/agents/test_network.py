"""The agent `network`: its turns are those of a twin in plain Python; policies that no network has are refused."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from agents.learning.policy import Policy
from agents.network import INPUTS, NETWORK, UNIT, Layers, Network, policy_of
from quarto.observations import TURNS
from quarto.rules import CLASSIC
from tests import naive
from tests.naive import NONE, View
from tests.naive_players.agreement import assert_same_turns
from tests.positions import asked


def layers(units: int = 3) -> Layers:
    """Random weights, multiples of ``UNIT``, as a policy has them."""
    chance = np.random.default_rng(4)

    def drawn(*shape: int) -> Any:
        return np.rint(chance.normal(0, 0.5, shape) / UNIT) * UNIT

    return [(drawn(INPUTS, units), drawn(units)), (drawn(units, TURNS), drawn(TURNS))]


class Twin:
    """The turn of the greatest value, in exact fractions, by the text of ``agents/network.py``."""

    def __init__(self, known: Layers) -> None:
        self.layers = [
            [[Fraction(x) for x in row] for row in (*weights.tolist(), biases.tolist())] for weights, biases in known
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
        best = max((action for action in range(TURNS) if legal[action]), key=lambda action: (units[action], -action))
        cell, gift = divmod(best, 17)
        return (NONE if cell == 16 else cell), (NONE if gift == 16 else gift)


def test_turns_are_those_of_the_twin() -> None:
    known = layers()
    assert assert_same_turns(Network(policy_of(known)), Twin(known), CLASSIC, asked(CLASSIC, 4)) > 30


def changed(name: str, row: int, value: Any) -> Policy:
    table = {key: column.copy() for key, column in policy_of(layers()).table.items()}
    table[name][row] = value
    return Policy(NETWORK, table=table)


def only_layer(number: int) -> Policy:
    table = policy_of(layers()).table
    return Policy(NETWORK, table={key: column[table["layer"] == number] for key, column in table.items()})


def without(rows: slice) -> Policy:
    return Policy(NETWORK, table={key: np.delete(column, rows) for key, column in policy_of(layers()).table.items()})


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy("gift"), "policy of kind 'gift' is for other players; network reads 'network'"),
        (changed("weight", 0, 65.0), "weight 65.0 in row 0 of a policy is not from -64.0 to 64.0"),
        (changed("weight", 1, UNIT / 2), "is no multiple of 2^-16"),
        (without(slice(5, 6)), "layer 0 of a policy is not a row for each of 357 inputs and the biases"),
        (only_layer(0), "the last layer of a policy has 3 units, not a value for each of 289 actions"),
    ],
    ids=str,
)
def test_a_policy_that_no_network_has_is_refused(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Network(policy)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([], "0 layers, the last of 357 units: a network has 1 to 8 layers"),
        (layers()[:1], "1 layers, the last of 3 units"),
        ([(layers()[0][0].T, layers()[0][1])], "weights of layer 0 are (3, 357), not (357, 3), of at most 512 inputs"),
        ([(layers()[0][0] * np.nan, layers()[0][1])], "a weight of layer 0 is nan in size: at most 64 is possible"),
        ([(layers()[0][0] * 1e6, layers()[0][1])], "in size: at most 64 is possible"),
    ],
    ids=str,
)
def test_layers_that_no_network_has_are_refused(known: Layers, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        policy_of(known)
