"""The interface of players that learn: a jitted agent, and a pure function that updates its table after each game.

A learner is updated by its games, one after the other, by the same code in play and in a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, cast

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import AGENT_TYPE, RULES_TYPE, KernelAgent, Knowledge
from agents.learning.policy import Policy
from quarto.batch import Games
from quarto.jit import inline_function, int64, kernel, load_kernel
from quarto.rng import stream
from quarto.rules import CELLS


class FinishedGame(NamedTuple):
    """A finished game as the archive stores it, together with the learner's seat."""

    pieces: NDArray[np.int8]  # [16]; entries from ``plies`` on mean nothing
    cells: NDArray[np.int8]  # [16]
    plies: int  # this and the next two: int64
    winner: int  # seat, or NONE for a draw
    seat: int  # of the learner
    stream: int  # uint64: RNG stream of the game, so that an update can repeat any draw of the learner's turns


FINISHED_GAME_TYPE = types.NamedTuple(
    (types.int8[::1], types.int8[::1], types.int64, types.int64, types.int64, types.uint64), FinishedGame
)
UPDATE_SIGNATURE = types.boolean(FINISHED_GAME_TYPE, RULES_TYPE, AGENT_TYPE)
UPDATE_TYPE = types.FunctionType(UPDATE_SIGNATURE)

UpdateKernel = Callable[[FinishedGame, Any, Any], bool]


def update(function: UpdateKernel) -> UpdateKernel:
    """Compile an update with the signature that all learners share.

    ``function(game, rules, agent) -> bool`` changes the arrays of ``agent`` (params, table, keys) and returns whether
    these arrays have room for another game. It must depend on nothing but its arguments. Replaying a run's games in the
    order of their ids, from fresh knowledge, therefore gives the same bytes as learning during play.
    """
    return kernel(UPDATE_SIGNATURE)(function)


class Learner(KernelAgent):
    """A jitted agent that learns from each game that it plays.

    Its ``kernel`` chooses turns with the arrays of ``agent``, and explores as the agent's parameters say. Its
    ``update`` changes these arrays after a game. The parameters include values that change from game to game without
    being learned, such as the probability of exploring.
    """

    update: ClassVar[UpdateKernel]

    def load_update(self) -> UpdateKernel:
        """Return the compiled update in the form in which kernels accept it as an argument."""
        return cast("UpdateKernel", load_kernel(type(self).update))

    def enlarge(self, knowledge: Knowledge) -> Knowledge:
        """Return a copy of the knowledge whose arrays have room for at least twice as many values.

        A learner whose knowledge has a fixed size need not override this.
        """
        raise NotImplementedError

    def to_policy(self, knowledge: Knowledge) -> Policy:
        """Convert the learned knowledge to a policy, which a player can read."""
        raise NotImplementedError


class TrainingGames(NamedTuple):
    """The games from which a learner learns, in order: those of consecutive pairs in a run with one pairing."""

    run: int  # uint64: the run's word, see quarto.rng
    first_pair: int  # this and the others: int64
    games_per_pair: int  # 2, or 1 if the seats are not swapped
    seat: int  # the learner's in game 0 of a pair


GAMES_TYPE = numba.typeof(Games.allocate(1))
TRAINING_GAMES_TYPE = types.NamedTuple((types.uint64, types.int64, types.int64, types.int64), TrainingGames)
SPAN_TYPE = types.UniTuple(types.int64, 2)
UPDATE_RESULT_TYPE = types.Tuple((types.int64, types.boolean))


@inline_function
def learn_from_game_and_check_room(
    update: UpdateKernel,
    rules: Any,
    agent: Any,
    training_games: TrainingGames,
    column: int,
    games: Games,
    pieces: Any,
    cells: Any,
) -> bool:
    """Learn from the game in a column of ``games``, and return whether the learner's arrays have room for another game.

    ``pieces`` and ``cells`` [16] are buffers for the plies of the game.
    """
    for ply in range(CELLS):
        pieces[ply], cells[ply] = games.pieces[ply, column], games.cells[ply, column]
    game = column % training_games.games_per_pair
    game_stream = stream(training_games.run, training_games.first_pair + column // training_games.games_per_pair, game)
    plies, winner = int64(games.plies[column]), int64(games.winner[column])
    return update(FinishedGame(pieces, cells, plies, winner, training_games.seat ^ game, game_stream), rules, agent)


@kernel(UPDATE_RESULT_TYPE(UPDATE_TYPE, RULES_TYPE, AGENT_TYPE, TRAINING_GAMES_TYPE, SPAN_TYPE, GAMES_TYPE))
def learn_games_returning_end_and_has_room(
    update: UpdateKernel, rules: Any, agent: Any, training_games: TrainingGames, span: tuple[int, int], games: Games
) -> tuple[int, bool]:
    """Learn from the columns ``span[0]`` to ``span[1] - 1`` of ``games`` until the learner's arrays are full.

    Arrays are full if they have no room for another game. Returns the column after the last one that was learned from,
    and whether there is room for another game.
    """
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for column in range(span[0], span[1]):
        if not learn_from_game_and_check_room(update, rules, agent, training_games, column, games, pieces, cells):
            return column + 1, False
    return span[1], True
