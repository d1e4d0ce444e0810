"""The first answer of an archive that this user neither made nor verified on this machine says so, once."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.store.marker import sound_stamps_path
from tests.another_user import another_user, visible_folder
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena, handlers_that_others_made, prepared_once, qarena

__all__ = ["handlers_that_others_made", "prepared_once", "qarena"]  # fixtures


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a new cache folder, in which nothing is remembered."""
    monkeypatch.setenv("QARENA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "received"))


def notes_of(root: Path, caplog: pytest.LogCaptureFixture) -> int:
    """Count the warnings that a question logs."""
    caplog.clear()
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) FROM runs").item() >= 0
    assert all(f"archive {str(root)!r} was neither made nor verified" in note for note in caplog.messages)
    return len(caplog.messages)


def test_a_received_archive_is_noted_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [notes_of(root, caplog) for _ in range(3)] == [1, 0, 0]


def test_the_note_names_the_command_with_the_archive_as_typed(
    root: Path, caplog: pytest.LogCaptureFixture, qarena: Qarena
) -> None:
    place = root.rename(root.with_name("a received one"))
    question = ("sql", "SELECT count(*) FROM runs", "--archive", place.name)
    assert qarena(*question).code == 0
    (command,) = re.findall(r"run 'qarena (.*)' \(said once\)", " ".join(caplog.messages))
    sound_stamps_path(place).unlink()  # nothing is known again
    assert qarena(*shlex.split(command)).code == 0
    caplog.clear()
    assert qarena(*question).code == 0
    assert caplog.messages == []


@pytest.mark.parametrize("typed", [str(SAMPLE), os.path.relpath(SAMPLE)])
def test_the_sample_of_the_project_is_known(typed: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notes_of(Path(typed), caplog) == 0


def test_ones_own_archive_is_not_noted_but_another_one_in_its_place_is(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_root = tmp_path / "own"
    ArchiveStore.open(own_root, create=True)
    assert notes_of(own_root, caplog) == 0
    shutil.rmtree(own_root)
    root.rename(own_root)
    assert [notes_of(own_root, caplog) for _ in range(2)] == [1, 0]


def test_a_verified_archive_is_not_noted(root: Path, caplog: pytest.LogCaptureFixture, qarena: Qarena) -> None:
    assert qarena("archive", "verify", "--archive", str(root)).code == 0
    assert notes_of(root, caplog) == 0


def test_a_merge_notes_its_sources(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, qarena: Qarena
) -> None:
    assert qarena("archive", "merge", str(root), str(tmp_path / "own")).code == 0
    assert [str(root) in note for note in caplog.messages] == [True]
    assert notes_of(tmp_path / "own", caplog) == 0


def test_a_cache_that_cannot_be_written_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with visible_folder() as folder:
        monkeypatch.setenv("QARENA_CACHE", str(folder))
        root = Path(shutil.copytree(SAMPLE, folder / "received"))
        folder.chmod(0o555)
        with another_user():
            assert [notes_of(root, caplog) for _ in range(2)] == [1, 1]
