"""Derived tables for tests: an index of positions, and verdicts and decisions that were made up."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import polars as pl

from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.statistics.sprt import Hypotheses, SequentialTest
from analytics.store import policy_store, sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import SweepJob
from analytics.store.schema import EVALUATIONS_SCHEMA
from analytics.tables.derived.decisions import DECISIONS, DECISIONS_TABLE, AnnotationExtent
from analytics.tables.derived.definitions import (
    END_PLY,
    EVALUATIONS_TABLE,
    FIRST_PLIES_TABLE,
    POSITIONS_TABLE,
    derive_first_plies,
    derive_stored_positions,
    format_extent,
)
from analytics.tables.derived.indexing import index_runs
from analytics.tables.verification.games import Problem
from tests.analytics.stored_policies import COUNTS, CURVE, origin


def index(
    archive: ArchiveStore, end_ply: int = END_PLY, wanted: Callable[[StoredRange], bool] = lambda _stored: True
) -> None:
    """Index the positions of plies before ``end_ply``, and count the first plies, of some ranges of all runs."""
    for run_id in archive.list_ids_of_runs_with_games():
        record = archive.load_run(run_id)
        for stored in filter(wanted, archive.list_effective_ranges(run_id)):
            positions = derive_stored_positions(archive, record, stored, range(end_ply))
            POSITIONS_TABLE.write(archive, run_id, stored, positions, format_extent(end_ply))
            FIRST_PLIES_TABLE.write(
                archive, run_id, stored, derive_first_plies(read_rows(archive, run_id, stored, "plies"))
            )


def write_draw_evaluations(archive: ArchiveStore, run_id: str) -> None:
    """Store that each player of a run expected a draw, after no time, at each of its plies."""
    for stored in archive.list_effective_ranges(run_id):
        plies, games = (read_rows(archive, run_id, stored, table) for table in ("plies", "games"))
        free = plies.join(games.select("game_id", "opening"), on="game_id", maintain_order="left")
        rows = free.filter(pl.col("ply") >= pl.col("opening")).with_columns(value=0, visits=1, microseconds=0)
        rows = rows.select(pl.col(name).cast(kind) for name, kind in EVALUATIONS_SCHEMA.items())
        EVALUATIONS_TABLE.write(archive, run_id, stored, rows)


def save_verdict(archive: ArchiveStore, run_id: str) -> None:
    """Store what a sequential test of a run says after eight pairs that the first agent won."""
    trial = SequentialTest(Hypotheses(), 8)
    trial.add_outcomes(np.full(8, 4, np.int8))
    sprt_verdicts.write_verdict_and_list_in_run(
        archive, sprt_verdicts.SprtVerdict.from_test(run_id, trial, "qarena sprt")
    )


def save_own_verdict(archive: ArchiveStore, run_id: str) -> None:
    """Store the verdict of a sequential test on the games of a run."""
    trial = sprt_verdicts.run_sequential_test(archive, run_id, Hypotheses(0, 50), 8)
    sprt_verdicts.write_verdict_and_list_in_run(
        archive, sprt_verdicts.SprtVerdict.from_test(run_id, trial, "qarena sprt")
    )


def derive_all(archive: ArchiveStore, run_id: str, from_pieces: int) -> None:
    """Index a run, annotate boards with so many pieces or more, and add a sweep, a verdict and a policy."""
    index_runs(archive, [run_id], 2)
    annotate_runs(archive, [run_id], AnnotationOptions(from_pieces=from_pieces, megabytes=1.0))
    archive.write_sweep_job(SweepJob("sweep", 0, {"games": "16"}, run_id, jobs=1))
    save_own_verdict(archive, run_id)
    policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))


def about_values(problem: Problem) -> bool:
    """Return whether a problem is about the values of decisions, which ``decide`` makes up."""
    return "do not fit together" in problem.fault or "in truth" in problem.fault


def decide(archive: ArchiveStore, run_id: str, seed: int = 5) -> pl.DataFrame:
    """Store decisions of a run's games, their values made up; the rows by the schema ``DECISIONS``."""
    frames = []
    for stored in archive.list_effective_ranges(run_id):
        rows = []
        for game_id, ply in read_rows(archive, run_id, stored, "plies").select("game_id", "ply").iter_rows():
            dice = random.Random(f"{seed} {game_id} {ply}")
            for kind in (0, 1):
                before = dice.choice((0, 1))
                after = dice.randrange(-1, before + 1)
                rows.append((game_id, ply, kind, (ply + kind) % 2, before, after, -1, 16 - ply))
        frame = pl.DataFrame(rows, schema=DECISIONS, orient="row").sort("ply", "kind", "game_id")
        DECISIONS_TABLE.write(archive, run_id, stored, frame, AnnotationExtent().text)
        frames.append(frame)
    return pl.concat(frames)
