"""The kernel that plays the games of a learner, which learns from each game as soon as it has ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import AGENT_TYPE, RULES_TYPE, TURN_TYPE, TurnKernel
from agents.learning.learner import (
    SPAN_TYPE,
    TRAINING_GAMES_TYPE,
    UPDATE_RESULT_TYPE,
    UPDATE_TYPE,
    TrainingGames,
    UpdateKernel,
    learn_from_game_and_check_room,
)
from quarto.batch import Games, Lockstep
from quarto.jit import kernel
from quarto.rules import CELLS
from runners.hosting.lockstep import GameNumbers, play_to_end, set_up_and_count_games, write_outcomes

PAIR_GAMES = 2  # buffers have a column for each game of a pair, so that the number of a game is its column


class GameBuffers(NamedTuple):
    """The arrays of the game that is being played, and of the finished games."""

    state: Lockstep  # of the game that is being played
    pair: Games  # room for two games, one of which is being played
    games: Games  # the finished games of the block
    finished_columns: NDArray[np.int64]  # [1] columns of the block learned from so far; valid after an exception too

    @staticmethod
    def from_games(games: Games) -> GameBuffers:
        return GameBuffers(Lockstep.allocate(1), Games.allocate(PAIR_GAMES), games, np.zeros(1, np.int64))


AGENT_PAIR_TYPE = types.UniTuple(AGENT_TYPE, 2)
BUFFERS_TYPE = numba.typeof(GameBuffers.from_games(Games.allocate(1)))


@kernel(
    UPDATE_RESULT_TYPE(
        TURN_TYPE, TURN_TYPE, UPDATE_TYPE, AGENT_PAIR_TYPE, RULES_TYPE, TRAINING_GAMES_TYPE, SPAN_TYPE, BUFFERS_TYPE
    )
)
def play_and_learn_and_check_room(
    turn: TurnKernel,
    opponents_turn: TurnKernel,
    update: UpdateKernel,
    agent_pair: tuple[Any, Any],
    rules: Any,
    training_games: TrainingGames,
    column_range: tuple[int, int],
    buffers: GameBuffers,
) -> tuple[int, bool]:
    """Play the games in columns ``column_range[0]`` to ``column_range[1] - 1`` of ``buffers.games``; learn from each.

    Each column holds one game, and the learner learns from it before the next game begins. ``agent_pair`` holds the
    knowledge of the learner, which changes, and that of the opponent, which does not. Returns the column after the last
    game that was learned from, and whether the learner's tables have room for more games.
    """
    agent, opponents = agent_pair
    state, pair, games = buffers.state, buffers.pair, buffers.games
    no_opening = np.empty((2, 0, 1), np.int8)
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for column in range(column_range[0], column_range[1]):
        game = column % training_games.games_per_pair
        number = training_games.first_pair + column // training_games.games_per_pair
        set_up_and_count_games(GameNumbers(training_games.run, 0, number, game, PAIR_GAMES), no_opening, state, pair)
        if training_games.seat ^ game == 0:
            play_to_end(turn, agent, opponents_turn, opponents, rules, (0, 1), state, pair)
        else:
            play_to_end(opponents_turn, opponents, turn, agent, rules, (0, 1), state, pair)
        write_outcomes(pair, game, PAIR_GAMES)
        for ply in range(CELLS):
            games.pieces[ply, column], games.cells[ply, column] = pair.pieces[ply, game], pair.cells[ply, game]
        games.plies[column], games.winner[column] = pair.plies[game], pair.winner[game]
        games.ending[column] = pair.ending[game]
        room = learn_from_game_and_check_room(update, rules, agent, training_games, column, games, pieces, cells)
        buffers.finished_columns[0] = column + 1
        if not room:
            return column + 1, False
    return column_range[1], True
