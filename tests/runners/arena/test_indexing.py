"""Indexing by an executor: which files of games get one file of the index together."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.store.archive import ArchiveStore
from analytics.tables.derived.indexing import index_chunk, list_index_chunks
from analytics.tables.verification.archive import verify_archive
from runners.arena import indexing
from runners.arena.indexing import group_index_chunks, index_and_compact_sums
from tests.analytics.naive_games import RUN_ID, random_block, record, store_span

UNITS = 8  # of a file


@pytest.fixture
def archive(tmp_path: Path) -> ArchiveStore:
    """Write an archive of one run with 12 files: eleven of 8 units, and the last one of 2 units."""
    archive, pairs = ArchiveStore.open(tmp_path / "archive", create=True), 30
    archive.write_run_and_unit_count(record(games=2 * pairs))
    blocks = [random_block(1, pairing, 0, pairs) for pairing in range(3)]
    for first in range(0, 3 * pairs, UNITS):
        store_span(archive, (first, min(first + UNITS, 3 * pairs)), blocks)
    archive.forget_cached_listings()
    return archive


def list_groups(archive: ArchiveStore, workers: int = 1) -> list[tuple[int, int]]:
    """Return the first and the last unit of each group of the games that are not indexed yet."""
    groups = group_index_chunks(archive, list_index_chunks(archive, [RUN_ID]), workers)
    return [(chunks[0].games.first, chunks[-1].games.end) for chunks in groups]


def test_eight_neighbouring_files_at_most_get_one_file_of_the_index(archive: ArchiveStore) -> None:
    assert list_groups(archive) == [(0, 64), (64, 90)]
    outcome = index_and_compact_sums(archive, [RUN_ID], threads=1)
    assert (outcome.summary.games, outcome.compacted_files) == (180, 0)
    ranges = archive.list_effective_ranges(RUN_ID, "positions")
    assert [stored[:2] for stored in ranges] == [(0, 64), (64, 90)]
    assert verify_archive(archive).problems == []


def test_many_workers_get_smaller_groups(archive: ArchiveStore) -> None:
    assert list_groups(archive, 4) == [(0, 16), (16, 32), (32, 48), (48, 64), (64, 80), (80, 90)]
    assert len(list_groups(archive, 50)) == 12


def test_a_group_has_no_gap_and_no_more_turns_than_memory_has_room_for(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (indexed,) = [chunk for chunk in list_index_chunks(archive, [RUN_ID]) if chunk.games.first == 32]
    index_chunk(archive, indexed)
    archive.forget_cached_listings()
    assert list_groups(archive) == [(0, 32), (40, 48), (48, 64), (64, 90)]
    monkeypatch.setattr(indexing, "SUMMED_TURNS", 6 * 2 * 16)  # of six plies, two games a unit
    assert list_groups(archive) == [(0, 16), (16, 32), (40, 48), (48, 64), (64, 80), (80, 90)]
