"""Annotations: the derived table ``decisions``, which holds the exact value of every placement and gift.

Its extent says which decisions a file has, and whether choices were counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames
from analytics.tables.derived.exact_values import ExactValues
from analytics.tables.derived.range_table import RangeTable, select_ranges_with_most_units
from quarto.rules import CELLS, PIECES, Rules

GIFT, PLACEMENT = 0, 1
DECISIONS = pl.Schema(
    {
        "game_id": pl.Int64(),
        "ply": pl.Int8(),  # 0 to 15
        "kind": pl.Int8(),  # GIFT or PLACEMENT of this ply
        "seat": pl.Int8(),  # the seat that decided
        "value_before": pl.Int8(),  # for the seat that decided: 1 won, 0 drawn, -1 lost
        "value_after": pl.Int8(),
        "saving": pl.Int32(),  # number of choices that keep value_before, or NOT_COUNTED
        "legal": pl.Int32(),  # number of legal choices
    }
)

DEFAULT_FROM_PIECES_MOVER = 5  # the default if the mover chooses the piece: with fewer pieces, a position takes minutes


class AnnotationExtent(NamedTuple):
    """The extent of an annotation: the decisions it covers, and whether choices that keep the value are counted."""

    choices: bool = False  # saving choices are counted
    from_pieces: int = 0  # decisions on boards with fewer pieces are left out

    @property
    def text(self) -> str:
        """The extent as it is written in the name of a file.

        Of two such texts, the one that sorts later is the greater extent.
        """
        return f"{PIECES - self.from_pieces:02d}{'c' if self.choices else ''}"

    @staticmethod
    def from_text_or_empty(text: str) -> AnnotationExtent:
        """Parse the extent in the name of a file; return the empty extent if the text is invalid."""
        if not DECISIONS_TABLE.is_extent(text):
            return EMPTY_EXTENT
        return AnnotationExtent(text.endswith("c"), PIECES - int(text.removesuffix("c")))

    def is_included_in(self, text: str) -> bool:
        """Return whether this extent is included in the extent ``text``, which is written in the name of a file."""
        other = AnnotationExtent.from_text_or_empty(text)
        return self.choices <= other.choices and self.from_pieces >= other.from_pieces

    def union(self, texts: Iterable[str]) -> AnnotationExtent:
        """Return the least extent that includes this one and all extents in ``texts``, taken from names of files."""
        every = [self, *map(AnnotationExtent.from_text_or_empty, texts)]
        return AnnotationExtent(any(extent.choices for extent in every), min(extent.from_pieces for extent in every))


EMPTY_EXTENT = AnnotationExtent(from_pieces=PIECES)


DECISIONS_TABLE = RangeTable(
    "decisions",
    DECISIONS,
    key=("ply", "kind", "game_id"),
    command="qarena annotate",
    extents="(0[0-9]|1[0-6])c?",
    includes=lambda extent, other: AnnotationExtent.from_text_or_empty(other).is_included_in(extent),
)


def build_extent(rules: Rules, choices: bool, from_pieces: int | None = None) -> AnnotationExtent:
    """Build the extent to which a user wants games to be annotated.

    With ``choices``, the choices that keep the value are counted. Decisions on boards with fewer than ``from_pieces``
    pieces are left out; None means the default number for ``rules``.
    """
    default = DEFAULT_FROM_PIECES_MOVER if rules.mover_chooses else 0
    return AnnotationExtent(choices, default if from_pieces is None else from_pieces)


def record_annotated_units(archive: ArchiveStore, run_id: str) -> None:
    """Store in the record of a run how many of its units are annotated.

    Raises ``FailureError`` if the record cannot be written.
    """
    units = select_ranges_with_most_units(archive, run_id, DECISIONS_TABLE).units
    record = archive.find_run(run_id)
    if record is not None and record.annotated != units:
        archive.update_run_and_unit_count(run_id, lambda run: run and structs.replace(run, annotated=units))


def find_first_annotated_plies(games: RangeGames, extent: AnnotationExtent) -> NDArray[np.int8]:
    """Find, for each game [G], the first ply whose decisions are annotated under the given extent.

    Imposed plies are not annotated, because nobody decided them.
    """
    return np.maximum(games.opening, np.int8(extent.from_pieces))


def derive_decisions_sorted_by_ply(
    games: RangeGames, first: NDArray[np.int8], values: ExactValues, rules: Rules
) -> pl.DataFrame:
    """Derive the decisions of each game from its ply ``first`` [G] on, as a table with the schema ``DECISIONS``.

    The rows are sorted by ply, then kind (gifts before placements), then game.
    """
    return pl.concat(derive_decisions_by_ply(games, first, values, rules))


def derive_decisions_by_ply(
    games: RangeGames, first: NDArray[np.int8], values: ExactValues, rules: Rules
) -> Iterator[pl.DataFrame]:
    """Yield the rows of ``derive_decisions_sorted_by_ply`` as one table for each ply and kind of decision."""
    for ply in range(PIECES):
        for kind in (PLACEMENT,) if rules.mover_chooses else (GIFT, PLACEMENT):
            yield pl.DataFrame(_derive_columns(games, first, values, ply, kind, rules), schema=DECISIONS)


def _derive_columns(
    games: RangeGames, first: NDArray[np.int8], values: ExactValues, ply: int, kind: int, rules: Rules
) -> dict[str, NDArray[Any]]:
    """Derive the columns, by name, of all decisions of one kind at one ply.

    Games that ended before this ply are left out, and so are games whose first annotated ply, ``first`` [G], is later.
    """
    plies = games.games.plies
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
        "game_id": games.game_id[at],
        "ply": np.full(size, ply, np.int8),
        "kind": np.full(size, kind, np.int8),
        "seat": np.full(size, (ply + kind) & 1, np.int8),
        "value_before": before,
        "value_after": after.astype(np.int8),
        "saving": saving.astype(np.int32),
        "legal": np.full(size, legal, np.int32),
    }
