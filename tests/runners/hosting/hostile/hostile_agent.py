"""A hostile agent in Python."""

from __future__ import annotations

from typing import Any

import attacks  # type: ignore[import-not-found]  # beside it in the entry's folder


class HostileAgent:
    """It attacks in each turn, and then answers."""

    def __init__(self, attack: str = "read_secret") -> None:
        self.attack = attack

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        attacks.attack(self.attack)
        return position.free[0], position.available[0] if position.available else -1
