"""Units of a run, and which files count by their names alone: against single units in plain Python."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.store import ranges as ranges_module
from analytics.store.ranges import (
    MODULUS,
    FileSlice,
    Range,
    Ranges,
    StoredRange,
    UnitLine,
    compute_checksum,
    first_game_id,
    list_gaps,
    merge_ranges,
    parse_file_name,
    parse_file_names,
    select_disjoint_ranges,
    select_effective_derived,
    select_effective_slices,
    split_aligned,
    split_into_files,
)

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
        first, end = line.pair_range(pairing, *span)
        assert list(range(first, end)) == expected
        ids = np.array([first_game_id(pairing, pair) for pair in expected], np.int64)
        assert line.compute_units(ids).tolist() == [pair * pairings + pairing for pair in expected]
        assert line.compute_units(ids + 1).tolist() == line.compute_units(ids).tolist()
    assert line.count_units_of_all_pairings(20) == pairings * (20 // games)


@given(SPANS)
def test_aligned_ranges_make_up_a_range_and_none_could_be_larger(span: Range) -> None:
    ranges = [*split_aligned(*span)]
    assert units(ranges) == units([span])
    assert all(is_aligned(*aligned) for aligned in ranges)
    for one, other in itertools.pairwise(ranges):
        assert not is_aligned(one[0], other[1])


@given(SPANS, st.integers(0, 80), st.integers(1, 70))
def test_parts_are_aligned_and_small_enough_and_the_last_one_ends_with_the_run(
    span: Range, total: int, most: int
) -> None:
    for end in (span[1], total):
        parts = [*split_into_files(span[0], end, total, most)]
        assert units(parts) == units([(span[0], end)])
        assert all(low < high <= low + most for low, high in parts)
        full_parts = parts[:-1] if end == total else parts
        assert all(is_aligned(*aligned) for aligned in full_parts)
        # The end of a run is one file, if it is small enough: not one for each of its bits.
        assert all(low % (1 << (high - low - 1).bit_length()) == 0 for low, high in parts)


@given(MANY_SPANS, st.integers(0, 80), st.integers(0, 80))
def test_what_is_merged_and_what_is_missing_are_sets_of_units(spans: list[Range], total: int, first: int) -> None:
    held = merge_ranges(spans)
    assert units(held) == sorted({*units(spans)})
    assert all(one[1] < other[0] for one, other in itertools.pairwise(held))
    assert units(list_gaps(sorted(spans), total, first)) == sorted({*range(first, total)} - {*units(spans)})


def fingerprint_of(first: int, end: int, salt: int = 0) -> int:
    """Compute a fingerprint that adds up, of games that follow from their units and ``salt``."""
    return sum((unit + 1) * 0x9E3779B97F4A7C15 + salt for unit in range(first, end)) % MODULUS


def stored(first: int, end: int, salt: int = 0, check: str = "00000000", extent: str = "") -> StoredRange:
    return StoredRange(first, end, fingerprint_of(first, end, salt), check, extent)


ALIGNED = st.tuples(st.integers(0, 5), st.integers(0, 31)).map(lambda of: (of[1] >> of[0] << of[0], 1 << of[0]))
RUN_END = st.sampled_from([19, 27, 40])  # the last file of a run may end where the run did
FILES = st.lists(
    st.builds(
        lambda of, end, cut, salt, check: stored(
            of[0], min(of[0] + of[1], end) if cut and of[0] < end else sum(of), salt, check
        ),
        ALIGNED,
        RUN_END,
        st.booleans(),
        st.integers(0, 2),
        st.sampled_from(["00000000", "11111111"]),
    ),
    max_size=25,
)


def slow_counting(files: list[StoredRange]) -> list[StoredRange]:
    """Select files unit by unit: at each unit where nothing was taken, the best of the files that begin there."""
    kept: list[StoredRange] = []
    for unit in range(80):
        if kept and kept[-1].end > unit:
            continue
        beginning = [file for file in files if file.first == unit]
        if beginning:
            kept.append(min(beginning, key=lambda file: (-file.units, file.fingerprint, file.checksum)))
    return kept


@given(FILES)
def test_what_counts_is_what_a_sweep_over_units_takes_and_each_unit_counts_once(files: list[StoredRange]) -> None:
    ranges = select_disjoint_ranges(files)
    assert list(ranges) == slow_counting(files)
    taken = [unit for stored_range in ranges for unit in range(stored_range.first, stored_range.end)]
    assert len(taken) == len({*taken}) == ranges.units
    assert ranges.fingerprint == sum(stored_range.fingerprint for stored_range in ranges) % MODULUS
    assert list(select_disjoint_ranges(reversed(files))) == list(ranges)


ANY_FILES = st.lists(
    st.builds(
        lambda span, salt: stored(span[0], span[1], salt),
        SPANS.filter(lambda span: span[0] < span[1]),
        st.integers(0, 1),
    ),
    max_size=25,
)


def slow_cover(files: list[StoredRange]) -> list[FileSlice]:
    """Cut files unit by unit: a file that begins here, or the rest of the one that reaches furthest."""
    slices: list[FileSlice] = []
    for unit in range(80):
        holders = [file for file in files if file.first <= unit < file.end]
        if not holders or (slices and slices[-1].end > unit):
            continue
        best = min(holders, key=lambda file: (file.first != unit, -file.end, file.fingerprint, file.checksum))
        end = best.end
        if best.first != unit:
            nearest = min((file.first for file in files if file.first > unit), default=end)
            if nearest < end <= max((file.end for file in files if file.first == nearest), default=0):
                end = nearest
        slices.append(FileSlice(best, unit, end))
    return slices


@given(ANY_FILES)
def test_every_unit_of_every_file_counts_once_whatever_the_files_are(files: list[StoredRange]) -> None:
    slices = select_effective_slices(files)
    assert slices == slow_cover(files)
    counted = [unit for piece in slices for unit in range(piece.first, piece.end)]
    assert counted == sorted({unit for file in files for unit in range(file.first, file.end)})
    assert all(piece.file.first <= piece.first < piece.end <= piece.file.end for piece in slices)
    assert select_effective_slices(reversed(files)) == slices


@given(ANY_FILES)
def test_no_file_is_cut_once_its_slices_are_files(files: list[StoredRange]) -> None:
    slices = select_effective_slices(files)
    more = [stored(piece.first, piece.end, salt=7, check="ffffffff") for piece in slices if not piece.is_whole]
    again = select_effective_slices([*files, *more])
    assert all(piece.is_whole for piece in again)
    assert [piece[1:] for piece in again] == [piece[1:] for piece in slices]


@given(FILES)
def test_aligned_files_are_never_cut(files: list[StoredRange]) -> None:
    files = [file for file in files if is_aligned(*file[:2])]
    assert [piece.file for piece in select_effective_slices(files)] == list(select_disjoint_ranges(files))
    assert all(piece.is_whole for piece in select_effective_slices(files))


@given(FILES, st.tuples(st.integers(0, 70), st.integers(1, 20)))
def test_ranges_answer_as_lists_of_units_do(files: list[StoredRange], span: tuple[int, int]) -> None:
    ranges, first, end = select_disjoint_ranges(files), span[0], sum(span)
    of = {unit: stored_range for stored_range in ranges for unit in range(stored_range.first, stored_range.end)}
    assert [ranges.find_range(unit) for unit in range(80)] == [of.get(unit) for unit in range(80)]
    assert ranges.mark_held_units(np.arange(80)).tolist() == [unit in of for unit in range(80)]
    assert list(ranges.select_overlapping(first, end)) == list(
        dict.fromkeys(of[unit] for unit in range(first, end) if unit in of)
    )
    lacking = [unit for low, high in ranges.list_gaps(end, first) for unit in range(low, high)]
    assert lacking == [unit for unit in range(first, end) if unit not in of]
    inside = list(ranges.select_overlapping(first, end))
    assert ranges.select_beginning_outside(ranges.select_overlapping(first, end)) == [
        stored_range for stored_range in ranges if stored_range not in inside
    ]
    complete = not lacking and inside[0].first == first and inside[-1].end == end
    assert ranges.find_fingerprint(first, end) == (
        sum(stored_range.fingerprint for stored_range in inside) % MODULUS if complete else None
    )


# Derived tables.


def test_a_derived_file_counts_if_the_games_that_it_is_about_do() -> None:
    games = select_disjoint_ranges([stored(0, 8), stored(8, 12), stored(12, 16), stored(32, 40)])
    for mine, expected in (
        ([stored(0, 8)], [(0, 8)]),
        ([stored(0, 8, salt=1)], []),  # other games
        ([stored(0, 16)], [(0, 16)]),  # of several files of games, as after rolling up
        ([stored(0, 16), stored(0, 8), stored(12, 16)], [(0, 16)]),
        ([stored(0, 16, salt=1), stored(0, 8)], [(0, 8)]),
        ([stored(0, 4), stored(4, 8)], [(0, 4), (4, 8)]),  # before the compaction of the games
        ([stored(0, 4), stored(4, 8, salt=1)], []),
        ([stored(0, 4)], []),  # half of a file of games: the rest may come
        ([stored(0, 4), stored(4, 6), stored(6, 8), stored(12, 16)], [(0, 4), (4, 6), (6, 8), (12, 16)]),
        ([stored(8, 24), stored(8, 10), stored(10, 12)], [(8, 10), (10, 12)]),  # a larger one that fits no games
        ([stored(20, 24), stored(4, 7), stored(48, 50)], []),
    ):
        assert [stored_range[:2] for stored_range in select_effective_derived(mine, games)] == expected
    assert list(select_effective_derived([stored(0, 8)], Ranges())) == []


def test_derived_files_count_each_unit_once_however_both_tables_were_rolled_up() -> None:
    """Check with files of other games, which hide finer ones."""
    dice = random.Random(1)

    def tiles(first: int, size: int) -> list[StoredRange]:
        if size == 1 or dice.random() < 0.4:
            return [stored(first, first + size)]
        return tiles(first, size // 2) + tiles(first + size // 2, size // 2)

    foreign = [
        *(stored(*span, salt=3) for span in split_aligned(3, 29)),
        *(stored(*span, salt=4) for span in split_aligned(1, 30)),
    ]
    for _ in range(100):
        games, mine = select_disjoint_ranges(tiles(0, 32)), tiles(0, 32)
        effective = select_effective_derived([*mine, *tiles(0, 32), *foreign], games)
        assert (effective.units, effective.fingerprint) == (32, games.fingerprint)


def test_of_files_about_the_same_games_the_one_that_holds_most_is_taken() -> None:
    games = select_disjoint_ranges([stored(0, 8)])
    files = [
        stored(0, 8, extent=extent, check=f"{number:08x}")
        for number, extent in enumerate(("04", "06", "16", "16c", "12c"))
    ]
    assert [stored_range.extent for stored_range in select_effective_derived(files, games)] == ["16c"]
    assert [stored_range.extent for stored_range in select_effective_derived(files[:2], games)] == ["06"]


# Names.


OTHER_NAMES = (
    *("", "notes.txt"),
    "000000000000-000000000008-0123456789abcdef.parquet",
    "000000000000-000000000008-0123456789abcdef.0123456.parquet",
    "000000000000-000000000008-0123456789ABCDEF.01234567.parquet",
    "000000000008-000000000008-0123456789abcdef.01234567.parquet",
    "000000000008-000000000000-0123456789abcdef.01234567.parquet",
    "00000000000-000000000008-0123456789abcdef.01234567.parquet",
    "000000000000-000000000008-0123456789abcdef.01234567.parquet\n",
    "000000000000-000000000008-0123456789abcdef-.01234567.parquet",
    ".tmp-000000000000-000000000008-0123456789abcdef.01234567.parquet",
    "\u096600000000000-000000000008-0123456789abcdef.01234567.parquet",
)


@settings(max_examples=20)
@given(FILES, st.sampled_from(["", "06", "16c"]))
def test_a_name_says_what_the_file_holds(files: list[StoredRange], extent: str) -> None:
    for stored_range in files:
        named = stored_range._replace(extent=extent)
        assert parse_file_name(named.name) == named
    names = [*(stored_range.name for stored_range in files), *OTHER_NAMES]
    parsed = parse_file_names(names)
    assert sorted(parsed) == sorted(files)
    assert [file.name for file in parsed] == sorted(file.name for file in parsed)  # whatever the order of the listing
    assert parse_file_names(reversed(names)) == parsed
    assert compute_checksum(b"abc") == "ba7816bf"  # the beginning of the SHA-256


def test_only_files_that_overlap_others_are_compared_in_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of millions of files, only a few overlap others, and sorting all of them thrice took most of the time."""
    compared, sort_by_extent = list[StoredRange](), ranges_module._sort_largest_extent_first

    def sort_and_note(files: Iterable[StoredRange]) -> list[StoredRange]:
        compared.extend(ordered := sort_by_extent(files))
        return ordered

    monkeypatch.setattr(ranges_module, "_sort_largest_extent_first", sort_and_note)
    files = [stored(8 * number, 8 * number + 8) for number in range(100)]
    overlapping = [stored(160, 168), stored(160, 162), stored(404, 408)]
    slices = select_effective_slices([*overlapping, *files])
    assert len(slices) == len(select_disjoint_ranges([*overlapping, *files])) == 100
    assert {file[:2] for file in compared} == {(160, 168), (160, 162), (400, 408), (404, 408)}


