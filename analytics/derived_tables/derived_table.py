"""Tables with a file for each range: columns, order of rows, and how a parent is made from its children.

A derived table holds facts that follow from the games of each range. Its files have the names of the games' files. So
the missing files are the difference of two sets of ranges. A parent holds the rows of its children (decisions) or their
sums (positions, first plies). It counts by the same rule as a parent of games.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from analytics.derived_tables.merged import Totals, merged
from analytics.store.archive import Archive, Extent
from analytics.store.blocks import ROW_GROUP_ROWS, TableBytes, integer_table, table_of
from analytics.store.range_files import file_parts, store_table
from analytics.store.ranges import Range, Ranges, StoredRange, missing, parts
from analytics.store.records import RunRecord

Rows = Callable[[pl.DataFrame, RunRecord, str], pl.DataFrame]  # of a table, to an extent, from rows of games


@dataclass(frozen=True, eq=False)
class RangeTable:
    """A table with a file for each range of units."""

    name: str  # of the folder of its files
    schema: pl.Schema
    key: tuple[str, ...]  # the columns by which its rows ascend
    totals: Totals | None = None  # of sums
    most: int = 256  # files that become one at a time: all are open, and parts of them in memory
    command: str = ""  # that makes what is missing; empty: it comes with the games
    group_rows: int = ROW_GROUP_ROWS  # of a row group of its files
    parent_rows: int = ROW_GROUP_ROWS  # of a row group of parents
    extents: str = ""  # a regular expression: the extents that its files may have
    includes: Callable[[str, str], bool] = operator.eq  # whether an extent holds everything that another one holds
    of: str = "plies"  # the table from whose rows its own are made
    rows: Rows | None = None  # that makes them; None: they are made elsewhere
    # A parent's file of its rows in parts; None: all columns are integers.
    encode: Callable[[Iterator[pl.DataFrame], RunRecord, Range], TableBytes] | None = None

    def is_extent(self, extent: str) -> bool:
        """Whether a file may have an extent in its name."""
        return re.fullmatch(self.extents, extent) is not None

    @property
    def remedy(self) -> str:
        """The advice for a damaged file of a derived table."""
        return f"remove it and run '{self.command}'" if self.command else "remove it, it follows from the games"

    def parts(
        self, archive: Archive, run_id: str, stored: StoredRange, rows: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """The rows of a file, in parts of so many. Raises ``FailureError`` for a damaged one."""
        path = archive.folder(self.name, run_id) / stored.name
        return file_parts(archive.backend, path, self.schema, rows)

    def store(
        self, archive: Archive, run_id: str, games: StoredRange, frame: pl.DataFrame, extent: str = ""
    ) -> StoredRange:
        """Write the table of a range. Raises ``FailureError`` when the disk refuses."""
        return store_table(archive, run_id, self.name, games, table_of(frame, self.group_rows), extent)

    def merged(self, children: Sequence[Iterator[pl.DataFrame]]) -> Iterator[pl.DataFrame]:
        """A parent's rows from those of its children, each in parts: also the parent's rows come in parts."""
        return merged(children, self.key, self.parent_rows, self.totals)

    def parent(self, children: Sequence[Iterator[pl.DataFrame]], record: RunRecord, span: Range) -> TableBytes:
        """A parent's file of a range of units."""
        rows = self.merged(children)
        return integer_table(rows, self.schema) if self.encode is None else self.encode(rows, record, span)


def extents_found(archive: Archive, run_id: str, table: RangeTable) -> list[str]:
    """The extents of a run's files of a table, the greatest first."""
    every = {each.extent for each in archive.found(table.name, run_id)}
    return sorted(filter(table.is_extent, every), reverse=True)


def known_ranges(archive: Archive, run_id: str, table: RangeTable) -> Ranges:
    """The files of a derived table for a question that names no extent.

    It takes the extent whose files, together with the files of greater extents, hold the most units. On ties it takes
    the greatest extent.
    """
    extents = extents_found(archive, run_id, table)
    enough = [extents[: number + 1] for number in range(len(extents))]
    every = [archive.ranges(run_id, table.name, those.__contains__) for those in enough]
    return max(every, key=lambda ranges: ranges.units, default=Ranges())


def lacking(archive: Archive, run_id: str, table: RangeTable, enough: Extent) -> list[StoredRange]:
    """The ranges of games that a derived table does not cover to a sufficient extent."""
    known = archive.ranges(run_id, table.name, enough)
    return [each for each in archive.ranges(run_id) if known.at(each.first) is None]


class GamesPart(NamedTuple):
    """A part of a range of games, from which a table is to be made."""

    run_id: str
    games: StoredRange
    first: int
    end: int

    @property
    def units(self) -> int:
        return self.end - self.first


def made_inside(
    archive: Archive, run_id: str, table: RangeTable, lacks: Sequence[StoredRange]
) -> Iterator[list[StoredRange]]:
    """For each of some ranges of games, in order: the files that a table has of parts of this range."""
    ranges, made = Ranges(lacks), {each: list[StoredRange]() for each in lacks}
    for each in archive.found(table.name, run_id) if lacks else ():
        games = ranges.at(each.first)
        if games is not None and each.end <= games.end and table.is_extent(each.extent):
            made[games].append(each)
    return iter(made.values())


def parts_lacking(run_id: str, games: StoredRange, made: Iterable[StoredRange], most: int) -> Iterator[GamesPart]:
    """The parts of a range of games that a table lacks: aligned, with at most ``most`` units each.

    A part in ``made`` has a file already, even if the files do not yet make up the whole range.
    """
    gaps = missing(sorted((each.first, each.end) for each in made), games.end, games.first)
    if not gaps:  # yet they do not count: some are of other games
        yield GamesPart(run_id, games, games.first, games.end)
    for first, end in gaps:
        for low, high in parts(first, end, games.end, most):
            yield GamesPart(run_id, games, low, high)
