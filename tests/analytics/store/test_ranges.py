from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from analytics.store.ranges import Range, merged, overlaps

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda pair: (pair[0], pair[0] + pair[1])))


def numbers(ranges: list[Range]) -> set[int]:
    return {number for first, end in ranges for number in range(first, end)}


@given(ranges=RANGES)
def test_merged_ranges_hold_the_same_numbers_and_never_touch(ranges: list[Range]) -> None:
    result = merged(ranges)
    assert numbers(result) == numbers(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(result))


@given(ranges=RANGES, first=st.integers(0, 45), size=st.integers(1, 8))
def test_overlap_is_that_of_the_sets(ranges: list[Range], first: int, size: int) -> None:
    assert overlaps(merged(ranges), first, first + size) == bool(numbers(ranges) & set(range(first, first + size)))
