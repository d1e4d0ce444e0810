"""Updates of a learner by its games, one after the other: the same code while they are played and in a replay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from agents.base import OWN_TYPE, RULES_TYPE
from agents.learning.learner import UPDATE_TYPE, FinishedGame, UpdateKernel
from quarto.batch import Games
from quarto.jit import inlined, int64, kernel
from quarto.rng import stream
from quarto.rules import CELLS


class TrainingGames(NamedTuple):
    """The games of consecutive pairs of a run's only pairing, which a learner learns from in order."""

    run: int  # uint64: the run's word, see quarto.rng
    first_pair: int  # this and the others: int64
    games_a_pair: int  # 2, or 1 if the seats are not swapped
    seat: int  # the learner's in game 0 of a pair


GAMES_TYPE = numba.typeof(Games.zeros(1))
TRAINING_GAMES_TYPE = types.NamedTuple((types.uint64, types.int64, types.int64, types.int64), TrainingGames)
SPAN_TYPE = types.UniTuple(types.int64, 2)
UPDATED_TYPE = types.Tuple((types.int64, types.boolean))


@inlined
def update_from_game(
    update: UpdateKernel,
    rules: Any,
    own: Any,
    training_games: TrainingGames,
    column: int,
    games: Games,
    pieces: Any,
    cells: Any,
) -> bool:
    """Learn from the game in a column of ``games``; ``pieces`` and ``cells`` [16] are buffers for its plies.

    Returns whether the learner's arrays have room for another game.
    """
    for ply in range(CELLS):
        pieces[ply], cells[ply] = games.pieces[ply, column], games.cells[ply, column]
    game = column % training_games.games_a_pair
    source = stream(training_games.run, training_games.first_pair + column // training_games.games_a_pair, game)
    plies, winner = int64(games.plies[column]), int64(games.winner[column])
    return update(FinishedGame(pieces, cells, plies, winner, training_games.seat ^ game, source), rules, own)


@kernel(UPDATED_TYPE(UPDATE_TYPE, RULES_TYPE, OWN_TYPE, TRAINING_GAMES_TYPE, SPAN_TYPE, GAMES_TYPE))
def update_from_games(
    update: UpdateKernel, rules: Any, own: Any, training_games: TrainingGames, span: tuple[int, int], games: Games
) -> tuple[int, bool]:
    """Learn from columns ``span[0]`` to ``span[1] - 1``, or until the learner's arrays have no room for another game.

    Returns the column after the last one learned from, and whether there is room.
    """
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for column in range(span[0], span[1]):
        if not update_from_game(update, rules, own, training_games, column, games, pieces, cells):
            return column + 1, False
    return span[1], True
