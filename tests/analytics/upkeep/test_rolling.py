"""Which files roll up by themselves, of which extents, and what becomes of them when others do the same."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pytest

from analytics.derived_tables.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.derived_tables.derived_table import RangeTable, known_ranges
from analytics.derived_tables.tables import DERIVED, FIRST_PLIES_TABLE, POSITIONS_TABLE, IndexPart, index, index_runs
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from analytics.store.blocks import TableBytes
from analytics.store.ranges import Ranges
from analytics.upkeep import rolling
from analytics.upkeep.garbage import remove_replaced, unneeded_files
from analytics.upkeep.rolling import (
    GAMES_TABLE,
    PLIES_TABLE,
    add_up,
    roll_up,
    roll_up_small,
)
from analytics.verify.archive import verify
from quarto.errors import FailureError
from tests.analytics.folders import copied
from tests.analytics.indexed import about_values, decide
from tests.analytics.naive_games import RUN_ID, random_block, record, store

UNITS = 78
SUMMED_POSITIONS = """
    SELECT * EXCLUDE (games, wins, draws, losses, sample_game), sum(games)::BIGINT AS games, sum(wins)::BIGINT AS wins,
        sum(draws)::BIGINT AS draws, min(sample_game) AS sample_game
    FROM positions GROUP BY ALL ORDER BY ALL
