"""The derived tables.

The definition of each table has a schema, and says how games become rows and how the rows of several files become the
rows of one file. ``decisions`` has a module of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import EVALUATIONS_FOLDER, read_first_plies, tallies_to_frame, tally_game_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import EVALUATIONS_SCHEMA, TABLE_SCHEMAS, TALLIES_SCHEMA
from analytics.store.table_files import damaged_file_error
from analytics.tables.derived.decisions import DECISIONS_TABLE
from analytics.tables.derived.positions import POSITIONS, count_turns, derive_positions
from analytics.tables.derived.range_table import (
    RangeTable,
)
from analytics.tables.derived.sorted_runs import find_least_of_groups, sum_groups
from analytics.tables.derived.turn_counts import TurnCounts
from quarto.batch import GAME_BITS
from quarto.errors import FailureError
from quarto.rules import CELLS, PIECES

# How the pairs of each pairing ended: written with the games.

TALLIES_TABLE = RangeTable(
    "tallies",
    TALLIES_SCHEMA,
    key=("pairing",),
    totals=dict.fromkeys(TALLIES_SCHEMA.names()[1:], sum_groups),
    derive_rows=lambda games, record, _extent: tallies_to_frame(tally_game_rows(games, record.swapped)),
    source_table="games",
)


# The evaluations of players: the value, the visits and the time of each turn, where that was asked for. They come with
# the games. The seconds were measured, so two writers of one range may write different bytes; readers then use the file
# with the smaller checksum.

EVALUATIONS_TABLE = RangeTable(
    EVALUATIONS_FOLDER,
    EVALUATIONS_SCHEMA,
    key=("ply", "game_id"),
    command="qarena run ... archive.evaluations=true",
)


# The first plies of games by piece and cell, as they were played.

FIRST_PLIES = pl.Schema(
    {
        "pairing": pl.Int32(),
        "second": pl.Int8(),  # agent that placed: 0 the pairing's first, 1 its second
        "piece": pl.Int8(),  # 0 to 15, as it was given: not up to symmetry
        "cell": pl.Int8(),  # 0 to 15
        "games": pl.Int64(),
        "wins": pl.Int64(),  # of the agent that placed
        "draws": pl.Int64(),
    }
)

FIRST_PLIES_KEY = ("pairing", "second", "piece", "cell")


def derive_first_plies(plies: pl.DataFrame) -> pl.DataFrame:
    """Count ply 0 of all games by pairing, agent, piece and cell, as a table with the schema ``FIRST_PLIES``.

    A ply 0 counts for the agent that placed the piece, which is the agent in seat 1: the second agent of the pairing in
    game 0 of a pair, and the first agent in game 1.
    """
    rows = plies[: plies["ply"].search_sorted(1)]
    game_id, piece, cell, outcome = (
        rows[name].to_numpy().astype(np.int64) for name in ("game_id", "piece", "cell", "outcome")
    )
    pairings, pairing = np.unique(game_id >> GAME_BITS, return_inverse=True)
    # A number for each combination of values; grouping rows by their columns takes ten times as long.
    group = (pairing * 2 + 1 - (game_id & 1)) * PIECES * CELLS + piece * CELLS + cell
    counts = np.bincount(group * 3 + outcome + 1, minlength=len(pairings) * 2 * PIECES * CELLS * 3).reshape(-1, 3)
    games = counts.sum(axis=1)
    groups = np.flatnonzero(games)
    pairing_index, second, piece, cell = np.unravel_index(groups, (len(pairings), 2, PIECES, CELLS))
    columns = [pairings[pairing_index], second, piece, cell, games[groups], counts[groups, 2], counts[groups, 1]]
    return pl.DataFrame(dict(zip(FIRST_PLIES, columns, strict=True))).cast(FIRST_PLIES)


FIRST_PLIES_TABLE = RangeTable(
    "first_plies",
    FIRST_PLIES,
    FIRST_PLIES_KEY,
    totals=dict.fromkeys(("games", "wins", "draws"), sum_groups),
    command="qarena archive index",
    derive_rows=lambda plies, _record, _extent: derive_first_plies(plies),
)


# The position index counts the turns of games by position. Its extent is the ply before which turns are counted, in two
# digits.

END_PLY = 6  # the default: from seven pieces on, nearly every position of random games occurs in one game only


class NotIndexedError(FailureError):
    """The error that is raised if a query needs positions that are not indexed."""


POSITIONS_TABLE = RangeTable(
    "positions",
    POSITIONS,
    key=("ply", "occupied", "board", "pairing", "second", "cell", "piece"),
    totals=dict.fromkeys(("games", "wins", "draws"), sum_groups) | {"sample": find_least_of_groups},
    max_merged_files=64,  # with more files, their parts would take more memory
    command="qarena archive index",
    group_rows=16384,  # many files are merged at once, and one row group of each file is in memory
    # A query looks at each group in 20 to 30 microseconds, and decodes one in 5 microseconds for a thousand rows.
    parent_rows=lambda units: 1 << (18 if units <= 1 << 24 else 20),
    extents="0[1-9]|1[0-6]",
    includes=operator.ge,
    derive_rows=lambda plies, record, extent: derive_positions(
        plies, record.rules, record.spec["opening_plies"], range(int(extent))
    ),
)


def format_extent(end_ply: int) -> str:
    """Format the extent of a file of positions that counts the turns from ply 0 up to but not including ``end_ply``."""
    return f"{end_ply:02d}"


def is_ply_within_extent(ply: int, extent: str) -> bool:
    """Return whether a file of positions with this extent includes the turns of ply ``ply``."""
    return POSITIONS_TABLE.is_extent(extent) and extent > format_extent(ply)


def derive_stored_positions(
    archive: ArchiveStore, record: RunRecord, stored: StoredRange, of_plies: range
) -> pl.DataFrame:
    """Derive the positions of a stored range at the plies ``of_plies``, as a table with the schema ``POSITIONS``.

    Raises ``FailureError`` if the file of plies is missing or damaged.
    """
    plies = read_first_plies(archive, record.run_id, stored, of_plies.stop + 1)
    with explain_damaged_plies(archive, record.run_id, stored):
        return derive_positions(plies, record.rules, record.spec["opening_plies"], of_plies)


def count_stored_turns(
    archive: ArchiveStore, record: RunRecord, stored: StoredRange, end_ply: int, plies: pl.DataFrame
) -> list[TurnCounts]:
    """Count the turns of a stored range up to but not including ply ``end_ply``; ``plies`` are its rows up to there.

    Raises ``FailureError`` if the file of plies is damaged.
    """
    with explain_damaged_plies(archive, record.run_id, stored):
        return count_turns(plies, record.rules, range(end_ply))


@contextmanager
def explain_damaged_plies(archive: ArchiveStore, run_id: str, stored: StoredRange) -> Iterator[None]:
    """Raise ``FailureError`` with the path of the plies of a range, if the block raises ``ValueError``."""
    try:
        yield
    except ValueError as error:
        raise damaged_file_error(archive.find_path_of_containing_file("plies", run_id, stored), error) from error


# All of them.

INDEX_TABLES = (POSITIONS_TABLE, FIRST_PLIES_TABLE)

ALL_TABLES = (TALLIES_TABLE, DECISIONS_TABLE, POSITIONS_TABLE, FIRST_PLIES_TABLE, EVALUATIONS_TABLE)
DERIVED_TABLES = {table.name: table for table in ALL_TABLES}
TABLES_NOTED_IN_RECORDS = (
    POSITIONS_TABLE,
    FIRST_PLIES_TABLE,
    EVALUATIONS_TABLE,
)  # whose units records note, besides decisions
TABLE_FOLDERS = (*TABLE_SCHEMAS, *DERIVED_TABLES)  # of table files
