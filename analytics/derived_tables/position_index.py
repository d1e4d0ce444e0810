"""The position index: the derived table ``positions``, which counts the turns of games by position.

Its extent is the ply before which turns are counted, in two digits. ``analytics.derived_tables.positions`` counts them.
"""

from __future__ import annotations

import operator

import numpy as np
import polars as pl

from analytics.derived_tables.derived_table import RangeTable
from analytics.derived_tables.positions import POSITIONS, positions_of
from analytics.store.archive import Archive
from analytics.store.range_files import damaged, read_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from quarto.errors import FailureError

END_PLY = 6  # the default: from seven pieces on, nearly every position of random games occurs in one game only


class NotIndexedError(FailureError):
    """The answer to a question needs positions that are not indexed."""


def _rows(plies: pl.DataFrame, record: RunRecord, extent: str) -> pl.DataFrame:
    return positions_of(plies, record.rules, record.spec["opening_plies"], range(int(extent)))


POSITIONS_TABLE = RangeTable(
    "positions",
    POSITIONS,
    key=("ply", "occupied", "board", "pairing", "second", "cell", "piece"),
    totals={"games": np.add, "wins": np.add, "draws": np.add, "sample": np.minimum},
    most=64,  # with more, their parts would take more memory
    command="qarena archive index",
    group_rows=16384,  # many files are merged at once, and of each one group is in memory
    parent_rows=1 << 18,  # a question looks at each group, 30 microseconds, and decodes one
    extents="0[1-9]|1[0-6]",
    includes=operator.ge,
    rows=_rows,
)


def extent_of(end_ply: int) -> str:
    """The extent of positions whose turns of plies 0 to before ``end_ply`` are counted."""
    return f"{end_ply:02d}"


def counts_turns_of(ply: int, extent: str) -> bool:
    """Whether positions of an extent hold the turns of a ply."""
    return POSITIONS_TABLE.is_extent(extent) and extent > extent_of(ply)


def count_positions(
    archive: Archive, record: RunRecord, stored: StoredRange, of_plies: range, rows: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The positions of some consecutive plies of a range, from its games: a table by the schema ``POSITIONS``.

    ``rows`` are those of ``plies`` if they were read already. Raises ``FailureError`` for a file of plies that is
    missing or damaged.
    """
    plies = read_rows(archive, record.run_id, stored, "plies") if rows is None else rows
    try:
        return positions_of(plies, record.rules, record.spec["opening_plies"], of_plies)
    except ValueError as error:
        raise damaged(archive.path("plies", record.run_id, stored), error) from error
