"""The test that an archive passes in any object storage: four writers, a change, compaction, removal, both readers."""

from __future__ import annotations

from pathlib import PurePath
from threading import Thread

import polars as pl

from analytics import open_archive
from analytics.store.archive import Archive
from analytics.upkeep.compaction import compact
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unreferenced_files
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record

SHARDS = 8


def assert_writers_readers_and_upkeep_share_an_archive(root: PurePath) -> None:
    archive = Archive.open(root, create=True)
    archive.save_run(record())
    written: list[int] = []

    def write() -> None:
        own, blocks = Archive.open(root), [random_block(2, 1, 8 * number) for number in range(SHARDS)]
        written.extend(shard for shard, block in enumerate(blocks) if own.commit(RUN_ID, [block], PAIRINGS))

    writers = [Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(written) == [*range(SHARDS)]  # each was stored by one of the four
    archive.update_run(RUN_ID, lambda known: known)
    assert compact(archive, RUN_ID) == (SHARDS, 1, 0)
    assert len(remove(archive, unreferenced_files(archive), 0)) == 3 * SHARDS
    assert not verify(archive).problems
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) AS games FROM games")["games"].item() == 16 * SHARDS
        in_sql = opened.sql("SELECT count(*) AS plies FROM plies")["plies"].item()
        assert opened.plies().select(pl.len()).collect().item() == in_sql
