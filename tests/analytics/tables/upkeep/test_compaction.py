"""Files that roll up by themselves, and compaction: the games and the answers stay, whoever does the same meanwhile."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pytest

from analytics.questions.openings import explore_position
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import TableBytes
from analytics.store.marker import MARKER_NAME
from analytics.store.range_files import read_tallies
from analytics.store.ranges import FileSlice, Ranges
from analytics.tables.derived.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.tables.derived.definitions import DERIVED_TABLES, FIRST_PLIES_TABLE, POSITIONS_TABLE
from analytics.tables.derived.indexing import IndexExtent, index_chunk, index_runs
from analytics.tables.derived.range_table import Chunk, RangeTable, select_ranges_with_most_units
from analytics.tables.upkeep import compaction
from analytics.tables.upkeep.compaction import (
    STORED_TABLES,
    CompactionGroup,
    CompactionSummary,
    compact_positions_and_first_plies,
    compact_run,
    compact_small_files,
    compact_tables,
    count_compactable_files,
)
from analytics.tables.upkeep.garbage import GRACE_SECONDS, list_unneeded_files, remove_replaced_files
from analytics.tables.verification import derived_tables
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError
from tests.analytics.conftest import write_filled_archive
from tests.analytics.folders import copy_archive, read_contents
from tests.analytics.indexed import about_values, decide, write_draw_evaluations
from tests.analytics.naive_games import RUN_ID, build_random_blocks, record, store, store_span
from tests.analytics.tables.verification.damage import changed, rewritten
from tests.object_storage import BOTH

UNITS = 42
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
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchiveStore, ArchiveStore]:
    """Write the archive that the next two fixtures copy."""
    archive = ArchiveStore.open(tmp_path_factory.mktemp("made") / "archive", create=True)
    archive.write_run_and_unit_count(record(games=28))
    store(archive, RUN_ID, build_random_blocks(3, UNITS // 3), most=4)
    assert archive.load_run(RUN_ID).end_unit == UNITS
    derived = copy_archive(archive, Path(archive.root).with_name("derived"))
    index_runs(derived, [RUN_ID])
    decide(derived, RUN_ID)
    return archive, derived


@pytest.fixture
def small_files(originals: tuple[ArchiveStore, ArchiveStore], tmp_path: Path) -> ArchiveStore:
    """Copy an archive of one run of 42 units, in 11 files of every table of games."""
    return copy_archive(originals[0], tmp_path / "archive")


@pytest.fixture
def derived(originals: tuple[ArchiveStore, ArchiveStore], tmp_path: Path) -> ArchiveStore:
    """Copy the archive with all derived tables; the values of decisions are invented."""
    return copy_archive(originals[1], tmp_path / "archive")


@pytest.fixture(scope="module")
def answers_before(originals: tuple[ArchiveStore, ArchiveStore]) -> list[pl.DataFrame]:
    """Return the answers of ``derived`` before anything is compacted."""
    return answers(originals[1].root)


def answers(root: PurePath) -> list[pl.DataFrame]:
    with OpenArchive(root) as opened:
        return [explore_position(opened, "..../..../..../.... 5", "turn"), *map(opened.sql, QUESTIONS)]


def assert_same(first: list[pl.DataFrame], second: list[pl.DataFrame]) -> None:
    for mine, theirs in zip(first, second, strict=True):
        assert len(mine)
        assert mine.equals(theirs)


def problems(archive: ArchiveStore) -> list[str]:
    """List the problems that verification finds, except for the invented values."""
    return [str(problem) for problem in verify_archive(archive).problems if not about_values(problem)]


def roll_all(archive: ArchiveStore, fits: compaction.GroupCondition = always) -> int:
    run = archive.load_run(RUN_ID)
    tables = [STORED_TABLES, *((table,) for table in DERIVED_TABLES.values())]
    return sum(compact_tables(archive, run, group, fits) for group in tables)


def test_tables_that_were_rolled_up_count_whatever_becomes_of_the_games(
    derived: ArchiveStore, answers_before: list[pl.DataFrame]
) -> None:
    run = derived.load_run(RUN_ID)
    compact_tables(derived, run, (POSITIONS_TABLE,), always)  # larger than the files of games
    assert_same(answers(derived.root), answers_before)
    compact_tables(derived, run, STORED_TABLES, always)  # larger than those of decisions and first plies
    remove_replaced_files(derived, RUN_ID, 0.0)
    assert len(derived.list_effective_ranges(RUN_ID)) == len(derived.list_effective_ranges(RUN_ID, "positions")) == 1
    assert (
        len(derived.list_effective_ranges(RUN_ID, "decisions"))
        == len(derived.list_effective_ranges(RUN_ID, "first_plies"))
        == 11
    )
    assert_same(answers(derived.root), answers_before)
    assert index_runs(derived, [RUN_ID]).games == 0
    assert problems(derived) == []


def test_files_of_different_extents_stay_apart(small_files: ArchiveStore) -> None:
    archive, run = small_files, small_files.load_run(RUN_ID)
    index_runs(archive, [RUN_ID], 4)
    for stored in archive.list_effective_ranges(RUN_ID).select_overlapping(0, 16):
        index_chunk(archive, Chunk(RUN_ID, FileSlice.whole(stored), IndexExtent(7)))
    compact_tables(archive, run, (POSITIONS_TABLE,), always)
    assert [
        (file.first, file.end, file.extent) for file in select_ranges_with_most_units(archive, RUN_ID, POSITIONS_TABLE)
    ] == [(0, UNITS, "04")]
    deep = archive.list_effective_ranges(RUN_ID, "positions", lambda extent: extent >= "07")
    assert [(file.first, file.end) for file in deep] == [(0, 16)]
    index_runs(archive, [RUN_ID])
    assert {file.extent for file in select_ranges_with_most_units(archive, RUN_ID, POSITIONS_TABLE)} == {"07"}
    assert problems(archive) == []


def rows_of(archive: ArchiveStore, table: RangeTable) -> pl.DataFrame:
    ranges = archive.list_effective_ranges(RUN_ID, table.name)
    return pl.concat([part for stored in ranges for part in table.read_frames(archive, RUN_ID, stored)])


def test_sums_are_those_of_the_children(derived: ArchiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (POSITIONS_TABLE, FIRST_PLIES_TABLE)
    before, rest = [rows_of(derived, table) for table in tables], copy_archive(derived, tmp_path / "rest")
    monkeypatch.setattr(compaction, "MIN_SUM_FILES", 4)
    groups: list[CompactionGroup] = []
    sum_count = compact_positions_and_first_plies(derived, RUN_ID, threads=2, progress=groups.append)
    assert sum_count == len(groups) >= 2
    assert all(len(group.children) >= 8 for group in groups)
    for table, rows in zip(tables, before, strict=True):
        assert len(derived.list_effective_ranges(RUN_ID, table.name)) < 8
        summed = rows_of(derived, table)
        assert summed.height < rows.height
        counts = ["games", "wins", "draws"]
        key = [name for name in rows.columns if name not in (*counts, "sample")]
        totals = [table_rows.group_by(key).agg(pl.sum(*counts)).sort(key) for table_rows in (rows, summed)]
        assert totals[0].equals(totals[1])
    assert problems(derived) == []
    monkeypatch.setattr(derived_tables, "MAX_MERGED_TABLES", 2)  # then they are added up in several steps
    assert problems(derived) == []
    with rewritten(derived, "positions", changed("games", 0, 99)) as path:
        (problem,) = problems(derived)
        assert problem.startswith(f"{path}: its rows are not what its games give")
    assert compact_positions_and_first_plies(derived, RUN_ID) == 0
    files = [
        rest.folder("positions", RUN_ID) / stored.name for stored in rest.list_effective_ranges(RUN_ID, "positions")
    ]
    monkeypatch.setattr(compaction, "SUM_BYTES", sum(Path(file).stat().st_size for file in files[:8]))
    compact_positions_and_first_plies(rest, RUN_ID)  # which makes no sums that would be too large
    assert all(stored.units <= 32 for stored in rest.list_effective_ranges(RUN_ID, "positions"))
    assert len(rest.list_effective_ranges(RUN_ID, "positions")) < 11


def test_only_many_small_files_roll_up_by_themselves(derived: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_small_files(derived, RUN_ID)
    assert len(derived.list_effective_ranges(RUN_ID)) == 11  # fewer than 64
    assert (
        len(derived.list_effective_ranges(RUN_ID, "tallies"))
        == len(derived.list_effective_ranges(RUN_ID, "decisions"))
        == 1
    )
    monkeypatch.setattr(compaction, "MIN_SIBLINGS", 8)
    monkeypatch.setattr(compaction, "SMALL_GAMES", 64)
    compact_small_files(derived, RUN_ID)
    assert [stored.units for stored in derived.list_effective_ranges(RUN_ID)] == [32, 4, 4, 2]
    before = [*derived.list_effective_ranges(RUN_ID)]
    compact_small_files(derived, RUN_ID)
    assert [*derived.list_effective_ranges(RUN_ID)] == before
    compaction.compact_small_files(derived, "0123456789ab")  # a run that is not there


def test_a_file_that_is_lost_is_named_and_lost_games_are_no_hindrance(small_files: ArchiveStore) -> None:
    plies, games = (sorted(Path(small_files.root).glob(f"{table}/*/*"))[3] for table in ("plies", "games"))
    plies.unlink()
    with pytest.raises(FailureError, match=f"{plies.name[:42]}.*is missing: see 'qarena archive verify'"):
        roll_all(small_files)
    games.unlink()
    roll_all(small_files)
    assert small_files.list_effective_ranges(RUN_ID).list_gaps(UNITS) == [(12, 16)]


def test_one_group_is_merged_by_all_threads_into_the_same_file(
    derived: ArchiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count the threads of each group: the last groups, and the largest sums, would leave the other cores idle."""
    other, threads_of_groups = copy_archive(derived, tmp_path / "other"), list[int]()
    encode_parent = compaction.encode_parent_table

    def count_and_encode(*arguments: Any) -> TableBytes:
        threads_of_groups.append(arguments[-1])
        return encode_parent(*arguments)

    monkeypatch.setattr(compaction, "encode_parent_table", count_and_encode)
    run = derived.load_run(RUN_ID)
    assert compact_tables(derived, run, (POSITIONS_TABLE,), always, threads=2) == 1
    assert compact_tables(other, run, (POSITIONS_TABLE,), always) == 1
    assert threads_of_groups == [2, 1]
    names = [[file.name for file in one.list_effective_ranges(RUN_ID, "positions")] for one in (derived, other)]
    assert names[0] == names[1]

    def fits(children: Ranges) -> bool:
        return children.units <= 8

    assert compact_tables(derived, run, STORED_TABLES, fits, threads=4, max_groups_at_once=1) > 1
    assert {*threads_of_groups[2:]} == {4}


