"""Verifies annotations: everything but the values themselves, which only solving again can tell.

The values of a game must fit together: a gift leaves its giver the negative of what the mover has with it, and a
placement leaves its mover what the same player has at the next gift.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import Archive
from analytics.store.decisions import ANNOTATIONS, Annotation, AnnotationExtent, decisions_of, first_plies
from analytics.store.exact_values import ExactValues
from analytics.store.problems import Problem
from analytics.store.records import RunRecord
from analytics.store.schema import GIFT, NOT_COUNTED, PLACEMENT
from analytics.store.shard_arrays import read_shard
from analytics.verify.derived_tables import StoredTable, verify_derived
from quarto.rules import PIECES

GIVEN = ("game_id", "ply", "kind", "seat", "legal")  # columns that follow from the games


def verify_decisions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """The number of decisions that a run has, and what is wrong with them or with the files that name them."""
    return verify_derived(ANNOTATIONS, archive, record, _check)


def _check(table: StoredTable[Annotation]) -> Iterator[Problem]:
    record, annotation = table.shard.record, table.manifest
    shard = read_shard(table.archive, record.run_id, table.shard.commit)
    first = first_plies(shard, AnnotationExtent(annotation.choices, annotation.from_pieces))
    expected = decisions_of(shard, first, ExactValues.empty(len(first)), record.rules)
    if not table.frame.select(GIVEN).equals(expected.select(GIVEN)):
        yield Problem(
            table.path, f"its rows are not, in order, the decisions of the shard's games: {ANNOTATIONS.remedy}"
        )
        return
    yield from _values(table.path, table.frame, annotation.choices)
    if not record.rules.mover_chooses:
        yield from _chain(table.path, table.frame, shard.game_id, shard.games.plies)


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
