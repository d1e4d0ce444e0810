from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from analytics.derived_tables.derived_table import Shard
from analytics.derived_tables.position_index import (
    END_PLY,
    INDEXES,
    Index,
    IndexJob,
    IndexSummary,
    end_ply_of,
    index_jobs,
    index_shards,
)
from analytics.store.archive import Archive
from analytics.store.blocks import table_of
from analytics.verify import garbage
from analytics.verify.archive import verify
from quarto.errors import FailureError
from tests.analytics.folders import forge, snapshot
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block


def index(archive: Archive, end_ply: int | None = None, threads: int = 2) -> IndexSummary:
    return index_shards(archive, index_jobs(archive, INDEXES.shards(archive, archive.run_ids()), end_ply), threads)


def file_of(archive: Archive, shard: Shard[Index]) -> Path:
    assert shard.manifest is not None
    return Path(INDEXES.file(archive, shard.record.run_id, shard.manifest))


def contents(archive: Archive) -> dict[int, bytes]:
    """By shard the bytes of what counts."""
    found = {}
    for shard in INDEXES.shards(archive, archive.run_ids()):
        if shard.manifest is not None:
            found[shard.commit.shard] = file_of(archive, shard).read_bytes()
    return found


def test_the_index_does_not_depend_on_when_it_was_made_or_by_how_many_threads(archive: Archive, tmp_path: Path) -> None:
    for seed in range(5):
        archive.commit(RUN_ID, [random_block(1, 2, 100 + 8 * seed)], PAIRINGS)
    whole = Archive.open(shutil.copytree(archive.root, tmp_path / "whole"))
    index(whole, threads=3)
    shards = INDEXES.shards(archive, [RUN_ID])
    for shard in reversed(shards):  # one by one, the last first
        assert index_shards(archive, [IndexJob(shard, END_PLY)], 1).shards == 1
    assert contents(archive) == contents(whole)
    assert len(contents(whole)) == 7


def test_only_what_is_not_indexed_yet_is(archive: Archive) -> None:
    done = index(archive)
    stored = sum(shard.commit.plies.rows for shard in INDEXES.shards(archive, [RUN_ID]))
    assert done.shards == 2
    assert 0 < done.plies < stored
    before = snapshot(Path(archive.root))
    assert index(archive) == IndexSummary(0, 0, 0, 0)
    assert snapshot(Path(archive.root)) == before
    archive.commit(RUN_ID, [random_block(1, 2, 100)], PAIRINGS)
    assert index(archive).shards == 1


def test_a_run_stays_as_deep_as_it_was_once_indexed(archive: Archive) -> None:
    assert index(archive, 3).shards == 2
    assert index(archive).shards == 2  # six plies at least
    assert index(archive, 9).shards == 2
    assert index(archive, 3).shards == 0
    archive.commit(RUN_ID, [random_block(1, 2, 100)], PAIRINGS)
    index(archive)
    assert {end_ply_of(shard) for shard in INDEXES.shards(archive, [RUN_ID])} == {9}


@pytest.mark.parametrize("key", ["plies", "version"])
def test_an_index_of_other_games_or_another_version_does_not_count(archive: Archive, key: str) -> None:
    index(archive)
    path = INDEXES.manifest_files(archive, RUN_ID)[0]
    forge(Path(path), {key: {"plies": "0" * 64, "version": 0}[key]})
    assert [shard.manifest is None for shard in INDEXES.shards(archive, [RUN_ID])] == [True, False]
    assert index(archive).shards == 1
    assert all(shard.manifest for shard in INDEXES.shards(archive, [RUN_ID]))


def test_a_file_that_is_gone_or_cut_is_made_again(archive: Archive) -> None:
    index(archive)
    before = contents(archive)
    first, second = (file_of(archive, shard) for shard in INDEXES.shards(archive, [RUN_ID]))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    assert index(archive).shards == 2
    assert contents(archive) == before


@pytest.mark.parametrize(
    "change", [{"end_ply": 17}, {"end_ply": "6"}, {"positions": {}}, {"created": "then"}, {"other": 1}]
)
def test_a_damaged_index_is_named(archive: Archive, change: dict[str, object]) -> None:
    index(archive)
    path = INDEXES.manifest_files(archive, RUN_ID)[0]
    forge(Path(path), change)
    with pytest.raises(FailureError, match=path.name):
        INDEXES.shards(archive, [RUN_ID])
    assert [problem.file for problem in verify(archive).problems] == [path]


