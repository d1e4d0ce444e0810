"""A state of ``random``, and of ``numpy.random`` where NumPy is installed, for each live game.

Games alternate within a process, so each game needs generators of its own. Saving and restoring the state of shared
generators would take longer than a quick player's turn: 18 us, against 0.4 us to exchange the generators.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Callable


class GameRandom(random.Random):
    """The generator behind the functions of ``random``. It draws from the generator of the current game."""

    def __init__(self) -> None:
        self.draw_from(random.Random(0))

    def draw_from(self, generator: random.Random) -> None:
        """Let ``generator``, that of the current game, draw all numbers from now on.

        Its two sources of numbers hide the methods of this object, because to call them through methods would take
        half as long again.
        """
        self.current = generator
        self.random = generator.random  # type: ignore[method-assign]
        self.getrandbits = generator.getrandbits  # type: ignore[method-assign]

    def draw_random(self) -> float:
        """Return what the current game's ``random()`` returns."""
        return self.current.random()

    def draw_bits(self, k: int) -> int:
        """Return what the current game's ``getrandbits(k)`` returns."""
        return self.current.getrandbits(k)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Seed the generator of the current game; do nothing if ``a`` is None."""
        if a is not None:  # without a seed the operating system's would be used, which cannot be repeated
            self.current.seed(a, version)

    def getstate(self) -> tuple[Any, ...]:
        return self.current.getstate()

    def setstate(self, state: tuple[Any, ...]) -> None:
        self.current.setstate(state)

    @property
    def gauss_next(self) -> float | None:
        """The second of the two numbers that ``gauss`` computes together; None if there is none left to use."""
        value: float | None = vars(self.current).get("gauss_next")
        return value

    @gauss_next.setter
    def gauss_next(self, value: float | None) -> None:
        vars(self.current)["gauss_next"] = value


GAME_RANDOM = GameRandom()


class SwappableNumpyState:
    """A state of ``numpy.random``, kept as a generator that can be put in place of NumPy's.

    This needs NumPy 1.24, the first version that can exchange its generator.
    """

    def __init__(self, module: Any) -> None:
        self._bits, self._exchange, self.seed = module.MT19937(0), module.set_bit_generator, module.seed

    def activate(self) -> None:
        """Let ``numpy.random`` draw from this state from now on."""
        self._exchange(self._bits)


class CopiedNumpyState:
    """A state of ``numpy.random`` that is copied into NumPy's generator and back, for NumPy before version 1.24.

    ``normal`` computes two numbers at a time. The second one is lost if the state of another game is activated before
    it is used.
    """

    active: CopiedNumpyState | None = None

    def __init__(self, module: Any) -> None:
        self._module, self.seed = module, module.seed
        self._state = module.get_state()[:3]

    def activate(self) -> None:
        """Save the state of the previous game, and let ``numpy.random`` draw from this state from now on."""
        if CopiedNumpyState.active:
            CopiedNumpyState.active._state = self._module.get_state()[:3]
        CopiedNumpyState.active = self
        self._module.set_state(self._state)


class GameStreams:
    """The random generators of one game."""

    __slots__ = ("numpy", "python")

    def __init__(self, seed: int, numpy: Any) -> None:
        """Seed the generators and activate them.

        ``numpy`` is a state of ``numpy.random``, or None if NumPy is not installed.
        """
        self.python, self.numpy = random.Random(seed), numpy
        self.activate()
        if numpy:
            numpy.seed([seed & 0xFFFFFFFF, seed >> 32])

    def activate(self) -> None:
        """Let ``random`` and ``numpy.random`` draw from this game's generators from now on."""
        GAME_RANDOM.draw_from(self.python)
        if self.numpy:
            self.numpy.activate()


class StreamPool:
    """A source of generators for games. It reuses NumPy's generators, because building them is slow."""

    def __init__(self, build_numpy_state: Callable[[], Any]) -> None:
        """Initialise the pool.

        ``build_numpy_state`` builds a NumPy state; ``patch_random_returning_state_factory`` returns such a function.
        """
        self._build_numpy_state = build_numpy_state
        self._free_states: list[Any] = []

    def acquire(self, seed: int) -> GameStreams:
        """Return the generators for a new game, seeded with ``seed`` and already active."""
        return GameStreams(seed, self._free_states.pop() if self._free_states else self._build_numpy_state())

    def release(self, streams: GameStreams) -> None:
        """Take back the generators of a finished game, so that a later game can use NumPy's generator."""
        self._free_states.append(streams.numpy)


def patch_random_returning_state_factory() -> Callable[[], Any]:
    """Let the functions of ``random`` and ``numpy.random`` draw from the current game's generators.

    This must be called before a player is imported. Returns a function that builds states of ``numpy.random``; if NumPy
    is not installed, that function always returns None.
    """
    shared_generator = random._inst
    for name in random.__all__:
        if getattr(getattr(random, name), "__self__", None) is shared_generator:
            setattr(random, name, getattr(GAME_RANDOM, name))
    # Players may keep these functions, so they must not be those of one game.
    random.random, random.getrandbits = GAME_RANDOM.draw_random, GAME_RANDOM.draw_bits
    random._inst = GAME_RANDOM
    try:
        import numpy.random as module
    except ImportError:  # a player that needs NumPy reports that itself
        return lambda: None
    _patch_unseeded_functions(module)
    return partial(SwappableNumpyState if hasattr(module, "set_bit_generator") else CopiedNumpyState, module)


def _patch_unseeded_functions(module: Any) -> None:
    """Keep functions of ``numpy.random`` from taking a seed from the operating system when the caller gives none."""
    original_seed: Callable[..., None] = module.seed
    original_default_rng: Any = getattr(module, "default_rng", None)  # since NumPy 1.17

    def seed_unless_none(seed: Any = None) -> None:
        """Call ``numpy.random.seed``, but do nothing without a seed."""
        if seed is not None:
            original_seed(seed)

    def default_rng(seed: Any = None) -> Any:
        """Call ``numpy.random.default_rng``; without a seed, draw one from the game's generator."""
        return original_default_rng(GAME_RANDOM.current.getrandbits(64) if seed is None else seed)

    module.seed = seed_unless_none
    if original_default_rng:
        module.default_rng = default_rng
