"""Indexing: what is counted, of which games, how deep, and what is left of an interruption."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from analytics.questions.openings import explore_position
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.ranges import FileSlice, StoredRange
from analytics.tables.derived.definitions import (
    END_PLY,
    FIRST_PLIES,
    INDEX_TABLES,
    POSITIONS_TABLE,
    NotIndexedError,
    derive_first_plies,
    derive_stored_positions,
    format_extent,
    is_ply_within_extent,
)
from analytics.tables.derived.indexing import (
    IndexExtent,
    IndexSummary,
    index_chunk,
    index_chunks_as_sum,
    index_runs,
    list_index_chunks,
)
from analytics.tables.derived.range_table import Chunk, list_missing_ranges, select_ranges_with_most_units
from analytics.tables.upkeep.compaction import (
    CompactionGroup,
    compact_positions_and_first_plies,
    encode_parent_table,
)
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_replaced_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import RUN_ID, random_block, record, store

TABLES = ("positions", "first_plies")


def more(archive: ArchiveStore, pairs: int = 8) -> list[StoredRange]:
    """Store some more games of the run, in small files."""
    archive.write_run_and_unit_count(record(games=2 * (8 + pairs)))
    return store(archive, RUN_ID, [random_block(1, pairing, 8, pairs) for pairing in range(3)], most=4)


def depths(archive: ArchiveStore) -> list[int]:
    """Return the depth of each file that counts for a question about the first ply."""
    return [
        int(stored.extent)
        for stored in archive.list_effective_ranges(RUN_ID, "positions", partial(is_ply_within_extent, 0))
    ]


def files(archive: ArchiveStore) -> dict[Path, bytes]:
    return {path: content for path, content in snapshot(Path(archive.root)).items() if path.parts[-3] in TABLES}


def test_the_index_does_not_depend_on_when_it_was_made_or_by_how_many_threads(
    archive: ArchiveStore, tmp_path: Path
) -> None:
    more(archive)
    other = ArchiveStore.open(shutil.copytree(archive.root, tmp_path / "other"))
    index_runs(archive, [RUN_ID])
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(partial(index_chunk, other), reversed(list_index_chunks(other, [RUN_ID]))))
    first_index, again = (
        {path.relative_to(root): content for path, content in files(indexed).items()}
        for indexed in (archive, other)
        for root in [indexed.root]
    )
    assert first_index == again
    assert len(first_index) == 2 * len(archive.list_effective_ranges(RUN_ID)) == 16


def test_several_ranges_get_the_file_that_compaction_would_make(archive: ArchiveStore, tmp_path: Path) -> None:
    more(archive)
    other = ArchiveStore.open(shutil.copytree(archive.root, tmp_path / "other"))
    summary = index_chunks_as_sum(archive, list_index_chunks(archive, [RUN_ID]))
    assert summary == index_runs(other, [RUN_ID])
    for table in INDEX_TABLES:
        (parent,) = archive.list_effective_ranges(RUN_ID, table.name)
        children = other.list_effective_ranges(RUN_ID, table.name)
        assert len(children) == 8
        expected = encode_parent_table(other, record(), table, CompactionGroup(parent, children), table)
        assert (Path(archive.root) / table.name / f"run={RUN_ID}" / parent.name).read_bytes() == expected
    assert verify_archive(archive).problems == []


def test_only_what_is_not_indexed_yet_is(archive: ArchiveStore) -> None:
    done = index_runs(archive, [RUN_ID])
    assert done.games == 48
    stored = archive.list_effective_ranges(RUN_ID, "positions")
    assert done.rows == sum(
        part.height for stored_range in stored for part in POSITIONS_TABLE.read_frames(archive, RUN_ID, stored_range)
    )
    before = snapshot(Path(archive.root))
    assert index_runs(archive, [RUN_ID]) == IndexSummary()
    assert snapshot(Path(archive.root)) == before
    more(archive)
    assert index_runs(archive, [RUN_ID]).games == 48
    assert list_missing_ranges(archive, RUN_ID, POSITIONS_TABLE, format_extent(END_PLY).__eq__) == []


def test_first_plies_are_counted_by_the_rules_of_their_table(archive: ArchiveStore) -> None:
    index_runs(archive, [RUN_ID])
    for stored in archive.list_effective_ranges(RUN_ID):
        counts: dict[tuple[int, ...], list[int]] = {}
        plies = read_rows(archive, RUN_ID, stored, "plies")
        for game_id, pairing, ply, _, piece, cell, outcome in plies.iter_rows():
            if ply == 0:  # seat 1 places first: in game 0 of a pair the second agent
                row = counts.setdefault((pairing, 1 - game_id % 2, piece, cell), [0, 0, 0])
                for column, counted in enumerate((True, outcome == 1, outcome == 0)):
                    row[column] += counted
        expected = [(*key, *row) for key, row in sorted(counts.items())]
        assert derive_first_plies(plies).schema == FIRST_PLIES
        assert read_first(archive, stored).rows() == expected


def read_first(archive: ArchiveStore, stored: StoredRange) -> pl.DataFrame:
    path = archive.find_path_of_containing_file("first_plies", RUN_ID, stored)
    return pl.read_parquet(Path(path), hive_partitioning=False)


def test_a_run_stays_as_deep_as_it_was_once_indexed(archive: ArchiveStore) -> None:
    assert index_runs(archive, [RUN_ID], 3).games == 48
    assert depths(archive) == [3, 3]
    assert index_runs(archive, [RUN_ID]).games == 48  # six plies at least
    assert index_runs(archive, [RUN_ID], 9).games == 48
    assert index_runs(archive, [RUN_ID], 3).games == 0
    more(archive)
    assert index_runs(archive, [RUN_ID]).games == 48
    assert {*depths(archive)} == {9}


def test_names_that_are_none_are_passed_over_and_named(archive: ArchiveStore) -> None:
    index_runs(archive, [RUN_ID])
    for stored, extent in zip(archive.list_effective_ranges(RUN_ID), ("zz", "17"), strict=True):
        name = stored._replace(checksum="0" * 8, extent=extent).name
        Path(archive.folder("positions", RUN_ID) / name).write_bytes(b"rubbish")
    assert index_runs(archive, [RUN_ID]) == IndexSummary()
    assert [problem.fault for problem in verify_archive(archive).problems] == [
        "no file of positions has such a name: remove it"
    ] * 2
    assert {
        stored_range.extent for stored_range in select_ranges_with_most_units(archive, RUN_ID, POSITIONS_TABLE)
    } == {"06"}
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT sum(games) FROM positions WHERE ply = 0").item() > 40
        assert explore_position(opened, "..../..../..../.... -", "turn").height


def test_one_of_two_tables_is_made_alone_if_the_other_is_there(archive: ArchiveStore) -> None:
    """Check a process that was killed between the two files of a range, or a file that somebody removed."""
    index_runs(archive, [RUN_ID])
    before = files(archive)
    for table, expected in (("positions", (END_PLY, False)), ("first_plies", (0, True))):
        next(path for path in before if path.parts[-3] == table).unlink()
        (part,) = list_index_chunks(archive, [RUN_ID])
        assert part.extent == expected
        index_runs(archive, [RUN_ID])
        assert files(archive) == before


def test_a_table_of_other_games_does_not_count(archive: ArchiveStore) -> None:
    index_runs(archive, [RUN_ID])
    before = files(archive)
    for path in Path(archive.root).glob("positions/*/*"):
        first, end, _, rest = path.name.split("-", 3)
        path.rename(path.with_name(f"{first}-{end}-{'0' * 16}-{rest}"))
    assert depths(archive) == []
    assert index_runs(archive, [RUN_ID]).games == 48
    assert depths(archive) == [END_PLY] * 2
    assert before.items() <= files(archive).items()
    assert {problem.file.parent.parent.name for problem in verify_archive(archive).problems} == {"positions"}


def test_damaged_plies_are_not_indexed(archive: ArchiveStore) -> None:
    first, second = archive.list_effective_ranges(RUN_ID)
    damaged = Path(archive.find_path_of_containing_file("plies", RUN_ID, second))
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with pytest.raises(FailureError, match=damaged.name):
        index_runs(archive, [RUN_ID])
    assert [stored[:3] for stored in archive.list_effective_ranges(RUN_ID, "positions")] == [first[:3]], (
        "what was stored before is kept"
    )


def test_the_files_of_a_shallower_index_are_replaced(archive: ArchiveStore) -> None:
    index_runs(archive, [RUN_ID], 3)
    index_runs(archive, [RUN_ID])
    (slow,) = [Chunk(RUN_ID, FileSlice.whole(archive.list_effective_ranges(RUN_ID)[0]), IndexExtent(4))]
    index_chunk(archive, slow)  # a slower writer
    assert depths(archive) == [6, 6]
    assert len(list_unneeded_files(archive)) == remove_replaced_files(archive, RUN_ID, 0.0) == 3
    assert depths(archive) == [6, 6]
    assert list_unneeded_files(archive) == []


def answers(archive: ArchiveStore, texts: Sequence[str]) -> list[pl.DataFrame]:
    with OpenArchive(archive.root) as opened:
        return [explore_position(opened, text, "turn") for text in texts]


def test_while_an_index_grows_deeper_no_question_has_a_smaller_answer(archive: ArchiveStore) -> None:
    """Check each file of the deeper index by itself, also after the shallower ones were summed."""
    more(archive, 2)
    texts = ("..../..../..../.... -", met_in(archive, 7))
    before = answers(archive, texts)
    index_runs(archive, [RUN_ID], 6)
    compact_positions_and_first_plies(archive, RUN_ID)
    remove_replaced_files(archive, RUN_ID, 0.0)
    for part in list_index_chunks(archive, [RUN_ID], 8):
        index_chunk(archive, part)
        remove_replaced_files(archive, RUN_ID, 0.0)
        for answer, answer_before in zip(answers(archive, texts), before, strict=True):
            assert answer.equals(answer_before)
        assert archive.list_effective_ranges(RUN_ID, "positions", partial(is_ply_within_extent, 5)).covered_ranges == [
            (0, 30)
        ]
    assert archive.list_effective_ranges(RUN_ID, "positions", partial(is_ply_within_extent, 7)).covered_ranges == [
        (0, 30)
    ]
    compact_positions_and_first_plies(archive, RUN_ID)
    for answer, answer_before in zip(answers(archive, texts), before, strict=True):
        assert answer.equals(answer_before)
    assert verify_archive(archive).problems == []


def met_in(archive: ArchiveStore, pieces: int) -> str:
    """Return the position before a ply of the first game that is long enough."""
    plies = read_rows(archive, RUN_ID, archive.list_effective_ranges(RUN_ID)[0], "plies").sort("game_id", "ply")
    game = plies.filter(pl.len().over("game_id") > pieces)["game_id"][0]
    played = plies.filter(game_id=game).select("piece", "cell").rows()
    text = ["."] * 16
    for piece, cell in played[:pieces]:
        text[cell] = f"{piece:X}"
    return "/".join("".join(text[row : row + 4]) for row in range(0, 16, 4)) + f" {played[pieces][0]:X}"


def ask_for_positions(archive: ArchiveStore) -> str:
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() > 0
        with pytest.raises(NotIndexedError) as raised:
            opened.sql("SELECT count(*) FROM positions")
        with pytest.raises(NotIndexedError, match=re.escape(str(raised.value))):
            opened.scan("positions")
    return str(raised.value)


def test_what_is_said_about_games_that_are_not_indexed_is_true(archive: ArchiveStore) -> None:
    more(archive, 4)
    hint = f"call runners.index({str(archive.root)!r}), then archive.refresh()"
    assert ask_for_positions(archive) == f"5 of 5 ranges of games of run {RUN_ID} are not indexed to ply 6: {hint}"
    ranges = [*archive.list_effective_ranges(RUN_ID)]
    for stored in ranges[:3]:
        index_chunk(archive, Chunk(RUN_ID, FileSlice.whole(stored), IndexExtent(6)))
    assert ask_for_positions(archive) == f"2 of 5 ranges of games of run {RUN_ID} are not indexed to ply 6: {hint}"
    for stored in ranges[3:]:
        index_chunk(archive, Chunk(RUN_ID, FileSlice.whole(stored), IndexExtent(4)))
    assert ask_for_positions(archive) == f"2 of 5 ranges of games of run {RUN_ID} are not indexed to ply 6: {hint}"
    index_runs(archive, [RUN_ID])
    index_chunk(archive, Chunk(RUN_ID, FileSlice.whole(ranges[0]), IndexExtent(9)))
    remove_replaced_files(archive, RUN_ID, 0.0)
    assert ask_for_positions(archive) == f"4 of 5 ranges of games of run {RUN_ID} are not indexed to ply 9: {hint}"
    index_runs(archive, [RUN_ID])
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT max(ply) FROM positions").item() == 8


def test_positions_of_some_plies_are_counted_as_all_are(archive: ArchiveStore) -> None:
    (stored, _), run = archive.list_effective_ranges(RUN_ID), archive.load_run(RUN_ID)
    every = derive_stored_positions(archive, run, stored, range(16))
    assert derive_stored_positions(archive, run, stored, range(3, 5)).equals(
        every.filter(pl.col("ply").is_between(3, 4))
    )
    index_runs(archive, [RUN_ID], 16)
    (first, _) = archive.list_effective_ranges(RUN_ID, "positions")
    assert first.extent == "16"
    assert pl.concat(POSITIONS_TABLE.read_frames(archive, RUN_ID, first)).equals(every)
