"""Games as files, and files as games: round trips, tallies, and every damage is named or harmless."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path, PurePath

import numpy as np
import polars as pl
import pytest

from analytics.statistics.tally import tally_by_pairing
from analytics.store import range_files
from analytics.store.archive import ArchiveStore
from analytics.store.parquet.encoder import encode_parquet
from analytics.store.range_files import (
    read_games,
    read_rows,
    read_tallies,
    write_game_tables,
)
from analytics.store.ranges import StoredRange, compute_checksum
from analytics.store.schema import TABLE_SCHEMAS, TALLIES_SCHEMA
from analytics.store.snapshot import Snapshot
from quarto.batch import Block
from quarto.errors import FailureError
from tests.analytics.folders import read_contents
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    build_spec,
    frames,
    naive_rows,
    random_block,
    record,
    select_pairs,
    single_games,
    store,
)
from tests.analytics.tables.verification.damage import forged
from tests.object_storage import BOTH

LINE = record().unit_line


def whole(archive: ArchiveStore, span: tuple[int, int] = (0, 24)) -> StoredRange:
    """Store the games of ``BLOCKS`` in one range."""
    return write_game_tables(
        archive, RUN_ID, LINE, PAIRINGS, span, [select_pairs(block, LINE, span) for block in BLOCKS]
    )


@BOTH
def test_a_range_is_read_as_it_was_played(archive: ArchiveStore) -> None:
    first, second = archive.list_effective_ranges(RUN_ID)
    assert (first[:2], second[:2]) == ((0, 16), (16, 24))
    for stored in (first, second):
        blocks = [select_pairs(block, LINE, stored[:2]) for block in BLOCKS]
        games, plies = naive_rows(blocks, PAIRINGS)
        read = read_games(archive, RUN_ID, stored)
        assert read_rows(archive, RUN_ID, stored, "games").rows() == games
        assert read_rows(archive, RUN_ID, stored, "plies").rows() == plies
        assert read.game_id.tolist() == [row[0] for row in games]
        assert read.pairing.tolist() == [row[2] for row in games]
        assert read.opening.tolist() == [row[7] for row in games]
        column = {game: at for at, game in enumerate(read.game_id.tolist())}
        for game, _, ply, _, piece, cell, _ in plies:
            assert (read.games.pieces[ply, column[game]], read.games.cells[ply, column[game]]) == (piece, cell)
        assert read.fingerprint == stored.fingerprint
    taken = read.select_rows(np.array([3, 1]))
    assert taken.game_id.tolist() == [read.game_id[3], read.game_id[1]]
    assert taken.games.pieces.tolist() == read.games.pieces[:, [3, 1]].tolist()
    inside = read.select_units(LINE, 17, 19)
    assert sorted({*LINE.compute_units(inside.game_id).tolist()}) == [17, 18]
    assert inside.games.pieces.flags.c_contiguous


@BOTH
def test_all_tables_are_written_before_the_games(archive: ArchiveStore) -> None:
    written: list[str] = []
    replace = archive.backend.replace

    def note(path: PurePath, content: bytes) -> None:
        written.append(path.parts[-3])
        replace(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive.backend, "replace", note)
        whole(archive)
    assert written == ["plies", "tallies", "games"]


@BOTH
def test_the_same_games_in_any_parts_are_the_same_files_and_the_same_sum(archive: ArchiveStore) -> None:
    before = read_contents(archive)
    for span in ((0, 16), (16, 24)):
        whole(archive, span)
    assert read_contents(archive) == before
    fingerprint = archive.list_effective_ranges(RUN_ID).fingerprint
    assert whole(archive).fingerprint == fingerprint
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 24)]
    path = archive.find_path_of_containing_file("games", RUN_ID, archive.list_effective_ranges(RUN_ID)[0])
    assert path.suffixes[-2] == f".{compute_checksum(archive.backend.read(path))}"


@pytest.mark.parametrize("swapped", [True, False])
def test_one_pairing_and_games_without_twins_are_ranges_too(archive: ArchiveStore, swapped: bool) -> None:
    run = record(build_spec(pairings=PAIRINGS[:1], seats="swapped" if swapped else "fixed"))
    archive.write_run_and_unit_count(run)
    block = (random_block if swapped else single_games)(3, 0, 0, 21)
    store(archive, run.run_id, [block], PAIRINGS[:1], most=8)
    assert [stored[:2] for stored in archive.list_effective_ranges(run.run_id)] == [(0, 8), (8, 16), (16, 20), (20, 21)]
    assert archive.count_games(run.run_id) == 21 * (1 + swapped)
    games, _ = frames([block], PAIRINGS[:1])
    rows = [
        row
        for stored in archive.list_effective_ranges(run.run_id)
        for row in read_rows(archive, run.run_id, stored, "games").rows()
    ]
    assert rows == games.rows()


@pytest.mark.parametrize(
    "blocks",
    [
        BLOCKS[:2],
        [*BLOCKS, random_block(1, 0, 8)],
        [BLOCKS[0], BLOCKS[0], BLOCKS[1]],
        [block._replace(first_pair=1) for block in BLOCKS],
        [],
    ],
    ids=["too few", "too many", "twice", "elsewhere", "none"],
)
def test_blocks_that_are_not_the_games_of_the_range_are_a_mistake(archive: ArchiveStore, blocks: list[Block]) -> None:
    before = read_contents(archive)
    with pytest.raises(ValueError, match=r"units 0 to 23"):
        write_game_tables(archive, RUN_ID, LINE, PAIRINGS, (0, 24), blocks)
    assert read_contents(archive) == before


# Damage.


@BOTH
def test_a_missing_file_is_named(archive: ArchiveStore) -> None:
    stored = archive.list_effective_ranges(RUN_ID)[1]
    archive.backend.remove(archive.find_path_of_containing_file("plies", RUN_ID, stored))
    with pytest.raises(FailureError, match=rf"{stored.games_stem}.* is missing: see 'qarena archive verify'$"):
        read_games(archive, RUN_ID, stored)


def named_anew(archive: ArchiveStore, table: str, content: bytes) -> None:
    """Put another content in the place of a table's first file, under a name with its check."""
    stored = archive.list_effective_ranges(RUN_ID)[0]
    archive.backend.remove(archive.find_path_of_containing_file(table, RUN_ID, stored))
    archive.write_file(
        archive.folder(table, RUN_ID) / stored._replace(checksum=compute_checksum(content)).name, content
    )
    archive.forget_cached_listings()


