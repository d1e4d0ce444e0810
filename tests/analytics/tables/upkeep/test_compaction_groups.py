"""Which files become one, against an obvious twin; and what parents hold where games are unusual."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.ranges import Range, Ranges, StoredRange, select_disjoint_ranges, split_into_files
from analytics.store.records import RunRecord
from analytics.tables.derived.decisions import DECISIONS_TABLE
from analytics.tables.derived.definitions import FIRST_PLIES_TABLE, POSITIONS_TABLE, TALLIES_TABLE
from analytics.tables.upkeep import compaction
from analytics.tables.upkeep.compaction import (
    GAMES_TABLE,
    PLIES_TABLE,
    build_many_similar_files_condition,
    compact_tables,
    list_compaction_groups,
)
from analytics.tables.upkeep.garbage import remove_replaced_files
from analytics.tables.verification.archive import verify_archive
from quarto.batch import FORFEIT_ERROR, Block
from tests.analytics.indexed import decide, index
from tests.analytics.naive_games import (
    PAIRINGS,
    Game,
    build_random_blocks,
    build_spec,
    pack_games,
    random_block,
    record,
    store,
    store_span,
)
from tests.analytics.store.test_ranges import stored
from tests.marks import seldom

STORED = (PLIES_TABLE, GAMES_TABLE)
EACH = (STORED, (TALLIES_TABLE,), (DECISIONS_TABLE,), (POSITIONS_TABLE,), (FIRST_PLIES_TABLE,))


def always(_children: Ranges) -> bool:
    return True


# Which files become one.


def is_aligned(first: int, end: int) -> bool:
    size = end - first
    return size & (size - 1) == 0 and first % size == 0


def slow_parents(files: Sequence[StoredRange], end_unit: int, most: int, most_units: int) -> set[Range]:
    """Select the largest full ranges within the limit, of all aligned ranges and those that the run's end cuts off."""
    held = {unit for file in files for unit in range(file.first, file.end)}
    full_ranges = []
    for size in (1 << bits for bits in range(7)):
        for first in range(0, 64, size):
            cut_off = first < end_unit < first + size and any(file.end == end_unit for file in files)
            end = end_unit if cut_off and not held & set(range(end_unit, first + size)) else first + size
            inside = [file for file in files if first <= file.first and file.end <= end]
            full = held.issuperset(range(first, end)) and sum(file.units for file in inside) == end - first
            if full and 2 <= len(inside) <= most and end - first <= most_units:
                full_ranges.append((first, end))
    return {
        one
        for one in full_ranges
        if not any(other != one and other[0] <= one[0] and one[1] <= other[1] for other in full_ranges)
    }


SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 31)), max_size=24)
RUN_END = st.sampled_from([13, 19, 27, 32])


@given(SPANS, RUN_END, st.sampled_from([2, 3, 8, 64]), st.sampled_from([4, 8, 100]))
def test_the_largest_parents_are_found_and_every_unit_stays_in_one_file(
    spans: list[tuple[int, int]], end_unit: int, most: int, most_units: int
) -> None:
    """Check aligned files, the last of which may end where the run does."""
    firsts = [(at >> bits << bits, 1 << bits) for bits, at in spans]
    file_spans = [(first, min(first + size, end_unit)) for first, size in firsts if first < end_unit]
    before = select_disjoint_ranges([stored(*span) for span in file_spans])
    groups = [*list_compaction_groups(before, end_unit, lambda children: children.units <= most_units, most)]
    assert {family.parent[:2] for family in groups} == slow_parents(list(before), end_unit, most, most_units)
    for family in groups:
        assert is_aligned(*family.parent[:2]) or family.parent.end == end_unit
        assert Ranges(family.children).covered_ranges == [family.parent[:2]]
        assert family.parent.fingerprint == Ranges(family.children).fingerprint
    after = select_disjoint_ranges([*before, *(family.parent for family in groups)])
    assert (after.covered_ranges, after.fingerprint) == (before.covered_ranges, before.fingerprint)
    rest = set(before).difference(*(family.children for family in groups))
    assert set(after) == {*rest, *(family.parent for family in groups)}


