"""The games that a policy was derived from: their ids are stored beside it, and found again in the archive.

``games.parquet`` has a row for each range of ids. The condition that chose them is not asked again, so games added
later change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.policies import policy_store
from analytics.query.selection import EVERYTHING, Selection, holds_any
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive, readable
from analytics.store.policy_cards import PolicyCard
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError

TABLE = "games"
MOST_LOST = 1 << 24  # games of a run that are looked for one by one: a forged card could name any number
RANGES = {"run_id": pl.String, "first_game": pl.Int64, "games": pl.Int64, "step": pl.Int64}


def ranges_of(ids_of_runs: Mapping[str, NDArray[np.int64]]) -> pl.DataFrame:
    """Ids of games, ascending, by run, as ranges: ``games`` ids from ``first_game`` on, ``step`` apart."""
    parts = []
    for run_id, ids in ids_of_runs.items():
        apart = np.diff(ids)
        step = 1 if (apart == 1).any() else 2  # 2: one game of each pair, as when an agent is chosen in one seat
        begins = np.flatnonzero(np.concatenate([[True], apart != step]))
        games = np.diff(np.concatenate([begins, [len(ids)]]))
        columns = {"run_id": [run_id] * len(begins), "first_game": ids[begins], "games": games}
        parts.append(pl.DataFrame({**columns, "step": np.full(len(begins), step)}, schema=RANGES))
    return pl.concat(parts)


def ids_of(ranges: pl.DataFrame) -> dict[str, NDArray[np.int64]]:
    """The ids in ranges, by run."""
    found = {}
    for (run_id,), rows in ranges.group_by("run_id", maintain_order=True):
        first, games, step = (rows[name].to_numpy() for name in ("first_game", "games", "step"))
        before = np.repeat(np.cumsum(games) - games, games)
        found[str(run_id)] = np.repeat(first, games) + (np.arange(games.sum()) - before) * np.repeat(step, games)
    return found


def sources_of(opened: OpenArchive, card: PolicyCard) -> Selection:
    """The games that a policy was derived from.

    Raises ``RequestError`` if the archive lacks any of them, or a file that they were in.
    """
    ranges = _ranges(opened.archive, card)
    records = {run_id: opened.archive.run(run_id) for run_id in card.learned["run_ids"]}
    wanted, runs = {}, []
    for run_id, record in records.items():
        if record is None:
            raise RequestError(
                f"policy '{card.name}' was derived from run {run_id}, which is no longer in archive "
                f"{opened.archive.root}: restore it, or name the archive that has it"
            )
        own = ranges.filter(run_id=run_id)
        games, held = own["games"].sum(), opened.archive.games_held(run_id)
        if games > held + MOST_LOST:
            raise RequestError(
                f"policy '{card.name}' was derived from {games:,} games of run {run_id}, and archive "
                f"{opened.archive.root} has {held:,}: repeat the command of the run to play them"
            )
        wanted[run_id] = ids = ids_of(own)[run_id]
        lost = _missing(opened.archive, record, ids)
        if lost.size:
            raise RequestError(
                f"policy '{card.name}' was derived from {len(ids):,} games of run {run_id}, {lost.size:,} of which "
                f"(the first is game {lost[0]}) are no longer in archive {opened.archive.root}: "
                "repeat the command of the run to play them"
            )
        gone = _gone(opened.archive, record, ids)
        if gone is not None:
            raise RequestError(
                f"policy '{card.name}' was derived from games of run {run_id}, and {gone}, in which some of them were, "
                "is missing: restore it from a copy"
            )
        runs.append(readable(record))
    counts = tuple(len(wanted[record.run_id]) for record in runs)
    return Selection(opened, EVERYTHING, tuple(runs), counts, wanted)


def _ranges(archive: Archive, card: PolicyCard) -> pl.DataFrame:
    """The ranges of a card. Raises ``RequestError`` for a table that no derivation stores."""
    ranges = policy_store.read_table(archive, card, TABLE)
    wrong = "other columns" if ranges.schema != pl.Schema(RANGES) else None
    if (
        not wrong
        and ranges.filter(
            (pl.col("first_game") < 0) | ~pl.col("games").is_between(1, 2 * MAX_PAIRS) | ~pl.col("step").is_in([1, 2])
        ).height
    ):
        wrong = "a range that holds no games"
    if not wrong and set(ranges["run_id"]) != set(card.learned["run_ids"]):
        wrong = "other runs"
    if wrong:
        raise RequestError(f"policy '{card.name}' is damaged: {TABLE}.parquet has {wrong}; build it again")
    return ranges


def _missing(archive: Archive, record: RunRecord, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ids that the run does not hold."""
    return ids[~archive.ranges(record.run_id).holds(record.line.units_of(ids))]


def _gone(archive: Archive, record: RunRecord, ids: NDArray[np.int64]) -> str | None:
    """The file of plies that a range with some of the ids lacks, if any; a range counts by its file of games."""
    for stored in archive.ranges(record.run_id):
        if holds_any(record, stored, ids):
            try:
                archive.path("plies", record.run_id, stored)
            except FileNotFoundError as error:
                return str(error)
    return None
