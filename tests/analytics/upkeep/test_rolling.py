"""Files roll up: parents are aligned and whole, hold what their children held, and nothing is lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pytest

from analytics.derived_tables.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.derived_tables.derived_table import RangeTable, known_ranges
from analytics.derived_tables.first_plies import FIRST_PLIES_TABLE
from analytics.derived_tables.indexing import IndexPart, index, index_runs
from analytics.derived_tables.position_index import POSITIONS_TABLE
from analytics.derived_tables.replaced import remove_replaced, table_files
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from analytics.store.range_files import read_tallies
from analytics.store.range_names import Ranges, StoredRange
from analytics.upkeep import rolling
from analytics.upkeep.rolling import (
    DERIVED,
    GAMES_TABLE,
    PLIES_TABLE,
    TALLIES_TABLE,
    Sizes,
    add_up,
    families,
    roll_up,
    roll_up_small,
    small,
)
from analytics.verify.archive import verify
from analytics.verify.garbage import unneeded_files
from quarto.errors import FailureError
from tests.analytics.indexed import decide
from tests.analytics.naive_games import RUN_ID, random_block, record, store

UNITS = 150
QUESTIONS = (
    "FROM games ORDER BY ALL",
    "FROM plies ORDER BY ALL",
    "FROM decisions ORDER BY ALL",
    "FROM first_plies ORDER BY ALL",
    "SELECT * EXCLUDE games, sum(games) FROM positions GROUP BY ALL ORDER BY ALL",
)


def always(_children: Sequence[StoredRange], _units: int) -> bool:
    return True


@pytest.fixture
def small_files(tmp_path: Path) -> Archive:
    """An archive of one run of 150 units, in 38 files of every table of games."""
    archive = Archive.open(tmp_path / "archive", create=True)
    archive.save_run(record(games=100))
    store(archive, RUN_ID, [random_block(3, pairing, 0, UNITS // 3) for pairing in range(3)], most=4)
    assert archive.known_run(RUN_ID).end_unit == UNITS
    return archive


@pytest.fixture
def derived(small_files: Archive) -> Archive:
    """The same with all derived tables; the values of decisions are made up."""
    index_runs(small_files, [RUN_ID])
    decide(small_files, RUN_ID)
    return small_files


def answers(root: PurePath) -> list[pl.DataFrame]:
    with OpenArchive(root) as opened:
        return [opened.sql(question) for question in QUESTIONS]


def assert_same(first: list[pl.DataFrame], second: list[pl.DataFrame]) -> None:
    for mine, theirs in zip(first, second, strict=True):
        assert len(mine)
        assert mine.equals(theirs)


def problems(archive: Archive) -> list[str]:
    """What verification finds but for values that are made up."""
    return [str(each) for each in verify(archive).problems if "do not fit together" not in each.what]


def roll_all(archive: Archive, fits: Callable[[Sequence[StoredRange], int], bool] = always) -> int:
    run = archive.known_run(RUN_ID)
    tables = [(PLIES_TABLE, GAMES_TABLE), *((table,) for table in DERIVED)]
    return sum(roll_up(archive, run, each, fits) for each in tables)


def ranges_of(dice: random.Random, total: int) -> Ranges:
    """Aligned ranges of random sizes with some holes; the last one ends at ``total``."""
    found, first = [], 0
    while first < total:
        size = min(first & -first or 64, 1 << dice.randrange(7))
        end = min(first + size, total)
        if dice.random() < 0.97:
            found.append(StoredRange(first, end, dice.getrandbits(64)))
        first = end
    return Ranges(found)


@pytest.mark.parametrize("seed", range(40))
def test_parents_are_aligned_whole_and_as_large_as_may_be(seed: int) -> None:
    dice = random.Random(seed)
    total, most, least = dice.randrange(1, 500), dice.choice((2, 5, 64)), dice.choice((2, 4))
    ranges = ranges_of(dice, total)
    found = [*families(ranges, total, lambda children, _units: len(children) >= least, most)]
    for parent, children in found:
        assert least <= len(children) <= most
        assert children[0].first == parent.first
        assert children[-1].end == parent.end
        assert all(one.end == other.first for one, other in zip(children, children[1:], strict=False))
        assert parent.fingerprint == sum(child.fingerprint for child in children) % 2**64
        size = 1 << (parent.units - 1).bit_length()
        assert parent.first % size == 0
        assert parent.units == size or parent.end == total
    starts = [family.parent.first for family in found]
    assert starts == sorted(starts)
    taken = [child for family in found for child in family.children]
    assert len(taken) == len(set(taken))
    if len(ranges) > 1 and ranges.units == total and most >= len(ranges) >= least:
        assert [family.parent[:2] for family in found] == [(0, total)]


def test_a_run_becomes_one_file_of_each_table_and_the_answers_stay(derived: Archive) -> None:
    before, run = answers(derived.root), derived.ranges(RUN_ID)
    tallies = read_tallies(derived, RUN_ID)
    assert roll_all(derived) == len(DERIVED) + 1
    for table in (GAMES_TABLE, PLIES_TABLE, *DERIVED):
        assert [each[:3] for each in derived.ranges(RUN_ID, table.name)] == [(0, UNITS, run.fingerprint)]
    assert_same(answers(derived.root), before)
    assert read_tallies(derived, RUN_ID) == tallies
    assert problems(derived) == []
    assert roll_all(derived) == 0
    assert len(table_files(derived, RUN_ID).replaced) == 38 * 6
    assert remove_replaced(derived, RUN_ID) == 0
    assert remove_replaced(derived, RUN_ID, 0.0) == 38 * 6
    assert_same(answers(derived.root), before)
    assert problems(derived) == []
    assert unneeded_files(derived) == []


def test_what_is_rolled_up_has_the_bytes_of_what_is_written_at_once(derived: Archive, tmp_path: Path) -> None:
    roll_all(derived)
    whole = Archive.open(tmp_path / "whole", create=True)
    whole.save_run(record(games=100))
    blocks = [random_block(3, pairing, 0, UNITS // 3) for pairing in range(3)]
    store(whole, RUN_ID, blocks, most=128)  # two files, of 128 and 16, and two more
    assert len(whole.ranges(RUN_ID)) == 4
    index_runs(whole, [RUN_ID])
    decide(whole, RUN_ID)
    roll_all(whole)
    for table in (GAMES_TABLE, PLIES_TABLE, *DERIVED):
        assert [*whole.ranges(RUN_ID, table.name)] == [*derived.ranges(RUN_ID, table.name)]


def test_very_many_files_are_put_together_in_steps(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(derived.root)
    for table in (GAMES_TABLE, *DERIVED):
        monkeypatch.setitem(vars(table), "most", 4)
    assert roll_all(derived) > 5 * 10
    assert all(len(derived.ranges(RUN_ID, table.name)) == 1 for table in (GAMES_TABLE, *DERIVED))
    assert_same(answers(derived.root), before)


def test_many_who_roll_up_at_once_make_the_same_files(derived: Archive) -> None:
    before = answers(derived.root)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: roll_all(Archive(derived.root), small(8)), range(4)))
    roll_all(derived)
    assert_same(answers(derived.root), before)
    assert all(len(derived.ranges(RUN_ID, table.name)) == 1 for table in (GAMES_TABLE, *DERIVED))
    remove_replaced(derived, RUN_ID, 0.0)
    assert unneeded_files(derived) == []


def test_tables_that_were_rolled_up_count_whatever_becomes_of_the_games(derived: Archive) -> None:
    before, run = answers(derived.root), derived.known_run(RUN_ID)
    roll_up(derived, run, (POSITIONS_TABLE,), always)  # larger than the files of games
    assert_same(answers(derived.root), before)
    roll_up(derived, run, (PLIES_TABLE, GAMES_TABLE), always)  # larger than those of decisions and first plies
    remove_replaced(derived, RUN_ID, 0.0)
    assert len(derived.ranges(RUN_ID)) == len(derived.ranges(RUN_ID, "positions")) == 1
    assert len(derived.ranges(RUN_ID, "decisions")) == len(derived.ranges(RUN_ID, "first_plies")) == 38
    assert_same(answers(derived.root), before)
    assert index_runs(derived, [RUN_ID]).games == 0
    assert problems(derived) == []


def test_files_of_different_extents_stay_apart(small_files: Archive) -> None:
    archive, run = small_files, small_files.known_run(RUN_ID)
    index_runs(archive, [RUN_ID], 4)
    for stored in archive.ranges(RUN_ID).inside(0, 64):
        index(archive, IndexPart(RUN_ID, stored, 7))
    roll_up(archive, run, (POSITIONS_TABLE,), always)
    assert [(each.first, each.end, each.extent) for each in known_ranges(archive, RUN_ID, "positions")] == [
        (0, UNITS, "04")
    ]
    deep = archive.ranges(RUN_ID, "positions", lambda extent: extent >= "07")
    assert [(each.first, each.end) for each in deep] == [(0, 64)]
    index_runs(archive, [RUN_ID])
    assert {each.extent for each in known_ranges(archive, RUN_ID, "positions")} == {"07"}
    assert problems(archive) == []


@pytest.mark.parametrize("table", [POSITIONS_TABLE, FIRST_PLIES_TABLE], ids=lambda table: table.name)
def test_sums_are_those_of_the_children(derived: Archive, table: RangeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.concat(
        [part for each in derived.ranges(RUN_ID, table.name) for part in table.parts(derived, RUN_ID, each)]
    )
    monkeypatch.setattr(rolling, "SUMMED", 4)
    assert add_up(derived, RUN_ID, threads=2) > 2
    ranges = derived.ranges(RUN_ID, table.name)
    assert len(ranges) < 8
    summed = pl.concat([part for each in ranges for part in table.parts(derived, RUN_ID, each)])
    assert summed.height < rows.height
    counts = ["games", "wins", "draws"]
    key = [name for name in rows.columns if name not in (*counts, "sample")]
    totals = [each.group_by(key).agg(pl.sum(*counts)).sort(key) for each in (rows, summed)]
    assert totals[0].equals(totals[1])
    assert problems(derived) == []
    assert add_up(derived, RUN_ID) == 0


def test_only_many_small_files_roll_up_by_themselves(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    roll_up_small(derived, RUN_ID)
    assert len(derived.ranges(RUN_ID)) == 38  # fewer than 64
    assert len(derived.ranges(RUN_ID, "tallies")) == len(derived.ranges(RUN_ID, "decisions")) == 1
    monkeypatch.setattr(rolling, "SIBLINGS", 8)
    monkeypatch.setattr(rolling, "SMALL_GAMES", 128)
    roll_up_small(derived, RUN_ID)
    assert [each.units for each in derived.ranges(RUN_ID)] == [64, 64, 4, 4, 4, 4, 4, 2]
    before = [*derived.ranges(RUN_ID)]
    roll_up_small(derived, RUN_ID)
    assert [*derived.ranges(RUN_ID)] == before
    rolling.roll_up_small(derived, "0123456789ab")  # a run that is not there


def test_sums_that_would_be_too_large_are_not_made(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, ranges = Sizes(derived, RUN_ID, (POSITIONS_TABLE,)), derived.ranges(RUN_ID, "positions")
    monkeypatch.setattr(rolling, "SUM_BYTES", sizes.of(ranges[:16] if isinstance(ranges, list) else [*ranges][:16]))
    add_up(derived, RUN_ID)
    assert all(each.units <= 64 for each in derived.ranges(RUN_ID, "positions"))
    assert len(derived.ranges(RUN_ID, "positions")) < 38


def test_a_run_that_goes_on_keeps_its_end_open(small_files: Archive) -> None:
    archive = small_files
    archive.update_run(RUN_ID, lambda known: known and record(games=200, units=known.units))
    roll_all(archive)
    assert [each[:2] for each in archive.ranges(RUN_ID)][:2] == [(0, 128), (128, 144)]
    assert all(each.units & (each.units - 1) == 0 for each in archive.ranges(RUN_ID))


@pytest.mark.parametrize("table", ["plies", "games"])
def test_a_file_that_is_lost_is_named(small_files: Archive, table: str) -> None:
    path = sorted(Path(small_files.root).glob(f"{table}/*/*"))[3]
    path.unlink()
    if table == "plies":
        with pytest.raises(FailureError, match=f"{path.name[:42]}.*is missing: see 'qarena archive verify'"):
            roll_all(small_files)
    else:
        roll_all(small_files)
        assert small_files.ranges(RUN_ID).missing(UNITS) == [(12, 16)]


def test_whoever_comes_late_leaves_it_at_that(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process rolls everything up and removes the children before this one reads them."""
    real, before = rolling.make_parent, answers(derived.root)

    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        roll_all(Archive(derived.root))
        remove_replaced(derived, RUN_ID, 0.0)
        return real(*arguments)

    monkeypatch.setattr(rolling, "make_parent", late)
    assert roll_up(derived, derived.known_run(RUN_ID), (PLIES_TABLE, GAMES_TABLE), always) == 0
    assert_same(answers(derived.root), before)
    assert unneeded_files(derived) == []


