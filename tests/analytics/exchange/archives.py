"""Archives for tests of export: the same games in different shards, and their content by the SQL views."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analytics import open_archive
from analytics.store.archive import Archive
from analytics.store.records import RunRecord
from quarto.batch import Block, Games
from quarto.rules import Rules
from tests import naive
from tests.analytics.naive_games import PAIRINGS, random_block, record, single_games, spec_of

SQUARE: Rules = naive.PRESETS["square"]
RUNS = (
    record(created="2026-11-21T08:00:00+00:00"),
    record(spec_of(rules=SQUARE, seed=8), created="2026-11-21T09:00:00+00:00"),
    record(spec_of(seats="fixed", seed=9), created="2026-11-21T10:00:00+00:00"),
)


def blocks_of(run: RunRecord, pairs: int = 12) -> list[Block]:
    """All games of one of the runs: of each pairing one block."""
    if not run.swapped:
        return [single_games(3, pairing, 0, pairs) for pairing in range(3)]
    return [random_block(run.spec["seed"], pairing, 0, pairs, run.rules, forfeits=0.2) for pairing in range(3)]


def parts_of(block: Block, pairs: int) -> list[Block]:
    """A block in blocks of so many pairs."""
    found = []
    for first in range(0, block.pairs, pairs):
        rows = slice(first * block.games_a_pair, (first + pairs) * block.games_a_pair)
        pieces, cells, *columns = block.games
        games = Games(pieces[:, rows], cells[:, rows], *(column[rows] for column in columns))
        found.append(Block(block.pairing, block.first_pair + first, block.opening, games, block.swapped))
    return found


def archive_of(root: Path, pairs_a_shard: int | None = None) -> Path:
    """An archive of the three runs: each in one shard, or in many, committed in an order that nobody would choose."""
    archive = Archive.open(root, create=True)
    for run in RUNS:
        archive.save_run(run)
        blocks = blocks_of(run)
        if pairs_a_shard is None:
            archive.commit(run.run_id, blocks, PAIRINGS)
            continue
        parts = [part for block in blocks for part in parts_of(block, pairs_a_shard)]
        for part in (*parts[1::2], *parts[0::2][::-1]):
            archive.commit(run.run_id, [part], PAIRINGS)
    return root


def games_of(root: Path, where: str = "true") -> pl.DataFrame:
    """The rows of ``games`` and, as lists, their plies: all but the names that an archive gives to games."""
    question = f"""
        SELECT rules, agent_0, agent_1, winner, games.plies, opening, ending,
               (SELECT list(piece ORDER BY ply) FROM plies WHERE (plies.run_id, plies.game_id) = (games.run_id, id)),
               (SELECT list(cell ORDER BY ply) FROM plies WHERE (plies.run_id, plies.game_id) = (games.run_id, id))
        FROM (SELECT *, game_id AS id FROM games WHERE {where}) AS games JOIN runs USING (run_id) ORDER BY ALL
    """
    with open_archive(root) as opened:
        return opened.sql(question)
