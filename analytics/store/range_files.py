"""Writes the files of a range of units, and reads them: the one place where games become files, and files games.

Every byte that is read is compared with the check in the file's name. So all results follow from the games that were
stored.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.statistics.tally import Tally, summed, tally, tally_from, tally_of
from analytics.store.archive import Archive
from analytics.store.blocks import ROW_GROUP_ROWS, RangeGames, TableBytes, joined, tables_of, thoughts_of
from analytics.store.files.backend import explained
from analytics.store.parquet.encoder import encode
from analytics.store.ranges import MODULUS, Range, Ranges, StoredRange, UnitLine, check_of
from analytics.store.records import RunRecord
from analytics.store.schema import FORFEIT_COLUMNS, PAIR_COLUMNS, SINGLE_COLUMNS, TABLES, TALLIES, THOUGHTS
from analytics.store.table_files import (
    VERIFY,
    count_rows,
    damaged,
    ends_of,
    file_parts,
    games_of_file,
    read_file,
    select_units,
)
from quarto.batch import Block
from quarto.errors import FailureError

THOUGHTS_FOLDER = "thoughts"
PART_ROWS = 1 << 20  # of a file from which a few games are read: that many are in memory at a time


# Writing.


def store_games(
    archive: Archive,
    run_id: str,
    line: UnitLine,
    labels: Sequence[tuple[str, str]],
    span: Range,
    blocks: Sequence[Block],
    only_thoughts: bool = False,
) -> StoredRange:
    """Write the games of a range of units: its plies, its tallies, and its games, by which it counts.

    If the players were asked what they thought, that is written too. With ``only_thoughts`` nothing else is, because
    the games are there. Thoughts count only if these are the same games, by their fingerprint.

    ``labels`` are those of each pairing of the run. Writing the same range again is harmless. May be called from any
    number of threads. Raises ``ValueError`` unless ``blocks`` are the games of ``span``, ``FailureError`` when the disk
    refuses.
    """
    blocks = sorted(blocks, key=lambda block: (block.pairing, block.first_pair))  # so that game ids ascend
    parts, thoughts = joined(blocks), thoughts_of(blocks)
    if thoughts is not None:
        stored = _range_of(parts, line, span)
        told = store_table(
            archive, run_id, THOUGHTS_FOLDER, stored, encode(thoughts.iter_slices(ROW_GROUP_ROWS), THOUGHTS)
        )
        if only_thoughts:
            return told
    return _store(archive, run_id, line, labels, span, parts)


def store_range(archive: Archive, record: RunRecord, span: Range, games: RangeGames) -> StoredRange:
    """Write the games of a range of units of a run, as ``store_games`` does. Raises as that does."""
    return _store(archive, record.run_id, record.line, record.pairings, span, [games.part(slice(None))])


def _store(
    archive: Archive,
    run_id: str,
    line: UnitLine,
    labels: Sequence[tuple[str, str]],
    span: Range,
    parts: Sequence[RangeGames],
) -> StoredRange:
    """Write the games of a range, in parts that ascend."""
    stored = _range_of(parts, line, span)
    by_pairing = [(pairing, games) for part in parts for pairing, games in part.by_pairing()]
    tallies = tally(Block(pairing, 0, 0, games, line.games_a_pair == 2) for pairing, games in by_pairing)
    games, plies = tables_of(parts, sorted(tallies), labels)
    of_pairings = encode(tallies_frame(tallies).iter_slices(ROW_GROUP_ROWS), TALLIES)
    content, held = {"plies": plies, "tallies": of_pairings, "games": games}, {}
    for table, rows in content.items():  # games last
        held[table] = store_table(archive, run_id, table, stored, rows)
    if archive.backend.status(archive.folder("plies", run_id) / held["plies"].name) is None:
        # This process stood still for so long that it was taken for killed.
        store_table(archive, run_id, "plies", stored, plies)
    return held["games"]


def _range_of(parts: Sequence[RangeGames], line: UnitLine, span: Range) -> StoredRange:
    """The range of games in parts that ascend. Raises ``ValueError`` unless they are those of its units."""
    ids = np.concatenate([np.empty(0, np.int64), *(part.game_id for part in parts)])
    units = line.units_of(ids)
    within = len(ids) == line.games_in([span]) and bool(((span[0] <= units) & (units < span[1])).all())
    if not within or not (np.diff(ids) > 0).all() or (line.games_a_pair == 1 and (ids & 1).any()):
        raise ValueError(f"these are not the games of units {span[0]} to {span[1] - 1}")
    return StoredRange(*span, sum(part.fingerprint for part in parts) % MODULUS)


def store_table(
    archive: Archive, run_id: str, table: str, games: StoredRange, encoded: TableBytes, extent: str = ""
) -> StoredRange:
    """Write a table's file of a range of games. Raises ``FailureError`` when the disk refuses."""
    stored = games._replace(check=check_of(encoded), extent=extent)
    archive.put(archive.folder(table, run_id) / stored.name, encoded)
    return stored


