"""Runs as trainings play them, and policies that learned in them, written without playing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import policy_folder
from analytics.store.policy_store import PolicyOrigin
from quarto.rules import CLASSIC
from tests.analytics.naive_games import build_spec, record, single_games, store
from tests.analytics.stored_policies import GENES, LEARNED

PAIRINGS = [("random", "learner(training)")]


def write_run(
    archive: ArchiveStore, seed: int, training: bool = True, pairings: Sequence[tuple[str, str]] = PAIRINGS
) -> str:
    """Write a run of one pairing with fixed seats, as trainings play it; return its id."""
    run = record(
        build_spec(pairings=pairings, seed=seed, seats="fixed"), games=20, training=training, status="complete"
    )
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [single_games(seed, pairs=20)], pairings)
    return run.run_id


def write_policy(archive: ArchiveStore, name: str, run_ids: list[str], curve: pl.DataFrame, **learned: Any) -> Path:
    """Store a policy that learned in these runs; return its folder."""
    origin = PolicyOrigin(
        name, CLASSIC, {"version": "0.1.0"}, LEARNED | {"run_ids": run_ids} | learned, {"curve": curve}
    )
    card = policy_store.save(archive, GENES, origin)
    return Path(policy_folder(archive, card.policy_id))
