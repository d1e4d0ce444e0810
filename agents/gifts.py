"""Gives the piece whose givers lost least often, by a policy derived from logged games.

Four features (``quarto/threats.py``) describe a gift as its giver sees it:

- ``pieces``: how many pieces are on the board;
- ``wins``: with how many cells the opponent wins at once;
- ``safe``: how many of the other pieces left are safe to give on the board as it is;
- ``dangers``: how many of the eight attribute values finish a line on this board.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, params, table, turn
from agents.learning.policy import Policy, check_ascending, check_no_wrong_row, check_range, load_checked_columns
from agents.random import random_cell
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition, place_hand
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.threats import SAFE_PIECES, VALUES, danger_byte, winning_cells

GIFT = "gift"  # the kind of policy that has a row for each combination of features
FEATURES = {"pieces": CELLS, "wins": CELLS + 1, "safe": PIECES, "dangers": VALUES + 1}  # number of values, from 0
COMBINATIONS = CELLS * (CELLS + 1) * PIECES * (VALUES + 1)


@inline_function
def gift_features_number(lanes: int, occupied: int, gift: int, other_pieces: int, rules: Any) -> int:
    """Encode the four features of a gift as one number below ``COMBINATIONS``.

    ``other_pieces`` is the set of the other pieces that are left, as 16 bits.
    """
    threats = danger_byte(lanes, occupied, rules)
    wins = int64(popcount(winning_cells(lanes, occupied, gift, rules)))
    safe = int64(popcount(other_pieces & SAFE_PIECES[threats]))
    combination = int64(popcount(occupied)) * (CELLS + 1) + wins
    return (combination * PIECES + safe) * (VALUES + 1) + int64(popcount(threats))


UNSEEN_RISK = 0  # index of the parameter: the risk of features that the policy has no row for


@inline_function
def least_risk_gift(position: PackedPosition, word: int, rules: Any, agent: Any) -> int:
    """Return the gift with the least learned risk of losing, or NONE if no piece is left.

    Ties are broken by taking the first tied piece at or after a random piece, wrapping from 15 to 0. The lowest four
    bits of ``word`` are the random piece.
    """
    risks, least, choice = table(agent), np.inf, int64(NONE)
    start = int64(word & uint64(PIECES - 1))
    for i in range(PIECES):
        piece = (start + i) & (PIECES - 1)
        if (position.available >> piece) & 1:
            other_pieces = position.available & ~(int64(1) << piece)
            risk = risks[gift_features_number(position.lanes, position.occupied, piece, other_pieces, rules)]
            if np.isnan(risk):
                risk = params(agent)[UNSEEN_RISK]
            if risk < least:
                least, choice = risk, int64(piece)
    return choice


@turn
def gifts_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word = draw(seed, 0)
    cell, after = int64(NONE), position
    if position.hand != NONE:
        wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
        cell = int64(lowest_bit(wins)) if wins != 0 else random_cell(word, ~position.occupied & ALL_CELLS)
        after = place_hand(position, cell)
    return encode_turn(cell, least_risk_gift(after, word, rules, agent))


class Gifts(KernelAgent):
    """A player that gives the piece with the least learned risk: the share of games that givers of such a piece lost.

    It places on the first cell that wins, otherwise on a random cell. A gift whose features have no row in the policy
    has the mean risk of all rows; without a policy all risks are equal. On ties, the first tied piece at or after a
    random piece is given; piece 0 follows piece 15. Word 0 of a turn gives the random cell (its upper half) and the
    random piece (the lowest four bits of the word).

    ``policy`` is of kind 'gift' and has a row for each combination of features: ``pieces``, ``wins``, ``safe`` and
    ``dangers`` (int8, ascending), and ``risk`` (float64, from 0 to 1). ``agents/gifts.py`` explains the features.
    Raises ``ValueError`` if the policy is of another kind or its table is invalid.
    """

    kernel = gifts_turn

    def __init__(self, policy: Policy | None = None) -> None:
        self._knowledge = Knowledge(params=np.array([0.5]), table=np.full(COMBINATIONS, np.nan))
        if policy is not None:
            combinations, risks = _load_feature_numbers_and_risks(policy)
            self._knowledge.table[combinations] = risks
            self._knowledge.params[UNSEEN_RISK] = risks.mean() if len(risks) else 0.5

    def knowledge(self, rules: Rules) -> Knowledge:
        return self._knowledge


def _load_feature_numbers_and_risks(policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Load, for each row of the policy, the number of its combination of features and its risk.

    Raises ``ValueError`` for values that cannot have been derived from games.
    """
    names: dict[str, type[Any]] = {**dict.fromkeys(FEATURES, np.int64), "risk": np.float64}
    *features, risk = load_checked_columns(policy, GIFT, "gifts", names)
    by_name = dict(zip(FEATURES, features, strict=True))
    for name, values in FEATURES.items():
        check_range(name, by_name[name], 0, values - 1)
    check_ascending(by_name)
    check_no_wrong_row("risk", risk, (risk < 0.0) | (risk > 1.0), "is not from 0 to 1")
    return np.ravel_multi_index(tuple(features), tuple(FEATURES.values())), risk
