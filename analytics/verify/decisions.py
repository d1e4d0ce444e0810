"""Are the decisions in the archive what they claim to be? Everything but the values, which only solving again can tell.

Of the values it is checked that they fit together: what a gift leaves its giver is what the opponent does not have, and
what a placement leaves is what its player has at the next gift.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import Archive
from analytics.store.decisions import Annotation, annotation_files, frame_of, record_of
from analytics.store.exact_values import Judged
from analytics.store.json_records import load
from analytics.store.problems import Problem, read_checked
from analytics.store.records import Commit, RunRecord
from analytics.store.schema import DECISIONS, GIFT, NOT_COUNTED, PLACEMENT
from quarto.errors import FailureError
from quarto.rules import PIECES

GIVEN = ("game_id", "ply", "kind", "seat", "legal")  # columns that follow from the games


def verify_decisions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """How many decisions of a run are stored, and what is wrong with them or with the files that name them."""
    try:
        commits = {commit.shard: commit for commit in archive.commits(record.run_id)}
    except FailureError:  # reported with the games
        return 0, []
    count, problems = 0, []
    for path in annotation_files(archive, record.run_id):
        try:
            annotation = load(path, Annotation)
        except FailureError as error:
            problems.append(Problem(path, str(error)))
            continue
        commit = commits.get(annotation.shard)
        if annotation.shard != int(path.stem):
            problems.append(Problem(path, f"it says shard {annotation.shard}"))
        elif commit is None or commit.plies.sha256 != annotation.plies:
            problems.append(Problem(path, "it judges games that are not in the archive: remove it"))
        else:
            count += annotation.decisions.rows
            problems += _shard(archive, record, commit, annotation)
    return count, problems


def _shard(archive: Archive, record: RunRecord, commit: Commit, annotation: Annotation) -> Iterator[Problem]:
    path = archive.file("decisions", record.run_id, annotation.decisions)
    frame = read_checked(path, annotation.decisions, DECISIONS)
    if isinstance(frame, Problem):
        yield frame
        return
    try:
        game_id, games = record_of(archive, record.run_id, commit, annotation.from_pieces)
    except (FailureError, pl.exceptions.PolarsError):  # reported with the games
        return
    expected = frame_of(game_id, games, Judged.empty(len(game_id)), record.rules)
    if not frame.select(GIVEN).equals(expected.select(GIVEN)):
        yield Problem(path, "its rows are not, in order, the decisions of the shard's games")
        return
    yield from _values(path, frame, annotation.choices)
    if not record.rules.mover_chooses:
        yield from _chain(path, frame, game_id, games.plies)


def _values(path: Path, frame: pl.DataFrame, choices: bool) -> Iterator[Problem]:
    before, after, saving = pl.col("value_before"), pl.col("value_after"), pl.col("saving")
    counted = saving.is_between(1, pl.col("legal")) if choices else saving == NOT_COUNTED
    for what, sound in (
        ("a value is not -1, 0 or 1", before.is_between(-1, 1) & after.is_between(-1, 1)),
        ("a decision leaves more than there was", after <= before),
        ("saving is not between 1 and legal, or not -1 where choices are not counted", counted),
    ):
        wrong = frame.filter(~sound)
        for game in wrong["game_id"].head(1):
            yield Problem(path, f"{what} (one of {len(wrong)} such decisions)", game)


def _chain(path: Path, frame: pl.DataFrame, game_id: NDArray[np.int64], plies: NDArray[np.int8]) -> Iterator[Problem]:
    lengths = dict(zip(game_id.tolist(), plies.tolist(), strict=True))
    for ply in range(PIECES):
        gifts, placements, following = (
            frame.filter((pl.col("ply") == at) & (pl.col("kind") == kind))
            for at, kind in ((ply, GIFT), (ply, PLACEMENT), (ply + 1, GIFT))
        )
        goes_on = [lengths[game] > ply + 1 for game in placements["game_id"].to_list()]
        pairs = [(-gifts["value_after"], placements["value_before"])]
        if following.height:
            left = placements["value_after"].filter(pl.Series(goes_on, dtype=pl.Boolean))
            pairs.append((left, following["value_before"].tail(len(left))))
        for left, right in pairs:
            if left.len() != right.len() or (left != right).any():
                yield Problem(path, f"values at ply {ply} do not fit together")
                return
