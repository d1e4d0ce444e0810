"""An archive with games of all kinds for figures and reports, and the same games as rows of plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_store import PolicyOrigin
from analytics.store.ranges import LARGEST_RANGE
from analytics.store.records import RunRecord
from quarto.batch import Block
from quarto.rules import CLASSIC, Rules
from tests.analytics.indexed import decide
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    Pairings,
    build_spec,
    naive_rows,
    random_block,
    record,
    single_games,
    store,
)
from tests.analytics.stored_policies import GENES, LEARNED
from tests.naive import PRESETS

Row = dict[str, Any]
CREATED = "2026-11-21T05:07:00+00:00"
GAME = ("game_id", "pair_id", "pairing", "agent_0", "agent_1", "winner", "plies", "opening", "ending")
PLY = ("game_id", "pairing", "ply", "seat", "piece", "cell", "outcome")
EDGE = [("<script>alert('x')</script>", "a & b \"c\" 'd'"), ("random", "random")]  # hostile, and against itself


@dataclass(frozen=True)
class Played:
    """A run: its record and its blocks."""

    record: RunRecord
    blocks: Sequence[Block]
    pairings: Pairings

    @property
    def rules(self) -> Rules:
        return self.record.rules


def _run(rules: Rules, blocks: Sequence[Block], pairings: Pairings = PAIRINGS, **spec: Any) -> Played:
    run_record = record(build_spec(rules, pairings, **spec), created=CREATED, status="complete")
    return Played(run_record, blocks, pairings)


def _with_opening(block: Block) -> Block:
    return block._replace(opening=1)


RUNS = (
    _run(CLASSIC, BLOCKS),
    _run(
        PRESETS["square"], [_with_opening(random_block(2, 0, 0, 6, PRESETS["square"]))], PAIRINGS[:1], opening_plies=1
    ),
    _run(PRESETS["own_piece"], [single_games(3), single_games(4, 1, pairs=12)], EDGE, seats="fixed"),
)


def write_archive(root: Path, runs: Sequence[Played] = RUNS, most: int = LARGEST_RANGE) -> ArchiveStore:
    archive = ArchiveStore.open(root, create=True)
    for run in runs:
        archive.write_run_and_unit_count(run.record)
        store(archive, run.record.run_id, run.blocks, run.pairings, most)
    return archive


def select_rows(runs: Sequence[Played], keep: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
    """Return the games that ``keep`` wants and their plies."""
    games: list[Row] = []
    plies: list[Row] = []
    for run in runs:
        game_rows, moves = naive_rows(run.blocks, run.pairings)
        own = {"run_id": run.record.run_id, "rules": run.rules.name}
        of_run = [dict(zip(GAME, row, strict=True)) | own for row in game_rows]
        kept_games = {row["game_id"]: row for row in of_run if keep(row)}
        games += kept_games.values()
        plies += [
            kept_games[row[0]] | dict(zip(PLY, row, strict=True)) | {"length": kept_games[row[0]]["plies"]}
            for row in moves
            if row[0] in kept_games
        ]
    return games, plies


SPLIT = f"run_id <> '{RUNS[1].record.run_id}' AND game_id % 3 <> 0 OR agent_1 = 'rule_based' -- part of the pairs"
CHOICES: tuple[tuple[str | None, Callable[[Row], bool]], ...] = (
    (None, lambda row: True),
    ("agent_0 = 'random'", lambda row: row["agent_0"] == "random"),
    (f"run_id = '{RUNS[1].record.run_id}'", lambda row: row["run_id"] == RUNS[1].record.run_id),
    (
        SPLIT,
        lambda row: (
            (row["run_id"] != RUNS[1].record.run_id and row["game_id"] % 3 != 0) or row["agent_1"] == "rule_based"
        ),
    ),
)


def add_decisions(archive: ArchiveStore, seed: int = 5) -> list[Row]:
    """Store made-up decisions of the first run's games; return the rows that the view ``decisions`` should have."""
    games, plies = select_rows(RUNS[:1], lambda _row: True)
    games_by_id = {row["game_id"]: row for row in games}
    of_plies = {(row["game_id"], row["ply"]): row for row in plies}
    rows = []
    for game_id, ply, kind, seat, before, after, _, _ in decide(archive, RUNS[0].record.run_id, seed).iter_rows():
        own = {
            "agent": games_by_id[game_id][f"agent_{seat}"],
            "kind": ("gift", "placement")[kind],
            "regret": before - after,
        }
        rows.append(own | of_plies[game_id, ply])
    return rows


BY_GAMES = pl.DataFrame(
    {
        "first_game": [0, 10, 20],
        "games": [10, 10, 5],
        "wins": [2, 5, 4],
        "draws": [1, 0, 0],
        "losses": [7, 5, 1],
        "win_rate": [0.2, 0.5, 0.8],
    }
)
BY_GENERATIONS = pl.DataFrame({"generation": [0, 1], "games": [4, 4], "best": [0.5, 0.75], "mean": [0.25, 0.5]})


def add_policies(archive: ArchiveStore) -> None:
    """Store two policies that learned in the first run, each with a curve, and one of a run that is not there."""
    learned = LEARNED | {"run_ids": [RUNS[0].record.run_id]}
    for name, curve, of in (
        ("rising", BY_GAMES, learned),
        ("bred", BY_GENERATIONS, learned | {"trainer": "ga2"}),
        ("foreign", BY_GAMES, LEARNED),
    ):
        policy_store.save(archive, GENES, PolicyOrigin(name, CLASSIC, {"version": "0.1.0"}, of, {"curve": curve}))
