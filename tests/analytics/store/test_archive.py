"""An archive: what is one, its records, its locks, what counts, and the numbers of its runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

import pytest
from msgspec import structs

from analytics.store.archive import ArchiveStore, check_nothing_lost, list_lost_ranges
from analytics.store.marker import MARKER_NAME
from analytics.store.range_files import read_rows, read_tallies
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord, SweepJob
from analytics.store.snapshot import Snapshot
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    build_spec,
    naive_rows,
    random_block,
    record,
    store,
)
from tests.object_storage import BOTH
from tests.paths import ROOT


def stored(archive: ArchiveStore, table: str) -> list[tuple[object, ...]]:
    """Read the rows of the first run that count, sorted."""
    ranges = archive.list_effective_ranges(RUN_ID)
    return sorted(row for stored_range in ranges for row in read_rows(archive, RUN_ID, stored_range, table).rows())


# What is an archive.


def test_an_archive_is_made_once_and_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "archive"
    ArchiveStore.open(root, create=True)
    before = snapshot(root)
    assert ArchiveStore.open(root, create=True).load_runs() == ArchiveStore.open(root).load_runs() == []
    assert snapshot(root) == before
    assert json.loads((root / MARKER_NAME).read_text()) == {"format": "quarto-arena archive", "schema_version": 3}


def foreign_folder(root: Path) -> None:
    root.mkdir()
    (root / "thesis.tex").write_text("mine")


def archive_with(content: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        root.mkdir()
        (root / MARKER_NAME).write_text(content)

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
        (archive_with('{"format": "quarto-arena archive", "schema_version": 1}'), False, "qarena archive upgrade"),
        (archive_with('{"format": "quarto-arena archive", "schema_version": 1}'), True, "has format 1, and this"),
        (
            archive_with('{"format": "quarto-arena archive", "schema_version": 4, "more": 1}'),
            True,
            "has format 4, and this",
        ),
        (archive_with('{"format": "photo album", "schema_version": 3}'), False, "photo album"),
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
        ArchiveStore.open(tmp_path / "archive", create=create)
    assert "\n" not in str(caught.value)
    assert snapshot(tmp_path) == before


def test_an_archive_that_cannot_be_written_to_says_whose_it_is(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # file modes do not stop root, which may run the tests
    with pytest.raises(
        RequestError, match=rf"not writable by user id {os.geteuid()} .* mode 7.., owner {os.geteuid()}"
    ):
        ArchiveStore.open(archive.root, create=True)
    assert ArchiveStore.open(archive.root).load_runs()  # reading is fine


# Runs and sweeps.


@BOTH
def test_runs_are_stored_and_replaced_whole_and_one_under_another_name_is_damage(archive: ArchiveStore) -> None:
    first, second = (
        record(created="2026-01-02T00:00:00Z"),
        record(run_id="ffffffffffff", created="2026-01-01T00:00:00+00:00"),
    )
    for run in (first, second, record(created=first.created, status="complete", seconds=2.5)):
        archive.write_run_and_unit_count(run)
    assert archive.find_run(RUN_ID) == record(created=first.created, status="complete", seconds=2.5, units=24)
    assert [run.run_id for run in archive.load_runs()] == ["ffffffffffff", RUN_ID]
    assert archive.find_run("000000000000") is None
    for run_id in ("../archive", "../../etc", "", "0123456789AB", "run=0123456789ab"):
        assert archive.find_run(run_id) is None
        with pytest.raises(ValueError, match="is not 12 lower-case hex digits"):
            archive.list_effective_ranges(run_id)
    archive.backend.replace(
        archive.run_record_path("ffffffffffff"), archive.backend.read(archive.run_record_path(RUN_ID))
    )
    with pytest.raises(FailureError, match=f"is the record of run {RUN_ID}"):
        archive.find_run("ffffffffffff")


@BOTH
def test_a_change_of_a_record_is_made_to_what_others_left(archive: ArchiveStore) -> None:
    """Check that two processes which end a run each add their seconds, even if both begin at the same time."""

    def add(run: RunRecord | None) -> RunRecord | None:
        time.sleep(0.001)
        return run and structs.replace(run, seconds=run.seconds + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: ArchiveStore.open(archive.root).update_run_and_unit_count(RUN_ID, add), range(12)))
    run = archive.find_run(RUN_ID)
    assert run is not None
    assert run.seconds == 12


@BOTH
def test_jobs_of_sweeps_are_stored_and_replaced_and_one_in_the_place_of_another_is_damage(
    archive: ArchiveStore,
) -> None:
    jobs = [SweepJob("b", 0), SweepJob("a", 10, {"rules": "square"}, RUN_ID), SweepJob("a", 2, status="interrupted")]
    for job in jobs:
        archive.write_sweep_job(job)
    archive.write_sweep_job(SweepJob("a", 2, status="failed", error="it broke"))
    assert archive.load_sweep_jobs() == [SweepJob("a", 2, status="failed", error="it broke"), jobs[1], jobs[0]]
    folder = archive.root / "sweeps" / "a"
    archive.backend.replace(folder / "3.json", archive.backend.read(folder / "2.json"))
    archive.backend.remove(folder / "2.json")
    with pytest.raises(FailureError, match=r"3\.json is damaged \(it is job 2 of sweep a\)"):
        archive.load_sweep_jobs()


def test_a_record_knows_how_much_there_was(archive: ArchiveStore) -> None:
    archive.update_run_and_unit_count(RUN_ID, lambda run: run)
    before = known_run(archive)
    assert before.units == 24
    path = archive.folder("games", RUN_ID) / archive.list_effective_ranges(RUN_ID)[1].name
    content = archive.backend.read(path)
    archive.backend.remove(path)
    archive.update_run_and_unit_count(RUN_ID, lambda run: run and structs.replace(run, seconds=1.0))
    assert known_run(archive).units == 24  # also if some are lost
    assert list_lost_ranges(known_run(archive), archive.list_effective_ranges(RUN_ID)) == [(16, 24)]
    with pytest.raises(FailureError, match="lacks units 16 to 23, which were there, and their games with them"):
        check_nothing_lost(archive, RUN_ID, known_run(archive))
    archive.write_file(path, content)
    check_nothing_lost(archive, RUN_ID, known_run(archive))


def known_run(archive: ArchiveStore) -> RunRecord:
    return archive.load_run(RUN_ID)


@BOTH
def test_one_process_at_a_time_plays_a_run_that_cannot_be_repeated(archive: ArchiveStore) -> None:
    other = ArchiveStore(archive.root)
    with archive.lock_run(RUN_ID):
        with pytest.raises(RequestError, match=f"another process plays run {RUN_ID}, whose games cannot be repeated"):
            other.lock_run(RUN_ID).__enter__()
        with other.lock_run("ffffffffffff"):
            pass
    with other.lock_run(RUN_ID):
        assert archive.list_ids_of_runs_with_games() == [RUN_ID]
    assert not [file for file in list_unneeded_files(archive) if file.path.suffix == ".writer"]


@BOTH
def test_the_next_writer_may_wait_for_the_one_before(archive: ArchiveStore) -> None:
    order: list[str] = []

    def second() -> None:
        with ArchiveStore(archive.root).lock_run(RUN_ID, patience=30.0):
            order.append("second")

    with ThreadPoolExecutor(1) as threads:
        with archive.lock_run(RUN_ID):
            waiting = threads.submit(second)
            time.sleep(0.2)
            order.append("first")
        waiting.result()
    assert order == ["first", "second"]


def test_a_lock_ends_with_the_process_that_was_killed(archive: ArchiveStore) -> None:
    script = f"""
