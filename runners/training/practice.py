"""A learner's games while it learns: one after the other, and what one has taught is known in the next."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base import OWN_TYPE, RULES_TYPE, TURN_TYPE, TurnKernel
from agents.learning.game_updates import LEARNED_TYPE, LESSONS_TYPE, SPAN_TYPE, Lessons, learn
from agents.learning.learner import UPDATE_TYPE, UpdateKernel
from quarto.batch import Games, Lockstep
from quarto.jit import kernel
from quarto.rules import CELLS
from runners.arena.lockstep import Deal, begin, play_out, settle

PAIR = 2  # games are dealt as if both of a pair were there, so that the number of a game is its column


class Desk(NamedTuple):
    """Where games are played and kept."""

    state: Lockstep  # of one game
    pair: Games  # of two games, one of which is being played
    games: Games  # those of the block
    finished: NDArray[np.int64]  # [1] how many columns of it have been learned from; an exception leaves it right

    @staticmethod
    def of(games: Games) -> Desk:
        return Desk(Lockstep.empty(1), Games.zeros(PAIR), games, np.zeros(1, np.int64))


BOTH_TYPE = types.UniTuple(OWN_TYPE, 2)
DESK_TYPE = numba.typeof(Desk.of(Games.zeros(1)))


@kernel(LEARNED_TYPE(TURN_TYPE, TURN_TYPE, UPDATE_TYPE, BOTH_TYPE, RULES_TYPE, LESSONS_TYPE, SPAN_TYPE, DESK_TYPE))
def practise(
    turn: TurnKernel,
    opponents_turn: TurnKernel,
    update: UpdateKernel,
    both: tuple[Any, Any],
    rules: Any,
    lessons: Lessons,
    span: tuple[int, int],
    desk: Desk,
) -> tuple[int, bool]:
    """Play columns ``span[0]`` to before ``span[1]`` of the block, and learn from each before the next.

    ``both`` are what the learner reads and changes, and what its opponent reads. Returns as ``learn_all``.
    """
    own, opponents = both
    state, pair, games = desk.state, desk.pair, desk.games
    no_opening = np.empty((2, 0, 1), np.int8)
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for column in range(span[0], span[1]):
        game = column % lessons.games_a_pair
        number = lessons.first_pair + column // lessons.games_a_pair
        begin(Deal(lessons.seed, 0, number, game, PAIR), no_opening, state, pair)
        if lessons.seat ^ game == 0:
            play_out(turn, own, opponents_turn, opponents, rules, (0, 1), state, pair)
        else:
            play_out(opponents_turn, opponents, turn, own, rules, (0, 1), state, pair)
        settle(pair, game, PAIR)
        for ply in range(CELLS):
            games.pieces[ply, column], games.cells[ply, column] = pair.pieces[ply, game], pair.cells[ply, game]
        games.plies[column], games.winner[column] = pair.plies[game], pair.winner[game]
        games.ending[column] = pair.ending[game]
        room = learn(update, rules, own, lessons, column, games, pieces, cells)
        desk.finished[0] = column + 1
        if not room:
            return column + 1, False
    return span[1], True
