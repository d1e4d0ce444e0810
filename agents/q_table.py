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
    find_or_add_nan_row_start,
    has_room_for_game,
    list_position_rows,
)
from agents.policy import (
    CANONICAL_HAND,
    COIN,
    EXPLORATION,
    FALLBACKS,
    Q_TABLE,
    best_known_turn,
    is_exploring,
    winning_known_or_fallback_turn,
)
from agents.random import random_cell, random_piece
from quarto.bits import piece_to_lanes
from quarto.canonical import canonical_lanes_and_occupied
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
    return winning_known_or_fallback_turn(
        position, seed, explore, rules, agent
    )  # a constant would be a second signature


@inline_function
def win_result_or_best_known_value(
    position: PackedPosition, result: float, ends: bool, rules: Any, agent: Any
) -> float:
    """Return the value of a position for the player who has the piece in hand.

    The value is 1 if this piece can finish a line. Otherwise it is ``result`` if the game ``ends`` here, or else the
    greatest known value of a turn.
    """
    if winning_cells(position.lanes, position.occupied, position.hand, rules) != 0:
        return 1.0
    return result if ends else best_known_turn(position, rules, False, agent).value


@update
def learn_q_values(game: FinishedGame, rules: Any, agent: Any) -> bool:
    """Update the values of a game's afterstates from the last to the first: see ``QTableLearner``.

    Returns whether the arrays have room for another game.
    """
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
        target = -settings[DISCOUNT] * win_result_or_best_known_value(
            position, result, ply == game.plies - 1, rules, agent
        )
        least, minimal = canonical_lanes_and_occupied(lanes, occupied, piece, tables)
        row = find_or_add_nan_row_start((least, minimal, int64(CANONICAL_HAND)), int64(1), words, values)
        value = 0.0 if np.isnan(values[row]) else values[row]
        values[row] = value + settings[LEARNING_RATE] * (target - value)
        available |= int64(1) << piece
    settings[EXPLORATION] = max(settings[FLOOR], settings[EXPLORATION] * settings[DECAY])
    return has_room_for_game(words, values)


class QTableLearner(RowLearner):
    """A Q-learner (C. Watkins, Learning from Delayed Rewards, 1989) for a zero-sum game, whose actions are whole turns.

    The value of a turn is the value of its afterstate (``agents/policy.py``): from -1 to 1 for the player who made the
    turn, and 0 at first. After a game the values of both players' turns are updated, beginning with the last turn (L.
    Lin, Self-Improving Reactive Agents, 1992). Each value moves towards a target, by ``learning_rate`` of the
    difference. The target is -``discount`` times the value of the opponent's position, which is

    - 1 if the piece in hand finishes a line there;
    - otherwise, if the game ended with the opponent's placement, the result for the opponent;
    - otherwise the greatest value among the opponent's turns that have been tried.

    With probability ``exploration`` the learner's own turn is random. This probability is multiplied by ``decay`` after
    each game but never falls below ``floor``. Otherwise the learner plays as ``PolicyAgent`` would with the values
    learned so far and this ``fallback``. Words of a turn: 0 is for the fallback; 1 decides whether the turn is random;
    2 gives a random cell (upper half) and gift (lower half). Raises ``ValueError`` for a number outside 0 to 1, and for
    a fallback that does not exist.
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
