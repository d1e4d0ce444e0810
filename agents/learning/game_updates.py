"""A learner's games, handed to its update one by one: by the same code while they are played and in a replay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from agents.base import OWN_TYPE, RULES_TYPE
from agents.learning.learner import UPDATE_TYPE, LoggedGame, UpdateKernel
from quarto.batch import Games
from quarto.jit import inlined, int64, kernel
from quarto.rng import stream
from quarto.rules import CELLS


class Lessons(NamedTuple):
    """Which games of a run a learner learns from: those of consecutive pairs of its only pairing, in order."""

    seed: int  # uint64: of the run
    first_pair: int  # this and the others: int64
    games_a_pair: int  # 2, or 1 if the seats are not swapped
    seat: int  # the learner's in game 0 of a pair


GAMES_TYPE = numba.typeof(Games.zeros(1))
LESSONS_TYPE = types.NamedTuple((types.uint64, types.int64, types.int64, types.int64), Lessons)
SPAN_TYPE = types.UniTuple(types.int64, 2)
LEARNED_TYPE = types.Tuple((types.int64, types.boolean))


@inlined
def learn(
    update: UpdateKernel, rules: Any, own: Any, lessons: Lessons, column: int, games: Games, pieces: Any, cells: Any
) -> bool:
    """Learn from the game in a column of ``games``; ``pieces`` and ``cells`` [16] are room for a copy of its plies."""
    for ply in range(CELLS):
        pieces[ply], cells[ply] = games.pieces[ply, column], games.cells[ply, column]
    game = column % lessons.games_a_pair
    source = stream(lessons.seed, lessons.first_pair + column // lessons.games_a_pair, game)
    plies, winner = int64(games.plies[column]), int64(games.winner[column])
    return update(LoggedGame(pieces, cells, plies, winner, lessons.seat ^ game, source), rules, own)


@kernel(LEARNED_TYPE(UPDATE_TYPE, RULES_TYPE, OWN_TYPE, LESSONS_TYPE, SPAN_TYPE, GAMES_TYPE))
def learn_all(
    update: UpdateKernel, rules: Any, own: Any, lessons: Lessons, span: tuple[int, int], games: Games
) -> tuple[int, bool]:
    """Learn from columns ``span[0]`` to before ``span[1]`` until the arrays have no room for another game.

    Returns the column after the last one learned from, and whether there is room.
    """
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for column in range(span[0], span[1]):
        if not learn(update, rules, own, lessons, column, games, pieces, cells):
            return column + 1, False
    return span[1], True
