"""An agent that does what no agent should, where the words of its turn are even, or always."""

from __future__ import annotations

import ctypes
import os

import numpy as np

from quarto.views import PositionView
from tests.runners.experiments import OneByOne


class Wild(OneByOne):
    """Does ``what``, and plays like ``dumb`` otherwise."""

    def __init__(self, what: str = "", always: bool = False) -> None:
        self.what = what
        self.always = always
        if what == "unmakeable":
            os._exit(9)

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        chosen = self.always or int(rng.bit_generator.state["state"]["key"][0]) == 0  # the seed of the turn
        if chosen:
            self._misbehave()
        return super().choose(position, rng)

    def _misbehave(self) -> None:
        match self.what:
            case "raise":
                raise ValueError("for once")
            case "exit":
                os._exit(0)
            case "segfault":
                ctypes.string_at(0)
            case "close":
                os.closerange(0, 1000)
            case "hang":
                while True:
                    pass
            case "memory":
                np.zeros(1 << 28)  # 2 GB
            case "garbage":
                for descriptor in range(3, 1000):
                    try:
                        os.write(descriptor, b"?" * 1000)
                    except OSError:
                        continue