def test_whoever_comes_late_leaves_it_at_that(
    derived: ArchiveStore, answers_before: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let another process compact everything and remove the children before this one reads them."""
    real = compaction.encode_parent_table

    def late(*arguments: Any) -> TableBytes:
        monkeypatch.undo()
        roll_all(ArchiveStore(derived.root))
        remove_replaced_files(derived, RUN_ID, 0.0)
        return real(*arguments)

    monkeypatch.setattr(compaction, "encode_parent_table", late)
    assert compact_tables(derived, derived.load_run(RUN_ID), STORED_TABLES, always) == 0
    assert_same(answers(derived.root), answers_before)
    assert list_unneeded_files(derived) == []


def test_annotations_to_several_extents_are_kept(derived: ArchiveStore) -> None:
    """Check that more exact values of some games do not hide the decisions of the others."""
    run, rows = derived.load_run(RUN_ID), 0
    for stored in [*derived.list_effective_ranges(RUN_ID)][:2]:
        (frame,) = DECISIONS_TABLE.read_frames(
            derived, RUN_ID, derived.list_effective_ranges(RUN_ID, "decisions").find_range(stored.first) or stored
        )
        DECISIONS_TABLE.write(derived, RUN_ID, stored, frame, AnnotationExtent(choices=True).text)
        rows += len(frame)
    before = answers(derived.root)
    compact_tables(derived, run, (DECISIONS_TABLE,), always)
    remove_replaced_files(derived, RUN_ID, 0.0)
    assert_same(answers(derived.root), before)
    counted = derived.list_effective_ranges(RUN_ID, "decisions", AnnotationExtent(choices=True).is_included_in)
    assert [counted_range[:2] for counted_range in counted] == [(0, 8)]


# Compaction.

FIRST, TOTAL = 24, 120  # units that the archive of the fixture has, and that the run may have in the end
ALL = 1 + len(DERIVED_TABLES)  # tables with files of the same ranges, but for plies


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchiveStore, list[pl.DataFrame]]:
    """Write an archive with more files, in no order of games, and all derived tables; return its answers too."""
    archive = write_filled_archive(tmp_path_factory.mktemp("larger") / "archive")
    archive.write_run_and_unit_count(record(games=48))
    spans = [(first, first + 8) for first in range(FIRST, 72, 8)]
    random.Random(1).shuffle(spans)
    for span in spans:
        store_span(archive, span, build_random_blocks(3, TOTAL // 3))
    index_runs(archive, [RUN_ID])
    decide(archive, RUN_ID)
    write_draw_evaluations(archive, RUN_ID)
    return archive, answers(archive.root)


def grow(archive: ArchiveStore, larger: tuple[ArchiveStore, list[pl.DataFrame]]) -> list[pl.DataFrame]:
    """Give the archive of the fixture all files of the larger one, and return the answers of that."""
    for path, content in read_contents(larger[0]).items():
        if path.name != MARKER_NAME:
            archive.backend.replace(archive.root / larger[0].relative_name(path), content)
    return larger[1]


@BOTH
def test_one_file_of_each_table_takes_the_place_of_many_and_the_answers_stay(
    archive: ArchiveStore, larger: tuple[ArchiveStore, list[pl.DataFrame]]
) -> None:
    before = grow(archive, larger)
    files = len(archive.list_effective_ranges(RUN_ID))
    assert files == 2 + 6
    tallies, fingerprint = read_tallies(archive, [RUN_ID])[RUN_ID], archive.list_effective_ranges(RUN_ID).fingerprint
    assert count_compactable_files(archive, RUN_ID) == files
    reported: list[int] = []
    assert compact_run(archive, RUN_ID, progress=reported.append) == (files, 1, 0)
    assert reported == [files]
    for table in (*STORED_TABLES, *DERIVED_TABLES.values()):
        assert [stored[:3] for stored in archive.list_effective_ranges(RUN_ID, table.name)] == [(0, 72, fingerprint)]
    assert read_tallies(archive, [RUN_ID])[RUN_ID] == tallies
    assert count_compactable_files(archive, RUN_ID) == 0
    assert compact_run(archive, RUN_ID) == CompactionSummary()
    assert remove_replaced_files(archive, RUN_ID, 0.0) == files * (1 + ALL)
    assert list_unneeded_files(archive) == []
    assert_same(answers(archive.root), before)
    assert problems(archive) == []


def test_what_is_played_later_joins_the_others_and_what_was_replaced_stays_for_ten_minutes(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write_run_and_unit_count(record(games=16))
    assert compact_run(archive, RUN_ID) == (2, 1, 0)
    now = archive.backend.read_clock(archive.root)
    for seconds, removed in ((0.9 * GRACE_SECONDS, 0), (1.1 * GRACE_SECONDS, 6)):
        monkeypatch.setattr(archive.backend, "read_clock", lambda _root, then=now + seconds: then)
        assert compact_run(archive, RUN_ID) == (0, 0, removed)
    assert list_unneeded_files(archive) == []
    monkeypatch.undo()
    archive.write_run_and_unit_count(record(games=80))
    for span in ((24, 32), (32, 64), (64, 120)):
        store_span(archive, span, build_random_blocks(3, TOTAL // 3))
    assert compact_run(archive, RUN_ID) == (4, 1, 0)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 120)]
    assert problems(archive) == []


@pytest.mark.slow
def test_very_many_files_are_put_together_in_steps(
    archive: ArchiveStore, larger: tuple[ArchiveStore, list[pl.DataFrame]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = grow(archive, larger)
    for table in (*STORED_TABLES, *DERIVED_TABLES.values()):
        monkeypatch.setitem(vars(table), "max_merged_files", 3)
    reported: list[int] = []
    assert compact_run(archive, RUN_ID, progress=reported.append) == (8, 1, 0)
    assert sum(reported) == 8
    assert len(reported) > 3
    assert_same(answers(archive.root), before)
    assert problems(archive) == []


def sizes(archive: ArchiveStore) -> list[int]:
    """Return the bytes of each range in games and plies."""
    bytes_by_stem = dict.fromkeys((stored.games_stem for stored in archive.list_effective_ranges(RUN_ID)), 0)
    for table in ("games", "plies"):
        for name, status in archive.list_file_statuses(table, RUN_ID).items():
            if (stem := name.split(".")[0]) in bytes_by_stem:
                bytes_by_stem[stem] += status.bytes
    return list(bytes_by_stem.values())


def test_no_file_becomes_larger_than_was_asked_for(
    archive: ArchiveStore, larger: tuple[ArchiveStore, list[pl.DataFrame]], tmp_path: Path
) -> None:
    grow(archive, larger)
    single_file = copy_archive(archive, tmp_path / "whole")
    compact_run(single_file, RUN_ID)
    (most,) = sizes(single_file)
    done = compact_run(archive, RUN_ID, most - 1)
    assert done.files > done.larger_files > 1
    assert max(sizes(archive)) < most
    assert archive.list_effective_ranges(RUN_ID).units == 72
    assert compact_run(archive, RUN_ID, most - 1) == CompactionSummary()
    assert compact_run(archive, RUN_ID, min(sizes(archive))) == CompactionSummary()
    assert problems(archive) == []


def test_games_that_are_annotated_stay_apart_from_those_that_are_not(archive: ArchiveStore) -> None:
    """Check this because decisions of a part of a file would not count, and exact values take hours."""
    decide(archive, RUN_ID)
    archive.write_run_and_unit_count(record(games=32))
    for span in ((24, 28), (28, 32), (32, 48)):
        store_span(archive, span, build_random_blocks(3, TOTAL // 3))
    before = archive.list_effective_ranges(RUN_ID, "decisions")
    for _ in range(2):
        compact_run(archive, RUN_ID)
        remove_replaced_files(archive, RUN_ID, 0.0)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 16), (16, 24), (24, 32), (32, 48)]
    assert list(archive.list_effective_ranges(RUN_ID, "decisions")) == list(before)
    decide(archive, RUN_ID)
    compact_run(archive, RUN_ID)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 48)]
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID, "decisions")] == [(0, 48)]
    assert problems(archive) == []


def test_games_whose_choices_are_counted_stay_apart_too(archive: ArchiveStore) -> None:
    archive.write_run_and_unit_count(record(games=16))
    decide(archive, RUN_ID)
    first = archive.list_effective_ranges(RUN_ID)[0]
    for stored in archive.list_effective_ranges(RUN_ID, "decisions").select_overlapping(first.first, first.end):
        (frame,) = DECISIONS_TABLE.read_frames(archive, RUN_ID, stored)
        counted = frame.with_columns(saving=pl.lit(1, pl.Int32))
        DECISIONS_TABLE.write(archive, RUN_ID, first, counted, AnnotationExtent(choices=True).text)
    assert compact_run(archive, RUN_ID).files == 0
    assert archive.list_effective_ranges(
        RUN_ID, "decisions", AnnotationExtent(choices=True).is_included_in
    ).covered_ranges == [(0, 16)]


# Others who do the same, at the same time.


@BOTH
def test_many_who_compact_at_once_make_the_same_files(
    archive: ArchiveStore, larger: tuple[ArchiveStore, list[pl.DataFrame]]
) -> None:
    before = grow(archive, larger)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: compact_run(ArchiveStore(archive.root), RUN_ID), range(4)))
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 72)]
    assert_same(answers(archive.root), before)
    remove_replaced_files(archive, RUN_ID, 0.0)
    assert list_unneeded_files(archive) == []
    assert problems(archive) == []


# What was replaced.


def test_damaged_files_are_named_and_nothing_is_lost(archive: ArchiveStore) -> None:
    archive.write_run_and_unit_count(record(games=16))
    (first, _), fingerprint = archive.list_effective_ranges(RUN_ID), archive.list_effective_ranges(RUN_ID).fingerprint
    path = Path(archive.find_path_of_containing_file("plies", RUN_ID, first))
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    with pytest.raises(FailureError, match=path.name):
        compact_run(archive, RUN_ID)
    assert len(archive.list_effective_ranges(RUN_ID)) == 2
    path.write_bytes(content)
    assert compact_run(archive, RUN_ID) == (2, 1, 0)
    assert archive.list_effective_ranges(RUN_ID).fingerprint == fingerprint
    Path(archive.run_record_path(RUN_ID)).unlink()
    with pytest.raises(FailureError, match="has games and no record"):
        compact_run(archive, RUN_ID)
