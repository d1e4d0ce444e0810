"""Tests of names and notes of runs: they are stored beside the record, bounded, merged, and hide nothing if damaged."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.store import run_notes
from analytics.store.archive import ArchiveStore
from analytics.store.run_notes import MAX_NAME, MAX_NOTE, load_note, note_path, update_note
from analytics.store.snapshot import Snapshot
from analytics.tables.upkeep.archive_merge import MergeOptions, merge_archives
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import snapshot
from tests.paths import SAMPLE


@pytest.fixture
def sample(tmp_path: Path) -> ArchiveStore:
    """Copy the sample archive."""
    shutil.copytree(SAMPLE, tmp_path / "sample")
    return ArchiveStore.open(tmp_path / "sample")


def first_run(archive: ArchiveStore) -> str:
    """Return the id of a run."""
    return archive.list_recorded_run_ids()[0]


def test_name_changes_no_other_file(sample: ArchiveStore) -> None:
    run_id, before = first_run(sample), snapshot(Path(sample.root))
    update_note(sample, run_id, " depth 3 ", "seems\r\nbetter ")
    after = snapshot(Path(sample.root))
    path = Path(note_path(sample, run_id))
    assert {name: content for name, content in after.items() if name != path} == before
    stored = load_note(sample, run_id)
    assert (stored.name, stored.note) == ("depth 3", "seems\nbetter")
    update_note(sample, run_id, note="")
    assert (load_note(sample, run_id).name, load_note(sample, run_id).note) == ("depth 3", "")
    assert not [file for file in list_unneeded_files(sample) if file.path.name.endswith(".note.json")]


@pytest.mark.parametrize(
    ("name", "note", "reason"),
    [
        ("x" * (MAX_NAME + 1), None, "at most 80"),
        (None, "x" * (MAX_NOTE + 1), "at most 2,000"),
        ("two\nlines", None, "not shown"),
        ("\x1b[31mred", None, "not shown"),
        (None, "right\u202eto left", "not shown"),
    ],
)
def test_unfit_text_is_refused(sample: ArchiveStore, name: str | None, note: str | None, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        update_note(sample, first_run(sample), name, note)
    assert not run_notes.list_ids_of_runs_with_notes(sample)


def test_writers_at_once_lose_neither_name_nor_note(sample: ArchiveStore) -> None:
    run_id = first_run(sample)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: update_note(sample, run_id, name=f"name {number}"), range(20)))
        list(pool.map(lambda kind: update_note(sample, run_id, **{kind: kind}), ("name", "note") * 10))
    assert (load_note(sample, run_id).name, load_note(sample, run_id).note) == ("name", "note")


def test_damaged_note_hides_no_run(sample: ArchiveStore) -> None:
    run_id = first_run(sample)
    update_note(sample, run_id, "a name")
    path = Path(note_path(sample, run_id))
    path.write_bytes(path.read_bytes().replace(b"a name", b"b name"))
    view = Snapshot(sample.root)
    assert (view.find_note(run_id).name, view.load_run(run_id).run_id) == ("", run_id)
    assert "was changed since it was written" in view.list_damaged_notes()[0]
    with open_archive(sample.root) as archive:
        frame = archive.runs().frame
    assert run_id in frame["run_id"].to_list()
    assert frame["name"].null_count() == frame.height
    assert [problem.file for problem in verify_archive(sample).problems] == [path]
    with pytest.raises(FailureError, match="remove it and name the run again"):
        load_note(sample, run_id)
    update_note(sample, run_id, "again")
    assert load_note(sample, run_id).name == "again"


def test_note_of_another_run_is_damaged(sample: ArchiveStore) -> None:
    one, two = sample.list_recorded_run_ids()[:2]
    update_note(sample, one, "one")
    shutil.copy(note_path(sample, one), note_path(sample, two))
    assert f"it is the note of run {one}" in Snapshot(sample.root).list_damaged_notes()[0]


def test_merge_brings_notes_and_keeps_the_later_one(
    sample: ArchiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = sample.list_recorded_run_ids()[:2]
    monkeypatch.setattr(run_notes, "format_current_time", lambda: "2026-01-01T00:00:00+00:00")
    update_note(sample, one, "old")
    update_note(sample, two, "only here")
    target = ArchiveStore.open(tmp_path / "target", create=True)
    assert merge_archives([sample], target, MergeOptions()).notes == 2
    monkeypatch.setattr(run_notes, "format_current_time", lambda: "2026-01-02T00:00:00+00:00")
    update_note(target, one, "new")
    assert merge_archives([sample], target, MergeOptions()).notes == 0
    assert (load_note(target, one).name, load_note(target, two).name) == ("new", "only here")
    assert merge_archives([target], sample, MergeOptions()).notes == 1
    assert load_note(sample, one).name == "new"


def test_note_from_the_future_replaces_no_other_one(
    sample: ArchiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger might write such a time, so that their name would replace yours whenever you merge."""
    run_id = first_run(sample)
    target = ArchiveStore.open(tmp_path / "target", create=True)
    with monkeypatch.context() as patched:
        patched.setattr(run_notes, "format_current_time", lambda: "9999-01-01T00:00:00+00:00")
        update_note(sample, run_id, "from the future")
    assert merge_archives([sample], target, MergeOptions()).notes == 1
    update_note(target, run_id, "mine")
    assert merge_archives([sample], target, MergeOptions()).notes == 0
    assert load_note(target, run_id).name == "mine"
    assert merge_archives([target], sample, MergeOptions()).notes == 1


def test_note_without_a_run_is_named_by_verify(sample: ArchiveStore) -> None:
    run_id = first_run(sample)
    update_note(sample, run_id, "a name")
    Path(sample.run_record_path(run_id)).unlink()
    faults = {problem.file: problem.fault for problem in verify_archive(sample).problems}
    assert faults[Path(note_path(sample, run_id))] == "its run has no record"
