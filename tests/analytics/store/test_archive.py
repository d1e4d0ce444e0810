import json
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from msgspec import structs

from analytics.statistics.tally import tally
from analytics.store.archive import Archive
from analytics.store.marker import MARKER
from analytics.store.records import RunRecord, SweepJob
from analytics.verify.archive import verify
from analytics.verify.garbage import unreferenced_files
from quarto.batch import Block
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import contents, snapshot
from tests.analytics.naive_games import PAIRINGS, RUN_ID, naive_rows, random_block, record
from tests.object_storage import BOTH


def stored(archive: Archive, table: str) -> list[tuple[object, ...]]:
    return sorted(
        row for path in archive.committed_files(table) for row in pl.read_parquet(archive.backend.read(path)).rows()
    )


# What is an archive.


def test_an_archive_is_made_once_and_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "archive"
    Archive.open(root, create=True)
    before = snapshot(root)
    assert Archive.open(root, create=True).runs() == Archive.open(root).runs() == []
    assert snapshot(root) == before
    assert json.loads((root / MARKER).read_text()) == {"format": "quarto-arena archive", "schema_version": 1}


def foreign_folder(root: Path) -> None:
    root.mkdir()
    (root / "thesis.tex").write_text("mine")


def archive_with(content: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        root.mkdir()
        (root / MARKER).write_text(content)

    return make


@pytest.mark.parametrize(
    ("make", "create", "complaint"),
    [
        (lambda root: None, False, "there is no archive at"),
        (lambda root: root.mkdir(), False, "is not an archive (it has no archive.json)"),
        (lambda root: root.write_text("x"), False, "is a file"),
        (lambda root: root.write_text("x"), True, "is a file"),
        (foreign_folder, False, "is not an archive"),
        (foreign_folder, True, "has other files in it"),
        (archive_with('{"format": "quarto-arena archive", "schema_version": 2}'), True, "schema version 2"),
        (archive_with('{"format": "quarto-arena archive", "schema_version": 2, "more": 1}'), True, "schema version 2"),
        (archive_with('{"format": "photo album", "schema_version": 1}'), False, "photo album"),
        (archive_with('{"format": "quarto-arena arch'), False, "cannot be read"),
        (archive_with("[]"), True, "cannot be read"),
    ],
)
def test_what_is_not_an_archive_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], create: bool, complaint: str
) -> None:
    make(tmp_path / "archive")
    before = snapshot(tmp_path)
    with pytest.raises(RequestError, match=re.escape(complaint)) as caught:
        Archive.open(tmp_path / "archive", create=create)
    assert "\n" not in str(caught.value)
    assert snapshot(tmp_path) == before


def test_an_archive_that_cannot_be_written_to_says_whose_it_is(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # file modes do not stop root, which may run the tests
    with pytest.raises(
        RequestError, match=rf"not writable by user id {os.geteuid()} .* mode 7.., owner {os.geteuid()}"
    ):
        Archive.open(archive.root, create=True)
    assert Archive.open(archive.root).runs()  # reading is fine


# Runs and sweeps.


@BOTH
def test_runs_are_stored_and_replaced_whole(archive: Archive) -> None:
    first, second = (
        record(created="2026-01-02T00:00:00Z"),
        record(run_id="ffffffffffff", created="2026-01-01T00:00:00+00:00"),
    )
    for run in (first, second, record(created=first.created, status="complete", seconds=2.5)):
        archive.save_run(run)
    assert archive.run(RUN_ID) == record(created=first.created, status="complete", seconds=2.5, commits=2)
    assert [run.run_id for run in archive.runs()] == ["ffffffffffff", RUN_ID]
    assert archive.run("000000000000") is None
    assert archive.run("../archive") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"run_id": "x"}', b"\xff", b"[" * 100_000], ids=lambda c: c[:9]
)
@BOTH
def test_a_damaged_run_is_named(archive: Archive, content: bytes) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    archive.backend.replace(path, content)
    with pytest.raises(FailureError, match=re.escape(str(path))) as caught:
        archive.runs()
    assert "\n" not in str(caught.value)


