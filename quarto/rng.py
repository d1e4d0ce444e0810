"""Randomness: one counter-based stream for each game of a run. Its turns belong to the seats alternately.

A stream is a 64-bit word. The words of a turn are SplitMix64 at counters that only the turn and the draw's index
choose. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Turn ``t`` belongs
to seat ``t mod 2``, so no seat uses the other's words. A game depends on its own stream alone, not on block size,
thread, shard or machine.

The streams of games follow from the run's word, which is its id as a number: no two runs draw the same words, so their
games are independent evidence. The streams of openings follow from the run's seed and the pair's number alone, so all
pairings and runs of one seed begin with the same openings and can be compared pair by pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.jit import float64, inline_function, int64, kernel, uint64

GAMMA = uint64(0x9E37_79B9_7F4A_7C15)
TURN_SHIFT = uint64(40)  # room for 2^40 draws in each turn

OPENING_STREAM = 2  # the "game" whose stream draws the opening of a pair; the games that are played are 0 and 1


@inline_function
def mix(word: int) -> int:
    """Return the result of SplitMix64's output function, a bijection, for a 64-bit word."""
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58_476D_1CE4_E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D0_49BB_1331_11EB)
    return word ^ (word >> uint64(31))


@kernel()
def stream(run_word_or_seed: int, pair: int, game: int) -> int:
    """Return the random stream of a game or of an opening: the word (uint64) that determines all its random words.

    ``game`` is 0 or 1 for a game of the pair, and ``OPENING_STREAM`` for the opening of the pair. ``run_word_or_seed``
    is the run's word (its id as a number) for a game, and the run's seed for an opening.
    """
    word = mix(uint64(run_word_or_seed) + GAMMA)
    word = mix(word ^ (uint64(pair) * GAMMA + uint64(1)))
    return mix(word + uint64(game + 1) * GAMMA)


@inline_function
def turn_seed_offset(turn: int) -> int:
    """Return the number that is added to a stream to get the seed of a turn.

    Turn 0 gives the first piece, and turn ``k + 1`` places ply ``k``.
    """
    return (uint64(turn) << TURN_SHIFT) * GAMMA


def turn_seed_offset_in_python(turn: int) -> np.uint64:
    """Return ``turn_seed_offset`` as NumPy's uint64, computed in Python."""
    return np.uint64((turn << int(TURN_SHIFT)) * int(GAMMA) % (1 << 64))


@inline_function
def draw(seed: int, index: int) -> int:
    """Return the ``index``-th random word (uint64) of the turn with the given seed.

    The word depends only on ``seed`` and ``index``, not on earlier draws.
    """
    return mix(seed + uint64(index) * GAMMA)


@inline_function
def integer_below(word: int, count: int) -> int:
    """Return an integer in [0, count) from the upper half of a random word.

    Method: Lemire's multiplication, with a bias below 2^-28.
    """
    return int64(((word >> uint64(32)) * uint64(count)) >> uint64(32))


@inline_function
def second_integer_below(word: int, count: int) -> int:
    """Return an integer in [0, count) from the lower half of a random word.

    It is independent of the result of ``integer_below`` for the same word, because that function uses the upper half.
    """
    return int64(((word & uint64(0xFFFF_FFFF)) * uint64(count)) >> uint64(32))


@inline_function
def unit_float(word: int) -> float:
    """Return a float64 in [0, 1) that is derived from 53 bits of a random word."""
    return float64(word >> uint64(11)) * (1.0 / 9007199254740992.0)


