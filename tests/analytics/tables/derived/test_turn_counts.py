"""Sums of counted turns: compared with sums in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from analytics.tables.derived.turn_counts import MASK_SHIFT, TurnCounts, sum_turn_counts

Counts = dict[tuple[int, int, int], list[int]]  # by mask, board and rest of the choice: games, wins, draws, sample


def draw_counts(seed: int, values: int) -> Counts:
    """Draw counts whose keys are often those of other draws if there are few ``values``."""
    dice = np.random.default_rng(seed)
    keys = [(mask, board, rest) for mask, board, rest in dice.integers(0, values, (dice.integers(0, 60), 3)).tolist()]
    return {key: dice.integers(0, 1 << 20, 4).tolist() for key in keys}


def pack_counts(counts: Counts) -> TurnCounts:
    """Pack counts as the kernels do, in order; boards use the whole word."""
    table = TurnCounts.empty(len(counts))
    for row, ((mask, board, rest), numbers) in enumerate(sorted(counts.items())):
        table.board[row], table.choice[row] = (1 << 63) + board, mask << MASK_SHIFT | rest
        table.games[row], table.wins[row], table.draws[row], table.sample[row] = numbers
    return table


def add_counts(files: Sequence[Counts]) -> Counts:
    total: Counts = {}
    for counts in files:
        for key, (games, wins, draws, sample) in counts.items():
            old = total.get(key, [0, 0, 0, 1 << 32])
            total[key] = [old[0] + games, old[1] + wins, old[2] + draws, min(old[3], sample)]
    return total


@pytest.mark.parametrize("file_count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("values", [2, 4, 1 << 18])
def test_counts_of_equal_turns_are_added_and_turns_are_in_order(file_count: int, values: int) -> None:
    files = [[draw_counts(100 * file + ply, values) for ply in range(4)] for file in range(file_count)]
    sums = sum_turn_counts([[pack_counts(counts) for counts in by_ply] for by_ply in files])
    for ply, summed in enumerate(sums):
        expected = pack_counts(add_counts([by_ply[ply] for by_ply in files]))
        for name, column, expected_column in zip(TurnCounts._fields, summed, expected, strict=True):
            np.testing.assert_array_equal(column, expected_column, name)
