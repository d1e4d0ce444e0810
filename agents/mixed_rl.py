"""Study A's mixed strategy with learning: take a win; search late in the game; otherwise play what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.alpha_beta import MEMORY_SIZE
from agents.base.agent import Knowledge, TurnKernel, encode_turn, keys, params, symmetry_tables, table, turn
from agents.base.parameters import check_integer
from agents.learning.policy import Policy
from agents.minimax import decode_cell, decode_gift
from agents.mixed import Mixed, search_turn_meeting_conditions, study_program_cell_and_found_gift
from agents.random import random_piece
from agents.rl_tabular import best_counter_cell, best_counter_gift, build_counter_knowledge, load_checked_counters
from agents.rule_based import GAME_WORDS, mirror_or_farthest_cell, most_different_piece
from quarto.bits import lowest_bit
from quarto.jit import int64
from quarto.position import PackedPosition, place_hand
from quarto.rng import draw
from quarto.rules import NONE, Rules
from quarto.threats import winning_cells

ALL_PERCENT = 100  # percent


@turn
def mixed_rl_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word, tables, words, values = draw(seed, 0), symmetry_tables(agent), keys(agent), table(agent)
    if position.hand == NONE:
        gift = best_counter_gift(position, tables, words, values)
        return encode_turn(NONE, gift if gift != NONE else random_piece(word, position.available))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins != 0:
        cell, gift = int64(lowest_bit(wins)), int64(NONE)
    else:
        search_turn = search_turn_meeting_conditions(position, params(agent), rules, agent)
        cell, gift = decode_cell(search_turn), decode_gift(search_turn)
    if cell == NONE:
        cell = best_counter_cell(position, tables, words, values)
    if cell == NONE:
        cell = mirror_or_farthest_cell(position, word)
    if gift == NONE:
        gift = best_counter_gift(place_hand(position, cell), tables, words, values)
    if gift == NONE:
        gift = most_different_piece(position.available, position.hand)
    return encode_turn(cell, gift)


@turn
def mixed_rl_program_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    if position.hand == NONE:
        return encode_turn(NONE, random_piece(draw(seed, 0), position.available))
    chosen = study_program_cell_and_found_gift(position, seed, rules, agent)
    cell, gift = decode_cell(chosen), decode_gift(chosen)
    return encode_turn(cell, gift if gift != NONE else most_different_piece(position.available, position.hand))


class MixedRl(Mixed):
    """Study A's ``mixed_rl`` (``lorenzobellino/quarto-player``).

    Unused pieces are neither on the board nor in hand. The cell is

    - the first one that wins;
    - otherwise, if fewer than ``few_unused`` pieces are unused, the cell of the turn that a ``minimax`` search of depth
      ``depth`` finds, provided that the turn is worth more than ``above`` percent;
    - otherwise the one that ``rl_tabular`` has learned for this board, if any;
    - otherwise the mirror cell of ``rule_based``.

    If the cell comes from the search, so does the gift. Otherwise the gift is the one that ``rl_tabular`` has learned.
    If it has learned none, the gift is the piece that differs most from the piece just placed or, at the opening, a
    random piece.

    With ``faithful``, it follows the study's program: it searches and mirrors as ``mixed`` does with ``faithful``. Like
    ``rl_tabular`` with ``faithful``, it then recognises no board and uses nothing that was learned. By default
    ``few_unused`` and ``depth`` are the numbers in the study's text, or in its program if ``faithful``.

    ``policy`` is a policy that ``rl_tabular`` can read. Word 0 of a turn gives the opening gift (lower half) or, on an
    empty board, the cell. Raises ``ValueError`` for a policy that ``rl_tabular`` cannot read, for a number of pieces
    outside 0 to 16, for a depth outside 1 to 16, and for a percentage that is not whole or is outside 0 to 100.
    """

    kernel = mixed_rl_turn
    text_parameters = (7, 4)
    code_parameters = (6, 3)

    def __init__(
        self,
        policy: Policy | None = None,
        few_unused: int | None = None,
        depth: int | None = None,
        above: int = 60,
        faithful: bool = False,
    ) -> None:
        super().__init__(few_unused, depth, faithful)
        self.above = check_integer("above", above, 0, ALL_PERCENT)
        self._columns = None if policy is None else load_checked_counters(policy, "mixed_rl")

    def turn_kernel(self) -> TurnKernel:
        return mixed_rl_program_turn if self.faithful else mixed_rl_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = [float(self.few_unused), float(self.depth), float(self.above)]
        if self.faithful:
            return Knowledge(params=np.array([*settings, 0.0]), game_words=GAME_WORDS)  # the last version
        return build_counter_knowledge(self._columns, np.array(settings), rules, MEMORY_SIZE)
