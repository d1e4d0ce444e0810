"""Writing and reading the files of a range of units. Only here do games become files, and files games.

Every byte that is read is compared with the check in the file's name. So all results follow from the games that were
stored.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.statistics.tally import Tally, build_tally, sum_tallies_by_key, tally_block, tally_by_pairing
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import explain_errors
from analytics.store.game_tables import (
    ROW_GROUP_ROWS,
    RangeGames,
    TableBytes,
    concat_blocks_into_large_parts,
    encode_game_tables,
    evaluations_to_frame_if_complete,
)
from analytics.store.parquet.encoder import encode_parquet
from analytics.store.parquet.repeated_chunks import FilesToDecode, select_files_to_decode
from analytics.store.ranges import MODULUS, Range, Ranges, StoredRange, UnitLine, compute_checksum, parse_file_name
from analytics.store.records import RunRecord
from analytics.store.schema import (
    EVALUATIONS_SCHEMA,
    PAIR_COLUMNS,
    SINGLE_COLUMNS,
    TABLE_SCHEMAS,
    TALLIES_SCHEMA,
)
from analytics.store.table_files import (
    VERIFY_REMEDY,
    build_checked_games,
    build_games_without_plies,
    check_content_and_read_footer,
    check_no_nulls,
    damaged_file_error,
    read_file_in_parts,
    read_table_file,
    select_units,
)
from quarto.batch import Block
from quarto.errors import FailureError

EVALUATIONS_FOLDER = "evaluations"
GAMES_A_UNIT = 2  # at most
ROWS_IN_MEMORY = 1 << 20  # of a file from which a few games are read: that many are in memory at a time


# Writing.


def write_game_tables(
    archive: ArchiveStore,
    run_id: str,
    line: UnitLine,
    labels: Sequence[tuple[str, str]],
    span: Range,
    blocks: Sequence[Block],
    only_evaluations: bool = False,
) -> StoredRange:
    """Write the files of the games in a range of units: plies, tallies and, last, games.

    Readers use the range as soon as its file of games exists. Evaluations are written too if the blocks have them. With
    ``only_evaluations``, nothing else is written, because the games are already stored; readers use the evaluations
    only if the stored games have the same fingerprint.

    ``labels`` holds the labels of the agents in each pairing of the run. Writing the same range again is harmless, and
    any number of threads may call this function. Returns the range of the file that was written last. Raises
    ``ValueError`` unless ``blocks`` hold exactly the games of ``span``, ``FailureError`` if a file cannot be written.
    """
    blocks = sorted(blocks, key=lambda block: (block.pairing, block.first_pair))  # so that game ids ascend
    parts, evaluations = concat_blocks_into_large_parts(blocks), evaluations_to_frame_if_complete(blocks)
    if evaluations is not None:
        stored = _check_units_and_build_range(parts, line, span)
        written = write_table(
            archive,
            run_id,
            EVALUATIONS_FOLDER,
            stored,
            encode_parquet(evaluations.iter_slices(ROW_GROUP_ROWS), EVALUATIONS_SCHEMA),
        )
        if only_evaluations:
            return written
    return _write_tables(archive, run_id, line, labels, span, parts)


def write_range(archive: ArchiveStore, record: RunRecord, span: Range, games: RangeGames) -> StoredRange:
    """Write the files of ``games``, which are all games in the range ``span`` of a run's units.

    The result and the errors are those of ``write_game_tables``.
    """
    return _write_tables(
        archive,
        record.run_id,
        record.unit_line,
        record.pairings,
        span,
        [games.select_as_contiguous_arrays(slice(None))],
    )


def _write_tables(
    archive: ArchiveStore,
    run_id: str,
    line: UnitLine,
    labels: Sequence[tuple[str, str]],
    span: Range,
    parts: Sequence[RangeGames],
) -> StoredRange:
    """Write the plies, tallies and games of a range of units, and return the range of the file of games.

    ``parts`` come in ascending order of game id.
    """
    stored = _check_units_and_build_range(parts, line, span)
    by_pairing = [(pairing, games) for part in parts for pairing, games in part.group_by_pairing()]
    tallies = tally_by_pairing(Block(pairing, 0, 0, games, line.games_a_pair == 2) for pairing, games in by_pairing)
    games, plies = encode_game_tables(parts, sorted(tallies), labels)
    of_pairings = encode_parquet(tallies_to_frame(tallies).iter_slices(ROW_GROUP_ROWS), TALLIES_SCHEMA)
    content, held = {"plies": plies, "tallies": of_pairings, "games": games}, {}
    for table, rows in content.items():  # games last
        held[table] = write_table(archive, run_id, table, stored, rows)
    if archive.backend.status(archive.folder("plies", run_id) / held["plies"].name) is None:
        # This process stood still for so long that it was taken for killed.
        write_table(archive, run_id, "plies", stored, plies)
    return held["games"]


def _check_units_and_build_range(parts: Sequence[RangeGames], line: UnitLine, span: Range) -> StoredRange:
    """Build the stored range of the games in ``parts``, which come in ascending order of game id.

    Raises ``ValueError`` unless the parts hold exactly the games of the units in ``span``.
    """
    ids = np.concatenate([np.empty(0, np.int64), *(part.game_id for part in parts)])
    units = line.compute_units(ids)
    within = len(ids) == line.count_games([span]) and bool(((span[0] <= units) & (units < span[1])).all())
    if not within or not (np.diff(ids) > 0).all() or (line.games_a_pair == 1 and (ids & 1).any()):
        raise ValueError(f"these are not the games of units {span[0]} to {span[1] - 1}")
    return StoredRange(*span, sum(part.fingerprint for part in parts) % MODULUS)


def write_table(
    archive: ArchiveStore, run_id: str, table: str, games: StoredRange, encoded: TableBytes, extent: str = ""
) -> StoredRange:
    """Write the file of a table for a range of games; return the range with the file's checksum and ``extent``.

    ``extent`` says how much of the games the file holds, and is empty for a table that always holds all. Raises
    ``FailureError`` if the file cannot be written.
    """
    stored = games._replace(checksum=compute_checksum(encoded), extent=extent)
    archive.write_file(archive.folder(table, run_id) / stored.name, encoded)
    return stored


# Reading.


def read_rows(
    archive: ArchiveStore, run_id: str, stored: StoredRange, table: str, game_ids: NDArray[np.int64] | None = None
) -> pl.DataFrame:
    """Read the rows of a table that belong to a range of games, or only the rows of the games with ``game_ids``.

    If the range's file has been replaced since the archive was listed, the rows are read from the file that replaced
    it. With ``game_ids``, the file is read in parts, because it may have more rows than fit into memory.

    Raises:
        FailureError: The file is missing or damaged.

    """
    size = None if game_ids is None else ROWS_IN_MEMORY
    return _read_and_select_units(archive, run_id, stored, table, size, lambda parts: [*_select_games(game_ids, parts)])


def read_first_plies(archive: ArchiveStore, run_id: str, stored: StoredRange, ply_count: int) -> pl.DataFrame:
    """Read the rows of the first ``ply_count`` plies of a range of games, and perhaps some rows of later plies.

    A file is sorted by ply, so these rows are at its beginning. Raises ``FailureError`` if the file is missing or
    damaged, also where it is not read.
    """
    units = archive.resolve_slice_to_file(run_id, stored).units
    return _read_and_select_units(
        archive, run_id, stored, "plies", GAMES_A_UNIT * units * ply_count, lambda parts: [*islice(parts, 1)]
    )


def _read_and_select_units(
    archive: ArchiveStore,
    run_id: str,
    stored: StoredRange,
    table: str,
    part_rows: int | None,
    select_rows: Callable[[Iterable[pl.DataFrame]], list[pl.DataFrame]],
) -> pl.DataFrame:
    """Read the file of a range in parts, apply ``select_rows`` to the parts, and keep the rows of the range's units."""
    schema = TABLE_SCHEMAS[table]
    try:
        path = archive.find_path_of_containing_file(table, run_id, stored)
        parts = select_rows(read_file_in_parts(archive.backend, path, schema, part_rows))
    except FileNotFoundError:
        parts = select_rows([_read_rows_from_replacing_file(ArchiveStore(archive.root), run_id, stored, table)])
    rows = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    if stored.is_file:
        return rows
    return select_units(rows, archive.load_run(run_id).unit_line, stored.first, stored.end)


