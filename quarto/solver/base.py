"""A read-only table with the values of all boards up to a number of pieces, for searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.jit import int64, kernel, uint64
from quarto.solver.table import BUCKET, DRAWN, LOST, PROOF_BITS, SPREADER, WON, words

FULLEST = 0.8  # share of the words in use, at most: beyond it a board is too often far from its bucket
PROOFS = np.array([LOST, DRAWN, WON], np.uint64)  # by value + 1


class Base(NamedTuple):
    """Values by exact key: see ``base_of``."""

    words: NDArray[np.uint64]  # [W] a power of two: key << 4 | what is proven of it, in buckets; 0: free
    pieces: int  # of the largest boards in it


def base_of(keys: NDArray[np.uint64], values: NDArray[np.int8], pieces: int) -> Base:
    """The base of ``N`` canonical boards before a gift, at most ``pieces`` on each: their ``board_key`` and value.

    It takes 10 to 20 bytes a board. The boards must be complete: a missing one is searched each time it is met. Raises
    ``FailureError`` when there is not enough memory.
    """
    table = words(base_bytes(len(keys)) / (1 << 20))
    _fill(table, keys, values, PROOFS)
    return Base(table, pieces)


def base_bytes(boards: int) -> int:
    """The bytes of a base of this many boards."""
    return 8 << max(10, int(boards / FULLEST).bit_length())


@kernel()
def _fill(
    table: NDArray[np.uint64], keys: NDArray[np.uint64], values: NDArray[np.int8], proofs: NDArray[np.uint64]
) -> None:
    buckets = table.shape[0] // BUCKET
    shift = uint64(64)
    while int64(1) << (64 - int64(shift)) < buckets:
        shift -= uint64(1)
    for i in range(keys.shape[0]):
        key = keys[i] << uint64(PROOF_BITS)
        slot = BUCKET * int64((key * SPREADER) >> shift)
        while table[slot] != uint64(0):
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = key | proofs[int64(values[i]) + 1]
