"""Study A's mixed strategy: take a win; search late in the game; otherwise mirror the opponent."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.alpha_beta import FULL_SHARE, MEMORY_SIZE, SHARE_EVALUATION, TURN_BITS, search_valued_turn
from agents.base.agent import KernelAgent, Knowledge, TurnKernel, encode_turn, params, turn
from agents.base.parameters import check_flag, check_integer, check_version
from agents.minimax import NO_TURN, decode_cell, decode_gift, study_a_valued_turn
from agents.random import random_piece
from agents.rule_based import (
    EARLIER,
    GAME_WORDS,
    LAST,
    VERSIONS,
    few_safe_or_random_opening_gift,
    mirror_or_farthest_cell,
    mirror_until_free_and_remember,
    remember_search_turn_transposed,
    rule_of_thumb_gift,
)
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64
from quarto.position import PackedPosition
from quarto.rng import draw
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.threats import winning_cells

NOT_LOST = 0.0  # percent: a turn that is worth more is accepted
VERSION = 3  # index of the parameter, after the three that say when a searched turn is accepted


@inline_function
def search_turn_meeting_conditions(position: PackedPosition, conditions: Any, rules: Any, agent: Any) -> int:
    """Search for a turn if few pieces are unused, and return it if it is worth enough. Otherwise return NO_TURN.

    ``conditions`` are three numbers. The search takes place if there are fewer unused pieces than the first number; the
    second number is its depth in placements. A turn is worth enough if its value in percent is above the third number.
    """
    if popcount(position.available) >= int64(conditions[0]):
        return int64(NO_TURN)
    valued_turn = search_valued_turn(position, int64(conditions[1]), SHARE_EVALUATION, rules, agent)
    accepted = 50 * ((valued_turn >> TURN_BITS) + FULL_SHARE) > conditions[2] * FULL_SHARE
    return valued_turn & 0xFFFF if accepted else int64(NO_TURN)


@inline_function
def study_program_cell_and_found_gift(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    """Return the turn that the study's program chooses with a piece in hand.

    The gift is NONE unless the program's search found the turn. The first three parameters of the agent are the
    ``conditions`` of ``search_turn_meeting_conditions``, except that the piece in hand counts as unused here. The
    fourth parameter selects the earlier of the program's two versions if it is not 0.
    """
    settings = params(agent)
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins != 0:
        return encode_turn(lowest_bit(wins), NONE)
    if 1 + popcount(position.available) < int64(settings[0]):
        valued_turn = study_a_valued_turn(position, int64(settings[1]), rules)
        cell = decode_cell(valued_turn)
        if cell != NONE and 100 * (valued_turn >> TURN_BITS) > settings[2] * FULL_SHARE:
            remember_search_turn_transposed(position, cell, agent)
            return valued_turn & 0xFFFF
    return encode_turn(mirror_until_free_and_remember(position, settings[VERSION] != 0.0, seed, agent), NONE)


@turn
def mixed_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word = draw(seed, 0)
    if position.hand == NONE:
        return encode_turn(NONE, random_piece(word, position.available))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins != 0:
        cell, gift = int64(lowest_bit(wins)), int64(NONE)
    else:
        search_turn = search_turn_meeting_conditions(position, params(agent), rules, agent)
        cell, gift = decode_cell(search_turn), decode_gift(search_turn)
    if cell == NONE:
        cell = mirror_or_farthest_cell(position, word)
    if gift == NONE:
        gift = rule_of_thumb_gift(position, cell, rules)
    return encode_turn(cell, gift)


@turn
def mixed_program_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    if position.hand == NONE:
        return encode_turn(NONE, few_safe_or_random_opening_gift(position, seed, rules, agent))
    chosen = study_program_cell_and_found_gift(position, seed, rules, agent)
    cell, gift = decode_cell(chosen), decode_gift(chosen)
    return encode_turn(cell, gift if gift != NONE else rule_of_thumb_gift(position, cell, rules))


class Mixed(KernelAgent):
    """Study A's ``mixed`` (``lorenzobellino/quarto-player``).

    Unused pieces are neither on the board nor in hand. The cell is

    - the first one that wins;
    - otherwise, if fewer than ``few_unused`` pieces are unused, the cell of the turn that a ``minimax`` search of depth
      ``depth`` finds, provided that the turn is worth more than 0 percent;
    - otherwise the mirror cell of ``rule_based``.

    If the cell comes from the search, so does the gift. Otherwise the gift is chosen as ``rule_based`` does. Word 0 of
    a turn gives the opening gift (lower half) or, on an empty board, the cell.

    With ``faithful``, it follows the study's program: it uses ``minimax`` and ``rule_based`` as they play with
    ``faithful`` and the same ``version``, and the piece in hand counts as unused. By default ``few_unused`` and
    ``depth`` are the numbers in the study's text, or in its program if ``faithful``.

    Raises ``ValueError`` for a number of pieces outside 0 to 16, for a depth outside 1 to 16, for an unknown version,
    and for an earlier version without ``faithful``.
    """

    kernel = mixed_turn
    text_parameters = (8, 4)  # fewer unused pieces than this, placements ahead
    code_parameters = (6, 3)

    def __init__(
        self, few_unused: int | None = None, depth: int | None = None, faithful: bool = False, version: str = LAST
    ) -> None:
        self.faithful = check_flag("faithful", faithful)
        self.version = check_version(version, faithful, VERSIONS)
        usual_unused, usual_depth = self.code_parameters if faithful else self.text_parameters
        self.few_unused = check_integer("few_unused", usual_unused if few_unused is None else few_unused, 0, PIECES)
        self.depth = check_integer("depth", usual_depth if depth is None else depth, 1, CELLS)

    def turn_kernel(self) -> TurnKernel:
        return mixed_program_turn if self.faithful else mixed_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = np.array([self.few_unused, self.depth, NOT_LOST, self.version == EARLIER], np.float64)
        if self.faithful:
            return Knowledge(params=settings, game_words=GAME_WORDS)
        return Knowledge(params=settings[:VERSION], scratch_size=MEMORY_SIZE)