def _select_games(game_ids: NDArray[np.int64] | None, parts: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the parts of a table, with only the rows of the games in ``game_ids`` if these are given."""
    for part in parts:
        yield part if game_ids is None else part.filter(pl.Series(np.isin(part["game_id"].to_numpy(), game_ids)))


def _read_rows_from_replacing_file(archive: ArchiveStore, run_id: str, stored: StoredRange, table: str) -> pl.DataFrame:
    """Read the rows of a range from the file that now holds the range.

    ``archive`` must not have cached any listing. Raises ``FailureError`` if there is no such file.
    """
    holder = archive.list_effective_ranges(run_id).find_range(stored.first)
    path = archive.folder(table, run_id) / f"{stored.games_stem}.*.parquet"
    missing = FailureError(f"{path} is missing: {VERIFY_REMEDY}")
    if holder is None or holder.end < stored.end:
        raise missing
    try:
        rows = read_table_file(
            archive.backend, archive.find_path_of_containing_file(table, run_id, holder), TABLE_SCHEMAS[table]
        )
    except FileNotFoundError:
        raise missing from None
    return select_units(rows, archive.load_run(run_id).unit_line, stored.first, stored.end)


def read_games(
    archive: ArchiveStore, run_id: str, stored: StoredRange, game_ids: NDArray[np.int64] | None = None
) -> RangeGames:
    """Read the games of a range, or only the games with ``game_ids``.

    Raises:
        FailureError: A file is missing or damaged.

    """
    frame, rows = (read_rows(archive, run_id, stored, table, game_ids) for table in TABLE_SCHEMAS)
    return build_checked_games(frame, rows, archive.folder("plies", run_id) / f"{stored.games_stem}.*.parquet")


def write_slices(archive: ArchiveStore, run_id: str) -> int:
    """Write a file for each slice that readers would otherwise cut from a larger file; return the number of slices.

    ``ranges.select_effective_slices`` determines the slices. Afterwards readers need not cut files, and compaction can
    merge the slices with their neighbours. Any number of processes may do this at once, because they write the same
    content. Raises ``FailureError`` if a file is damaged or cannot be written, or if the run has no record.
    """
    slices = [stored for stored in archive.list_effective_ranges(run_id) if not stored.is_file]
    if not slices:
        return 0
    record = archive.load_run(run_id)
    for stored in slices:
        write_range(archive, record, stored[:2], read_games(archive, run_id, stored))
    archive.forget_cached_listings()
    return len(slices)


# Results.


def read_tallies(archive: ArchiveStore, run_ids: Sequence[str], end: int = sys.maxsize) -> dict[str, dict[int, Tally]]:
    """Read the tallies of the given runs, keyed by run id and then by pairing; only units before ``end`` are counted.

    Tallies come from the table ``tallies``. Ranges that this table lacks, or that reach beyond ``end``, are counted
    from the games instead. Raises ``FailureError`` if a file is damaged.
    """
    run_ranges = {
        run_id: Ranges(stored for stored in archive.list_effective_ranges(run_id, "tallies") if stored.end <= end)
        for run_id in run_ids
    }
    folders = {run_id: archive.folder("tallies", run_id) for run_id in run_ranges}
    paths = [folders[run_id] / stored.name for run_id, held in run_ranges.items() for stored in held]
    try:
        with explain_errors("read", archive.root / "tallies"):
            contents = archive.backend.read_all(paths)
    except FailureError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        if len(run_ranges) > 1:
            return {run_id: read_tallies(archive, [run_id], end)[run_id] for run_id in run_ranges}
        # Some files were replaced: all games are counted.
        run_ranges, paths, contents = dict.fromkeys(run_ranges, Ranges()), [], []
    stored = iter(_get_or_parse_tally_files([*zip(paths, contents, strict=True)]))
    return {
        run_id: _sum_run_tallies(archive, run_id, ranges, [next(stored) for _ in ranges], end)
        for run_id, ranges in run_ranges.items()
    }


class TallyCounts(NamedTuple):
    """The rows of tables of tallies."""

    pairing: NDArray[np.int64]  # [R]
    counts: NDArray[np.int64]  # [R, columns after the first]


def _sum_run_tallies(
    archive: ArchiveStore, run_id: str, tally_ranges: Ranges, range_tallies: Sequence[TallyCounts], end: int
) -> dict[int, Tally]:
    """Sum a run's tallies by pairing: stored tallies, and counts of the games in ranges without stored tallies.

    ``range_tallies`` holds the stored tallies of each of ``tally_ranges``. Only units before ``end`` are counted.
    """
    counted_now = [
        _count_range_tallies(archive, run_id, stored, end)
        for stored in archive.list_effective_ranges(run_id).select_beginning_outside(tally_ranges)
        if stored.first < end
    ]
    stored_sums = _sum_tally_counts(range_tallies)
    summed = sum_tallies_by_key(item for tallies in (stored_sums, *counted_now) for item in tallies.items())
    return dict(sorted(summed.items()))


def _sum_tally_counts(tables: Sequence[TallyCounts]) -> dict[int, Tally]:
    """Sum the rows of tables of tallies by pairing."""
    if not tables:
        return {}
    pairings, index = np.unique(np.concatenate([table.pairing for table in tables]), return_inverse=True)
    sums = np.zeros((len(pairings), len(TALLIES_SCHEMA) - 1), np.int64)
    np.add.at(sums, index, np.concatenate([table.counts for table in tables]))
    return dict(zip(pairings.tolist(), map(_tally_from_counts, sums.tolist()), strict=True))


def _count_range_tallies(archive: ArchiveStore, run_id: str, stored: StoredRange, end: int) -> dict[int, Tally]:
    record, rows = archive.load_run(run_id), read_rows(archive, run_id, stored, "games")
    if stored.end > end:
        rows = select_units(rows, record.unit_line, stored.first, end)
    return tally_game_rows(rows, record.swapped)


FileContent = tuple[PurePath, bytes]  # the path of a file, and its content

MAX_CACHED_FILES = 1 << 16

# The tallies of files by the name of the file and the SHA-256 of its bytes: a page asks for the tallies of thousands of
# files anew whenever the archive has changed, and parsing a file takes longer than reading it.
_cached_tallies: dict[tuple[str, bytes], TallyCounts] = {}


def _get_or_parse_tally_files(files: Sequence[FileContent]) -> list[TallyCounts]:
    """Return the tallies of each file, from the cache if possible and otherwise from the file's content."""
    keys = [(path.name, hashlib.sha256(content).digest()) for path, content in files]
    tallies_by_key = {key: tallies for key in keys if (tallies := _cached_tallies.get(key)) is not None}
    new = {key: file for key, file in zip(keys, files, strict=True) if key not in tallies_by_key}
    parsed = dict(zip(new, _parse_tally_files([*new.values()]), strict=True))
    if len(_cached_tallies) + len(parsed) > MAX_CACHED_FILES:
        _cached_tallies.clear()
    _cached_tallies.update(parsed)
    tallies_by_key |= parsed
    return [tallies_by_key[key] for key in keys]


def _parse_tally_files(files: Sequence[FileContent]) -> list[TallyCounts]:
    """Parse the tallies of all files as one table, because parsing one file at a time takes far longer."""
    if not files:
        return []
    try:
        footers = [check_content_and_read_footer(io.BytesIO(content), path.name) for path, content in files]
        selection = select_files_to_decode([content for _, content in files], footers)
        frame = pl.read_parquet([files[index][1] for index in selection.indices], hive_partitioning=False)
        if frame.schema == TALLIES_SCHEMA:
            tallies = _build_tally_counts(check_no_nulls(frame), selection, [path.name for path, _ in files])
    except (ValueError, pl.exceptions.PolarsError) as error:
        if len(files) > 1:  # which of them is it?
            return [file_tallies for file in files for file_tallies in _parse_tally_files([file])]
        raise FailureError(f"{files[0][0]} {error}: remove it, it follows from the games") from error
    if frame.schema != TALLIES_SCHEMA:
        raise damaged_file_error(files[0][0], "does not have the columns of tallies")
    ends = np.cumsum(selection.rows)[:-1]
    return [*map(TallyCounts, np.split(tallies.pairing, ends), np.split(tallies.counts, ends))]


def _build_tally_counts(decoded: pl.DataFrame, selection: FilesToDecode, names: Sequence[str]) -> TallyCounts:
    """Build the tallies of all files from the rows of the files that were decoded.

    Raises ``ValueError`` if a file has a pairing twice, or counts that the games of its units cannot have.
    """
    pairing, *columns = selection.expand(decoded)
    most = [0 if (named := parse_file_name(name)) is None else named.max_rows for name in names]
    counts, limit = np.stack(columns, axis=1), np.repeat(most, selection.rows)
    if (counts < 0).any() or (counts > limit[:, np.newaxis]).any():
        raise ValueError("has counts that the games of its units cannot have")
    file_number = np.repeat(np.arange(len(names)), selection.rows)
    if (np.diff((file_number << 32) + pairing) <= 0).any():
        raise ValueError("does not have its pairings in ascending order")
    return TallyCounts(pairing.astype(np.int64), counts)


def tally_game_rows(frame: pl.DataFrame, swapped: bool) -> dict[int, Tally]:
    """Compute the tally of each pairing from rows of the table ``games``.

    ``swapped`` tells whether each pair has a second game, with the seats exchanged.
    """
    rows = frame.sort("pairing", maintain_order=True)
    pairings, games = rows["pairing"].to_numpy(), build_games_without_plies(rows)
    firsts = np.flatnonzero(np.diff(pairings, prepend=-1)).tolist()
    # Slices of arrays, because a frame for each of a tournament's thousands of pairings would take a millisecond.
    tallies = {}
    for first, end in pairwise([*firsts, len(rows)]):
        pairing, part = int(pairings[first]), slice(first, end)
        games_of_pairing = games._replace(plies=games.plies[part], winner=games.winner[part], ending=games.ending[part])
        tallies[pairing] = tally_block(Block(pairing, 0, 0, games_of_pairing, swapped))
    return tallies


def tallies_to_frame(tallies: Mapping[int, Tally]) -> pl.DataFrame:
    """Convert a mapping from pairings to tallies into a table with ``TALLIES_SCHEMA``, sorted by pairing."""
    rows = [(pairing, *_tally_to_counts(tallies[pairing])) for pairing in sorted(tallies)]
    return pl.DataFrame(rows, schema=TALLIES_SCHEMA, orient="row")


def _tally_to_counts(tally: Tally) -> Iterable[int]:
    forfeits = (tally.illegal, tally.errors, tally.late)
    return *(n for row in (*tally.pairs, *tally.singles, *forfeits) for n in row), tally.plies


def _tally_from_counts(counts: Sequence[int]) -> Tally:
    """Build a tally from the columns of ``TALLIES_SCHEMA`` after the first, in order."""
    rows = [counts[first : first + 3] for first in range(0, len(PAIR_COLUMNS) + len(SINGLE_COLUMNS), 3)]
    forfeits = [counts[first : first + 2] for first in range(3 * len(rows), len(counts) - 1, 2)]
    return build_tally({"pairs": rows[:3], "singles": rows[3:]}, forfeits, counts[-1])


# Contradictions. Fingerprints in names decide wherever the files of one set make up a file of the other. Only where
# files overlap in another way are their games read.


class RunFingerprints:
    """The fingerprints of a run's games in the given files, by whole file or by part of a file."""

    def __init__(self, archive: ArchiveStore, run_id: str, ranges: Ranges) -> None:
        self.archive, self.run_id, self.ranges = archive, run_id, ranges
        self._read: tuple[StoredRange, RangeGames, UnitLine] | None = None  # the games that were read last

    def has_range(self, stored: StoredRange) -> bool:
        """Return whether one or more whole files together hold exactly this range, with the same games."""
        return self.ranges.find_fingerprint(stored.first, stored.end) == stored.fingerprint

    def compute_fingerprint(self, stored: StoredRange, first: int, end: int) -> int:
        """Compute the fingerprint of the games that the file ``stored`` holds in a range of units.

        The range goes from ``first`` up to but not including ``end``. Raises ``FailureError`` if the file is damaged.
        """
        if (first, end) == stored[:2]:
            return stored.fingerprint
        if self._read is None or self._read[0] != stored:
            line = self.archive.load_run(self.run_id).unit_line
            self._read = stored, read_games(self.archive, self.run_id, stored), line
        _, games, line = self._read
        return games.select_units(line, first, end).fingerprint


def list_contradictions_by_file_of_one(
    one: RunFingerprints, other: RunFingerprints
) -> Iterator[tuple[Range, StoredRange]]:
    """Yield each range of units with different games in ``one`` and ``other``, and the file of ``one`` that holds it.

    Raises ``FailureError`` if a file that has to be read is damaged.
    """
    for mine in one.ranges:
        if other.has_range(mine):
            continue
        for theirs in other.ranges.select_overlapping(mine.first, mine.end):
            span = max(mine.first, theirs.first), min(mine.end, theirs.end)
            if not one.has_range(theirs) and one.compute_fingerprint(mine, *span) != other.compute_fingerprint(
                theirs, *span
            ):
                yield span, mine
