"""Compaction: the same games and the same answers, whoever reads, writes, does the same or is killed meanwhile."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path, PurePath

import polars as pl
import pytest

from analytics.derived_tables.decisions import DECISIONS_TABLE, AnnotationExtent
from analytics.derived_tables.tables import DERIVED, index_runs
from analytics.query.openings import openings
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from analytics.store.range_files import read_tallies, store_games
from analytics.store.ranges import Range
from analytics.upkeep.garbage import AGE_SECONDS, remove_replaced, unneeded_files
from analytics.upkeep.rolling import GAMES_TABLE, PLIES_TABLE, Compacted, compact, files_to_compact
from analytics.verify.archive import verify
from quarto.batch import Block
from quarto.errors import FailureError
from tests.analytics.folders import copied
from tests.analytics.indexed import about_values, decide
from tests.analytics.naive_games import PAIRINGS, RUN_ID, cut, random_block, record
from tests.object_storage import BOTH

LINE = record().line
FIRST, TOTAL = 24, 120  # units that the archive of the fixture has, and that the run may have in the end
ALL = 1 + len(DERIVED)  # tables with files of the same ranges, but for plies
QUESTIONS = (
    *(f"FROM {view} ORDER BY ALL" for view in ("games", "plies", "decisions", "first_plies")),
    "SELECT run_id, position, ply, cell, piece, sum(games), min(sample_game) FROM positions GROUP BY ALL ORDER BY ALL",
)


@cache
def games_of() -> list[Block]:
    return [random_block(3, pairing, 0, TOTAL // 3) for pairing in range(3)]


def add(archive: Archive, blocks: list[Block], *spans: Range) -> None:
    """Store the games of some ranges of units."""
    for span in spans:
        mine = [part for block in blocks if (part := cut(block, LINE, span)).pairs]
        store_games(archive, RUN_ID, LINE, PAIRINGS, span, mine)


def grown(archive: Archive, most: int = 8, total: int = 96) -> Archive:
    """The archive with some more files, not written in the order of their games, and all derived tables."""
    archive.save_run(record(games=2 * total // 3))
    spans = [(first, first + most) for first in range(FIRST, total, most)]
    random.Random(1).shuffle(spans)
    add(archive, games_of(), *spans)
    index_runs(archive, [RUN_ID])
    decide(archive, RUN_ID)
    return archive


def answers(root: PurePath) -> list[pl.DataFrame]:
    with OpenArchive(root) as opened:
        asked = [openings(opened, text, "turn") for text in ("..../..../..../.... -", "..../..../..../.... 5")]
        return [*asked, *map(opened.sql, QUESTIONS)]


def assert_same(first: list[pl.DataFrame], second: list[pl.DataFrame]) -> None:
    for mine, theirs in zip(first, second, strict=True):
        assert mine.height
        assert mine.equals(theirs)


def assert_sound(archive: Archive) -> None:
    """But for the values of decisions, which are made up."""
    assert [problem for problem in verify(archive).problems if not about_values(problem)] == []


@BOTH
def test_one_file_of_each_table_takes_the_place_of_many_and_the_answers_stay(archive: Archive) -> None:
    before = answers(grown(archive).root)
    files = len(archive.ranges(RUN_ID))
    assert files == 2 + 9
    tallies, fingerprint = read_tallies(archive, RUN_ID), archive.ranges(RUN_ID).fingerprint
    assert files_to_compact(archive, RUN_ID) == files
    told: list[int] = []
    assert compact(archive, RUN_ID, progress=told.append) == (files, 1, 0)
    assert told == [files]
    for table in (GAMES_TABLE, PLIES_TABLE, *DERIVED.values()):
        assert [each[:3] for each in archive.ranges(RUN_ID, table.name)] == [(0, 96, fingerprint)]
    assert read_tallies(archive, RUN_ID) == tallies
    assert_same(answers(archive.root), before)
    assert_sound(archive)
    assert files_to_compact(archive, RUN_ID) == 0
    assert compact(archive, RUN_ID) == Compacted()
    assert remove_replaced(archive, RUN_ID, 0.0) == files * (1 + ALL)
    assert unneeded_files(archive) == []
    assert_same(answers(archive.root), before)
    assert_sound(archive)


def test_what_is_played_later_joins_the_others(archive: Archive) -> None:
    archive.save_run(record(games=16))
    assert compact(archive, RUN_ID) == (2, 1, 0)
    archive.save_run(record(games=80))
    add(archive, games_of(), (24, 32), (32, 64), (64, 120))
    assert compact(archive, RUN_ID) == (4, 1, 0)
    assert [each[:2] for each in archive.ranges(RUN_ID)] == [(0, 120)]
    assert_sound(archive)


@pytest.mark.slow
def test_very_many_files_are_put_together_in_steps(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(grown(archive).root)
    for table in (GAMES_TABLE, PLIES_TABLE, *DERIVED.values()):
        monkeypatch.setitem(vars(table), "most", 3)
    told: list[int] = []
    assert compact(archive, RUN_ID, progress=told.append) == (11, 1, 0)
    assert sum(told) == 11
    assert len(told) > 3
    assert_same(answers(archive.root), before)
    assert_sound(archive)


def sizes(archive: Archive) -> list[int]:
    """The bytes of each range in games and plies."""
    found = dict.fromkeys((each.games for each in archive.ranges(RUN_ID)), 0)
    for table in ("games", "plies"):
        for name, status in archive.statuses(table, RUN_ID).items():
            if (stem := name.split(".")[0]) in found:
                found[stem] += status.bytes
    return list(found.values())


def test_no_file_becomes_larger_than_was_asked_for(archive: Archive, tmp_path: Path) -> None:
    grown(archive)
    whole = copied(archive, tmp_path / "whole")
    compact(whole, RUN_ID)
    (most,) = sizes(whole)
    done = compact(archive, RUN_ID, most - 1)
    assert done.files > done.by > 1
    assert max(sizes(archive)) < most
    assert archive.ranges(RUN_ID).units == 96
    assert compact(archive, RUN_ID, most - 1) == Compacted()
    assert compact(archive, RUN_ID, min(sizes(archive))) == Compacted()
    assert_sound(archive)


def test_games_that_are_annotated_stay_apart_from_those_that_are_not(archive: Archive) -> None:
    """Decisions of a part of a file would not count, and exact values take hours."""
    decide(archive, RUN_ID)
    archive.save_run(record(games=32))
    add(archive, games_of(), (24, 28), (28, 32), (32, 48))
    before = archive.ranges(RUN_ID, "decisions")
    for _ in range(2):
        compact(archive, RUN_ID)
        remove_replaced(archive, RUN_ID, 0.0)
    assert [each[:2] for each in archive.ranges(RUN_ID)] == [(0, 16), (16, 24), (24, 32), (32, 48)]
    assert list(archive.ranges(RUN_ID, "decisions")) == list(before)
    decide(archive, RUN_ID)
    compact(archive, RUN_ID)
    assert [each[:2] for each in archive.ranges(RUN_ID)] == [(0, 48)]
    assert [each[:2] for each in archive.ranges(RUN_ID, "decisions")] == [(0, 48)]
    assert_sound(archive)


def test_games_whose_choices_are_counted_stay_apart_too(archive: Archive) -> None:
    archive.save_run(record(games=16))
    decide(archive, RUN_ID)
    first = archive.ranges(RUN_ID)[0]
    for stored in archive.ranges(RUN_ID, "decisions").inside(first.first, first.end):
        (frame,) = DECISIONS_TABLE.parts(archive, RUN_ID, stored)
        counted = frame.with_columns(saving=pl.lit(1, pl.Int32))
        DECISIONS_TABLE.store(archive, RUN_ID, first, counted, AnnotationExtent(choices=True).text)
    assert compact(archive, RUN_ID).files == 0
    assert archive.ranges(RUN_ID, "decisions", AnnotationExtent(choices=True).is_in).covered == [(0, 16)]


# Others who do the same, at the same time.


@BOTH
def test_many_who_compact_at_once_make_the_same_files(archive: Archive) -> None:
    before = answers(grown(archive).root)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: compact(Archive(archive.root), RUN_ID), range(4)))
    assert [each[:2] for each in archive.ranges(RUN_ID)] == [(0, 96)]
    assert_same(answers(archive.root), before)
    remove_replaced(archive, RUN_ID, 0.0)
    assert unneeded_files(archive) == []
    assert_sound(archive)


# What was replaced.


def test_what_was_replaced_stays_for_ten_minutes(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.save_run(record(games=16))
    assert compact(archive, RUN_ID) == (2, 1, 0)
    now = archive.backend.clock(archive.root)
    for seconds, removed in ((0.9 * AGE_SECONDS, 0), (1.1 * AGE_SECONDS, 6)):
        monkeypatch.setattr(archive.backend, "clock", lambda _root, then=now + seconds: then)
        assert compact(archive, RUN_ID) == (0, 0, removed)
    assert unneeded_files(archive) == []


def test_damaged_files_are_named_and_nothing_is_lost(archive: Archive) -> None:
    archive.save_run(record(games=16))
    (first, _), fingerprint = archive.ranges(RUN_ID), archive.ranges(RUN_ID).fingerprint
    path = Path(archive.path("plies", RUN_ID, first))
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    with pytest.raises(FailureError, match=path.name):
        compact(archive, RUN_ID)
    assert len(archive.ranges(RUN_ID)) == 2
    path.write_bytes(content)
    assert compact(archive, RUN_ID) == (2, 1, 0)
    assert archive.ranges(RUN_ID).fingerprint == fingerprint
    Path(archive.record_file(RUN_ID)).unlink()
    with pytest.raises(FailureError, match="has games and no record"):
        compact(archive, RUN_ID)
