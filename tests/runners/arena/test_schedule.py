"""Every missing pair is ordered exactly once, whatever the archive holds and however fast agents are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.ranges import Range
from runners.arena.engine import MAX_PAIRS
from runners.arena.schedule import Pace, missing, orders, overlap, pairings, parts


def ranges_of(numbers: set[int]) -> list[Range]:
    """Sorted, disjoint ranges that do not touch."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    starts = [[number for _, number in run] for _, run in runs]
    return [(run[0], run[-1] + 1) for run in starts]


def numbers_in(ranges: Sequence[Range]) -> list[int]:
    return [number for first, end in ranges for number in range(first, end)]


RANGES = st.sets(st.integers(0, 60)).map(ranges_of)


@given(st.integers(0, 50), RANGES)
def test_missing_is_what_a_set_lacks(pairs: int, covered: list[Range]) -> None:
    assert missing(pairs, covered) == ranges_of(set(range(pairs)) - set(numbers_in(covered)))


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


LEFT = st.dictionaries(st.integers(0, 5), RANGES, max_size=4)


def pairs_of(ranges: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """(pairing, pair) of each pair of a part."""
    return [(pairing, pair) for pairing, first, end in ranges for pair in range(first, end)]


@given(LEFT, st.integers(1, 40))
def test_parts_hold_what_is_left_and_all_but_the_last_are_full(left: dict[int, list[Range]], most: int) -> None:
    found = [pairs_of(part) for part in parts(left, most)]
    assert [*chain(*found)] == [(pairing, pair) for pairing in sorted(left) for pair in numbers_in(left[pairing])]
    assert all(len(part) == most for part in found[:-1])
    assert all(1 <= len(part) <= most for part in found)


@given(LEFT, LEFT, st.integers(1, 40))
def test_an_overlap_is_what_is_in_both(one: dict[int, list[Range]], other: dict[int, list[Range]], most: int) -> None:
    both = {(pairing, pair) for pairing in other for pair in numbers_in(other[pairing])}
    for part in parts(one, most):
        assert pairs_of(overlap(part, other)) == [pair for pair in pairs_of(part) if pair in both]


def test_pairings_take_turns() -> None:
    found = [order.pairing for order in orders({0: [(0, 4)], 2: [(0, 4)], 1: [(2, 4)]}, Pace())]
    assert found == [0, 1, 2, 0, 1, 2, 0, 2, 0, 2]


def test_an_order_is_sized_when_it_is_taken() -> None:
    pace = Pace()
    source = orders({0: [(0, 10_000)]}, pace)
    assert next(source).pairs == Pace.FIRST
    pace.update(0, Pace.FIRST, 1e-6)
    assert next(source).pairs == Pace.FIRST * Pace.GROWTH
    pace.update(0, Pace.FIRST * Pace.GROWTH, 1000.0)
    assert next(source).pairs == 1


@given(
    st.integers(1, 100_000),
    st.lists(st.tuples(st.integers(1, 100_000), st.floats(0, 1e6)), max_size=30),
)
def test_a_pace_stays_between_one_pair_and_the_maximum(most: int, blocks: list[tuple[int, float]]) -> None:
    pace = Pace(most)
    for pairs, seconds in blocks:
        before = pace.pairs(7)
        pace.update(7, pairs, seconds)
        assert 1 <= pace.pairs(7) <= min(most, before * Pace.GROWTH)
    assert pace.pairs(8) == min(Pace.FIRST, most)


@pytest.mark.parametrize(
    ("seconds_a_pair", "settled"), [(1e-9, MAX_PAIRS), (Pace.SECONDS / 100, 100), (Pace.SECONDS * 3, 1)]
)
def test_a_pace_settles_at_blocks_of_its_time(seconds_a_pair: float, settled: int) -> None:
    pace = Pace()
    for _ in range(10):
        pairs = pace.pairs(0)
        pace.update(0, pairs, pairs * seconds_a_pair)
    assert pace.pairs(0) == pytest.approx(settled, abs=1)


@pytest.mark.parametrize("agents", [2, 3, 6])
def test_a_round_robin_has_every_two_agents_once(agents: int) -> None:
    found = pairings(agents, "round_robin")
    assert len(found) == agents * (agents - 1) // 2
    assert {frozenset(pairing) for pairing in found} == {frozenset(two) for two in combinations(range(agents), 2)}


def test_a_gauntlet_is_the_first_against_each_other_one() -> None:
    assert pairings(4, "gauntlet") == ((0, 1), (0, 2), (0, 3))
