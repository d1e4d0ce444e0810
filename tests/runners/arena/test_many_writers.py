"""Several processes with several threads play one run at once: each pair counts once, the games are those of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import open_archive
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from tests.runners.experiments import command, start

RUN = ("run", "agent@a=rule_based", "agent@b=random", "seed=7", "archive.shard_games=100")


@pytest.mark.parametrize(
    ("rounds", "games"), [(1, 4000), pytest.param(10, 20000, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_three_processes_with_two_threads_add_up_to_one_thread(rounds: int, games: int, tmp_path: Path) -> None:
    asked = (*RUN, f"games={games}")
    assert command(tmp_path, *asked, "threads=1", "archive.root=one").returncode == 0
    one = Archive.open(tmp_path / "one")
    (run_id,) = one.run_ids()
    for number in range(rounds):
        writers = [start(tmp_path, *asked, "threads=2", f"archive.root=many-{number}") for _ in range(3)]
        for writer in writers:
            _, err = writer.communicate(timeout=300)
            assert writer.returncode == 0, err
        many = Archive.open(tmp_path / f"many-{number}")
        assert many.ranges(run_id).fingerprint == one.ranges(run_id).fingerprint
        assert many.games_held(run_id) == games
        assert verify(many).problems == []
        with open_archive(many.root) as archive:
            counted = archive.sql("SELECT count(*) AS games, count(DISTINCT game_id) AS distinct_games FROM games")
        assert counted.rows() == [(games, games)]
