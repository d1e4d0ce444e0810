"""The table of proven answers: what it forgets when it is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from quarto.rules import CLASSIC
from quarto.solver.solver import Solver
from quarto.solver.table import (
    BUCKET_WORDS,
    HASH_MULTIPLIER,
    PROOF_BITS,
    WIN,
    recall_answer,
    remember_answer,
)

PIECES = 9  # any number for which there is no tablebase


def list_keys_of_first_bucket(bits: int, count: int, shift: int) -> list[Any]:
    """List keys of ``bits`` bits that share the first bucket. A board with more pieces has a key of more bits."""
    keys = (number << PROOF_BITS for number in range(1 << (bits - PROOF_BITS - 1), 1 << (bits - PROOF_BITS)))
    shared = (key for key in keys if (key * int(HASH_MULTIPLIER) & (1 << 64) - 1) >> shift == 0)
    return [np.uint64(key) for key, _ in zip(shared, range(count), strict=False)]


def test_a_full_bucket_forgets_boards_with_many_pieces() -> None:
    solver = Solver(CLASSIC, megabytes=0)  # it keeps the table's memory
    _, search = solver.state
    shift = int(search["shift"])
    few, many = (list_keys_of_first_bucket(bits, count, shift) for bits, count in ((24, BUCKET_WORDS - 1), (30, 20)))
    for key in (*few, *many):
        remember_answer(key, WIN, 1, search)
        assert recall_answer(key, PIECES, WIN, search) == 1  # the newest is always kept
    assert [recall_answer(key, PIECES, WIN, search) for key in few] == [1] * len(few)
    assert [recall_answer(key, PIECES, WIN, search) for key in many[:-1]] == [-1] * (len(many) - 1)
