"""Positions and first plies: what is missing is made, once, whoever makes it and in whatever order."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from analytics.derived_tables.derived_table import known_ranges
from analytics.derived_tables.first_plies import FIRST_PLIES_TABLE, first_plies_of
from analytics.derived_tables.indexing import Indexed, IndexPart, index, index_parts, index_runs
from analytics.derived_tables.position_index import END_PLY, POSITIONS_TABLE
from analytics.files.local import LocalBackend
from analytics.store.archive import Archive
from analytics.store.range_files import read_rows
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unneeded_files
from quarto.errors import FailureError
from tests.analytics.folders import contents, files_of, snapshot
from tests.analytics.naive_games import BLOCKS, PAIRINGS, RUN_ID, naive_rows, random_block, store

TABLES = (POSITIONS_TABLE, FIRST_PLIES_TABLE)
MORE = [random_block(1, pairing, 8) for pairing in range(3)]  # units 24 to 47


def names(archive: Archive) -> set[str]:
    """The names of the derived files that count: they tell ranges, games, extents and bytes."""
    found = {f"{table.name}/{each.name}" for table in TABLES for each in archive.ranges(RUN_ID, table.name)}
    assert found
    return found


def extents(archive: Archive) -> list[str]:
    return [each.extent for each in known_ranges(archive, RUN_ID, "positions")]


def test_the_index_does_not_depend_on_when_it_was_made_or_by_how_many_threads(archive: Archive) -> None:
    store(archive, RUN_ID, MORE, most=8)
    parts = index_parts(archive, [RUN_ID])
    assert len(parts) == len(archive.ranges(RUN_ID)) == 5
    for part in reversed(parts):  # one by one, the last first
        index(archive, part)
    known = names(archive)
    remove_tables(archive)
    with ThreadPoolExecutor(4) as pool:  # each twice
        list(pool.map(lambda part: index(Archive(archive.root), part), [*parts, *parts]))
    assert names(archive) == known
    assert unneeded_files(archive) == []


def remove_tables(archive: Archive) -> None:
    for path in contents(archive):
        if {"positions", "first_plies"} & {*path.parts}:
            archive.backend.remove(path)


def test_only_what_is_not_indexed_yet_is(archive: Archive) -> None:
    assert index_runs(archive, [RUN_ID]).games == 48
    before = snapshot(Path(archive.root))
    assert index_runs(archive, [RUN_ID]) == Indexed()
    assert snapshot(Path(archive.root)) == before
    store(archive, RUN_ID, MORE)
    assert index_runs(archive, [RUN_ID]).games == 48
    assert verify(archive).problems == []


def test_a_run_stays_as_deep_as_it_was_once_indexed(archive: Archive) -> None:
    assert (index_runs(archive, [RUN_ID], 3).games, extents(archive)) == (48, ["03"] * 2)
    assert (index_runs(archive, [RUN_ID]).games, extents(archive)) == (48, [f"{END_PLY:02d}"] * 2)
    assert (index_runs(archive, [RUN_ID], 9).games, extents(archive)) == (48, ["09"] * 2)
    assert index_runs(archive, [RUN_ID], 3) == Indexed()
    store(archive, RUN_ID, MORE)
    index_runs(archive, [RUN_ID])
    assert set(extents(archive)) == {"09"}
    assert verify(archive).problems == []


def test_the_files_of_a_shallower_index_can_go_and_those_of_a_deeper_one_stay(archive: Archive) -> None:
    index_runs(archive, [RUN_ID], 9)
    index(archive, IndexPart(RUN_ID, archive.ranges(RUN_ID)[0], 6))  # a slower writer
    assert extents(archive) == ["09", "09"]
    (shallow,) = remove(archive, unneeded_files(archive), 0)
    assert "-06." in shallow.path.name
    assert extents(archive) == ["09", "09"]


def test_half_a_deeper_index_hides_nothing(archive: Archive) -> None:
    index_runs(archive, [RUN_ID])
    index(archive, IndexPart(RUN_ID, archive.ranges(RUN_ID)[1], 9))
    assert extents(archive) == ["06", "09"]  # a file holds 06 or more
    assert [part.end_ply for part in index_parts(archive, [RUN_ID])] == [9]


def test_first_plies_that_are_gone_are_counted_again_and_nothing_else(archive: Archive) -> None:
    index_runs(archive, [RUN_ID])
    known, gone = names(archive), next(Path(archive.root).glob("first_plies/*/*"))
    gone.unlink()
    (part,) = index_parts(archive, [RUN_ID])
    assert (part.end_ply, part.first_plies) == (0, True)
    assert index(archive, part).rows == 0
    assert names(archive) == known


def test_a_table_of_other_games_does_not_count(archive: Archive) -> None:
    index_runs(archive, [RUN_ID])
    known = names(archive)
    for path in Path(archive.root).glob("positions/*/*"):
        first, end, _, rest = path.name.split("-", 3)
        path.rename(path.with_name(f"{first}-{end}-{'0' * 16}-{rest}"))
    assert extents(archive) == []
    assert index_runs(archive, [RUN_ID]).games == 48
    assert names(archive) == known
    assert {problem.file.parent.parent.name for problem in verify(archive).problems} == {"positions"}


@pytest.mark.parametrize("extent", ["zz", "00", "17", "6"])
def test_a_file_whose_extent_is_none_is_passed_over_and_named(archive: Archive, extent: str) -> None:
    index_runs(archive, [RUN_ID])
    known = names(archive)
    for path in Path(archive.root).glob("positions/*/*"):
        path.rename(path.with_name(path.name.replace("-06.", f"-{extent}.")))
    index_runs(archive, [RUN_ID], 6)
    assert {name for name in names(archive) if f"-{extent}." not in name} <= known
    assert {problem.what for problem in verify(archive).problems} == {"no file of positions has such a name: remove it"}


def test_games_without_a_record_cannot_be_indexed(archive: Archive) -> None:
    Path(archive.root / "runs" / f"{RUN_ID}.json").unlink()
    with pytest.raises(FailureError, match=f"run {RUN_ID} has games and no record"):
        index_runs(archive, [RUN_ID])


def test_damaged_plies_are_not_indexed_and_what_was_stored_before_stays(archive: Archive) -> None:
    damaged = files_of(archive, RUN_ID, "plies")[1]
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with pytest.raises(FailureError, match=damaged.name):
        index_runs(archive, [RUN_ID])
    assert [each[:2] for each in archive.ranges(RUN_ID, "positions")] == [(0, 16)]


def test_a_full_disk_leaves_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalBackend, "replace", refuse)
    with pytest.raises(FailureError, match="the disk is full"):
        index_runs(archive, [RUN_ID])
    assert not list(Path(archive.root).glob("positions/*/*"))


def test_first_plies_are_those_of_the_slow_twin(archive: Archive) -> None:
    _, plies = naive_rows(BLOCKS, PAIRINGS)
    expected = Counter((pairing, 1 - game % 2, piece, cell) for game, pairing, ply, _, piece, cell, _ in plies if not ply)
    wins = Counter(
        (pairing, 1 - game % 2, piece, cell) for game, pairing, ply, _, piece, cell, won in plies if not ply and won == 1
    )
    parts = [first_plies_of(read_rows(archive, RUN_ID, each, "plies")) for each in archive.ranges(RUN_ID)]
    key = ["pairing", "second", "piece", "cell"]
    found = pl.concat(parts).group_by(key).agg(pl.sum("games", "wins")).rows()
    assert {row[:4]: row[4] for row in found} == expected
    assert {row[:4]: row[5] for row in found if row[5]} == wins
    assert first_plies_of(read_rows(archive, RUN_ID, archive.ranges(RUN_ID)[0], "plies")[:0]).is_empty()


def test_parts_do_not_depend_on_the_order_of_runs(archive: Archive) -> None:
    parts = index_parts(archive, [RUN_ID])
    random.Random(1).shuffle(parts)
    assert sorted(parts) == index_parts(archive, [RUN_ID])
