"""The position index: the derived table ``positions``, which counts the turns of games by position.

Its extent is the ply before which turns are counted, in two digits. ``analytics.derived_tables.positions`` makes the
table of one range, ``merged_positions`` that of a parent.
"""

from __future__ import annotations

import operator

import polars as pl

from analytics.derived_tables.derived_table import Parts, RangeTable
from analytics.derived_tables.merged_positions import AT_ONCE, merged
from analytics.derived_tables.positions import POSITIONS, positions_of
from analytics.store.archive import Archive
from analytics.store.blocks import TableBytes, integer_table
from analytics.store.range_files import damaged, read_rows
from analytics.store.ranges import Range, StoredRange
from analytics.store.records import RunRecord
from quarto.errors import FailureError

GROUP_ROWS = 16384  # of a row group: many files are merged at once, and of each one group is in memory
END_PLY = 6  # the default: from seven pieces on, nearly every position of random games occurs in one game only


class NotIndexedError(FailureError):
    """The answer to a question needs positions that are not indexed."""


def _joined(parts: Parts, record: RunRecord, span: Range) -> TableBytes:
    del span
    return integer_table(merged(parts, record.rules, record.spec["opening_plies"]), POSITIONS)


POSITIONS_TABLE = RangeTable(
    "positions",
    POSITIONS,
    _joined,
    AT_ONCE,
    command="qarena archive index",
    group_rows=GROUP_ROWS,
    extents="0[1-9]|1[0-6]",
    includes=operator.ge,
)


def extent_of(end_ply: int) -> str:
    """The extent of positions whose turns of plies 0 to before ``end_ply`` are counted."""
    return f"{end_ply:02d}"


def counts_turns_of(ply: int, extent: str) -> bool:
    """Whether positions of an extent hold the turns of a ply."""
    return POSITIONS_TABLE.is_extent(extent) and extent > extent_of(ply)


def count_positions(archive: Archive, record: RunRecord, stored: StoredRange, plies: range) -> pl.DataFrame:
    """The positions of some consecutive plies of a range, from its games: a table by the schema ``POSITIONS``.

    Raises ``FailureError`` for a file of plies that is missing or damaged.
    """
    return positions_in(archive, record, stored, read_rows(archive, record.run_id, stored, "plies"), plies)


def positions_in(
    archive: Archive, record: RunRecord, stored: StoredRange, rows: pl.DataFrame, plies: range
) -> pl.DataFrame:
    """The same, given the rows of ``plies`` of that range."""
    try:
        return positions_of(rows, record.rules, record.spec["opening_plies"], plies)
    except ValueError as error:
        raise damaged(archive.path("plies", record.run_id, stored), error) from error