def test_the_plies_of_other_games_are_named(archive: ArchiveStore) -> None:
    named_anew(
        archive,
        "plies",
        archive.backend.read(
            archive.find_path_of_containing_file("plies", RUN_ID, archive.list_effective_ranges(RUN_ID)[1])
        ),
    )
    with pytest.raises(FailureError, match=r"has \d+ rows, the games of its range have \d+ plies: see 'qarena archive"):
        read_games(archive, RUN_ID, archive.list_effective_ranges(RUN_ID)[0])


# What others replaced.


@BOTH
@pytest.mark.parametrize("kind", [ArchiveStore, Snapshot])
def test_a_reader_whose_files_were_replaced_reads_the_larger_ones(
    archive: ArchiveStore, kind: type[ArchiveStore]
) -> None:
    reader = kind(archive.root)
    listed = [*reader.list_effective_ranges(RUN_ID)]
    expected = [read_games(reader, RUN_ID, stored_range) for stored_range in listed]
    old = [
        archive.find_path_of_containing_file(table, RUN_ID, stored_range)
        for table in TABLE_SCHEMAS
        for stored_range in listed
    ]
    whole(archive)
    for path in old:
        archive.backend.remove(path)
    for stored, games in zip(listed, expected, strict=True):
        read = read_games(reader, RUN_ID, stored)
        assert read.game_id.tolist() == games.game_id.tolist()
        assert read.fingerprint == stored.fingerprint
        assert len(read_rows(reader, RUN_ID, stored, "plies")) == games.games.plies.sum()
    assert not {*old} & {*read_contents(archive)}


def test_a_reader_finds_the_same_rows_in_other_bytes(archive: ArchiveStore) -> None:
    """Check a range that another encoder wrote after the listed file was removed."""
    stored = archive.list_effective_ranges(RUN_ID)[0]
    read_games(archive, RUN_ID, stored)
    path = archive.find_path_of_containing_file("games", RUN_ID, stored)
    rows, buffer = pl.read_parquet(archive.backend.read(path)), io.BytesIO()
    rows.write_parquet(buffer, compression="uncompressed")
    other = stored._replace(checksum=compute_checksum(buffer.getvalue()))
    archive.write_file(path.parent / other.name, buffer.getvalue())
    archive.backend.remove(path)
    assert read_rows(archive, RUN_ID, stored, "games").equals(rows)


# Writers that somebody disturbs.


