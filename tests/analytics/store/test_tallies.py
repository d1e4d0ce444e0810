"""Tallies as a table: what is stored is what was counted, and tables add up."""

from __future__ import annotations

import polars as pl

from analytics.statistics.tally import tally
from analytics.store.archive import Archive
from analytics.store.range_files import read_tallies, tallies_frame, tallies_of
from analytics.store.schema import TALLIES
from analytics.store.snapshot import Snapshot
from tests.analytics.naive_games import BLOCKS, PAIRINGS, RUN_ID, random_block, record, single_games, spec_of, store

KINDS = [*BLOCKS, random_block(5, 0, 30, 40, forfeits=0.9), single_games(2, 1, 90, 20)]


def test_tallies_survive_their_table_and_add_up() -> None:
    known = tally(KINDS)
    frame = tallies_frame(known)
    assert frame.schema == TALLIES
    assert tallies_of(frame) == known
    assert tallies_of(pl.concat([tallies_frame(tally([block])) for block in KINDS])) == known
    assert tallies_of(pl.DataFrame(schema=TALLIES)) == {}


def test_tallies_of_a_run_are_those_of_its_games_with_and_without_their_files(archive: Archive) -> None:
    expected = tally(BLOCKS)
    assert read_tallies(archive, RUN_ID) == expected
    for stored in archive.ranges(RUN_ID, "tallies"):
        archive.backend.remove(archive.folder("tallies", RUN_ID) / stored.name)
        assert read_tallies(archive, RUN_ID) == expected


def test_tallies_that_were_rolled_up_since_they_were_listed_are_counted(archive: Archive) -> None:
    seen = Snapshot(archive.root)
    assert len(seen.ranges(RUN_ID, "tallies")) == 2
    for stored in archive.ranges(RUN_ID, "tallies"):
        archive.backend.remove(archive.folder("tallies", RUN_ID) / stored.name)
    assert read_tallies(seen, RUN_ID) == tally(BLOCKS)


def test_games_without_twins_are_counted_from_their_rows(archive: Archive) -> None:
    fixed = record(spec_of(seats="fixed"))
    archive.save_run(fixed)
    block = single_games(4, 0, 0, 8)
    store(archive, fixed.run_id, [block], PAIRINGS)
    for stored in archive.ranges(fixed.run_id, "tallies"):
        archive.backend.remove(archive.folder("tallies", fixed.run_id) / stored.name)
    assert read_tallies(archive, fixed.run_id) == tally([block])
