"""The derived table ``tallies``: how the pairs of each pairing ended. It is written with the games."""

from __future__ import annotations

import numpy as np

from analytics.derived_tables.derived_table import RangeTable
from analytics.store.range_files import counted, tallies_frame
from analytics.store.schema import TALLIES

TALLIES_TABLE = RangeTable(
    "tallies",
    TALLIES,
    key=("pairing",),
    totals=dict.fromkeys(TALLIES.names()[1:], np.add),
    rows=lambda games, record, _extent: tallies_frame(counted(games, record.swapped)),
    of="games",
)
