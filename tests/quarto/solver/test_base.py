"""The table that searches look boards up in, and the order that boards are stored in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.canonical import canonical_forms
from quarto.jit import kernel, uint64
from quarto.perft import boards_of_keys, layers_of_keys, perft
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import Solver
from quarto.solver.table import BUCKET, DRAWN, FULLEST, LOST, PROOF_BITS, WON, base_bytes, base_of, proven_in_base
from quarto.symmetry import symmetries
from tests.naive import PRESETS


@kernel()
def proofs_of(keys: NDArray[np.uint64], search: Any) -> list[int]:
    return [proven_in_base(key << uint64(PROOF_BITS), search) for key in keys]


def test_every_board_is_found_though_many_buckets_are_full_and_no_other_one_is() -> None:
    dice = np.random.default_rng(1)
    keys = dice.choice(1 << 38, 6500, replace=False).astype(np.uint64)
    inside, outside, values = keys[:3250], keys[3250:], dice.integers(-1, 2, 3250).astype(np.int8)
    base = base_of(inside, values, 6)
    assert (base.pieces, base.words.nbytes) == (6, base_bytes(3250))
    assert 0.7 < len(inside) / len(base.words) <= FULLEST
    assert (base.words.reshape(-1, BUCKET) != 0).all(axis=1).sum() > 100
    solver = Solver(CLASSIC, 0.0, base)
    _, search = solver.state
    assert proofs_of(inside, search) == [{1: WON, 0: DRAWN, -1: LOST}[value] for value in values.tolist()]
    assert set(proofs_of(outside, search)) == {0}


def test_layers_hold_every_canonical_live_board_once_in_order() -> None:
    for rules in PRESETS.values():
        layers = list(layers_of_keys(rules, 4))
        assert [len(keys) for keys in layers] == [layer.canonical_live_boards for layer in perft(rules, 4)]
        for pieces, keys in enumerate(layers):
            assert (np.diff(keys.astype(np.int64)) > 0).all()
            lanes, occupied = boards_of_keys(keys, rules)
            assert set(np.bitwise_count(occupied).tolist()) == {pieces}
            forms = canonical_forms(lanes, occupied, np.full(len(keys), NONE, np.int8), symmetries(rules))
            assert np.array_equal(forms[0], lanes)
            assert np.array_equal(forms[1], occupied)
