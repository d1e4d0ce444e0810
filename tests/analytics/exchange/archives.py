"""Archives for tests of export: the same games in other files, and their content by the SQL views."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.store.ranges import LARGEST_RANGE
from analytics.store.records import RunRecord
from quarto.batch import Block
from quarto.rules import Rules
from tests import naive
from tests.analytics.naive_games import build_spec, random_block, record, single_games, store

SQUARE: Rules = naive.PRESETS["square"]
RUNS = (
    record(created="2026-11-21T08:00:00+00:00"),
    record(build_spec(rules=SQUARE, seed=8), created="2026-11-21T09:00:00+00:00"),
    record(build_spec(seats="fixed", seed=9), created="2026-11-21T10:00:00+00:00"),
)


def blocks_of(run: RunRecord, pairs: int = 8) -> list[Block]:
    """Draw all games of one of the runs, a block for each pairing."""
    if not run.swapped:
        return [single_games(3, pairing, 0, pairs) for pairing in range(3)]
    return [random_block(run.spec["seed"], pairing, 0, pairs, run.rules, forfeits=0.2) for pairing in range(3)]


def archive_of(root: Path, most: int = LARGEST_RANGE) -> Path:
    """Write an archive of the three runs, each in files of at most ``most`` units."""
    archive = ArchiveStore.open(root, create=True)
    for run in RUNS:
        archive.write_run_and_unit_count(run)
        store(archive, run.run_id, blocks_of(run), most=most)
    return root


def games_of(root: Path, where: str = "true") -> pl.DataFrame:
    """Read the rows of ``games`` and, as lists, their plies: all but the names that an archive gives to games."""
    question = f"""
        SELECT rules, agent_0, agent_1, winner, games.plies, opening, ending,
               (SELECT list(piece ORDER BY ply) FROM plies WHERE (plies.run_id, plies.game_id) = (games.run_id, id)),
               (SELECT list(cell ORDER BY ply) FROM plies WHERE (plies.run_id, plies.game_id) = (games.run_id, id))
        FROM (SELECT *, game_id AS id FROM games WHERE {where}) AS games ORDER BY ALL
    """
    with open_archive(root) as opened:
        return opened.sql(question)
