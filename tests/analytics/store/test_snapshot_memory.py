"""Tests of the memory of snapshots: what has not changed is not read again, and what has changed is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePath

import pytest

from analytics.questions.pairings import load_results_by_run
from analytics.store.archive import ArchiveStore
from analytics.store.files.local_files import LocalBackend
from analytics.store.snapshot import Snapshot, SnapshotMemory
from tests.paths import SAMPLE

OLD = 1_700_000_000  # a time of change long ago, so that folders count as settled


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """Copy the sample archive, with folders that were changed long ago."""
    root = tmp_path / "sample"
    shutil.copytree(SAMPLE, root)
    for folder in (root, *filter(Path.is_dir, root.rglob("*"))):
        os.utime(folder, (OLD, OLD))
    return root


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[PurePath]:
    """Collect the paths of all files that are read."""
    paths: list[PurePath] = []
    read = LocalBackend.read

    def read_and_note(backend: LocalBackend, path: PurePath) -> bytes:
        paths.append(path)
        return read(backend, path)

    monkeypatch.setattr(LocalBackend, "read", read_and_note)
    return paths


def load_all_results(snapshot: Snapshot) -> object:
    """Load the results of all runs of a snapshot, as plain values."""
    return [
        (run_id, [(result.pairing, result.games, result.score) for result in results])
        for run_id, results in load_results_by_run(snapshot, snapshot.load_runs()).items()
    ]


def test_second_snapshot_reads_no_record_and_no_tally_again(settled: Path, reads: list[PurePath]) -> None:
    memory = SnapshotMemory()
    first = Snapshot(settled, memory)
    results = load_all_results(first)
    reads.clear()
    second = Snapshot(settled, memory)
    assert (second.load_runs(), load_all_results(second)) == (first.load_runs(), results)
    assert not [path for path in reads if path.parent.name == "runs" or "tallies" in path.parts]


def test_changed_record_is_read_again(settled: Path, reads: list[PurePath]) -> None:
    memory = SnapshotMemory()
    first = Snapshot(settled, memory)
    record = first.load_runs()[0]
    archive = ArchiveStore(settled)
    archive.update_run_and_unit_count(record.run_id, lambda there: there and there.with_raised_derived_units({"x": 0}))
    changed_path = archive.run_record_path(record.run_id)
    reads.clear()
    second = Snapshot(settled, memory)
    assert [path for path in reads if path.parent.name == "runs"] == [changed_path]
    assert second.load_run(record.run_id) != record


def test_removed_games_are_not_remembered(settled: Path) -> None:
    memory = SnapshotMemory()
    first = Snapshot(settled, memory)
    run_id, games = next(
        (run, count) for run in first.list_ids_of_runs_with_games() if (count := first.count_games(run))
    )
    load_all_results(first)
    for path in (settled / "games" / f"run={run_id}").iterdir():
        path.unlink()
    second = Snapshot(settled, memory)
    assert games
    assert second.count_games(run_id) == 0
    assert dict(load_results_by_run(second, second.load_runs()))[run_id] == []


def test_replaced_tallies_are_read_again(settled: Path, reads: list[PurePath]) -> None:
    memory = SnapshotMemory()
    first = Snapshot(settled, memory)
    run_id = next(run for run in first.list_ids_of_runs_with_games() if first.list_files("tallies", run))
    results = load_all_results(first)
    for path in (settled / "tallies" / f"run={run_id}").iterdir():
        path.unlink()
    reads.clear()
    second = Snapshot(settled, memory)
    assert load_all_results(second) == results  # they are counted from the games


def test_recently_changed_folder_is_listed_again(settled: Path) -> None:
    folder = settled / "games"
    assert {*LocalBackend(settled).list_folder_versions(folder)} == {path.name for path in folder.iterdir()}
    run = next(folder.iterdir())
    os.utime(run)
    assert run.name not in LocalBackend(settled).list_folder_versions(folder)
