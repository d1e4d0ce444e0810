"""All canonical live boards up to a number of pieces, in the order of their exact keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quarto.jit import int64, kernel
from quarto.keys import board_key, board_of_key
from quarto.perft import CanonicalBoards, empty_board, next_layer
from quarto.rules import Rules
from quarto.symmetry import Symmetries, symmetries


def layers_of_keys(rules: Rules, pieces: int) -> Iterator[NDArray[np.uint64]]:
    """For 0 to ``pieces`` pieces the keys (``board_key``) of all canonical boards without a line: [N] each, ascending.

    Method: forward expansion (``perft``). Under classic rules 6 pieces take some seconds and 150 MB.
    """
    boards = empty_board()
    yield _keys(rules, boards)
    for ply in range(1, pieces + 1):
        _, boards = next_layer(rules, boards, ply, last=False)
        yield _keys(rules, boards)


def _keys(rules: Rules, boards: CanonicalBoards) -> NDArray[np.uint64]:
    keys = np.empty(len(boards.lanes), np.uint64)
    for mask, (first, end) in boards.slices.items():
        _keys_of(boards.lanes[first:end], mask, keys[first:end], symmetries(rules))
    keys.sort()
    return keys


@kernel()
def _keys_of(lanes: NDArray[np.uint64], occupied: int, keys: NDArray[np.uint64], tables: Symmetries) -> None:
    for i in range(lanes.shape[0]):
        keys[i] = board_key(lanes[i], int64(occupied), tables)


def boards_of_keys(keys: NDArray[np.uint64], rules: Rules) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """The boards that have these keys: lanes and occupied cells, [N] each."""
    return _boards_of(keys, symmetries(rules))


@kernel()
def _boards_of(keys: NDArray[np.uint64], tables: Symmetries) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    lanes, occupied = np.empty(keys.shape[0], np.uint64), np.empty(keys.shape[0], np.uint16)
    for i in range(keys.shape[0]):
        lanes[i], occupied[i] = board_of_key(keys[i], tables)
    return lanes, occupied