def test_a_writer_whose_temporary_file_was_taken_away_writes_again(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []
    sync = os.fsync

    def take(descriptor: int) -> None:
        sync(descriptor)
        for path in Path(archive.root).rglob(".tmp-*"):
            if len(taken) < 4:
                taken.append(path)
                path.unlink()

    monkeypatch.setattr(os, "fsync", take)
    stored = whole(archive)
    assert len(taken) == 4
    assert archive.list_effective_ranges(RUN_ID).units == 24
    assert read_games(archive, RUN_ID, stored).fingerprint == stored.fingerprint


def test_a_writer_whose_plies_were_removed_as_garbage_writes_them_again(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a writer that stood still between plies and games, and was taken for killed."""
    put = ArchiveStore.write_file

    def stand_still(self: ArchiveStore, path: Path, content: bytes) -> None:
        if path.parts[-3] == "games":
            for other in Path(archive.folder("plies", RUN_ID)).glob("000000000000-000000000024-*"):
                other.unlink()
        put(self, path, content)

    monkeypatch.setattr(ArchiveStore, "write_file", stand_still)
    stored = whole(archive)
    assert read_games(archive, RUN_ID, stored).fingerprint == stored.fingerprint


def test_an_archive_that_was_removed_is_not_written_in_part(archive: ArchiveStore) -> None:
    shutil.rmtree(archive.root)
    with pytest.raises(FailureError, match=r"was removed while in use: remove what is left of it, or name another"):
        whole(archive)
    assert not Path(archive.root).exists()


def test_tallies_of_a_run_are_those_of_its_games_with_and_without_their_files(archive: ArchiveStore) -> None:
    expected = tally_by_pairing(BLOCKS)
    assert read_tallies(archive, [RUN_ID])[RUN_ID] == expected
    seen, fixed, block = Snapshot(archive.root), record(build_spec(seats="fixed")), single_games(4, 0, 0, 8)
    assert len(seen.list_effective_ranges(RUN_ID, "tallies")) == 2
    archive.write_run_and_unit_count(fixed)
    store(archive, fixed.run_id, [block], PAIRINGS)
    for run_id in (RUN_ID, fixed.run_id):
        for stored in archive.list_effective_ranges(run_id, "tallies"):
            archive.backend.remove(archive.folder("tallies", run_id) / stored.name)
            assert read_tallies(archive, [RUN_ID])[RUN_ID] == expected
    assert read_tallies(seen, [RUN_ID])[RUN_ID] == expected  # rolled up since they were listed
    assert read_tallies(archive, [fixed.run_id])[fixed.run_id] == tally_by_pairing([block])


def test_tallies_of_several_runs_are_read_at_once_and_a_damaged_file_is_named(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_files, "_cached_tallies", {})
    other, block = record(build_spec(seats="fixed")), single_games(4, 0, 0, 8)
    archive.write_run_and_unit_count(other)
    store(archive, other.run_id, [block], PAIRINGS)
    both, expected = [RUN_ID, other.run_id], {RUN_ID: tally_by_pairing(BLOCKS), other.run_id: tally_by_pairing([block])}
    seen = Snapshot(archive.root)
    for _ in range(2):  # taken apart, and kept
        assert read_tallies(archive, both) == expected
        assert [*read_tallies(seen, both[::-1])] == both[::-1]
    path = archive.folder("tallies", RUN_ID) / archive.list_effective_ranges(RUN_ID, "tallies")[1].name
    content = archive.backend.read(path)
    archive.backend.replace(path, content[:-20])
    with pytest.raises(FailureError, match=f"{path.name} has other bytes than its name says"):
        read_tallies(archive, both)
    archive.backend.remove(path)
    assert read_tallies(seen, both) == expected


def test_tallies_with_other_columns_are_named(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_files, "_cached_tallies", {})
    for stored in archive.list_effective_ranges(RUN_ID, "tallies")[1:]:
        archive.backend.remove(archive.folder("tallies", RUN_ID) / stored.name)
    games = archive.folder("games", RUN_ID) / archive.list_effective_ranges(RUN_ID)[0].name
    path = forged(archive, "tallies", archive.backend.read(games))
    with pytest.raises(FailureError, match=f"{path.name} does not have the columns of tallies: see 'qarena"):
        read_tallies(archive, [RUN_ID])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"pairs_ll": pl.lit(-1, pl.Int64)}, "has counts that the games of its units cannot have"),
        ({"plies": pl.lit(1 << 40, pl.Int64)}, "has counts that the games of its units cannot have"),
        ({"pairing": pl.lit(3, pl.Int32)}, "does not have its pairings in ascending order"),
    ],
)
def test_tallies_that_games_cannot_have_are_named(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch, change: dict[str, pl.Expr], fault: str
) -> None:
    monkeypatch.setattr(range_files, "_cached_tallies", {})
    first = archive.list_effective_ranges(RUN_ID, "tallies")[0]
    path = archive.folder("tallies", RUN_ID) / first.name
    rows = pl.read_parquet(io.BytesIO(archive.backend.read(path)))
    forged_rows = rows.with_columns(**change)
    path = forged(archive, "tallies", bytes(encode_parquet([forged_rows], TALLIES_SCHEMA)))
    with pytest.raises(FailureError, match=f"{path.name} {fault}: remove it, it follows from the games"):
        read_tallies(archive, [RUN_ID])