"""
QUESTIONS = (
    *(f"FROM {view} ORDER BY ALL" for view in ("games", "plies", "decisions", "first_plies")),
    SUMMED_POSITIONS,
)


def always(_children: Ranges) -> bool:
    return True


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Archive, Archive]:
    """The archive that the next two fixtures copy."""
    archive = Archive.open(tmp_path_factory.mktemp("made") / "archive", create=True)
    archive.save_run(record(games=52))
    store(archive, RUN_ID, [random_block(3, pairing, 0, UNITS // 3) for pairing in range(3)], most=4)
    assert archive.known_run(RUN_ID).end_unit == UNITS
    derived = copied(archive, Path(archive.root).with_name("derived"))
    index_runs(derived, [RUN_ID])
    decide(derived, RUN_ID)
    return archive, derived


@pytest.fixture
def small_files(made: tuple[Archive, Archive], tmp_path: Path) -> Archive:
    """An archive of one run of 78 units, in 20 files of every table of games."""
    return copied(made[0], tmp_path / "archive")


@pytest.fixture
def derived(made: tuple[Archive, Archive], tmp_path: Path) -> Archive:
    """The same with all derived tables; the values of decisions are made up."""
    return copied(made[1], tmp_path / "archive")


@pytest.fixture(scope="module")
def told(made: tuple[Archive, Archive]) -> list[pl.DataFrame]:
    """The answers of ``derived`` before anything is rolled up."""
    return answers(made[1].root)


def answers(root: PurePath) -> list[pl.DataFrame]:
    with OpenArchive(root) as opened:
        return [opened.sql(question) for question in QUESTIONS]


def assert_same(first: list[pl.DataFrame], second: list[pl.DataFrame]) -> None:
    for mine, theirs in zip(first, second, strict=True):
        assert len(mine)
        assert mine.equals(theirs)


def problems(archive: Archive) -> list[str]:
    """What verification finds but for values that are made up."""
    return [str(each) for each in verify(archive).problems if not about_values(each)]


def roll_all(archive: Archive, fits: rolling.Fits = always) -> int:
    run = archive.known_run(RUN_ID)
    tables = [(PLIES_TABLE, GAMES_TABLE), *((table,) for table in DERIVED.values())]
    return sum(roll_up(archive, run, each, fits) for each in tables)


def test_tables_that_were_rolled_up_count_whatever_becomes_of_the_games(
    derived: Archive, told: list[pl.DataFrame]
) -> None:
    run = derived.known_run(RUN_ID)
    roll_up(derived, run, (POSITIONS_TABLE,), always)  # larger than the files of games
    assert_same(answers(derived.root), told)
    roll_up(derived, run, (PLIES_TABLE, GAMES_TABLE), always)  # larger than those of decisions and first plies
    remove_replaced(derived, RUN_ID, 0.0)
    assert len(derived.ranges(RUN_ID)) == len(derived.ranges(RUN_ID, "positions")) == 1
    assert len(derived.ranges(RUN_ID, "decisions")) == len(derived.ranges(RUN_ID, "first_plies")) == 20
    assert_same(answers(derived.root), told)
    assert index_runs(derived, [RUN_ID]).games == 0
    assert problems(derived) == []


def test_files_of_different_extents_stay_apart(small_files: Archive) -> None:
    archive, run = small_files, small_files.known_run(RUN_ID)
    index_runs(archive, [RUN_ID], 4)
    for stored in archive.ranges(RUN_ID).inside(0, 32):
        index(archive, IndexPart(RUN_ID, stored, 7))
    roll_up(archive, run, (POSITIONS_TABLE,), always)
    assert [(each.first, each.end, each.extent) for each in known_ranges(archive, RUN_ID, POSITIONS_TABLE)] == [
        (0, UNITS, "04")
    ]
    deep = archive.ranges(RUN_ID, "positions", lambda extent: extent >= "07")
    assert [(each.first, each.end) for each in deep] == [(0, 32)]
    index_runs(archive, [RUN_ID])
    assert {each.extent for each in known_ranges(archive, RUN_ID, POSITIONS_TABLE)} == {"07"}
    assert problems(archive) == []


def rows_of(archive: Archive, table: RangeTable) -> pl.DataFrame:
    ranges = archive.ranges(RUN_ID, table.name)
    return pl.concat([part for each in ranges for part in table.parts(archive, RUN_ID, each)])


def test_sums_are_those_of_the_children(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (POSITIONS_TABLE, FIRST_PLIES_TABLE)
    before = [rows_of(derived, table) for table in tables]
    monkeypatch.setattr(rolling, "SUMMED", 4)
    assert add_up(derived, RUN_ID, threads=2) >= 2
    for table, rows in zip(tables, before, strict=True):
        assert len(derived.ranges(RUN_ID, table.name)) < 8
        summed = rows_of(derived, table)
        assert summed.height < rows.height
        counts = ["games", "wins", "draws"]
        key = [name for name in rows.columns if name not in (*counts, "sample")]
        totals = [each.group_by(key).agg(pl.sum(*counts)).sort(key) for each in (rows, summed)]
        assert totals[0].equals(totals[1])
    assert problems(derived) == []
    assert add_up(derived, RUN_ID) == 0


def test_only_many_small_files_roll_up_by_themselves(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    roll_up_small(derived, RUN_ID)
    assert len(derived.ranges(RUN_ID)) == 20  # fewer than 64
    assert len(derived.ranges(RUN_ID, "tallies")) == len(derived.ranges(RUN_ID, "decisions")) == 1
    monkeypatch.setattr(rolling, "SIBLINGS", 8)
    monkeypatch.setattr(rolling, "SMALL_GAMES", 128)
    roll_up_small(derived, RUN_ID)
    assert [each.units for each in derived.ranges(RUN_ID)] == [64, 4, 4, 4, 2]
    before = [*derived.ranges(RUN_ID)]
    roll_up_small(derived, RUN_ID)
    assert [*derived.ranges(RUN_ID)] == before
    rolling.roll_up_small(derived, "0123456789ab")  # a run that is not there


def test_sums_that_would_be_too_large_are_not_made(derived: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [derived.folder("positions", RUN_ID) / each.name for each in derived.ranges(RUN_ID, "positions")]
    monkeypatch.setattr(rolling, "SUM_BYTES", sum(Path(file).stat().st_size for file in files[:8]))
    add_up(derived, RUN_ID)
    assert all(each.units <= 32 for each in derived.ranges(RUN_ID, "positions"))
    assert len(derived.ranges(RUN_ID, "positions")) < 20


def test_a_run_that_goes_on_keeps_its_end_open(small_files: Archive) -> None:
    archive = small_files
    archive.update_run(RUN_ID, lambda known: known and record(games=104, units=known.units))
    roll_all(archive)
    assert [each[:2] for each in archive.ranges(RUN_ID)][:2] == [(0, 64), (64, 72)]
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


def test_whoever_comes_late_leaves_it_at_that(
    derived: Archive, told: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process rolls everything up and removes the children before this one reads them."""
    real = rolling.parent_table

    def late(*arguments: Any) -> TableBytes:
        monkeypatch.undo()
        roll_all(Archive(derived.root))
        remove_replaced(derived, RUN_ID, 0.0)
        return real(*arguments)

    monkeypatch.setattr(rolling, "parent_table", late)
    assert roll_up(derived, derived.known_run(RUN_ID), (PLIES_TABLE, GAMES_TABLE), always) == 0
    assert_same(answers(derived.root), told)
    assert unneeded_files(derived) == []


def test_annotations_to_several_extents_are_kept(derived: Archive) -> None:
    """What more is known of some games does not hide the decisions of the others."""
    run, rows = derived.known_run(RUN_ID), 0
    for stored in [*derived.ranges(RUN_ID)][:2]:
        (frame,) = DECISIONS_TABLE.parts(
            derived, RUN_ID, derived.ranges(RUN_ID, "decisions").at(stored.first) or stored
        )
        DECISIONS_TABLE.store(derived, RUN_ID, stored, frame, AnnotationExtent(choices=True).text)
        rows += len(frame)
    before = answers(derived.root)
    roll_up(derived, run, (DECISIONS_TABLE,), always)
    remove_replaced(derived, RUN_ID, 0.0)
    assert_same(answers(derived.root), before)
    counted = derived.ranges(RUN_ID, "decisions", AnnotationExtent(choices=True).is_in)
    assert [each[:2] for each in counted] == [(0, 8)]