def test_games_without_a_record_cannot_be_indexed(archive: Archive) -> None:
    Path(archive.root / "runs" / f"{RUN_ID}.json").unlink()
    with pytest.raises(FailureError, match=f"run {RUN_ID} has games and no record"):
        index(archive)


def test_damaged_plies_are_not_indexed(archive: Archive) -> None:
    damaged = archive.committed_files("plies")[1]
    Path(damaged).write_bytes(Path(damaged).read_bytes()[::-1])
    with pytest.raises(FailureError, match=damaged.name):
        index(archive, threads=1)
    assert list(contents(archive)) == [0], "what was stored before is kept"


def test_what_was_indexed_before_a_stop_is_kept(archive: Archive) -> None:
    def stop(_plies: int) -> None:
        raise KeyboardInterrupt

    jobs = index_jobs(archive, INDEXES.shards(archive, [RUN_ID]))
    with pytest.raises(KeyboardInterrupt):
        index_shards(archive, jobs, 1, stop)
    assert 0 in contents(archive)
    index(archive)
    assert [end_ply_of(shard) for shard in INDEXES.shards(archive, [RUN_ID])] == [END_PLY, END_PLY]
    assert verify(archive).problems == []


def test_a_full_disk_leaves_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.backend, "create", refuse)
    with pytest.raises(FailureError, match="the disk is full"):
        index(archive)
    assert not list(Path(archive.root).glob("positions/*/*"))


def test_two_who_index_the_same_shard_leave_one_that_counts(archive: Archive) -> None:
    jobs = index_jobs(archive, INDEXES.shards(archive, [RUN_ID]))
    assert index_shards(archive, [*jobs, *jobs], 2).shards == 2
    assert sorted(contents(archive)) == [0, 1]
    assert verify(archive).problems == []
    assert garbage.unreferenced_files(archive) == []


def test_a_deeper_index_stays_unless_its_file_is_gone(archive: Archive) -> None:
    (shard, _) = INDEXES.shards(archive, [RUN_ID])
    index(archive, 9)
    assert index_shards(archive, [IndexJob(shard, 6)], 1) == IndexSummary()  # a slower writer
    before = contents(archive)
    assert [end_ply_of(shard) for shard in INDEXES.shards(archive, [RUN_ID])] == [9, 9]
    file_of(archive, INDEXES.shards(archive, [RUN_ID])[0]).unlink()
    assert index_shards(archive, [IndexJob(shard, 9)], 1).shards == 1
    assert contents(archive) == before


def test_the_files_of_a_shallower_index_are_garbage(archive: Archive) -> None:
    index(archive, 3)
    index(archive)
    left = garbage.unreferenced_files(archive)
    assert len(left) == 2
    assert all(file.ours for file in left)
    assert len(garbage.remove(archive, left, 0)) == 2
    assert sorted(contents(archive)) == [0, 1]


def test_verification_makes_the_index_again_and_compares(archive: Archive) -> None:
    index(archive)
    found = verify(archive)
    assert found.problems == []
    assert found.positions == sum(
        shard.manifest.positions.rows for shard in INDEXES.shards(archive, [RUN_ID]) if shard.manifest
    )
    shard = INDEXES.shards(archive, [RUN_ID])[0]
    path, number = file_of(archive, shard), INDEXES.manifest_files(archive, RUN_ID)[0]
    wrong = pl.read_parquet(path, hive_partitioning=False).with_columns(pl.col("wins") + 1)
    stored = table_of(wrong).stored(path.name)
    path.write_bytes(table_of(wrong).content)
    positions = {"file": stored.file, "rows": stored.rows, "bytes": stored.bytes, "sha256": stored.sha256}
    forge(Path(number), {"positions": positions})
    (problem,) = verify(archive).problems
    assert problem.file == path
    assert "not what the shard's games give" in problem.what
    path.write_bytes(b"PAR1" * 100)
    (problem,) = verify(archive).problems
    assert "bytes, its commit says" in problem.what
