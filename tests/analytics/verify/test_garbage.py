import os
import re
import time
from pathlib import Path

import pytest

from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.verify.archive import verify
from analytics.verify.garbage import GRACE_SECONDS, remove, unreferenced_files
from quarto.errors import FailureError
from tests.analytics.naive_games import RUN_ID


def litter(archive: Archive, old: bool = True) -> tuple[list[Path], list[Path]]:
    """Files as crashes leave them, and files that somebody else put there."""
    part = f"part-000009-{'a' * 32}.parquet"
    ours = [archive.folder(table, RUN_ID) / name for table in ("games", "plies") for name in (part, f".tmp-{'b' * 32}")]
    ours += [archive.folder("commits", RUN_ID) / f".tmp-{'c' * 32}", archive.root / "runs" / f".tmp-{'d' * 32}"]
    ours += [archive.root / f".tmp-{'e' * 32}"]
    foreign = [archive.root / "notes.txt", archive.folder("games", RUN_ID) / "part-1.parquet"]
    foreign += [
        archive.folder("commits", RUN_ID) / part,
        archive.root / "games" / part,
        archive.root / "runs" / "x.json",
    ]
    for path in [*ours, *foreign]:
        path.write_bytes(b"12345")
        if old:
            os.utime(path, (time.time() - GRACE_SECONDS - 60,) * 2)
    return sorted(ours), sorted(foreign)


def test_what_no_commit_names_is_found_and_only_ours_removed(archive: Archive) -> None:
    archive.save_sweep_job(SweepJob("s", 0))
    ours, foreign = litter(archive)
    found = unreferenced_files(archive)
    assert [file.path for file in found] == sorted([*ours, *foreign])
    assert [file.path for file in found if file.ours] == ours
    assert all(file.bytes == 5 and file.age_seconds > GRACE_SECONDS for file in found)
    assert sorted(file.path for file in remove(found)) == ours
    assert [file.path for file in unreferenced_files(archive)] == foreign
    assert not verify(archive).problems


def test_young_files_may_belong_to_a_writer(archive: Archive) -> None:
    ours, _ = litter(archive, old=False)
    assert remove(unreferenced_files(archive)) == []
    assert all(path.exists() for path in ours)
    assert len(remove(unreferenced_files(archive), older_than_seconds=-1)) == len(ours)


def test_files_of_a_missing_commit_are_garbage(archive: Archive) -> None:
    games, plies = archive.committed_files("games")[1], archive.committed_files("plies")[1]
    (archive.folder("commits", RUN_ID) / "000001.json").unlink()
    assert sorted(file.path for file in unreferenced_files(archive)) == [games, plies]


def test_with_a_damaged_commit_nothing_is_called_garbage(archive: Archive) -> None:
    path = archive.folder("commits", RUN_ID) / "000001.json"
    path.write_text("{")
    with pytest.raises(FailureError, match=re.escape(str(path))):
        unreferenced_files(archive)


def test_other_parts_of_the_archive_are_left_alone(archive: Archive) -> None:
    other = archive.root / "notebooks" / "p1"
    other.mkdir(parents=True)
    (other / "table.parquet").write_bytes(b"x")
    assert unreferenced_files(archive) == []
