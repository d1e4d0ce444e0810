"""The interface of players that learn: a jitted agent, and a pure function that updates its table after each game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base import OWN_TYPE, RULES_TYPE, KernelAgent, Knowledge
from agents.learning.policy import Policy
from quarto.jit import kernel


class FinishedGame(NamedTuple):
    """A finished game as the archive has it, and the learner's seat."""

    pieces: NDArray[np.int8]  # [16]; entries from ``plies`` on mean nothing
    cells: NDArray[np.int8]  # [16]
    plies: int  # this and the next two: int64
    winner: int  # seat, or NONE for a draw
    seat: int  # of the learner
    stream: int  # uint64: RNG stream of the game, so that an update can repeat any draw of the learner's turns


FINISHED_GAME_TYPE = types.NamedTuple(
    (types.int8[::1], types.int8[::1], types.int64, types.int64, types.int64, types.uint64), FinishedGame
)
UPDATE_SIGNATURE = types.boolean(FINISHED_GAME_TYPE, RULES_TYPE, OWN_TYPE)
UPDATE_TYPE = types.FunctionType(UPDATE_SIGNATURE)

UpdateKernel = Callable[[FinishedGame, Any, Any], bool]


def update(function: UpdateKernel) -> UpdateKernel:
    """Compile an update with the signature that all learners share.

    ``function(game, rules, own) -> bool`` changes the arrays behind ``own`` (params, table, keys). It returns whether
    they have room for another game. It reads nothing else. So replaying a run's games in the order of their ids, from
    fresh knowledge, gives the same bytes as learning during play.
    """
    return kernel(UPDATE_SIGNATURE)(function)


class Learner(KernelAgent):
    """A jitted agent that learns from each game it plays.

    Its ``kernel`` plays by what ``own`` holds and explores as its parameters say; its ``update`` learns. Values that
    change from game to game without being learned, such as the probability of exploring, are in ``params`` too.
    """

    update: ClassVar[UpdateKernel]

    def grown(self, knowledge: Knowledge) -> Knowledge:
        """The same knowledge with room for at least twice as much. Learners of a fixed size do without this method."""
        raise NotImplementedError

    def policy(self, knowledge: Knowledge) -> Policy:
        """The learned policy, for a player to read."""
        raise NotImplementedError
