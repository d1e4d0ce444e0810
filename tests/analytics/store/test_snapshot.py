"""What one reader sees while others write, and the bytes that it has checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.store.archive import Archive
from analytics.store.marker import CheckedFile, first_damaged
from analytics.store.records import SweepJob
from analytics.store.snapshot import Snapshot
from quarto.errors import FailureError
from tests.analytics.naive_games import BLOCKS, RUN_ID, random_block, record, spec_of, store
from tests.object_storage import BOTH


@BOTH
def test_a_snapshot_stays_as_it_was_while_others_write(archive: Archive) -> None:
    seen = Snapshot(archive.root)
    games, known = [*seen.ranges(RUN_ID)], seen.run(RUN_ID)
    other = record(spec_of(seed=8))
    archive.save_run(other)
    store(archive, RUN_ID, [random_block(1, pairing, 8) for pairing in range(3)])
    archive.save_run(record(status="complete"))
    archive.save_sweep_job(SweepJob("s", 0))
    assert archive.ranges(RUN_ID).units == 48
    assert [*seen.ranges(RUN_ID)] == games
    assert (seen.run(RUN_ID), seen.run_ids(), seen.recorded()) == (known, [RUN_ID], [RUN_ID])
    assert (seen.sweep_jobs(), seen.cards(), seen.verdicts()) == ([], [], [])
    assert seen.ranges(RUN_ID, "tallies").units == 24
    assert seen.run(other.run_id) is None
    assert not list(seen.ranges(other.run_id))


@BOTH
def test_a_snapshot_never_has_games_without_the_record_of_their_run(archive: Archive) -> None:
    """A run begins between its look at the records and its look at the games."""
    other = record(spec_of(seed=8))

    begin = Archive.run_ids
    with pytest.MonkeyPatch.context() as patch:

        def late(self: Archive) -> list[str]:
            patch.undo()
            archive.save_run(other)
            store(archive, other.run_id, BLOCKS)
            return begin(self)

        patch.setattr(Archive, "run_ids", late)
        seen = Snapshot(archive.root)
    assert all(seen.run(run_id) for run_id in seen.run_ids())


def test_a_snapshot_raises_for_a_damaged_record_when_it_is_asked_for(archive: Archive) -> None:
    archive.backend.replace(archive.record_file(RUN_ID), b"{")
    seen = Snapshot(archive.root)
    assert seen.ranges(RUN_ID).units == 24
    with pytest.raises(FailureError, match="is damaged"):
        seen.run(RUN_ID)


# Checked files.


@BOTH
def test_a_file_is_hashed_once_and_again_when_it_was_touched(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    sound = vars(CheckedFile)["is_sound"].fget

    def note(file: CheckedFile) -> bool:
        hashed.append(file.name)
        return bool(sound(file))

    monkeypatch.setattr(CheckedFile, "is_sound", property(note))
    files = [
        CheckedFile(
            RUN_ID,
            archive.path(table, RUN_ID, each),
            archive.path(table, RUN_ID, each).suffixes[-2][1:],
            archive.backend,
        )
        for table in ("games", "plies")
        for each in archive.ranges(RUN_ID)
    ]
    assert first_damaged(archive.root, files) is first_damaged(archive.root, files) is None
    if archive.backend.checks_bytes:  # a store compares them itself
        assert hashed == []
        archive.backend.remove(files[2].path)
        assert first_damaged(archive.root, files) == files[2]
        return
    assert sorted(hashed) == sorted(file.name for file in files)
    content = Path(files[2].path).read_bytes()
    archive.backend.replace(files[2].path, content)
    assert first_damaged(archive.root, files) is None
    assert len(hashed) == 5
    archive.backend.replace(files[2].path, content[:-1] + bytes([content[-1] ^ 1]))
    assert first_damaged(archive.root, files) == files[2]
    archive.backend.remove(files[1].path)
    assert first_damaged(archive.root, files[:2]) == files[1]
