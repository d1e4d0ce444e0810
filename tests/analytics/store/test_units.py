"""Units of a run's line, against lists of single units in plain Python."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.schema import first_game_id
from analytics.store.units import LARGEST, Range, UnitLine, aligned, merged, missing, parts

SPANS = st.tuples(st.integers(0, 70), st.integers(0, 70)).map(lambda ends: (min(ends), max(ends)))
MANY_SPANS = st.lists(SPANS.filter(lambda span: span[0] < span[1]), max_size=8)


def units(spans: list[Range]) -> list[int]:
    return [unit for first, end in spans for unit in range(first, end)]


def is_aligned(first: int, end: int) -> bool:
    return any(end - first == 1 << k and first % (1 << k) == 0 for k in range(40))


@given(st.integers(1, 5), st.integers(1, 2), SPANS)
def test_the_pairs_of_a_range_are_those_whose_units_are_in_it(pairings: int, games: int, span: Range) -> None:
    line = UnitLine(pairings, games)
    for pairing in range(pairings):
        expected = [pair for pair in range(80) if span[0] <= pair * pairings + pairing < span[1]]
        first, end = line.pairs(pairing, *span)
        assert list(range(first, end)) == expected
        ids = np.array([first_game_id(pairing, pair) for pair in expected], np.int64)
        assert line.units_of(ids).tolist() == [pair * pairings + pairing for pair in expected]
        assert line.units_of(ids + 1).tolist() == line.units_of(ids).tolist()
    assert line.end_of(20) == pairings * (20 // games)


def test_imported_games_are_numbered_through_all_pairings() -> None:
    line = UnitLine(1, 1)
    assert line.units_of(np.array([first_game_id(3, 7), first_game_id(0, 8)])).tolist() == [7, 8]
    assert line.pairs(3, 5, 9) == (5, 9)


@given(SPANS)
def test_aligned_ranges_make_up_a_range_and_none_could_be_larger(span: Range) -> None:
    found = [*aligned(*span)]
    assert units(found) == units([span])
    assert all(is_aligned(*each) for each in found)
    for one, other in itertools.pairwise(found):
        assert not is_aligned(one[0], other[1])


@given(SPANS, st.integers(0, 80), st.integers(1, 70))
def test_parts_are_aligned_and_small_enough_and_the_last_one_ends_with_the_run(
    span: Range, total: int, most: int
) -> None:
    for end in (span[1], total):
        found = [*parts(span[0], end, total, most)]
        assert units(found) == units([(span[0], end)])
        assert all(low < high <= low + most for low, high in found)
        whole = found[:-1] if end == total else found
        assert all(is_aligned(*each) for each in whole)
        # The end of a run is one file, if it is small enough: not one for each of its bits.
        assert all(low % (1 << (high - low - 1).bit_length()) == 0 for low, high in found)


def test_a_run_of_a_thousand_units_is_one_file() -> None:
    assert [*parts(0, 1000, 1000, LARGEST)] == [(0, 1000)]
    assert [*parts(0, 1000, 1001, LARGEST)] == [(0, 512), (512, 768), (768, 896), (896, 960), (960, 992), (992, 1000)]


@given(MANY_SPANS, st.integers(0, 80), st.integers(0, 80))
def test_what_is_merged_and_what_is_missing_are_sets_of_units(spans: list[Range], total: int, first: int) -> None:
    held = merged(spans)
    assert units(held) == sorted({*units(spans)})
    assert all(one[1] < other[0] for one, other in itertools.pairwise(held))
    assert units(missing(sorted(spans), total, first)) == sorted({*range(first, total)} - {*units(spans)})


@pytest.mark.parametrize("first", [0, 1, 6, 8])
def test_no_units_are_no_ranges(first: int) -> None:
    assert [*aligned(first, first)] == [*parts(first, first, 9, 4)] == missing([], first, first) == merged([]) == []
