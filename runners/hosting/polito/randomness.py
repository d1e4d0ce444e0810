"""``random`` of the process, and ``numpy.random`` where NumPy is installed, with a state for each live game.

Games alternate within a process, so each needs generators of its own. Saving and restoring the state of shared ones
takes longer than a quick player's turn: 18 us, against 0.4 us to exchange the generators.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Callable


class GameRandom(random.Random):
    """The generator behind the functions of ``random``: it draws from that of the game that is being played."""

    current = random.Random(0)

    def random(self) -> float:
        return self.current.random()

    def getrandbits(self, k: int) -> int:
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


class SwappableNumpyState:
    """A state of ``numpy.random`` as a generator of its own, which NumPy exchanges since 1.24."""

    def __init__(self, module: Any) -> None:
        self._bits, self._exchange, self.seed = module.MT19937(0), module.set_bit_generator, module.seed

    def activate(self) -> None:
        """From now on ``numpy.random`` draws from it."""
        self._exchange(self._bits)


class CopiedNumpyState:
    """The same for an older NumPy: the states are copied. A number that ``normal`` has left over is lost, as there."""

    active: CopiedNumpyState | None = None

    def __init__(self, module: Any) -> None:
        self._module, self.seed = module, module.seed
        self._state = module.get_state()[:3]

    def activate(self) -> None:
        """From now on ``numpy.random`` draws from it."""
        if CopiedNumpyState.active:
            CopiedNumpyState.active._state = self._module.get_state()[:3]
        CopiedNumpyState.active = self
        self._module.set_state(self._state)


class GameStreams:
    """The generators of one game."""

    __slots__ = ("numpy", "python")

    def __init__(self, seed: int, numpy: Any) -> None:
        """``numpy``: a state of ``numpy.random``, None where NumPy is missing."""
        self.python, self.numpy = random.Random(seed), numpy
        self.activate()
        if numpy:
            numpy.seed([seed & 0xFFFFFFFF, seed >> 32])

    def activate(self) -> None:
        """From now on ``random`` and ``numpy.random`` are those of this game."""
        GameRandom.current = self.python
        if self.numpy:
            self.numpy.activate()


class StreamPool:
    """Makes the generators of games; those of NumPy, which take long to make, are used again."""

    def __init__(self, build_numpy_state: Callable[[], Any]) -> None:
        """``build_numpy_state``: of ``patch_random_returning_state_factory``."""
        self._new_state = build_numpy_state
        self._free: list[Any] = []

    def acquire(self, seed: int) -> GameStreams:
        """The generators of a new game, in use."""
        return GameStreams(seed, self._free.pop() if self._free else self._new_state())

    def release(self, streams: GameStreams) -> None:
        """The game is over."""
        self._free.append(streams.numpy)


def patch_random_returning_state_factory() -> Callable[[], Any]:
    """Let the functions of both modules draw from the games' generators. Before a player is imported, not after.

    Returned is what makes a state of ``numpy.random``; it makes None where NumPy is missing.
    """
    shared, ours = random._inst, GameRandom()
    for name in random.__all__:
        if getattr(getattr(random, name), "__self__", None) is shared:
            setattr(random, name, getattr(ours, name))
    random._inst = ours
    try:
        import numpy.random as module
    except ImportError:  # a player that needs it says so itself
        return lambda: None
    _patch_unseeded_functions(module)
    return partial(SwappableNumpyState if hasattr(module, "set_bit_generator") else CopiedNumpyState, module)


def _patch_unseeded_functions(module: Any) -> None:
    """Let functions of ``numpy.random`` without a seed not take it from the operating system."""
    seed_shared: Callable[..., None] = module.seed
    new_generator: Any = getattr(module, "default_rng", None)  # since NumPy 1.17

    def seed(seed: Any = None) -> None:
        """``numpy.random.seed``; without a seed it changes nothing."""
        if seed is not None:
            seed_shared(seed)

    def default_rng(seed: Any = None) -> Any:
        """``numpy.random.default_rng``; without a seed, one from the game's stream."""
        return new_generator(GameRandom.current.getrandbits(64) if seed is None else seed)

    module.seed = seed
    if new_generator:
        module.default_rng = default_rng