@BOTH
def test_a_run_under_another_name_is_damage(archive: Archive) -> None:
    archive.backend.replace(archive.record_file("ffffffffffff"), archive.backend.read(archive.record_file(RUN_ID)))
    with pytest.raises(FailureError, match=f"is the record of run {RUN_ID}"):
        archive.run("ffffffffffff")


@BOTH
def test_a_change_of_a_record_is_made_to_what_others_left(archive: Archive) -> None:
    """Two processes end a run: each adds its seconds to those of the other, also if both begin at the same time."""

    def add(known: RunRecord | None) -> RunRecord | None:
        time.sleep(0.001)
        return known and structs.replace(known, seconds=known.seconds + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: Archive.open(archive.root).update_run(RUN_ID, add), range(12)))
    found = archive.run(RUN_ID)
    assert found is not None
    assert found.seconds == 12


@BOTH
def test_jobs_of_sweeps_are_stored_and_replaced(archive: Archive) -> None:
    jobs = [SweepJob("b", 0), SweepJob("a", 10, {"rules": "square"}, RUN_ID), SweepJob("a", 2, status="interrupted")]
    for job in jobs:
        archive.save_sweep_job(job)
    archive.save_sweep_job(SweepJob("a", 2, status="failed", error="it broke"))
    assert archive.sweep_jobs() == [SweepJob("a", 2, status="failed", error="it broke"), jobs[1], jobs[0]]


@BOTH
def test_a_job_in_the_place_of_another_is_damage(archive: Archive) -> None:
    archive.save_sweep_job(SweepJob("a", 2))
    folder = archive.root / "sweeps" / "a"
    archive.backend.replace(folder / "3.json", archive.backend.read(folder / "2.json"))
    archive.backend.remove(folder / "2.json")
    with pytest.raises(FailureError, match=r"3\.json is damaged \(it is job 2 of sweep a\)"):
        archive.sweep_jobs()


# Commits.


@BOTH
def test_the_rows_stored_are_those_of_the_naive_builder(archive: Archive) -> None:
    blocks = [random_block(1, 0, 0), random_block(1, 1, 0), random_block(1, 0, 8, 4), random_block(1, 2, 0)]
    games, plies = naive_rows(blocks, PAIRINGS)
    assert stored(archive, "games") == games
    assert stored(archive, "plies") == sorted(plies)
    assert archive.tallies(RUN_ID) == tally(blocks)
    assert archive.covered(RUN_ID) == {0: [(0, 12)], 1: [(0, 8)], 2: [(0, 8)]}
    assert [commit.shard for commit in archive.commits(RUN_ID)] == [0, 1]
    assert archive.commits("ffffffffffff") == []
    assert unreferenced_files(archive) == []


def test_gaps_in_what_is_covered_are_seen(archive: Archive) -> None:
    assert archive.commit(RUN_ID, [random_block(1, 0, 20)], PAIRINGS)
    assert archive.covered(RUN_ID)[0] == [(0, 12), (20, 28)]


@pytest.mark.parametrize(
    "block",
    [random_block(1, 0, 0), random_block(2, 0, 11, 9), random_block(2, 1, 7, 1)],
    ids=["all", "end", "last pair"],
)
@BOTH
def test_pairs_already_there_are_not_stored_again(archive: Archive, block: Block) -> None:
    before = contents(archive)
    assert Archive.open(archive.root).commit(RUN_ID, [block, random_block(2, 2, 100)], PAIRINGS) is None
    assert contents(archive) == before


def test_blocks_that_overlap_one_another_are_a_mistake(archive: Archive) -> None:
    with pytest.raises(ValueError, match="same pair"):
        archive.commit(RUN_ID, [random_block(1, 0, 50), random_block(1, 0, 57)], PAIRINGS)


@BOTH
def test_runs_do_not_share_pairs(archive: Archive) -> None:
    assert archive.commit("ffffffffffff", [random_block(1, 0, 0)], PAIRINGS)
    assert archive.run_ids() == [RUN_ID, "ffffffffffff"]


