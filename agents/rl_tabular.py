"""Study A's learning player: a counter for every cell and gift that was tried on a board."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agents.base import KernelAgent, Knowledge, encode_turn, keys, params, symmetry_tables, table, turn
from agents.learning.counters import (
    cell_offset,
    checked_counters,
    count_action,
    counted_cell,
    counted_gift,
    counters_policy,
    form_of,
    gift_offset,
    knowledge_of,
)
from agents.learning.learner import FinishedGame, update
from agents.learning.policy import Policy
from agents.learning.rows import RowLearner, empty_rows, has_room
from agents.parameters import checked_flag, checked_probability
from agents.random import random_cell, random_piece
from quarto.bits import spread
from quarto.jit import inlined, int64, uint64
from quarto.position import ALL_CELLS, Position, after_placing
from quarto.rng import draw, turn_offset, unit
from quarto.rules import NONE, Rules

# Where the parameters are; a player has the first two
EXPLORATION, FORGETS, EXPLORATION_STEP = range(3)
CELL_COIN, GIFT_COIN = 1, 2  # indices of the words that say whether to explore; word 0 says how


@inlined
def explores(seed: int, coin: int, settings: Any) -> bool:
    """Whether a turn with this seed takes a random action, which is then counted."""
    explored: bool = unit(draw(seed, coin)) < settings[EXPLORATION]
    return explored


@turn
def rl_tabular_turn(position: Position, seed: int, rules: Any, own: Any) -> int:
    settings, word, tables = params(own), draw(seed, 0), symmetry_tables(own)
    cell, gift, after = int64(NONE), int64(NONE), position
    recalls = settings[FORGETS] == 0.0
    if position.hand != NONE:
        if recalls and not explores(seed, CELL_COIN, settings):
            cell = counted_cell(position, tables, keys(own), table(own))
        if cell == NONE:
            cell = random_cell(word, ~position.occupied & ALL_CELLS)
        after = after_placing(position, cell)
    if recalls and not explores(seed, GIFT_COIN, settings):
        gift = counted_gift(after, tables, keys(own), table(own))
    if gift == NONE:
        gift = random_piece(word, position.available)
    return encode_turn(cell, gift)


@update
def count_explored(game: FinishedGame, rules: Any, own: Any) -> bool:
    """Study A's update: see ``TabularLearner``."""
    settings, words, values, tables = params(own), keys(own), table(own), symmetry_tables(own)
    change = 1.0 if game.winner == game.seat else -1.0
    lanes, occupied = uint64(0), int64(0)
    for taken in range(game.plies + 1):
        own_turn, seed = taken & 1 == game.seat, game.stream + turn_offset(taken)
        if taken > 0:
            cell = int64(game.cells[taken - 1])
            if own_turn and explores(seed, CELL_COIN, settings):
                form = form_of(lanes, occupied, tables)
                count_action(form, cell_offset(form, cell, tables), change, words, values)
            lanes |= spread(int64(game.pieces[taken - 1])) << uint64(cell)
            occupied |= int64(1) << cell
        if own_turn and taken < game.plies and explores(seed, GIFT_COIN, settings):
            form = form_of(lanes, occupied, tables)
            count_action(form, gift_offset(form, int64(game.pieces[taken])), change, words, values)
    settings[EXPLORATION] = max(0.0, settings[EXPLORATION] - settings[EXPLORATION_STEP])
    return has_room(words, values)


class RlTabular(KernelAgent):
    """Study A's learned player (``lorenzobellino/quarto-player``): it repeats the actions with the best results.

    Cell and gift: those with the highest counter on this board (without the piece in hand), first on ties. They are
    random if the board has no counter. Boards are known by their canonical form (``agents/learning/counters.py``).

    With ``faithful`` it plays as the study's published agent. Its keys were hashes of texts, which differ from process
    to process. So it recognised no board and played at random.

    ``policy`` is of kind 'counters'. It has a row for each cell or gift that was counted on a board, ascending.
    Columns: ``lanes`` int64, ``occupied`` int32, ``cell`` int8, ``gift`` int8 (one of the two is -1), ``count`` int64.
    Word 0 of a turn is the random cell (upper half) and gift (lower half). Raises ``ValueError`` for a policy that is
    not like that. ``knowledge`` does for one that was learned under rules with other symmetries.
    """

    kernel = rl_tabular_turn

    def __init__(self, policy: Policy | None = None, faithful: bool = False) -> None:
        self.faithful = checked_flag("faithful", faithful)
        self._columns = None if policy is None else checked_counters(policy, "rl_tabular")

    def knowledge(self, rules: Rules) -> Knowledge:
        return knowledge_of(self._columns, np.array([0.0, float(self.faithful)]), rules)


class TabularLearner(RowLearner):
    """Learns what ``RlTabular`` plays by, as study A did against ``rule_based``.

    With probability ``exploration``, less by ``exploration_step`` after each game until it is 0, a cell is uniform
    among the empty ones. A gift is uniform among the pieces left with the same probability, drawn separately. Only such
    actions are counted: after the game, +1 for each if it was won, -1 if it was lost or drawn. (So with the study's
    numbers nothing more is learned after 70 games.) Otherwise it plays as ``RlTabular`` does by its counters so far.

    Words of a turn: 0, a random cell (upper half) and gift (lower half); 1, whether the cell is explored; 2, whether
    the gift is. Raises ``ValueError`` for a number outside 0 to 1.
    """

    kernel = rl_tabular_turn
    update = count_explored

    def __init__(self, exploration: float = 0.7, exploration_step: float = 0.01) -> None:
        self.exploration = checked_probability("exploration", exploration)
        self.exploration_step = checked_probability("exploration_step", exploration_step)

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = np.array([self.exploration, 0.0, self.exploration_step])
        return replace(empty_rows(settings), symmetric=True)

    def policy(self, knowledge: Knowledge) -> Policy:
        return counters_policy(knowledge)
