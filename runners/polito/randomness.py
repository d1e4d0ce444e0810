"""``random`` and ``numpy.random`` of the process, with a state for each live game.

Games alternate within a process, so each needs generators of its own. Saving and restoring the state of shared ones
takes longer than a quick player's turn: 18 us, against 0.4 us to exchange the generators.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.random

_new_generator = numpy.random.default_rng
_seed_legacy = numpy.random.seed
_exchange = numpy.random.set_bit_generator  # type: ignore[attr-defined]  # its stubs lack it


class GameRandom(random.Random):
    """The generator behind the functions of ``random``: it draws from that of the game that is being played."""

    current = random.Random(0)

    def random(self) -> float:
        return self.current.random()

    def getrandbits(self, k: int, /) -> int:
        return self.current.getrandbits(k)

    def seed(self, a: Any = None, version: int = 2) -> None:
        if a is not None:  # without a seed it would be the operating system's, which cannot be repeated
            self.current.seed(a, version)

    def getstate(self) -> tuple[Any, ...]:
        return self.current.getstate()

    def setstate(self, state: tuple[Any, ...]) -> None:
        self.current.setstate(state)

    @property
    def gauss_next(self) -> float | None:
        """The second of two numbers that ``gauss`` computes at once."""
        value: float | None = vars(self.current).get("gauss_next")
        return value

    @gauss_next.setter
    def gauss_next(self, value: float | None) -> None:
        vars(self.current)["gauss_next"] = value


class GameStreams:
    """The generators of one game."""

    __slots__ = ("bits", "python")

    def __init__(self, seed: int, bits: np.random.MT19937) -> None:
        self.python = random.Random(seed)
        self.bits = bits
        self.use()
        _seed_legacy([seed & 0xFFFFFFFF, seed >> 32])

    def use(self) -> None:
        """From now on ``random`` and ``numpy.random`` are those of this game."""
        GameRandom.current = self.python
        _exchange(self.bits)


class StreamPool:
    """Makes the generators of games; those of NumPy, which take long to make, are used again."""

    def __init__(self) -> None:
        self._free: list[np.random.MT19937] = []

    def begin(self, seed: int) -> GameStreams:
        """The generators of a new game, in use."""
        return GameStreams(seed, self._free.pop() if self._free else np.random.MT19937(0))

    def end(self, streams: GameStreams) -> None:
        """The game is over."""
        self._free.append(streams.bits)


def install() -> None:
    """Let the functions of both modules draw from the games' generators. Before a player is imported, not after."""
    shared, ours = random._inst, GameRandom()
    for name in random.__all__:
        if getattr(getattr(random, name), "__self__", None) is shared:
            setattr(random, name, getattr(ours, name))
    random._inst = ours
    numpy.random.default_rng = _generator
    numpy.random.seed = _seed


def _generator(seed: Any = None) -> np.random.Generator:
    """``numpy.random.default_rng``; without a seed, one from the game's stream."""
    return _new_generator(GameRandom.current.getrandbits(64) if seed is None else seed)


def _seed(seed: Any = None) -> None:
    """``numpy.random.seed``; without a seed it changes nothing."""
    if seed is not None:
        _seed_legacy(seed)