@BOTH
def test_a_writer_that_was_overtaken_drops_its_files(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both writers saw pairs 12 to 19 free; the other one commits them while this one writes its tables."""
    other = Archive.open(archive.root)

    def overtake(path: Path, content: bytes, ready: Callable[[], None]) -> bool:
        monkeypatch.undo()
        assert other.commit(RUN_ID, [random_block(1, 0, 12)], PAIRINGS)
        return archive.backend.create(path, content, ready)

    monkeypatch.setattr(archive.backend, "create", overtake)
    assert archive.commit(RUN_ID, [random_block(1, 0, 19)], PAIRINGS) is None
    assert archive.covered(RUN_ID)[0] == [(0, 20)]
    assert unreferenced_files(archive) == []


@BOTH
def test_a_writer_whose_number_was_taken_takes_the_next(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Archive.open(archive.root)

    def overtake(path: Path, content: bytes, ready: Callable[[], None]) -> bool:
        monkeypatch.undo()
        assert other.commit(RUN_ID, [random_block(1, 0, 12)], PAIRINGS)
        return archive.backend.create(path, content, ready)

    monkeypatch.setattr(archive.backend, "create", overtake)
    commit = archive.commit(RUN_ID, [random_block(1, 0, 20)], PAIRINGS)
    assert commit is not None
    assert commit.shard == 3
    assert not verify(archive).problems


# What crashes and accidents leave is never counted.


@BOTH
def test_a_missing_commit_takes_its_games_with_it(archive: Archive) -> None:
    archive.backend.remove(archive.root / "commits" / f"run={RUN_ID}" / "000000.json")
    assert archive.covered(RUN_ID) == {0: [(8, 12)], 2: [(0, 8)]}
    assert len(stored(archive, "games")) == 24
    assert len(unreferenced_files(archive)) == 2
    commit = Archive.open(archive.root).commit(RUN_ID, [random_block(1, 0, 0)], PAIRINGS)
    assert commit is not None
    assert commit.shard == 0


@BOTH
def test_half_written_and_foreign_files_are_not_read(archive: Archive) -> None:
    before = stored(archive, "games"), stored(archive, "plies"), archive.tallies(RUN_ID)
    for table in ("games", "plies", "commits"):
        folder = archive.folder(table, RUN_ID)
        archive.backend.replace(folder / f".tmp-{'0' * 32}", b"PAR1 half")
        archive.backend.replace(folder / f"part-000007-{'0' * 32}.parquet", b"PAR1 never committed")
        archive.backend.replace(folder / "notes.txt", b"mine")
        archive.backend.replace(folder / "notes.json", b"{}")
    archive.backend.replace(archive.root / "commits" / "run=mine" / "notes.txt", b"mine")
    archive.backend.replace(archive.root / "runs" / "notes.json", b"{}")
    again = Archive.open(archive.root, create=True)
    assert (stored(again, "games"), stored(again, "plies"), again.tallies(RUN_ID)) == before
    assert len(again.runs()) == 1
    assert not verify(again).problems


@pytest.mark.parametrize("content", [b"", b'{"shard": 0', b"{}", b"null"], ids=str)
@BOTH
def test_a_damaged_commit_is_named(archive: Archive, content: bytes) -> None:
    path = archive.root / "commits" / f"run={RUN_ID}" / "000001.json"
    archive.backend.replace(path, content)
    for use in (archive.commits, archive.covered, archive.tallies):
        with pytest.raises(FailureError, match=re.escape(str(path))):
            use(RUN_ID)
    with pytest.raises(FailureError, match=re.escape(str(path))):  # a writer cannot know what is there
        Archive.open(archive.root).commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)


@BOTH
def test_a_commit_cannot_name_a_file_elsewhere(archive: Archive) -> None:
    path = archive.root / "commits" / f"run={RUN_ID}" / "000001.json"
    archive.backend.replace(path, re.sub(rb"part-[^\"]+", b"../../../secret.parquet", archive.backend.read(path)))
    with pytest.raises(FailureError, match="does not match"):
        archive.committed_files("games")
