from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analytics.store.archive import Archive
from analytics.store.range_files import read_games, read_rows, scatter
from quarto.errors import FailureError
from tests.analytics.folders import forge
from tests.analytics.naive_games import PAIRINGS, RUN_ID, naive_rows, random_block


def test_a_shard_is_read_as_it_was_played(archive: Archive) -> None:
    games, plies = naive_rows([random_block(1, 0, 8, 4), random_block(1, 2, 0)], PAIRINGS)
    shard = read_games(archive, RUN_ID, archive.commits(RUN_ID)[1])
    frame = read_rows(archive, RUN_ID, archive.commits(RUN_ID)[1], "games")
    assert shard.game_id.tolist() == [row[0] for row in games]
    assert shard.pairing.tolist() == frame["pairing"].to_list()
    assert shard.games.plies.tolist() == frame["plies"].to_list()
    assert shard.games.winner.tolist() == frame["winner"].to_list()
    assert shard.opening.tolist() == frame["opening"].to_list()
    column = {game: at for at, game in enumerate(shard.game_id.tolist())}
    for game, _, ply, _, piece, cell, _ in plies:
        assert (shard.games.pieces[ply, column[game]], shard.games.cells[ply, column[game]]) == (piece, cell)
    taken = shard.taken(np.array([3, 1]))
    assert taken.game_id.tolist() == [shard.game_id[3], shard.game_id[1]]
    assert taken.games.pieces.tolist() == shard.games.pieces[:, [3, 1]].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_scatter_does_what_its_slow_twin_does(seed: int) -> None:
    dice = random.Random(seed)
    plies = np.array([dice.randrange(17) for _ in range(30)], np.int8)
    rows = [(ply, game) for ply in range(16) for game in range(30) if ply < plies[game]]
    values = np.array([dice.randrange(16) for _ in rows], np.int8)
    matrix = np.full((16, 30), -1, np.int8)
    scatter(values, plies, matrix)
    expected = np.full((16, 30), -1, np.int8)
    for (ply, game), value in zip(rows, values.tolist(), strict=True):
        expected[ply, game] = value
    assert np.array_equal(matrix, expected)


@pytest.mark.parametrize("table", ["games", "plies"])
def test_a_damaged_file_is_named_with_what_to_do(archive: Archive, table: str) -> None:
    path = archive.committed_files(table)[0]
    Path(path).write_bytes(Path(path).read_bytes()[::-1])
    with pytest.raises(FailureError, match=rf"{path.name} has another SHA-256 .*: see 'qarena archive verify'$"):
        read_games(archive, RUN_ID, archive.commits(RUN_ID)[0])


def test_rows_that_are_not_as_many_as_the_games_have_plies_are_an_error(archive: Archive) -> None:
    path = archive.committed_files("plies")[0]
    pl.read_parquet(Path(path), hive_partitioning=False).head(-1).write_parquet(Path(path))
    content, commit = Path(path).read_bytes(), archive.folder("commits", RUN_ID) / "000000.json"
    stored = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forge(Path(commit), lambda values: values["plies"].update(stored, rows=values["plies"]["rows"] - 1))
    with pytest.raises(FailureError, match=r"has \d+ rows, the games of its shard have \d+ plies: see 'qarena archive"):
        read_games(archive, RUN_ID, archive.commits(RUN_ID)[0])
