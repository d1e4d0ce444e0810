"""The test that an archive passes in any object storage: four writers, a change, compaction, removal, both readers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath

import polars as pl

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from tests.analytics.naive_games import RUN_ID, random_block, record, store

PAIRS = 32


def assert_writers_readers_and_upkeep_share_an_archive(root: PurePath) -> None:
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(record(games=2 * PAIRS))

    def write(most: int) -> None:
        store(ArchiveStore.open(root), RUN_ID, [random_block(2, pairing, 0, PAIRS) for pairing in range(3)], most=most)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, (16, 16, 16, 32)))  # three of them write the same files
    archive.update_run_and_unit_count(RUN_ID, lambda record_before: record_before)
    assert (archive.load_run(RUN_ID).units, archive.list_effective_ranges(RUN_ID).units) == (3 * PAIRS, 3 * PAIRS)
    fingerprint = archive.list_effective_ranges(RUN_ID).fingerprint
    compact_run(archive, RUN_ID)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 3 * PAIRS)]
    assert remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert list_unneeded_files(archive) == []
    assert not verify_archive(archive).problems
    assert archive.list_effective_ranges(RUN_ID).fingerprint == fingerprint
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) AS games FROM games")["games"].item() == 6 * PAIRS
        in_sql = opened.sql("SELECT count(*) AS plies FROM plies")["plies"].item()
        assert opened.scan("plies").select(pl.len()).collect().item() == in_sql
