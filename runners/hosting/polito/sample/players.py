"""The simplest player of the ``quarto`` package, which may serve as a pattern."""

from __future__ import annotations

import random

from quarto import Player


class RandomPlayer(Player):
    """A player that answers with any piece and any cell, because the game asks again after an illegal answer."""

    def choose_piece(self) -> int:
        return random.randrange(16)

    def place_piece(self) -> tuple[int, int]:
        return random.randrange(4), random.randrange(4)
