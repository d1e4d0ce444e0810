"""The order of rows of sorted runs: compared with Python's own sort."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.tables.derived.sorted_runs import merge_sorted_runs


@pytest.mark.parametrize("runs", [1, 2, 3, 8, 21])
@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize("values", [2, 1 << 62])
def test_runs_are_merged_as_python_sorts_all_rows(runs: int, words: int, values: int) -> None:
    draw = np.random.default_rng(runs)
    sizes = draw.integers(1, 40, runs)
    run_keys = [sorted(map(tuple, draw.integers(-values, values, (size, words)).tolist())) for size in sizes]
    keys = [key for of_run in run_keys for key in of_run]
    order = merge_sorted_runs(np.array(keys, np.int64).T.copy(), np.cumsum([0, *sizes]))
    rows = sorted(range(len(keys)), key=lambda row: (keys[row], row))
    assert order.rows.tolist() == rows
    ordered = [keys[row] for row in rows]
    starts = [at for at in range(len(rows)) if at == 0 or ordered[at] != ordered[at - 1]]
    assert order.starts.tolist() == starts
