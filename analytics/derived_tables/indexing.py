"""Indexing: which ranges of games lack positions and first plies, and making both for one range."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from analytics.derived_tables.derived_table import extents_found, lacking
from analytics.derived_tables.first_plies import FIRST_PLIES_TABLE, first_plies_of
from analytics.derived_tables.position_index import (
    END_PLY,
    POSITIONS_TABLE,
    count_positions,
    counts_turns_of,
    extent_of,
)
from analytics.store.archive import Archive, readable
from analytics.store.range_files import read_rows
from analytics.store.ranges import StoredRange
from quarto.symmetry import symmetries


class IndexPart(NamedTuple):
    """A range of games that is to be indexed."""

    run_id: str
    games: StoredRange
    end_ply: int  # turns of plies 0 to before this one are counted; 0: only first plies are
    first_plies: bool = True  # they are counted


class Indexed(NamedTuple):
    """What was indexed."""

    games: int = 0
    rows: int = 0  # of positions

    def plus(self, other: Indexed) -> Indexed:
        """The totals of both."""
        return Indexed(self.games + other.games, self.rows + other.rows)


def index_parts(archive: Archive, run_ids: Sequence[str], end_ply: int | None = None) -> list[IndexPart]:
    """The ranges of games that are not indexed up to ``end_ply``.

    Without ``end_ply`` a run is to be indexed as deep as its deepest range, and at least to ``END_PLY``. Raises
    ``FailureError`` for a run without a record, ``RequestError`` for one of another schema version.
    """
    parts: list[IndexPart] = []
    for run_id in run_ids:
        symmetries(readable(archive.known_run(run_id)).rules)  # built here, once, and not by each thread
        depth = end_ply or max([END_PLY, *map(int, extents_found(archive, run_id, POSITIONS_TABLE))])
        positions = {*lacking(archive, run_id, POSITIONS_TABLE, partial(counts_turns_of, depth - 1))}
        first_plies = {*lacking(archive, run_id, FIRST_PLIES_TABLE, "".__eq__)}
        parts += [
            IndexPart(run_id, games, depth if games in positions else 0, games in first_plies)
            for games in sorted(positions | first_plies)
        ]
    return parts


def index(archive: Archive, part: IndexPart) -> Indexed:
    """Count the positions and the first plies of a range of games, and store both.

    Raises ``FailureError`` for a file that cannot be read or written.
    """
    run_id, stored, end_ply, _ = part
    record, found = archive.known_run(run_id), 0
    plies = read_rows(archive, run_id, stored, "plies")
    if end_ply:
        positions = count_positions(archive, record, stored, range(end_ply), plies)
        POSITIONS_TABLE.store(archive, run_id, stored, positions, extent_of(end_ply))
        found = len(positions)
    if part.first_plies:
        FIRST_PLIES_TABLE.store(archive, run_id, stored, first_plies_of(plies))
    return Indexed(stored.units * record.line.games_a_pair, found)


def index_runs(archive: Archive, run_ids: Sequence[str], end_ply: int | None = None) -> Indexed:
    """Index the games of runs that are not indexed yet, in this thread. Raises as ``index_parts`` and ``index`` do."""
    total = Indexed()
    for part in index_parts(archive, run_ids, end_ply):
        total = total.plus(index(archive, part))
    return total