def unit_floats(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the ``unit_float`` of each word, in an array of the same shape."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@kernel()
def _draw_words(seeds: NDArray[np.uint64], index: int) -> NDArray[np.uint64]:
    words = np.empty(seeds.shape[0], np.uint64)
    for i in range(seeds.shape[0]):
        words[i] = draw(seeds[i], index)
    return words


@kernel(types.int64[::1](types.uint64[::1], types.int64, types.boolean[:, ::1]))
def _choose_columns(seeds: NDArray[np.uint64], index: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Choose a true entry of each row, as ``Streams.choice`` describes: [B] int64."""
    columns = np.full(allowed.shape[0], -1, np.int64)
    for i in range(allowed.shape[0]):
        count = int64(0)
        for column in range(allowed.shape[1]):
            count += int64(allowed[i, column])
        rank = integer_below(draw(seeds[i], index), count)
        for column in range(allowed.shape[1]):
            if allowed[i, column]:
                if rank == 0:
                    columns[i] = column
                rank -= 1
    return columns


class Streams(NamedTuple):
    """The randomness of one turn in each game of a batch, for agents written in Python."""

    seeds: NDArray[np.uint64]  # [B]

    def draw(self, index: int) -> NDArray[np.uint64]:
        """Return the ``index``-th random word of each game: [B] uint64."""
        words: NDArray[np.uint64] = _draw_words(self.seeds, index)
        return words

    def integers(self, index: int, counts: NDArray[np.integer] | int) -> NDArray[np.int64]:
        """Return a random integer in [0, counts) for each game, derived from the game's ``index``-th word: [B] int64.

        ``counts`` is one number or one for each game.
        """
        return (((self.draw(index) >> np.uint64(32)) * np.asarray(counts).astype(np.uint64)) >> np.uint64(32)).astype(
            np.int64
        )

    def choice(self, index: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Choose one of the true entries in each row of ``allowed`` [B, N] at random, each with the same probability.

        The ``index``-th word of the row's game determines the choice. Returns the columns of the chosen entries, with
        -1 for a row without a true entry: [B] int64.
        """
        rows = np.array(np.broadcast_to(allowed, (len(self.seeds), np.shape(allowed)[-1])), np.bool_, order="C")
        columns: NDArray[np.int64] = _choose_columns(np.require(self.seeds, np.uint64, ["C", "W"]), index, rows)
        return columns

    def generator(self, game: int) -> np.random.Generator:
        """Build a NumPy generator for the ``game``-th game, for agents that need distributions.

        This takes ten microseconds. A ``TurnGenerator`` gives the same numbers, and takes half a microsecond for each
        further turn.
        """
        return TurnGenerator().begin_turn(int(self.seeds[game]))


class _TurnSeedSequence(np.random.SeedSequence):
    """The seed sequence of the current turn, from which ``Generator.spawn`` derives further generators."""

    def __init__(self) -> None:
        super().__init__(0)
        self.begin_turn(0)

    def begin_turn(self, seed: int) -> None:
        self._seed = seed
        self._sequence: np.random.SeedSequence | None = None  # built when it is needed, which is hardly ever

    def spawn(self, n_children: int) -> list[np.random.SeedSequence]:  # type: ignore[override]  # children of no turn
        self._sequence = self._sequence or np.random.SeedSequence(self._seed)
        return self._sequence.spawn(n_children)


class TurnGenerator:
    """A NumPy generator that draws the random numbers of one turn after another.

    NumPy takes ten to twenty microseconds to build a generator, and half a microsecond to set its state. The numbers of
    a turn depend on the turn's seed alone, not on earlier turns.
    """

    def __init__(self) -> None:
        self._seed_sequence = _TurnSeedSequence()
        self._bits = np.random.Philox(self._seed_sequence)
        self._generator = np.random.Generator(self._bits)
        self._key = [0, 0]
        self._first_state = {
            "bit_generator": "Philox",
            "state": {"counter": [0, 0, 0, 0], "key": self._key},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,  # nothing in the buffer is left to be used
            "has_uint32": 0,
            "uinteger": 0,
        }

    def __reduce__(self) -> tuple[type[TurnGenerator], tuple[()]]:
        """Copy it as a new one, because no turn depends on the turns before it."""
        return TurnGenerator, ()

    def begin_turn(self, seed: int) -> np.random.Generator:
        """Return the generator, which now draws the numbers of the turn with this seed.

        It is the same object in each turn, so an agent must not keep it.
        """
        self._key[0] = seed
        self._bits.state = self._first_state  # type: ignore[assignment]  # NumPy takes lists as well as arrays
        self._seed_sequence.begin_turn(seed)
        return self._generator