def test_plies_are_there_when_their_games_are_though_gc_took_them_for_garbage(
    small_files: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The games of a parent are not written yet, so nothing says that its plies are needed."""
    real = rolling.make_parent

    def removed(archive: Archive, run: Any, table: RangeTable, family: Any) -> StoredRange:
        made = real(archive, run, table, family)
        if table is PLIES_TABLE:
            monkeypatch.undo()
            assert remove_replaced(small_files, RUN_ID, 60.0) == 0  # not that young
            archive.backend.remove(archive.folder("plies", RUN_ID) / made.name)
        return made

    monkeypatch.setattr(rolling, "make_parent", removed)
    roll_all(small_files)
    assert verify(small_files).problems == []


def test_annotations_to_several_extents_are_kept(derived: Archive) -> None:
    """What more is known of some games does not hide the decisions of the others."""
    run, rows = derived.known_run(RUN_ID), 0
    for stored in [*derived.ranges(RUN_ID)][:2]:
        (frame,) = DECISIONS_TABLE.parts(derived, RUN_ID, derived.ranges(RUN_ID, "decisions").at(stored.first) or stored)
        DECISIONS_TABLE.store(derived, RUN_ID, stored, frame, AnnotationExtent(choices=True).text)
        rows += len(frame)
    before = answers(derived.root)
    roll_up(derived, run, (DECISIONS_TABLE,), always)
    remove_replaced(derived, RUN_ID, 0.0)
    assert_same(answers(derived.root), before)
    counted = derived.ranges(RUN_ID, "decisions", AnnotationExtent(choices=True).is_in)
    assert [each[:2] for each in counted] == [(0, 8)]
