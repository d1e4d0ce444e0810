"""The same two questions where the mover chooses the piece as well as the cell (``own_piece``).

A position is a board alone. A turn loses at once if the opponent can then finish a line with a piece that is left. So
only boards on which every piece left is safe are searched.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

from quarto.bits import array_pointer, lowest_bit, popcount
from quarto.jit import entry, inlined, int64, kernel, uint64
from quarto.position import ALL_CELLS, placed
from quarto.solver.table import DRAW, RULES_TYPE, SEARCH_TYPE, key_of, recall, remember
from quarto.threats import SAFE_PIECES, danger

TABLE_PIECES = 11  # boards with more have no key of one word

# (lanes, occupied, available, question, rules, search) -> 1 or 0
QUESTION = types.int64(types.uint64, types.int64, types.int64, types.int64, RULES_TYPE, SEARCH_TYPE)


@inlined
def wins_at_once(lanes: int, occupied: int, available: int, rules: Any) -> bool:
    """Whether some available piece finishes a line."""
    return bool((available & ~SAFE_PIECES[danger(lanes, occupied, rules)]) != 0)


@kernel(QUESTION)
def _can_move(lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any) -> int:
    """Whether the mover can win, or can at least draw: 1 or 0. It means nothing once ``search.stopped`` is 1."""
    if available == 0:
        return int64(question == DRAW)
    if wins_at_once(lanes, occupied, available, rules):
        return 1
    search.nodes += 1
    search.stopped |= numba.carray(array_pointer(search.stop), 1, np.int64)[0]
    pieces = int64(popcount(occupied)) + 1
    gifts, answer = available, int64(0)
    while gifts and answer == 0 and search.stopped == 0:
        piece = lowest_bit(gifts)
        gifts &= gifts - 1
        rest, empty = available & ~(int64(1) << piece), ~occupied & ALL_CELLS
        while empty and answer == 0 and search.stopped == 0:
            cell = lowest_bit(empty)
            empty &= empty - 1
            board, filled = placed(lanes, piece, cell), occupied | int64(1) << cell
            if wins_at_once(board, filled, rest, rules):
                continue
            key = key_of(board, filled, search) if pieces <= TABLE_PIECES else uint64(0)
            known = recall(key, pieces, 1 - question, search) if pieces <= TABLE_PIECES else int64(-1)
            theirs = known if known >= 0 else _can_move(board, filled, rest, 1 - question, rules, search)
            if known < 0 and pieces <= TABLE_PIECES and search.stopped == 0:
                remember(key, 1 - question, theirs, search)
            answer = 1 - theirs
    return answer


can_move = entry(_can_move)
