"""The fingerprint of games: one number for any set of them, which adds up.

It is the sum, modulo 2^64, of one mixed number for each game: its id, its plies and its end. So the fingerprint of a
range is the sum of those of its parts. The fingerprint of a run is the same whoever played which part on how many
threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Games
from quarto.jit import inlined, int64, kernel, uint64
from quarto.rng import GAMMA, mix
from quarto.rules import PIECES

AT_ONCE = 512  # games whose plies are packed at a time: their words stay in the processor's cache


@kernel()
def fingerprint_of_games(
    game_id: NDArray[np.int64], opening: NDArray[np.int8], games: Games, span: tuple[int, int]
) -> int:
    """The fingerprint (uint64) of the games with indices ``span[0]`` to before ``span[1]``.

    A game is three words: its id; plies, winner, opening and ending; its plies, packed. A ply is a byte, piece * 16 +
    cell, so the plies take two words.
    """
    total = uint64(0)
    words = np.empty((2, AT_ONCE), np.uint64)  # [half, game] the plies, packed
    for start in range(span[0], span[1], AT_ONCE):
        size = min(AT_ONCE, span[1] - start)
        _pack_plies(games, start, size, words)
        for i in range(size):
            game = start + i
            plies = int64(games.plies[game])
            end = plies | (int64(games.winner[game]) + 1) << 8 | int64(opening[game]) << 16
            end |= int64(games.ending[game]) << 24
            word = mix(uint64(game_id[game]) + GAMMA)
            word = mix(word ^ (uint64(end) + GAMMA))
            word = mix(word ^ (words[0, i] & _ones(min(plies, 8))))
            total += mix((word + GAMMA) ^ (words[1, i] & _ones(max(plies - 8, 0))))
    return total


@inlined
def _pack_plies(games: Games, start: int, size: int, words: NDArray[np.uint64]) -> None:
    """Fill ``words`` with the plies of consecutive games, also what lies beyond their ends."""
    words[:] = 0
    for ply in range(PIECES):
        half, shift = ply >> 3, uint64(8 * (ply & 7))
        for i in range(size):
            byte = (int64(games.pieces[ply, start + i]) & 15) << 4 | (int64(games.cells[ply, start + i]) & 15)
            words[half, i] |= uint64(byte) << shift


@inlined
def _ones(plies: int) -> int:
    """A word whose lowest bytes, as many as there are plies, are all ones."""
    return ~uint64(0) if plies == 8 else (uint64(1) << uint64(8 * plies)) - uint64(1)
