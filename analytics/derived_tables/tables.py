"""All derived tables. Each is one file: its schema, how games become rows, and how parents are made."""

from __future__ import annotations

from analytics.derived_tables.decisions import DECISIONS_TABLE
from analytics.derived_tables.first_plies import FIRST_PLIES_TABLE
from analytics.derived_tables.position_index import POSITIONS_TABLE
from analytics.derived_tables.tallies import TALLIES_TABLE
from analytics.store.schema import TABLES

DERIVED = {table.name: table for table in (TALLIES_TABLE, DECISIONS_TABLE, POSITIONS_TABLE, FIRST_PLIES_TABLE)}
FOLDERS = (*TABLES, *DERIVED)  # of table files
