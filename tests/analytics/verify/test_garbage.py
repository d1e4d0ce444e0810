import errno
import fcntl
import re
import time
from pathlib import PurePath

import pytest

from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.files.local import LOCAL
from analytics.files.pending import PendingFiles
from analytics.policies import policy_store
from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.verify.archive import verify
from analytics.verify.garbage import UnreferencedFile, named_files, remove, seconds_of, unreferenced_files
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import contents
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block
from tests.analytics.stored_policies import COUNTS, CURVE, origin
from tests.object_storage import BOTH

HOUR = seconds_of("1h")


def litter(archive: Archive) -> tuple[list[PurePath], list[PurePath]]:
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
        archive.backend.replace(path, b"12345")
    return sorted(ours), sorted(foreign)


@BOTH
def test_what_no_commit_names_is_found_and_only_ours_removed(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.save_sweep_job(SweepJob("s", 0))
    ours, foreign = litter(archive)
    now = archive.backend.clock(archive.root)
    monkeypatch.setattr(archive.backend, "clock", lambda root: now + HOUR + 60)
    found = unreferenced_files(archive)
    assert [file.path for file in found] == sorted([*ours, *foreign])
    assert [file.path for file in found if file.ours] == ours
    assert all(file.bytes == 5 and file.age_seconds > HOUR and not file.in_use for file in found)
    assert sorted(file.path for file in remove(archive, found, HOUR)) == ours
    assert [file.path for file in unreferenced_files(archive)] == foreign
    assert not verify(archive).problems


@BOTH
def test_young_files_may_belong_to_a_writer(archive: Archive) -> None:
    ours, _ = litter(archive)
    assert remove(archive, unreferenced_files(archive), HOUR) == []
    assert all(archive.backend.status(path) for path in ours)
    assert len(remove(archive, unreferenced_files(archive), 0)) == len(ours)


@BOTH
def test_files_of_a_missing_commit_are_garbage(archive: Archive) -> None:
    games, plies = archive.committed_files("games")[1], archive.committed_files("plies")[1]
    archive.backend.remove(archive.folder("commits", RUN_ID) / "000001.json")
    assert sorted(file.path for file in unreferenced_files(archive)) == [games, plies]


@BOTH
def test_with_a_damaged_commit_nothing_is_called_garbage(archive: Archive) -> None:
    path = archive.folder("commits", RUN_ID) / "000001.json"
    archive.backend.replace(path, b"{")
    with pytest.raises(FailureError, match=re.escape(str(path))):
        unreferenced_files(archive)


@BOTH
def test_other_parts_of_the_archive_are_left_alone(archive: Archive) -> None:
    other = archive.root / "notebooks" / "p1"
    archive.backend.replace(other / "table.parquet", b"x")
    assert unreferenced_files(archive) == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172800)]
)
def test_an_age_has_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1 h", "1w", "one hour", "1e3"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=f"--age {text} is not a time"):
        seconds_of(text)


# Writers that were suspended when their files were stored and the small file that names them was not there yet.


def clear(archive: Archive) -> int:
    """Remove what nobody names or keeps, however young; returns the number of files."""
    return len(remove(archive, unreferenced_files(archive), 0))


@pytest.fixture
def suspended(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of files that were removed while a writer waited, just before its last step."""
    removed: list[int] = []
    check = PendingFiles.check

    def wait(pending: PendingFiles) -> None:
        removed.append(clear(archive))
        check(pending)

    monkeypatch.setattr(PendingFiles, "check", wait)
    return removed


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_the_files_of_a_suspended_writer_are_kept_however_old(archive: Archive, suspended: list[int]) -> None:
    assert archive.commit(RUN_ID, [random_block(1, 0, 50)], PAIRINGS)
    assert suspended == [0]
    assert verify(archive).problems == []


@BOTH
def test_what_names_no_file_that_is_gone_is_committed(
    archive: Archive, suspended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_locks(monkeypatch)
    before = contents(archive)
    with pytest.raises(FailureError, match="it was removed while in use: run the same command again"):
        archive.commit(RUN_ID, [random_block(1, 0, 50)], PAIRINGS)
    assert suspended == [3 if archive.backend is LOCAL else 2]  # the commit has no temporary file in a bucket
    assert contents(archive) == before
    monkeypatch.undo()
    assert archive.commit(RUN_ID, [random_block(1, 0, 50)], PAIRINGS)
    assert verify(archive).problems == []


def test_the_files_of_a_suspended_annotator_and_of_a_suspended_policy_are_kept(
    archive: Archive, suspended: list[int]
) -> None:
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    assert verify(archive).problems == []
    assert suspended == [0, 0, 0]


@BOTH
def test_a_file_that_was_named_after_it_was_listed_stays(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer commits, and lets its files go, between the list and the removal."""
    listed: list[UnreferencedFile] = []
    check = PendingFiles.check

    def wait(pending: PendingFiles) -> None:
        without_locks(monkeypatch)  # so that the list does not say that they are in use
        listed.extend(unreferenced_files(archive))
        monkeypatch.undo()
        check(pending)

    monkeypatch.setattr(PendingFiles, "check", wait)
    assert archive.commit(RUN_ID, [random_block(1, 0, 50)], PAIRINGS)
    assert len(listed) == (3 if archive.backend is LOCAL else 2)
    assert remove(archive, listed, 0) == []
    assert verify(archive).problems == []


@BOTH
def test_ages_are_told_by_the_clock_of_the_files(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's clock is two hours ahead of the file system's."""
    clock = time.time
    litter(archive)
    monkeypatch.setattr(time, "time", lambda: clock() + 2 * HOUR)
    assert remove(archive, unreferenced_files(archive), HOUR) == []
    assert named_files(archive) <= set(archive.backend.below(archive.root))