import time
from pathlib import Path
from analytics.store.archive import ArchiveStore
with ArchiveStore(Path({str(archive.root)!r})).lock_run({RUN_ID!r}):
    print("here", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(RequestError), archive.lock_run(RUN_ID):
            pass
        writer.kill()
    with archive.lock_run(RUN_ID):
        pass


def test_what_goes_wrong_while_a_run_is_played_is_not_blamed_on_its_lock(archive: ArchiveStore) -> None:
    with pytest.raises(FileNotFoundError), archive.lock_run(RUN_ID):
        raise FileNotFoundError("a file of the player")


# Ranges.


@BOTH
def test_a_missing_file_takes_its_games_with_it_and_they_may_come_again(archive: ArchiveStore) -> None:
    archive.backend.remove(
        archive.find_path_of_containing_file("games", RUN_ID, archive.list_effective_ranges(RUN_ID)[0])
    )
    assert archive.list_effective_ranges(RUN_ID).list_gaps(30) == [(0, 16), (24, 30)]
    assert len(stored(archive, "games")) == 16
    assert stored(ArchiveStore(archive.root), "games") == stored(archive, "games")
    store(archive, RUN_ID, BLOCKS)
    assert stored(archive, "games") == naive_rows(BLOCKS, PAIRINGS)[0]


@BOTH
def test_half_written_and_foreign_files_are_not_read(archive: ArchiveStore) -> None:
    before = stored(archive, "games"), stored(archive, "plies"), read_tallies(archive, [RUN_ID])[RUN_ID]
    first = archive.list_effective_ranges(RUN_ID)[0]
    for table in ("games", "plies", "tallies", "decisions"):
        folder = archive.folder(table, RUN_ID)
        archive.backend.replace(folder / f".tmp-{'0' * 32}", b"PAR1 half")
        archive.backend.replace(folder / f"{first.games_stem}.parquet", b"PAR1 no check")
        archive.backend.replace(folder / "notes.txt", b"mine")
    archive.backend.replace(archive.folder("plies", RUN_ID) / StoredRange(24, 32, 5, "01234567").name, b"no games yet")
    archive.backend.replace(archive.root / "games" / "run=mine" / "notes.txt", b"mine")
    archive.backend.replace(archive.root / "runs" / "notes.json", b"{}")
    again = ArchiveStore.open(archive.root, create=True)
    assert (stored(again, "games"), stored(again, "plies"), read_tallies(again, [RUN_ID])[RUN_ID]) == before
    assert len(again.load_runs()) == 1
    assert not verify_archive(again).problems


def test_threads_may_share_the_list_of_files(archive: ArchiveStore) -> None:
    """Check threads some of which forget the list all the time."""
    ranges = [*archive.list_effective_ranges(RUN_ID)]

    def ask(number: int) -> list[PurePath]:
        if number % 3 == 0:
            archive.forget_cached_listings()
        return [archive.find_path_of_containing_file("plies", RUN_ID, stored_range) for stored_range in ranges]

    with ThreadPoolExecutor(8) as threads:
        assert len({tuple(paths) for paths in threads.map(ask, range(600))}) == 1


def test_a_run_that_begins_later_has_a_greater_number_and_is_listed_later(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    begun = []
    for seed in range(5):  # on machines whose clocks go backwards
        number = archive.compute_next_run_number()
        run = record(build_spec(seed=seed), created=f"2026-01-{9 - seed:02}T00:00:00+00:00", number=number)
        archive.write_run_and_unit_count(run)
        begun.append(run.run_id)
    assert [run.number for run in archive.load_runs()] == [1, 2, 3, 4, 5]
    assert [run.run_id for run in archive.load_runs()] == begun != sorted(begun)
    archive.write_run_and_unit_count(
        structs.replace(archive.load_runs()[0], status="complete")
    )  # which changes no number
    assert ArchiveStore.open(tmp_path / "archive").compute_next_run_number() == 6


def test_a_record_without_a_valid_number_counts_as_zero_and_is_read_again(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    archive.write_run_and_unit_count(record(number=2))
    hostile = record(build_spec(seed=9))
    archive.write_run_and_unit_count(hostile)
    path = Path(archive.run_record_path(hostile.run_id))
    values = json.loads(path.read_text())
    for number in ("7", 1 << 70, -3, True, None, [7], 2.5):
        path.write_text(json.dumps(values | {"number": number}))
        assert archive.compute_next_run_number() == 3
    path.write_text("[]")
    assert archive.compute_next_run_number() == 3
    path.write_text(json.dumps(values | {"number": 8}))
    assert archive.compute_next_run_number() == 9


def test_the_next_number_reads_each_record_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    read_paths: list[PurePath] = []
    read_all = archive.backend.read_all

    def note_and_read_all(paths: Sequence[PurePath]) -> list[bytes]:
        read_paths.extend(paths)
        return read_all(paths)

    monkeypatch.setattr(archive.backend, "read_all", note_and_read_all)
    for seed in range(4):
        run = record(build_spec(seed=seed), number=archive.compute_next_run_number())
        assert run.number == seed + 1
        archive.write_run_and_unit_count(run)
    assert archive.compute_next_run_number() == 5
    assert len(read_paths) == len({*read_paths}) == 4


# What one reader sees while others write.


@BOTH
def test_a_snapshot_stays_as_it_was_while_others_write(archive: ArchiveStore) -> None:
    seen = Snapshot(archive.root)
    games, run = [*seen.list_effective_ranges(RUN_ID)], seen.find_run(RUN_ID)
    other = record(build_spec(seed=8))
    archive.write_run_and_unit_count(other)
    store(archive, RUN_ID, [random_block(1, pairing, 8) for pairing in range(3)])
    archive.write_run_and_unit_count(record(status="complete"))
    archive.write_sweep_job(SweepJob("s", 0))
    assert archive.list_effective_ranges(RUN_ID).units == 48
    assert [*seen.list_effective_ranges(RUN_ID)] == games
    assert (seen.find_run(RUN_ID), seen.list_ids_of_runs_with_games(), seen.list_recorded_run_ids()) == (
        run,
        [RUN_ID],
        [RUN_ID],
    )
    assert (seen.load_sweep_jobs(), seen.load_cards(), seen.load_verdicts_unless_any_missing()) == ([], [], [])
    assert seen.list_effective_ranges(RUN_ID, "tallies").units == 24
    assert seen.find_run(other.run_id) is None
    assert not list(seen.list_effective_ranges(other.run_id))


@BOTH
def test_a_snapshot_never_has_games_without_the_record_of_their_run(archive: ArchiveStore) -> None:
    """Check a run that begins between the snapshot's look at the records and its look at the games."""
    other = record(build_spec(seed=8))

    begin = ArchiveStore.list_ids_of_runs_with_games
    with pytest.MonkeyPatch.context() as patch:

        def late(self: ArchiveStore) -> list[str]:
            patch.undo()
            archive.write_run_and_unit_count(other)
            store(archive, other.run_id, BLOCKS)
            return begin(self)

        patch.setattr(ArchiveStore, "list_ids_of_runs_with_games", late)
        seen = Snapshot(archive.root)
    assert all(seen.find_run(run_id) for run_id in seen.list_ids_of_runs_with_games())
