"""Games by pairing: in the order of their ids whatever fits into memory, and files are read as seldom as it allows."""

from pathlib import Path

import numpy as np
import pytest

from analytics.query import selection
from analytics.query.selection import parts_of, read_chosen, read_in_order
from analytics.store.archive import Archive
from analytics.store.blocks import RangeGames
from tests.analytics.naive_games import BLOCKS, Pairings, record, single_games, spec_of, store

IMPORTED = {"event": "", "date": "", "sha256": "ab" * 32}
CUP: Pairings = [("ann", "bob"), ("bob", "cy"), ("cy", "ann")]
RUNS = (
    (record(), BLOCKS),
    (
        record(spec_of(pairings=CUP, seats="fixed", imported=IMPORTED)),
        [single_games(1, 2, 0), single_games(1, 1, 8, 5)],
    ),
)


@pytest.mark.parametrize(("memory", "most_reads"), [(1, None), (20, None), (1 << 21, 1)])
@pytest.mark.parametrize("run", [0, 1], ids=["played", "imported"])
@pytest.mark.parametrize("chosen", [None, 3])
def test_games_come_by_pairing_and_files_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, most_reads: int | None, run: int, chosen: int | None
) -> None:
    monkeypatch.setattr(selection, "IN_MEMORY", memory)
    archive, (known, blocks) = Archive.open(tmp_path / "archive", create=True), RUNS[run]
    archive.save_run(known)
    ranges = store(archive, known.run_id, blocks, known.pairings, most=4)
    every = [read_chosen(archive, known.run_id, stored, None).game_id for stored in ranges]
    ids = sorted(int(game) for each in every for game in each)[::chosen]
    wanted = None if chosen is None else np.array(ids)
    reads = []

    def read(number: int) -> RangeGames:
        reads.append(number)
        return read_chosen(archive, known.run_id, ranges[number], wanted)

    parts = [(n, part) for n, stored in enumerate(ranges) for part in parts_of(archive, known, stored, wanted)]
    parts.sort(key=lambda each: each[1])
    found = [*read_in_order(parts, read)]
    assert [game for each in found for game in each.game_id.tolist()] == ids
    assert [len(each.game_id) for each in found] == [part.games for _, part in parts]
    assert all(each.games.pieces.flags.c_contiguous for each in found)
    assert most_reads is None or len(reads) == len(set(reads)) * most_reads
    assert memory > 1 or len(reads) == len(parts)
