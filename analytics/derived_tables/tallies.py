"""The derived table ``tallies``: how the pairs of each pairing ended. It is written with the games."""

from __future__ import annotations

import polars as pl

from analytics.derived_tables.derived_table import Parts, RangeTable
from analytics.store.blocks import TableBytes, table_of
from analytics.store.range_files import tallies_frame, tallies_of
from analytics.store.ranges import Range
from analytics.store.records import RunRecord
from analytics.store.schema import TALLIES


def _joined(parts: Parts, record: RunRecord, span: Range) -> TableBytes:
    del record, span
    return table_of(tallies_frame(tallies_of(pl.concat(each for table in parts for each in table))))


TALLIES_TABLE = RangeTable("tallies", TALLIES, _joined)
