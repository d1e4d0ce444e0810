"""Indexing: counts the positions and the first plies of games that lack these tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.range_files import read_first_plies
from analytics.store.ranges import FileSlice, Ranges, StoredRange
from analytics.tables.derived.definitions import (
    END_PLY,
    FIRST_PLIES_TABLE,
    INDEX_TABLES,
    POSITIONS_TABLE,
    count_stored_turns,
    derive_first_plies,
    format_extent,
    is_ply_within_extent,
)
from analytics.tables.derived.positions import iterate_position_frames
from analytics.tables.derived.range_table import (
    Chunk,
    list_extents_greatest_first,
    list_missing_ranges,
    record_increased_derived_units,
)
from analytics.tables.derived.turn_counts import TurnCounts, sum_turn_counts
from quarto.symmetry import build_symmetries


class IndexExtent(NamedTuple):
    """The extent to which a range of games is to be indexed."""

    end_ply: int  # turns are counted from ply 0 up to but not including this ply; 0: only first plies are counted
    first_plies: bool = True  # first plies are counted


class IndexSummary(NamedTuple):
    """The number of indexed games, and the number of rows of positions that were derived from these games."""

    games: int = 0
    rows: int = 0  # rows of positions

    def add(self, other: IndexSummary) -> IndexSummary:
        """Return a summary with the sums of the counts in this summary and in ``other``."""
        return IndexSummary(self.games + other.games, self.rows + other.rows)


def list_index_chunks(
    archive: ArchiveStore, run_ids: Sequence[str], end_ply: int | None = None
) -> list[Chunk[IndexExtent]]:
    """List a chunk for each range of games whose index does not yet reach ``end_ply`` (exclusive).

    By default, a run is indexed as deeply as its most deeply indexed range, and at least up to ``END_PLY`` (also
    exclusive). A range whose first plies have not been counted gets a chunk too. Raises ``FailureError`` if a run has
    no record, and ``RequestError`` if its record has another schema version.
    """
    chunks: list[Chunk[IndexExtent]] = []
    for run_id in run_ids:
        record = check_record_format(archive.load_run(run_id))
        build_symmetries(record.rules)  # built here, once, and not by each thread
        depth = end_ply or max([END_PLY, *map(int, list_extents_greatest_first(archive, run_id, POSITIONS_TABLE))])
        positions = {*list_missing_ranges(archive, run_id, POSITIONS_TABLE, partial(is_ply_within_extent, depth - 1))}
        first_plies = {*list_missing_ranges(archive, run_id, FIRST_PLIES_TABLE, "".__eq__)}
        for games in sorted(positions | first_plies):
            extent = IndexExtent(depth if games in positions else 0, games in first_plies)
            chunks.append(Chunk(run_id, FileSlice.whole(games), extent))
    return chunks


def index_chunk(archive: ArchiveStore, chunk: Chunk[IndexExtent]) -> IndexSummary:
    """Count the positions and the first plies in a range of games, and write the counts as files of the derived tables.

    Raises ``FailureError`` if a file cannot be read or written.
    """
    return index_chunks_as_sum(archive, [chunk])


def index_chunks_as_sum(archive: ArchiveStore, chunks: Sequence[Chunk[IndexExtent]]) -> IndexSummary:
    """Count the positions and the first plies in several ranges of games, and write one file for all, of each table.

    These files are those that compaction would make from a file for each range, but the rows of the single ranges are
    never written, and are added up in half the memory. The ranges are neighbours, in order, without gaps, and the
    extent is the same. Raises ``FailureError`` if a file cannot be read or written.
    """
    run_id, _, (end_ply, with_first_plies) = chunks[0]
    ranges = [chunk.games.file for chunk in chunks]
    record, turns, first_plies, rows = archive.load_run(run_id), list[list[TurnCounts]](), list[pl.DataFrame](), 0
    for stored in ranges:
        plies = read_first_plies(archive, run_id, stored, end_ply + 1)
        if end_ply:
            counts = count_stored_turns(archive, record, stored, end_ply, plies)
            rows += sum(len(of_ply.board) for of_ply in counts)
            turns.append(counts)
        if with_first_plies:
            first_plies.append(derive_first_plies(plies))
        del plies  # large
    parent = ranges[0]
    if len(ranges) > 1:
        parent = StoredRange(ranges[0].first, ranges[-1].end, Ranges(ranges).fingerprint)
    if end_ply:
        group_rows = POSITIONS_TABLE.group_rows if len(ranges) == 1 else POSITIONS_TABLE.parent_rows(parent.units)
        groups = iterate_position_frames(
            sum_turn_counts(turns), record.rules, record.spec["opening_plies"], range(end_ply), group_rows
        )
        POSITIONS_TABLE.write_groups(archive, run_id, parent, groups, format_extent(end_ply))
    if with_first_plies:
        merged = FIRST_PLIES_TABLE.merge_child_rows([iter([frame]) for frame in first_plies], parent.units)
        FIRST_PLIES_TABLE.write_groups(archive, run_id, parent, merged)
    return IndexSummary(parent.units * record.unit_line.games_a_pair, rows)


def index_runs(archive: ArchiveStore, run_ids: Sequence[str], end_ply: int | None = None) -> IndexSummary:
    """Index, in this thread, the games of the given runs that are not indexed yet.

    Returns how many games were indexed, and how many rows of positions were derived from them. Raises the errors of
    ``list_index_chunks`` and ``index_chunk``.
    """
    total = IndexSummary()
    for chunk in list_index_chunks(archive, run_ids, end_ply):
        total = total.add(index_chunk(archive, chunk))
    for run_id in run_ids:
        record_increased_derived_units(archive, run_id, INDEX_TABLES)
    return total
