"""The risk of a gift: how often its giver lost, by what the board and the piece look like.

Four features (``quarto/threats.py``) say what a gift looks like: how many ``pieces`` are on the board; how many cells
``win`` for who gets it; how many of the other pieces left are ``safe``, so could be given in the next turn if nothing
changed; how many of the eight attribute values are ``dangerous``, in that a piece with it could finish a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import KernelAgent, Knowledge, encode_turn, params, table, turn
from agents.learning.boards import check_ascending, check_within, refuse
from agents.learning.policy import GIFT, Policy, checked_columns
from agents.random import random_cell
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64, uint64
from quarto.lanes import spread
from quarto.position import ALL_CELLS, Position
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.threats import SAFE_PIECES, VALUES, danger, winning_cells

FEATURES = {"pieces": CELLS, "wins": CELLS + 1, "safe": PIECES, "dangers": VALUES + 1}  # values of each, from 0
LOOKS = CELLS * (CELLS + 1) * PIECES * (VALUES + 1)
UNSEEN = 0  # where the parameter is: the risk of a gift unlike any that was seen


@inlined
def look_of(lanes: int, occupied: int, gift: int, others: int, rules: Any) -> int:
    """What a gift looks like, as one number; ``others`` are the pieces left beside it (16 bits)."""
    threats = danger(lanes, occupied, rules)
    wins = int64(popcount(winning_cells(lanes, occupied, gift, rules)))
    safe = int64(popcount(others & SAFE_PIECES[threats]))
    look = int64(popcount(occupied)) * (CELLS + 1) + wins
    return (look * PIECES + safe) * (VALUES + 1) + int64(popcount(threats))


@inlined
def least_risk(lanes: int, occupied: int, available: int, word: int, rules: Any, own: Any) -> int:
    """The gift of the least risk, NONE if no piece is left. Ties: the first, counted from a random piece on."""
    risks, least, choice = table(own), np.inf, int64(NONE)
    start = int64(word & uint64(PIECES - 1))
    for i in range(PIECES):
        piece = (start + i) & (PIECES - 1)
        if (available >> piece) & 1:
            risk = risks[look_of(lanes, occupied, piece, available & ~(int64(1) << piece), rules)]
            if np.isnan(risk):
                risk = params(own)[UNSEEN]
            if risk < least:
                least, choice = risk, int64(piece)
    return choice


@turn
def gifts_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    word = draw(seed, 0)
    cell, lanes, occupied = int64(NONE), position.lanes, position.occupied
    if position.hand != NONE:
        wins = winning_cells(lanes, occupied, position.hand, rules)
        cell = int64(lowest_bit(wins)) if wins != 0 else random_cell(word, ~occupied & ALL_CELLS)
        lanes |= spread(position.hand) << uint64(cell)
        occupied |= int64(1) << cell
    return encode_turn(cell, least_risk(lanes, occupied, position.available, word, rules, own))


class Gifts(KernelAgent):
    """Gives the piece of the least risk; places where it wins, first on ties, else anywhere.

    A gift unlike any that was seen has the mean risk of all looks. Word 0 of a turn is the random cell (upper half) and
    the piece from which on equal risks are counted (its lowest four bits).

    ``policy`` is of kind 'gift', a row for each look that was seen: ``pieces``, ``wins``, ``safe``, ``dangers`` int8,
    ascending, and ``risk`` float64, from 0 to 1. Raises ``ValueError`` for a policy that is not like that.
    """

    kernel = gifts_turn

    def __init__(self, policy: Policy) -> None:
        looks, risks = _checked(policy)
        self._knowledge = Knowledge(
            params=np.array([risks.mean() if len(risks) else 0.5]), table=np.full(LOOKS, np.nan)
        )
        self._knowledge.table[looks] = risks

    def knowledge(self, rules: Rules) -> Knowledge:
        return self._knowledge


def _checked(policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Look and risk of each row. Raises ``ValueError`` for what nobody can have learned."""
    names: dict[str, type[Any]] = {**dict.fromkeys(FEATURES, np.int64), "risk": np.float64}
    *features, risk = checked_columns(policy, GIFT, "policy", names)
    by_name = dict(zip(FEATURES, features, strict=True))
    for name, values in FEATURES.items():
        check_within(name, by_name[name], 0, values - 1)
    check_ascending(by_name)
    refuse("risk", risk, (risk < 0.0) | (risk > 1.0), "is not from 0 to 1")
    look = np.zeros(len(risk), np.int64)
    for name, values in FEATURES.items():
        look = look * values + by_name[name]
    return look, risk
