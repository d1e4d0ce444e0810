"""The order of rows of sorted runs, and the sums of equal ones: compared with Python's own sort and sum."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.tables.derived.sorted_runs import find_least_of_groups, merge_sorted_runs, sum_groups


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
    begins = [at == 0 or ordered[at] != ordered[at - 1] for at in range(len(rows))]
    assert order.begins.tolist() == begins
    assert order.first_rows.tolist() == [row for row, is_first in zip(rows, begins, strict=True) if is_first]


@pytest.mark.parametrize("values", [2, 1 << 40])
def test_groups_are_combined_as_python_combines_them(values: int) -> None:
    draw = np.random.default_rng(values)
    keys = np.sort(draw.integers(0, values, (3, 30)))
    numbers = draw.integers(-values, values, keys.size)
    order = merge_sorted_runs(keys.reshape(1, -1), np.array([0, 30, 60, 90]))
    groups = [numbers[keys.ravel() == key].tolist() for key in np.unique(keys)]
    assert sum_groups(numbers, order).tolist() == [*map(sum, groups)]
    assert find_least_of_groups(numbers, order).tolist() == [*map(min, groups)]
