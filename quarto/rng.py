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
from numpy.typing import NDArray

from quarto.jit import float64, inline_function, int64, kernel, uint64

GAMMA = uint64(0x9E37_79B9_7F4A_7C15)
TURN_SHIFT = uint64(40)  # room for 2^40 draws in each turn

OPENING_STREAM = 2  # the "game" whose stream draws the opening of a pair: the two that are played are 0 and 1


@inline_function
def mix(word: int) -> int:
    """Apply SplitMix64's output function, a bijection, to a 64-bit word."""
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58_476D_1CE4_E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D0_49BB_1331_11EB)
    return word ^ (word >> uint64(31))


@kernel()
def stream(seed: int, pair: int, game: int) -> int:
    """Return the stream of game 0 or 1 of a pair, or of its opening (``OPENING_STREAM``).

    ``seed`` is the run's word for a game, and the run's seed for an opening.
    """
    word = mix(uint64(seed) + GAMMA)
    word = mix(word ^ (uint64(pair) * GAMMA + uint64(1)))
    return mix(word + uint64(game + 1) * GAMMA)


@inline_function
def turn_offset(turn: int) -> int:
    """Return the offset from a stream to the seed of a turn.

    Turn 0 gives the first piece, turn ``k + 1`` places ply ``k``.
    """
    return (uint64(turn) << TURN_SHIFT) * GAMMA


def turn_offset_word(turn: int) -> np.uint64:
    """Compute ``turn_offset`` in Python."""
    return np.uint64((turn << int(TURN_SHIFT)) * int(GAMMA) % (1 << 64))


@inline_function
def draw(seed: int, index: int) -> int:
    """Return the ``index``-th word (uint64) of a turn, which is the same in whatever order words are drawn."""
    return mix(seed + uint64(index) * GAMMA)


@inline_function
def integer_below(word: int, count: int) -> int:
    """Return an integer in [0, count) from the upper half of a random word.

    Method: Lemire's multiplication, with a bias below 2^-28.
    """
    return int64(((word >> uint64(32)) * uint64(count)) >> uint64(32))


@inline_function
def second_integer_below(word: int, count: int) -> int:
    """Return a second integer in [0, count) from the same word, from its lower half."""
    return int64(((word & uint64(0xFFFF_FFFF)) * uint64(count)) >> uint64(32))


@inline_function
def unit_float(word: int) -> float:
    """Return a float64 in [0, 1) with 53 random bits."""
    return float64(word >> uint64(11)) * (1.0 / 9007199254740992.0)


def unit_floats(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Compute ``unit_float`` of each word, in an array of the same shape."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@kernel()
def _draw_words(seeds: NDArray[np.uint64], index: int) -> NDArray[np.uint64]:
    words = np.empty(seeds.shape[0], np.uint64)
    for i in range(seeds.shape[0]):
        words[i] = draw(seeds[i], index)
    return words


class Streams(NamedTuple):
    """The randomness of one turn in each game of a batch, for agents written in Python."""

    seeds: NDArray[np.uint64]  # [B]

    def draw(self, index: int) -> NDArray[np.uint64]:
        """Draw the ``index``-th random word of every game: [B] uint64."""
        words: NDArray[np.uint64] = _draw_words(self.seeds, index)
        return words

    def integers(self, index: int, counts: NDArray[np.integer] | int) -> NDArray[np.int64]:
        """Draw an integer in [0, counts) for every game, from its ``index``-th word: [B] int64."""
        return (((self.draw(index) >> np.uint64(32)) * np.asarray(counts).astype(np.uint64)) >> np.uint64(32)).astype(
            np.int64
        )

    def choice(self, index: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Choose a true entry of each row of ``allowed`` [B, N] uniformly, by each game's ``index``-th word.

        Returns the entry's column, -1 where a row has none: [B] int64.
        """
        running_counts = np.cumsum(allowed, axis=1, dtype=np.int16)  # true entries up to each column
        counts = running_counts[:, -1]
        ranks = self.integers(index, np.maximum(counts, 1)).astype(np.int16)  # of the chosen one among them
        columns = (running_counts <= ranks[:, None]).sum(axis=1)
        return np.where(counts > 0, columns, -1)

    def generator(self, game: int) -> np.random.Generator:
        """Build a NumPy generator for the ``game``-th game, for agents that need distributions; this takes 2 us."""
        return np.random.Generator(np.random.Philox(key=int(self.seeds[game])))
