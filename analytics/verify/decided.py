"""The exact values that cost next to nothing to know: those that the rules decide, and those of late positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analytics.derived_tables.exact_values import UNKNOWN, ExactValues, boards_of, evaluate
from quarto.batch import FULL_BOARD, LINE, Games
from quarto.jit import int64, kernel
from quarto.rules import Rules
from quarto.solver.search import wins_at_once
from quarto.solver.solver import Solver
from quarto.threats import SAFE_PIECES, danger, winning_cells

LATE = 10  # pieces from which on all positions are solved: some 20 microseconds a game
MEGABYTES = 1.0  # of the table of solved boards


def known_values(games: Games, first: NDArray[np.int8], choices: bool, rules: Rules) -> ExactValues:
    """The values of games from ply ``first`` [G] on that are known without a long search; the others are ``UNKNOWN``.

    With ``choices``, the choices that keep a value are counted on late boards.
    """
    values, solver = ExactValues.empty(len(first)), Solver(rules, MEGABYTES)
    for column in (values.gift, values.placement, values.end):
        column.fill(UNKNOWN)
    _decide(games, values, rules.tables)
    evaluate(0, len(first), int(choices), games, np.maximum(first, np.int8(LATE)), values, *solver.state)
    return values


@kernel()
def _decide(games: Games, values: ExactValues, rules: Any) -> None:
    """Fill in what a look at the board tells: wins at once, boards on which every gift loses at once, and ends."""
    lanes, occupied, available = np.empty(17, np.uint64), np.empty(17, np.int64), np.empty(17, np.int64)
    for game in range(games.plies.shape[0]):
        boards_of(games, game, lanes, occupied, available)
        for ply in range(games.plies[game]):
            if rules.mover_chooses != 0:
                if wins_at_once(lanes[ply], occupied[ply], available[ply], rules):
                    values.placement[ply, game] = 1
                continue
            if winning_cells(lanes[ply], occupied[ply], int64(games.pieces[ply, game]), rules) != 0:
                values.placement[ply, game] = 1
            if available[ply] & SAFE_PIECES[danger(lanes[ply], occupied[ply], rules)] == 0:
                values.gift[ply, game] = -1
        if games.ending[game] == LINE or games.ending[game] == FULL_BOARD:
            values.end[game] = np.int8(games.ending[game] == LINE)
