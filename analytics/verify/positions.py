"""Verifies the position index: the positions of each shard are counted again from its games and compared."""

from __future__ import annotations

from collections.abc import Iterator

from analytics.store.archive import Archive
from analytics.store.position_index import INDEXES, Index, count_positions
from analytics.store.problems import Problem
from analytics.store.records import RunRecord
from analytics.verify.derived_tables import StoredTable, verify_derived


def verify_positions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """The number of rows of positions that a run has, and what is wrong with them or with the files that name them."""
    return verify_derived(INDEXES, archive, record, _check)


def _check(table: StoredTable[Index]) -> Iterator[Problem]:
    expected = count_positions(table.archive, table.shard, range(table.manifest.end_ply))
    if not table.frame.equals(expected):
        yield Problem(table.path, f"its rows are not what the shard's games give: {INDEXES.remedy}")