def test_the_search_for_parents_copies_each_range_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges were once copied at every level of the search, so time grew faster than the number of files."""
    copied = list[int]()

    def build_and_count(ranges: Sequence[StoredRange]) -> Ranges:
        copied.append(len(ranges))
        return Ranges(ranges)

    before = Ranges(stored(number, number + 1) for number in range(1 << 12))
    monkeypatch.setattr(compaction, "Ranges", build_and_count)
    assert not [*list_compaction_groups(before, 1 << 12, lambda _children: False, 8)]
    assert sum(copied) == 3 * len(before)  # in groups of 8, 4 and 2


def test_files_beside_a_much_larger_one_wait_for_more_of_their_size() -> None:
    fits = build_many_similar_files_condition(8)
    of_one_size = [stored(first, first + 1) for first in range(8)]
    assert fits(Ranges(of_one_size))
    assert not fits(Ranges(of_one_size[:7]))
    beside = [stored(0, 64), *(stored(first, first + 8) for first in range(64, 128, 8))]
    assert not fits(Ranges(beside))
    many = [stored(0, 64), *(stored(first, first + 4) for first in range(64, 128, 4))]
    assert fits(Ranges(many))
    assert not build_many_similar_files_condition(8, 7)(Ranges(of_one_size))


# What a parent holds.


@pytest.fixture
def empty(tmp_path: Path) -> ArchiveStore:
    return ArchiveStore.open(tmp_path / "archive", create=True)


def run_of(archive: ArchiveStore, units: int, pairings: int = 3, most: int = 1) -> tuple[RunRecord, list[Block]]:
    """Write a run of ``units`` units, in files of at most ``most``, and return it with its games."""
    run = record(build_spec(pairings=PAIRINGS[:pairings], seed=units), games=2 * units // pairings)
    archive.write_run_and_unit_count(run)
    blocks = [random_block(units, pairing, 0, units // pairings) for pairing in range(pairings)]
    store(archive, run.run_id, blocks, PAIRINGS[:pairings], most)
    return run, blocks


@pytest.mark.parametrize(("pairings", "units"), [(3, 21), *seldom((1, 32), (3, 48))])
def test_a_parent_is_the_file_that_would_have_been_written_at_once(
    empty: ArchiveStore, tmp_path: Path, pairings: int, units: int
) -> None:
    run, blocks = run_of(empty, units, pairings)
    single_file = ArchiveStore.open(tmp_path / "whole", create=True)
    single_file.write_run_and_unit_count(run)
    store_span(single_file, (0, units), blocks, run.run_id)
    for archive in (empty, single_file):
        index(archive)
        decide(archive, run.run_id)
    for tables in EACH:
        assert compact_tables(empty, run, tables, always)
        for table in tables:
            (parent,) = empty.list_effective_ranges(run.run_id, table.name)
            assert [parent] == list(single_file.list_effective_ranges(run.run_id, table.name))


def test_also_a_parent_in_which_some_pairings_have_no_games(empty: ArchiveStore, tmp_path: Path) -> None:
    """Check that its agents are those of its games."""
    run, blocks = run_of(empty, 12)
    single_file = ArchiveStore.open(tmp_path / "whole", create=True)
    single_file.write_run_and_unit_count(run)
    store_span(single_file, (0, 2), blocks[:2], run.run_id)
    assert compact_tables(empty, run, STORED, lambda children: children.units <= 2)
    assert empty.list_effective_ranges(run.run_id)[0] == single_file.list_effective_ranges(run.run_id)[0]


def test_games_that_ended_before_their_first_ply_have_parents_too(empty: ArchiveStore) -> None:
    run = record(build_spec(pairings=PAIRINGS[:1]), games=8)
    empty.write_run_and_unit_count(run)
    gone: Game = {"plies": [], "winner": 1, "ending": FORFEIT_ERROR}
    store(empty, run.run_id, [pack_games([gone] * 8)], PAIRINGS[:1], most=1)
    index(empty)
    decide(empty, run.run_id)
    for tables in EACH:
        assert compact_tables(empty, run, tables, always) == 1
    (only,) = empty.list_effective_ranges(run.run_id)
    assert only[:2] == (0, 4)
    assert [read_rows(empty, run.run_id, only, table).height for table in ("games", "plies")] == [8, 0]


def test_the_last_file_of_a_run_becomes_part_of_a_larger_one_when_the_run_is_extended(empty: ArchiveStore) -> None:
    run, longer = record(games=8), record(games=30)
    assert (run.end_unit, longer.end_unit) == (12, 45)
    blocks = build_random_blocks(4, 15)

    empty.write_run_and_unit_count(run)
    for span in ((0, 8), (8, 12)):
        store_span(empty, span, blocks)
    assert compact_tables(empty, run, STORED, always) == 1
    assert [stored[:2] for stored in empty.list_effective_ranges(run.run_id)] == [(0, 12)]
    for span in split_into_files(12, 45, 45, 16):
        store_span(empty, span, blocks)
    empty.write_run_and_unit_count(longer)
    assert compact_tables(empty, longer, STORED, always) == 1
    assert [stored[:2] for stored in empty.list_effective_ranges(run.run_id)] == [(0, 45)]
    compact_tables(empty, longer, (TALLIES_TABLE,), always)
    assert verify_archive(empty).problems == []


def test_a_process_that_stood_still_writes_its_plies_again(
    empty: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let others take the plies for garbage, and remove the children as soon as the parent counts."""
    run, _ = run_of(empty, 12, most=4)
    before = [read_rows(empty, run.run_id, stored, "plies") for stored in empty.list_effective_ranges(run.run_id)]
    put, removed = ArchiveStore.write_file, list[int]()

    def stand_still(self: ArchiveStore, path: Path, content: bytes) -> None:
        if path.parts[-3] == "plies":
            put(self, path, content)
            return
        monkeypatch.undo()
        removed.append(remove_replaced_files(ArchiveStore(empty.root), run.run_id, 0.0))
        put(self, path, content)
        removed.append(remove_replaced_files(ArchiveStore(empty.root), run.run_id, 0.0))

    monkeypatch.setattr(ArchiveStore, "write_file", stand_still)
    assert compact_tables(empty, run, STORED, always) == 1
    assert removed == [1, 6]
    (parent,) = empty.list_effective_ranges(run.run_id)
    assert read_rows(ArchiveStore(empty.root), run.run_id, parent, "plies").equals(
        pl.concat(before).sort("ply", "game_id")
    )
    assert verify_archive(empty).problems == []
