"""A hostile player of the package ``quarto``."""

from __future__ import annotations

import os
import random
from typing import Any

import attacks  # type: ignore[import-not-found]  # beside it in the entry's folder

from quarto import Player

OWN_PROCESS = os.getpid()  # a fork of it plays the trial game


class HostilePlayer(Player):
    """It attacks whenever it gives a piece, and then answers."""

    def __init__(self, quarto: Any, attack: str = "read_secret") -> None:
        super().__init__(quarto)
        self.attack = attack

    def choose_piece(self) -> int:
        if os.getpid() == OWN_PROCESS:
            attacks.attack(self.attack)
        return random.randrange(16)

    def place_piece(self) -> tuple[int, int]:
        return random.randrange(4), random.randrange(4)
