"""What one reader sees while others write."""

from __future__ import annotations

import pytest

from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.store.snapshot import Snapshot
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
