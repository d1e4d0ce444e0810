"""Annotations: the derived table ``decisions``, which holds the exact value of every placement and gift of a shard.

An annotation of more decisions, or of counted choices, takes the place of one of fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from analytics.derived_tables.derived_table import DerivedTable, Manifest, Shard
from analytics.derived_tables.exact_values import ExactValues
from analytics.store.archive import Archive, readable
from analytics.store.json_records import Count
from analytics.store.records import StoredFile
from analytics.store.schema import DECISIONS, GIFT, PLACEMENT
from analytics.store.range_files import RangeGames
from quarto.rules import CELLS, PIECES, Rules

FIRST_PIECES_MOVER = 5  # by default, where the mover chooses the piece: a position with fewer takes minutes


class Annotation(Manifest, frozen=True):
    """The manifest of a shard's decisions."""

    decisions: StoredFile
    choices: bool  # saving choices are counted
    from_pieces: Count  # decisions on boards with fewer are left out
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)


ANNOTATIONS = DerivedTable("decisions", "annotations", DECISIONS, Annotation, command="qarena annotate")


class AnnotationExtent(NamedTuple):
    """The extent to which a shard is annotated."""

    choices: bool = False  # saving choices are counted
    from_pieces: int = 0  # decisions on boards with fewer pieces are left out

    def is_in(self, annotation: Annotation) -> bool:
        """Whether a stored annotation includes this extent."""
        return self.choices <= annotation.choices and self.from_pieces >= annotation.from_pieces

    def joined(self, annotation: Annotation | None) -> AnnotationExtent:
        """The least extent that includes this one and that of a stored annotation."""
        if annotation is None:
            return self
        return AnnotationExtent(self.choices or annotation.choices, min(self.from_pieces, annotation.from_pieces))


class AnnotationJob(NamedTuple):
    """A shard that is to be annotated."""

    shard: Shard[Annotation]
    extent: AnnotationExtent  # at least


def annotation_jobs(
    archive: Archive, run_ids: Sequence[str], choices: bool, from_pieces: int | None = None
) -> list[AnnotationJob]:
    """The shards that are not annotated as far as requested.

    ``from_pieces``: None for the default of the rules. Raises ``FailureError`` for a damaged file and for a run without
    a record, ``RequestError`` for a run of another schema version.
    """
    jobs = []
    for shard in ANNOTATIONS.shards(archive, run_ids):
        least = FIRST_PIECES_MOVER if readable(shard.record).rules.mover_chooses else 0
        extent = AnnotationExtent(choices, least if from_pieces is None else from_pieces)
        if ANNOTATIONS.lacks(archive, shard, extent.is_in):
            jobs.append(AnnotationJob(shard, extent))
    return jobs


def note_annotations(archive: Archive, run_id: str) -> None:
    """Note in a run's record how many annotations it has. Raises ``FailureError`` if that cannot be written."""
    count = ANNOTATIONS.count(archive, run_id)
    record = archive.run(run_id)
    if record is not None and record.annotations != count:
        archive.update_run(run_id, lambda known: known and structs.replace(known, annotations=count))


def first_plies(shard: RangeGames, extent: AnnotationExtent) -> NDArray[np.int8]:
    """[G] the first ply of each game that is annotated: imposed plies are no decisions."""
    return np.maximum(shard.opening, np.int8(extent.from_pieces))


def decisions_of(shard: RangeGames, first: NDArray[np.int8], values: ExactValues, rules: Rules) -> pl.DataFrame:
    """The decisions of games from ply ``first`` [G] on: by ply, then gifts before placements, then game.

    A table by the schema ``DECISIONS``.
    """
    kinds = (PLACEMENT,) if rules.mover_chooses else (GIFT, PLACEMENT)
    return pl.concat(
        pl.DataFrame(_columns(shard, first, values, ply, kind, rules), schema=DECISIONS)
        for ply in range(PIECES)
        for kind in kinds
    )


def _columns(
    shard: RangeGames, first: NDArray[np.int8], values: ExactValues, ply: int, kind: int, rules: Rules
) -> dict[str, NDArray[Any]]:
    """The decisions of one kind at one ply."""
    plies = shard.games.plies
    at = np.flatnonzero((plies > ply) & (first <= ply))
    if kind == GIFT:
        before, after, saving = values.gift[ply, at], -values.placement[ply, at], values.saving_gifts[ply, at]
        legal = PIECES - ply
    else:
        following = -values.placement[min(ply + 1, PIECES - 1), at] if rules.mover_chooses else values.gift[ply + 1, at]
        before, after = values.placement[ply, at], np.where(plies[at] == ply + 1, values.end[at], following)
        saving, legal = values.saving_cells[ply, at], (CELLS - ply) * (PIECES - ply if rules.mover_chooses else 1)
    size = len(at)
    return {
        "game_id": shard.game_id[at],
        "ply": np.full(size, ply, np.int8),
        "kind": np.full(size, kind, np.int8),
        "seat": np.full(size, (ply + kind) & 1, np.int8),
        "value_before": before,
        "value_after": after.astype(np.int8),
        "saving": saving.astype(np.int32),
        "legal": np.full(size, legal, np.int32),
    }