def test_gaps_in_a_few_units_are_listed_without_reading_all_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replaced file asks whether other ranges have all its units, and there may be millions of either."""
    read = list[Range]()

    def note_and_list_gaps(ranges: Iterable[Range], end_unit: int, first: int) -> list[Range]:
        read.extend(listed := [*ranges])
        return list_gaps(listed, end_unit, first)

    monkeypatch.setattr(ranges_module, "list_gaps", note_and_list_gaps)
    ranges = Ranges(stored(8 * number, 8 * number + 8) for number in range(100) if number != 50)
    assert ranges.list_gaps(420, 390) == [(400, 408)]
    assert not ranges.has_all_units(390, 420)
    assert ranges.has_all_units(410, 420)
    assert read == [(384, 392), (392, 400), (408, 416), (416, 424)] * 2 + [(408, 416), (416, 424)]


@pytest.mark.slow
def test_ten_times_as_many_names_take_about_ten_times_as_long_to_sort_out() -> None:
    names = [StoredRange(8 * k, 8 * k + 8, k * 0x9E3779B97F4A7C15 % MODULUS, "01234567").name for k in range(100_000)]
    seconds = []
    for some in (names[:10_000], names):
        start = time.thread_time()
        ranges = select_disjoint_ranges(parse_file_names(some))
        assert len(select_effective_derived(parse_file_names(some), ranges)) == len(some)
        seconds.append(time.thread_time() - start)
    assert seconds[1] < 40 * seconds[0]  # not a hundred times
