"""An archive of an older format is brought to the present one; nothing is lost, whenever that is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import Backend
from analytics.store.marker import ARCHIVE_FORMAT, MARKER_NAME
from analytics.store.records import CHECKSUM, add_checksum
from analytics.store.run_notes import note_path, update_note
from analytics.tables.upkeep.format_upgrade import UpgradeStep, upgrade_archive
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import RUN_ID
from tests.analytics.tables.upkeep.killing import kill_before


def forge(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    values = json.loads(path.read_bytes())
    values.pop(CHECKSUM)
    change(values)
    path.write_text(json.dumps(add_checksum(values), ensure_ascii=False, indent=1) + "\n")


def age(root: Path) -> None:
    """Make an archive one of format 2, in which runs had no status, and plies lay in another folder."""
    (root / MARKER_NAME).write_text(json.dumps({"format": ARCHIVE_FORMAT, "schema_version": 2, "shards": "part-"}))
    (root / "plies").rename(root / "turns")
    for path in [*root.glob("runs/*.json"), *root.glob("verdicts/*/*.json"), *root.glob("policies/*/card.json")]:
        forge(path, lambda values: values.update(schema_version=2))
    forge(root / "runs" / f"{RUN_ID}.json", lambda values: values.pop("status"))


def copy_plies(backend: Backend, root: PurePath) -> None:
    for path in backend.list_files_below(root / "turns"):
        backend.replace(root / "plies" / path.relative_to(root / "turns"), backend.read(path))


def add_status(name: str, values: dict[str, object]) -> dict[str, object]:
    return {**values, "status": "running"} if name.startswith("runs/") else values


def remove_turns(backend: Backend, root: PurePath) -> None:
    for path in backend.list_files_below(root / "turns"):
        backend.remove(path)


STEP = UpgradeStep(2, "plies have a folder of their own", copy_plies, add_status, remove_turns)


@pytest.fixture
def old(full_archive: ArchiveStore) -> Path:
    age(Path(full_archive.root))
    return Path(full_archive.root)


def assert_present(root: Path) -> None:
    assert verify_archive(ArchiveStore.open(root)).problems == []
    assert not [*root.glob("turns/*/*")]
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == 48
        assert opened.sql("SELECT count(*) FROM verdicts").item() == 1
    assert upgrade_archive(root, [STEP]) == []


def test_an_archive_of_an_older_format_is_refused_and_brought_to_the_present_one(old: Path) -> None:
    remedy = f"this program reads and writes format 3: run 'qarena archive upgrade --archive {old}'"
    with pytest.raises(RequestError, match=rf" \(archive\.json\) has format 2, and {remedy}$"):
        ArchiveStore.open(old)
    assert upgrade_archive(old, [STEP]) == [STEP]
    assert_present(old)


@pytest.mark.parametrize("write", range(8))
def test_a_killed_upgrade_is_gone_on_with(old: Path, write: int) -> None:
    """Kill it before each of its writes, and before each removal."""
    kill_before(old, write, lambda: upgrade_archive(old, [STEP]))
    upgrade_archive(old, [STEP])
    assert_present(old)


def test_records_of_an_older_format_that_were_copied_here_are_brought_up_too(full_archive: ArchiveStore) -> None:
    path = Path(full_archive.run_record_path(RUN_ID))
    forge(path, lambda values: (values.update(schema_version=2), values.pop("status")))
    (problem,) = verify_archive(full_archive).problems
    assert problem.fault.startswith("it has format 2, and this program reads format 3: 'qarena archive upgrade'")
    assert upgrade_archive(Path(full_archive.root), [STEP]) == [STEP]
    assert full_archive.load_run(RUN_ID).schema_version == 3


def test_a_record_of_a_newer_format_is_named(full_archive: ArchiveStore) -> None:
    path = Path(full_archive.run_record_path(RUN_ID))
    forge(path, lambda values: values.update(schema_version=4))
    with pytest.raises(RequestError, match=f"{RUN_ID}.json has format 4, and .*: use the newer program that wrote it"):
        upgrade_archive(full_archive.root, [STEP])


@pytest.mark.parametrize("is_old", [True, False])
def test_name_and_note_of_a_run_stay_as_they_are(full_archive: ArchiveStore, is_old: bool) -> None:
    update_note(full_archive, RUN_ID, "first try", "thoughts")
    root, path = Path(full_archive.root), Path(note_path(full_archive, RUN_ID))
    note = path.read_bytes()
    if is_old:
        path.unlink()
        age(root)
        path.write_bytes(note)
    assert upgrade_archive(root, [STEP]) == ([STEP] if is_old else [])
    assert path.read_bytes() == note


def test_there_is_nothing_to_do_at_the_present_format(full_archive: ArchiveStore) -> None:
    before = snapshot(Path(full_archive.root))
    assert upgrade_archive(full_archive.root) == []
    assert snapshot(Path(full_archive.root)) == before


def test_what_cannot_be_upgraded_stays_as_it_is(old: Path, tmp_path: Path) -> None:
    before = snapshot(old)
    with pytest.raises(RequestError, match="has format 2, and nothing leads from format 2 to 3: use the program that"):
        upgrade_archive(old, [])
    (old / "runs" / f"{RUN_ID}.json").write_text('{"schema_version": 2}')
    with pytest.raises(FailureError, match=f"{RUN_ID}.json is damaged: restore"):
        upgrade_archive(old, [STEP])
    (old / "runs" / f"{RUN_ID}.json").write_bytes(before[old / "runs" / f"{RUN_ID}.json"])
    assert snapshot(old) == before
    (old / MARKER_NAME).write_text(json.dumps({"format": ARCHIVE_FORMAT, "schema_version": 4}))
    for refuse in (lambda: upgrade_archive(old, [STEP]), lambda: ArchiveStore.open(old)):
        with pytest.raises(RequestError, match=r"has format 4, and .* format 3: use the newer program that wrote it"):
            refuse()
    with pytest.raises(RequestError, match="there is no archive at"):
        upgrade_archive(tmp_path / "none")
