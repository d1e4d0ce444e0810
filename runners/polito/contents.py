"""The contents of messages between a run and the process of its players: arrays, whose other parts are JSON."""

from __future__ import annotations

import numpy as np

# A position that a player is asked about, and whose it is.
QUESTION = np.dtype(
    [
        ("slot", np.uint32),  # of its game
        ("seed", np.uint64),  # of this turn: that of a game's first turn seeds the game
        ("lanes", np.uint64),  # the pieces on the board: bit 16 a + c is set if the piece on cell c has attribute a
        ("occupied", np.uint16),
        ("hand", np.int8),  # -1: the first piece is asked for
    ]
)
ANSWER = np.dtype(np.int8)  # cells, then gifts, [B] each; then a JSON object, see player.Remarks

# What process and run share in memory, int64 each.
ASKED_ABOUT, BEGUN, SHARED_WORDS = 0, 1, 2  # the question's index; since when (time.monotonic_ns()), 0: it is not timed
