"""The kind 'fitted_q': values of turns if both players go on with the best turns in the log."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.parameters import check_integer, check_probability
from agents.learning.policy import Policy
from agents.policy import FITTED_Q
from analytics.policies.kinds.dataset import Dataset, map_spans
from analytics.policies.kinds.mc_afterstate import (
    MAX_LEAST,
    NO_KEY,
    GameBoards,
    add_or_remove_ply_everywhere,
    add_ply,
    build_level,
    build_sorted_afterstate_table,
    decode_lanes_and_occupied,
    fill_keys_and_wins,
    remove_ply,
)
from quarto.jit import int64, kernel, uint64
from quarto.rules import CELLS, NONE


class FittedQ:
    """Q-iteration over the logged transitions (D. Ernst et al., Tree-Based Batch Mode Reinforcement Learning, 2005).

    The value of a turn is minus ``discount`` times the value of the position that the turn leaves to the opponent. The
    value of a position is 1 if the piece in hand can finish a line. Otherwise, it is the maximum over the logged games
    that met the position: a game that ended with the next placement contributes its result, and a game that went on
    contributes the value of the turn that was made there. Turns that nobody made do not contribute (S. Fujimoto et al.,
    Off-Policy Deep Reinforcement Learning without Exploration, 2019). Imposed turns do contribute, because it does not
    matter who chose them.

    Each ply adds a piece, so one sweep from the last ply to the first reaches the fixed point exactly. Maxima and
    products do not depend on the order of games.

    There is a row for each afterstate that at least ``least`` games met; a rarer afterstate has no row, although it
    contributed to the values of earlier afterstates. Afterstates are in canonical form. Columns:

    - ``lanes`` int64: the pieces on the board, as four masks of 16 cells, one mask for each attribute;
    - ``occupied`` int32: the mask of the occupied cells;
    - ``count`` int64: the number of games that met the afterstate;
    - ``value`` float64: the value for the player who made the turn.

    Raises ``ValueError`` for a parameter that is out of range.
    """

    def __init__(self, discount: float = 0.98, least: int = 2) -> None:
        self.discount = check_probability("discount", discount)
        self.least = check_integer("least", least, 1, MAX_LEAST)

    def derive(self, dataset: Dataset, threads: int) -> Policy:
        boards = GameBoards.empty(len(dataset.game_id))
        worth = np.zeros(len(dataset.game_id))  # value of each game's turn at the level above, for its player
        for ply in range(CELLS):
            add_or_remove_ply_everywhere(add_ply, dataset.games, ply, boards, threads)
        parts = []
        for ply in range(CELLS - 1, -1, -1):
            add_or_remove_ply_everywhere(remove_ply, dataset.games, ply, boards, threads)
            parts.append(self._fit_best_values_of_level(dataset, ply, boards, worth, threads))
        return Policy(FITTED_Q, table=build_sorted_afterstate_table(parts, "value"))

    def _fit_best_values_of_level(
        self, dataset: Dataset, pieces: int, boards: GameBoards, turn_values: NDArray[np.float64], threads: int
    ) -> tuple[NDArray[Any], ...]:
        """Compute the values of the afterstates with ``pieces`` pieces on the board; return the columns of their rows.

        The columns are ``lanes``, ``occupied``, ``count`` and ``value``. Afterstates that fewer than ``least`` games
        met are left out. On entry, ``turn_values`` [G] has, for each game, the value of the turn that leaves
        ``pieces + 1`` pieces on the board; on return, that of the turn that leaves ``pieces`` pieces.
        """
        games, level, size = dataset.games, build_level(dataset.rules, pieces), len(dataset.game_id)
        keys, wins, rules = np.empty(size, np.uint64), np.empty(size, np.bool_), dataset.rules.tables

        def fill_keys_and_wins_of_span(first: int, last: int) -> None:
            fill_keys_and_wins(games, level, boards, rules, keys, wins, (first, last))

        map_spans(fill_keys_and_wins_of_span, 0, size, threads)
        ends, order = games.plies == pieces + 1, np.argsort(keys)
        different, counts, values = fit_best_values_and_update_turns(
            keys, order, wins, ends, games.winner, pieces, self.discount, turn_values
        )
        kept = counts >= self.least
        lanes, occupied = decode_lanes_and_occupied(different[kept], level)
        return lanes, occupied, counts[kept], values[kept]


class FittedLevel(NamedTuple):
    """The distinct afterstates with one number of pieces on the board: keys, counts of games, and values.

    All arrays are [K], where K is the number of distinct afterstates. ``games`` counts the games that met each.
    """

    keys: NDArray[np.uint64]
    games: NDArray[np.int64]
    values: NDArray[np.float64]


@kernel()
def fit_best_values_and_update_turns(
    keys: NDArray[np.uint64],
    order: NDArray[np.int64],
    can_win: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    winner: NDArray[np.int8],
    pieces: int,
    discount: float,
    turn_values: NDArray[np.float64],
) -> FittedLevel:
    """Compute the value of each distinct afterstate from the opponent's best next turn in the games.

    The value is minus ``discount`` times the best that the opponent reached after it: 1 if the next placement can
    finish a line; otherwise, the greatest of the results of the games that ended with this placement and the values of
    the next turns in the other games.

    ``keys`` [G] has the key of each game's afterstate with ``pieces`` pieces on the board, or NO_KEY if the game ended
    earlier, and ``order`` [G] has the indices of the games sorted by key. ``can_win`` [G] says whether the next
    placement can finish a line, ``ends`` [G] whether the game ended with it, and ``winner`` [G] which seat won, or
    NONE. ``turn_values`` [G] is updated: on entry it has the value of each game's next turn, and on return the value of
    the turn that led to this afterstate.
    """
    size, different = len(keys), int64(0)
    for i in range(size):
        key = keys[order[i]]
        different += int64(key != uint64(NO_KEY) and (i == 0 or key != keys[order[i - 1]]))
    distinct_keys, counts, values = np.empty(different, np.uint64), np.empty(different, np.int64), np.empty(different)
    start = int64(0)
    for row in range(different):
        key, end, best = keys[order[start]], start, -np.inf
        while end < size and keys[order[end]] == key:
            game = order[end]
            if can_win[game]:
                best = 1.0
            elif ends[game]:
                result = 0.0 if winner[game] == NONE else 1.0 if winner[game] == (pieces + 1) & 1 else -1.0
                best = max(best, result)
            else:
                best = max(best, turn_values[game])
            end += 1
        distinct_keys[row], counts[row], values[row] = key, end - start, -discount * best
        for i in range(start, end):
            turn_values[order[i]] = -discount * best
        start = end
    return FittedLevel(distinct_keys, counts, values)
