"""Every missing unit is played exactly once, whatever the archive holds and however fast agents are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.ranges import Range, UnitLine
from runners.arena.config import pairings
from runners.arena.engine import MAX_PAIRS
from runners.arena.schedule import Pace, Parts, orders, orders_of


def ranges_of(numbers: set[int]) -> list[Range]:
    """Sorted, disjoint ranges that do not touch."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    starts = [[number for _, number in run] for _, run in runs]
    return [(run[0], run[-1] + 1) for run in starts]


def numbers_in(ranges: Sequence[Range]) -> list[int]:
    return [number for first, end in ranges for number in range(first, end)]


RANGES = st.sets(st.integers(0, 60)).map(ranges_of)


@given(st.dictionaries(st.integers(0, 5), RANGES, max_size=4), st.integers(1, 40), st.data())
def test_orders_are_exactly_what_is_left_for_any_pace(
    left: dict[int, list[Range]], most: int, data: st.DataObject
) -> None:
    pace = Pace(most)
    ordered: dict[int, list[int]] = {pairing: [] for pairing in left}
    for order in orders(left, pace):
        assert 1 <= order.pairs <= most
        ordered[order.pairing] += range(order.first_pair, order.first_pair + order.pairs)
        pace.update(order.pairing, order.pairs, data.draw(st.sampled_from([0.0, 1e-3, 0.1, 60.0])))
    assert {pairing: sorted(pairs) for pairing, pairs in ordered.items()} == {
        pairing: numbers_in(ranges) for pairing, ranges in left.items()
    }


@given(st.integers(1, 7), st.integers(0, 50), st.integers(1, 50))
def test_the_orders_of_a_range_are_its_units(pairings: int, first: int, size: int) -> None:
    line = UnitLine(pairings, 2)
    found = [
        pair * pairings + order.pairing
        for order in orders_of(line, first, first + size)
        for pair in range(order.first_pair, order.first_pair + order.pairs)
    ]
    assert sorted(found) == list(range(first, first + size))


def test_no_order_has_more_pairs_than_a_block() -> None:
    assert [order.pairs for order in orders_of(UnitLine(1, 2), 5, 5 + 2 * MAX_PAIRS + 1)] == [MAX_PAIRS, MAX_PAIRS, 1]


@given(RANGES, st.integers(1, 64), st.integers(1, 5), st.data())
def test_parts_are_all_that_is_missing_whatever_comes_back(
    missing: list[Range], most: int, workers: int, data: st.DataObject
) -> None:
    total = max((end for _, end in missing), default=0)
    parts, played = Parts(missing, total, most, workers, 30.0), list[int]()
    while (part := next(parts, None)) is not None:
        first, end = part
        size = 1 << (end - first - 1).bit_length()
        assert first % size == 0  # a file's range: aligned, or the beginning of such a one at the end of the run
        assert end - first == size or end == total
        assert end - first <= most
        reached = data.draw(st.sampled_from([end, end, (first + end + 1) // 2]))
        played += range(first, reached)
        parts.played(part, reached, data.draw(st.sampled_from([0.0, 0.1, 1.0, 100.0])))
    assert sorted(played) == numbers_in(missing)


def test_a_small_run_is_a_part_for_each_thread() -> None:
    assert [*Parts([(0, 500)], 500, 131072, 2, 30.0)] == [(0, 256), (256, 500)]
    assert [*Parts([(0, 500)], 500, 131072, 1, 30.0)] == [(0, 500)]
    assert len([*Parts([(0, 10_000_000)], 10_000_000, 131072, 2, 30.0)]) == 77


def test_once_the_pace_is_known_a_part_takes_no_longer_than_a_shard() -> None:
    parts = Parts([(0, 100_000)], 100_000, 131072, 2, 30.0)
    part = next(parts)
    parts.played(part, 4, 12.0)  # three seconds a unit: ten are as many as fit, eight a file
    assert [next(parts) for _ in range(3)] == [(4, 8), (8, 16), (16, 24)]
    assert next(Parts([(0, 20)], 20, 131072, 2, 30.0)) == (0, 16)
    few = Parts([(0, 40)], 40, 131072, 2, 30.0)
    few.played(next(few), 8, 24.0)
    assert next(few) == (8, 16)


def test_pairings_take_turns() -> None:
    found = [order.pairing for order in orders({0: [(0, 4)], 2: [(0, 4)], 1: [(2, 4)]}, Pace())]
    assert found == [0, 1, 2, 0, 1, 2, 0, 2, 0, 2]


@pytest.mark.parametrize(
    ("seconds_a_pair", "settled"), [(1e-9, MAX_PAIRS), (Pace.SECONDS / 100, 100), (Pace.SECONDS * 3, 1)]
)
def test_a_pace_settles_at_blocks_of_its_time(seconds_a_pair: float, settled: int) -> None:
    pace = Pace()
    for _ in range(10):
        pairs = pace.pairs(0)
        pace.update(0, pairs, pairs * seconds_a_pair)
    assert pace.pairs(0) == pytest.approx(settled, abs=1)


def test_units_of_all_pairings_go_by_the_slow_ones() -> None:
    line, pace = UnitLine(2, 2), Pace()
    assert pace.units(line) == 1
    for _ in range(10):
        pace.update(0, pace.pairs(0), 1e-9)
    assert 1 <= pace.units(line) <= 2  # the other one may take a second
    for _ in range(10):
        pairs = pace.pairs(1)
        pace.update(1, pairs, pairs * Pace.SECONDS / 10)
    assert pace.units(line) == pytest.approx(20, abs=2)


@pytest.mark.parametrize("agents", [2, 3, 6])
def test_a_round_robin_has_every_two_agents_once(agents: int) -> None:
    found = pairings(agents, "round_robin")
    assert len(found) == agents * (agents - 1) // 2
    assert {frozenset(pairing) for pairing in found} == {frozenset(two) for two in combinations(range(agents), 2)}


def test_a_gauntlet_is_the_first_against_each_other_one() -> None:
    assert pairings(4, "gauntlet") == ((0, 1), (0, 2), (0, 3))