# Reading.


def read_rows(
    archive: Archive, run_id: str, stored: StoredRange, table: str, game_ids: NDArray[np.int64] | None = None
) -> pl.DataFrame:
    """Return a table's rows of a range of games that counts; with ``game_ids`` those of these games alone.

    If another file has replaced this one since the archive was listed, the rows are read from that. Of a few games the
    file is read in parts, because a file may have more rows than fit into memory.

    Raises:
        FailureError: The file is missing or damaged.

    """
    schema, size = TABLES[table], None if game_ids is None else PART_ROWS
    try:
        parts = [*_rows_of(game_ids, file_parts(archive.backend, archive.path(table, run_id, stored), schema, size))]
    except FileNotFoundError:
        parts = [*_rows_of(game_ids, [_from_another(Archive(archive.root), run_id, stored, table)])]
    rows = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    if stored.is_file:
        return rows
    return select_units(rows, archive.known_run(run_id).line, stored.first, stored.end)


def _rows_of(game_ids: NDArray[np.int64] | None, parts: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield parts of a table, with ``game_ids`` only the rows of these games."""
    for part in parts:
        yield part if game_ids is None else part.filter(pl.Series(np.isin(part["game_id"].to_numpy(), game_ids)))


def _from_another(archive: Archive, run_id: str, stored: StoredRange, table: str) -> pl.DataFrame:
    """The rows of a range from the file that counts now; ``archive`` has listed nothing yet."""
    holder = archive.ranges(run_id).at(stored.first)
    path = archive.folder(table, run_id) / f"{stored.games}.*.parquet"
    missing = FailureError(f"{path} is missing: {VERIFY}")
    if holder is None or holder.end < stored.end:
        raise missing
    try:
        rows = read_file(archive.backend, archive.path(table, run_id, holder), TABLES[table])
    except FileNotFoundError:
        raise missing from None
    return select_units(rows, archive.known_run(run_id).line, stored.first, stored.end)


def read_games(
    archive: Archive, run_id: str, stored: StoredRange, game_ids: NDArray[np.int64] | None = None
) -> RangeGames:
    """Return the games of a range that counts, or of these those with some ids.

    Raises:
        FailureError: A file is missing or damaged.

    """
    frame, rows = (read_rows(archive, run_id, stored, table, game_ids) for table in TABLES)
    return games_of_file(frame, rows, archive.folder("plies", run_id) / f"{stored.games}.*.parquet")


def write_slices(archive: Archive, run_id: str) -> int:
    """Write files of their own for the parts of files that count, see ``ranges.cover``; return their number.

    Readers then need not cut these files again, and compaction can join them with their neighbours. Any number of
    processes may do so at once: they write the same. Raises ``FailureError`` for a damaged file, a run without a
    record, and when the disk refuses.
    """
    slices = [stored for stored in archive.ranges(run_id) if not stored.is_file]
    if not slices:
        return 0
    record = archive.known_run(run_id)
    for stored in slices:
        store_range(archive, record, stored[:2], read_games(archive, run_id, stored))
    archive.refresh()
    return len(slices)


# Results.


def read_tallies(archive: Archive, run_ids: Sequence[str]) -> dict[str, dict[int, Tally]]:
    """The tallies of all games of some runs, by run and pairing.

    They are from their tables, and where these lack a range from its games. Raises ``FailureError`` for a damaged file.
    """
    known = {run_id: archive.ranges(run_id, "tallies") for run_id in run_ids}
    paths = [archive.folder("tallies", run_id) / each.name for run_id in known for each in known[run_id]]
    try:
        with explained("read", archive.root / "tallies"):
            contents = archive.backend.read_all(paths)
    except FailureError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        if len(known) > 1:
            return {run_id: found for each in known for run_id, found in read_tallies(archive, [each]).items()}
        known, paths, contents = dict.fromkeys(known, Ranges()), [], []  # some were replaced: all games are counted
    stored = iter(_tallies_in([*zip(paths, contents, strict=True)]))
    return {run_id: _whole(archive, run_id, ranges, [next(stored) for _ in ranges]) for run_id, ranges in known.items()}


def _whole(archive: Archive, run_id: str, known: Ranges, found: Sequence[dict[int, Tally]]) -> dict[int, Tally]:
    """The tallies of a run from those of its ranges, and from the games of those that are not ``known``."""
    counted_now = [_counted(archive, run_id, each) for each in archive.ranges(run_id).not_in(known)]
    return dict(sorted(summed(each for tallies in (*found, *counted_now) for each in tallies.items()).items()))


File = tuple[PurePath, bytes]  # with its content

MOST_KEPT = 1 << 16  # files

# The tallies of files by their names and the SHA-256 of their bytes: a page asks for those of thousands of files anew
# whenever the archive has changed, and to take a file apart takes ten times as long as to read it.
_kept: dict[tuple[str, bytes], dict[int, Tally]] = {}


def _tallies_in(files: Sequence[File]) -> list[dict[int, Tally]]:
    """The tallies in each of some files."""
    keys = [(path.name, hashlib.sha256(content).digest()) for path, content in files]
    found = {key: tallies for key in keys if (tallies := _kept.get(key)) is not None}
    new = {key: file for key, file in zip(keys, files, strict=True) if key not in found}
    made = dict(zip(new, _taken_apart([*new.values()]), strict=True))
    if len(_kept) + len(made) > MOST_KEPT:
        _kept.clear()
    _kept.update(made)
    found |= made
    return [found[key] for key in keys]


def _taken_apart(files: Sequence[File]) -> list[dict[int, Tally]]:
    """The tallies in each of some files, which are read as one table: one after the other takes four times as long."""
    if not files:
        return []
    try:
        sizes = [count_rows(io.BytesIO(content), path.name) for path, content in files]
        frame = pl.read_parquet([content for _, content in files], hive_partitioning=False)
    except (ValueError, pl.exceptions.PolarsError) as error:
        if len(files) > 1:  # which of them is it?
            return [found for file in files for found in _taken_apart([file])]
        raise FailureError(f"{files[0][0]} {error}: remove it, it follows from the games") from error
    if frame.schema != TALLIES:
        raise damaged(files[0][0], "has not the columns of tallies")
    rows = frame.iter_rows(named=True)
    return [tallies_of(islice(rows, size)) for size in sizes]


def _counted(archive: Archive, run_id: str, stored: StoredRange) -> dict[int, Tally]:
    """The tallies of a range from its games."""
    return counted(read_rows(archive, run_id, stored, "games"), archive.known_run(run_id).swapped)


def counted(frame: pl.DataFrame, swapped: bool) -> dict[int, Tally]:
    """The tallies by pairing of rows of the table ``games``."""
    found = {}
    for (pairing,), rows in frame.group_by("pairing", maintain_order=True):
        found[int(str(pairing))] = tally_of(Block(int(str(pairing)), 0, 0, ends_of(rows), swapped))
    return found


def tallies_frame(tallies: Mapping[int, Tally]) -> pl.DataFrame:
    """Tallies by pairing as a table by the schema ``TALLIES``, by pairing."""
    rows = [(pairing, *_counts(tallies[pairing])) for pairing in sorted(tallies)]
    return pl.DataFrame(rows, schema=TALLIES, orient="row")


def _counts(tally: Tally) -> Iterable[int]:
    forfeits = (tally.illegal, tally.errors, tally.late)
    return *(n for row in (*tally.pairs, *tally.singles, *forfeits) for n in row), tally.plies


def tallies_of(rows: Iterable[Mapping[str, int]]) -> dict[int, Tally]:
    """The tallies by pairing of the rows of such tables."""
    return dict(sorted(summed((row["pairing"], _tally(row)) for row in rows).items()))


def _tally(row: Mapping[str, int]) -> Tally:
    pairs, singles, forfeits = (
        [[row[name] for name in columns[first : first + size]] for first in range(0, len(columns), size)]
        for columns, size in ((PAIR_COLUMNS, 3), (SINGLE_COLUMNS, 3), (FORFEIT_COLUMNS, 2))
    )
    return tally_from({"pairs": pairs, "singles": singles}, forfeits, row["plies"])


# Contradictions. Fingerprints in names decide wherever the files of one set make up a file of the other. Only where
# files overlap in another way are their games read.


class FingerprintsOfRun:
    """The fingerprints of the games of a run in some files, also of parts of files."""

    def __init__(self, archive: Archive, run_id: str, ranges: Ranges) -> None:
        self.archive, self.run_id, self.ranges = archive, run_id, ranges
        self._read: tuple[StoredRange, RangeGames, UnitLine] | None = None  # last

    def has(self, stored: StoredRange) -> bool:
        """Whether these are the games of whole files."""
        return self.ranges.sum_of(stored.first, stored.end) == stored.fingerprint

    def part(self, stored: StoredRange, first: int, end: int) -> int:
        """The fingerprint of some units of a file. Raises ``FailureError`` for a damaged file."""
        if (first, end) == stored[:2]:
            return stored.fingerprint
        if self._read is None or self._read[0] != stored:
            line = self.archive.known_run(self.run_id).line
            self._read = stored, read_games(self.archive, self.run_id, stored), line
        _, games, line = self._read
        return games.within(line, first, end).fingerprint


def contradictions(one: FingerprintsOfRun, other: FingerprintsOfRun) -> Iterator[tuple[Range, StoredRange]]:
    """The ranges of units for which both have games that differ, each with the file of ``one``.

    Raises ``FailureError`` for a damaged file, if it has to be read.
    """
    for mine in one.ranges:
        if other.has(mine):
            continue
        for theirs in other.ranges.inside(mine.first, mine.end):
            span = max(mine.first, theirs.first), min(mine.end, theirs.end)
            if not one.has(theirs) and one.part(mine, *span) != other.part(theirs, *span):
                yield span, mine
