"""Q-learning of whole turns: the value of a turn is the value of the afterstate that it leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agents.base.agent import Knowledge, encode_turn, keys, params, symmetry_tables, table, turn
from agents.base.parameters import check_one_of, check_probability
from agents.learning.learner import FinishedGame, update
from agents.learning.policy import Policy
from agents.learning.position_rows import (
    RowLearner,
    build_empty_row_knowledge,
    find_or_add_row,
    has_room,
    list_position_rows,
)
from agents.policy import (
    CANONICAL_HAND,
    COIN,
    EXPLORATION,
    FALLBACKS,
    Q_TABLE,
    afterstate_turn,
    best_known_turn,
    is_exploring,
)
from agents.random import random_cell, random_piece
from quarto.bits import piece_to_lanes
from quarto.canonical import canonical_form
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition
from quarto.rng import draw
from quarto.rules import CELLS, NONE, Rules
from quarto.threats import winning_cells

# Where the parameters are, after those of ``agents/policy.py``
DECAY, FLOOR, LEARNING_RATE, DISCOUNT = range(EXPLORATION + 1, EXPLORATION + 5)
RANDOM = COIN + 1  # index of the word that says how to explore


@turn
def q_table_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    explore = is_exploring(seed, agent)
    if explore:
        word = draw(seed, RANDOM)
        return encode_turn(random_cell(word, ~position.occupied & ALL_CELLS), random_piece(word, position.available))
    return afterstate_turn(position, seed, explore, rules, agent)  # a constant would be a second signature


@inline_function
def holder_value(position: PackedPosition, result: float, ends: bool, rules: Any, agent: Any) -> float:
    """Return the value of a position for the player with the piece in hand.

    It is 1 if that piece finishes a line; else, if the game ends here, its ``result``; else the best of the turns
    known.
    """
    if winning_cells(position.lanes, position.occupied, position.hand, rules) != 0:
        return 1.0
    return result if ends else best_known_turn(position, rules, False, agent).value


@update
def learn_q_values(game: FinishedGame, rules: Any, agent: Any) -> bool:
    """Update the values from the last afterstate of a game to the first: see ``QTableLearner``."""
    settings, words, values, tables = params(agent), keys(agent), table(agent), symmetry_tables(agent)
    lanes, occupied, available = uint64(0), int64(0), int64(ALL_PIECES)
    for ply in range(game.plies):
        lanes |= piece_to_lanes(int64(game.pieces[ply])) << uint64(game.cells[ply])
        occupied |= int64(1) << int64(game.cells[ply])
        available &= ~(int64(1) << int64(game.pieces[ply]))
    for ply in range(game.plies - 1, -1, -1):
        piece, cell = int64(game.pieces[ply]), int64(game.cells[ply])
        lanes &= ~(piece_to_lanes(piece) << uint64(cell))
        occupied &= ~(int64(1) << cell)
        position = PackedPosition(lanes, occupied, available, piece, int64(NONE))
        result = 0.0 if game.winner == NONE else 1.0 if game.winner == (ply + 1) & 1 else -1.0
        target = -settings[DISCOUNT] * holder_value(position, result, ply == game.plies - 1, rules, agent)
        least, minimal = canonical_form(lanes, occupied, piece, tables)
        row = find_or_add_row((least, minimal, int64(CANONICAL_HAND)), int64(1), words, values)
        value = 0.0 if np.isnan(values[row]) else values[row]
        values[row] = value + settings[LEARNING_RATE] * (target - value)
        available |= int64(1) << piece
    settings[EXPLORATION] = max(settings[FLOOR], settings[EXPLORATION] * settings[DECAY])
    return has_room(words, values)


class QTableLearner(RowLearner):
    """Q-learning (C. Watkins, Learning from Delayed Rewards, 1989) of turns, with the signs of a zero-sum game.

    The value of a turn is that of its afterstate (``agents/policy.py``), -1 to 1 for the player who made
    it, 0 at first. After a game the values of its turns by both players change, the last turn first (L. Lin,
    Self-Improving Reactive Agents, 1992). A value moves by ``learning_rate`` of the difference towards minus
    ``discount`` times the value of the opponent's position. That value is 1 if the piece in hand finishes a line there.
    Else it is the result, if the game ended with the opponent's placement. Else it is the greatest value of the
    opponent's turns that were tried. Turns that were never tried do not count.

    With probability ``exploration``, multiplied by ``decay`` after each game but never below ``floor``, its own turn is
    random. Else it is that of the agent ``policy`` with this ``fallback``. Words of a turn: 0, the fallback's; 1,
    whether it is random; 2, a random cell (upper half) and gift (lower half). Raises ``ValueError`` for a number
    outside 0 to 1 and a fallback that does not exist.
    """

    kernel = q_table_turn
    update = learn_q_values

    def __init__(
        self,
        learning_rate: float = 0.3,
        discount: float = 0.98,
        exploration: float = 0.3,
        decay: float = 0.9999,
        floor: float = 0.1,
        fallback: str = "semi_random",
    ) -> None:
        self.settings = [
            float(FALLBACKS.index(check_one_of("fallback", fallback, FALLBACKS))),
            -1.0,
            float(CELLS),
            check_probability("exploration", exploration),
            check_probability("decay", decay),
            check_probability("floor", floor),
            check_probability("learning_rate", learning_rate),
            check_probability("discount", discount),
        ]

    def knowledge(self, rules: Rules) -> Knowledge:
        return replace(build_empty_row_knowledge(np.array(self.settings)), symmetric=True)

    def to_policy(self, knowledge: Knowledge) -> Policy:
        lanes, occupied, _, first = list_position_rows(knowledge)
        value, masks = knowledge.table[first], occupied.astype(np.int32)
        return Policy(Q_TABLE, table={"lanes": lanes, "occupied": masks, "value": value})
