"""Verifies everything that was derived from the games of a run: exact values, positions, first plies and verdicts.

Exact values are compared with the values that the rules decide, and with late positions, which are solved again. The
values of earlier positions are not solved again, because that takes as long as annotating. But the values of a game
must fit together. After a gift, the giver's value is the negative of the mover's value with the gift in hand. After a
placement, the mover's value is the value that the same player has at the next gift. Everything else is computed again
from the games.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import polars as pl

from analytics.store import sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames, merge_games
from analytics.store.parquet.encoder import encode_parquet
from analytics.store.range_files import read_games, read_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.table_files import read_parts_or_raise_value_error, select_units
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.decisions import (
    DECISIONS_TABLE,
    GIFT,
    AnnotationExtent,
    derive_decisions_by_ply,
    find_first_annotated_plies,
)
from analytics.tables.derived.definitions import EVALUATIONS_TABLE
from analytics.tables.derived.exact_values import NOT_COUNTED, UNKNOWN
from analytics.tables.derived.range_table import (
    RangeTable,
    RowDeriver,
    compute_rows_per_table,
    select_ranges_with_most_units,
)
from analytics.tables.verification.game_faults import compute_decided_and_late_values
from analytics.tables.verification.games import Problem
from quarto.batch import NO_VALUE, NO_VISITS, VALUE_UNITS
from quarto.errors import FailureError
from quarto.rules import Rules

GAME_COLUMNS = ("game_id", "ply", "kind", "seat", "legal")  # of decisions: columns that follow from the games
COMPARED_ROWS = 1 << 20  # rows of a table that are compared at a time
MAX_MERGED_TABLES = 64  # tables that are merged at a time: each has a temporary file
RATIO_TOLERANCE = 1e-6  # log-likelihood ratios that differ by less differ by rounding only


@dataclass(frozen=True)
class DerivedTableFile:
    """A file of a derived table whose rows are to be checked."""

    archive: ArchiveStore
    record: RunRecord
    stored: StoredRange
    sources: Sequence[StoredRange]  # the ranges of games that its range overlaps
    path: PurePath
    table: RangeTable

    def read_frames(self, rows: int | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows in parts of ``rows`` rows, or as one part if ``rows`` is None.

        Raises ``ValueError`` if the file is damaged.
        """
        return read_parts_or_raise_value_error(self.archive.backend, self.path, self.table.schema, rows)

    def read_games(self, source: StoredRange) -> RangeGames:
        """Read those games of the stored range ``source`` that lie in the range of this file."""
        games = read_games(self.archive, self.record.run_id, source)
        return games.select_units(self.record.unit_line, self.stored.first, self.stored.end)

    def derive_rows(self, source: StoredRange, deriver: RowDeriver) -> Iterator[pl.DataFrame]:
        """Apply ``deriver`` to the games in ``source`` that lie in this file's range, and yield the rows as one part.

        Raises ``FailureError`` if the games are invalid.
        """
        rows = read_rows(self.archive, self.record.run_id, source, self.table.source_table)
        mine = select_units(rows, self.record.unit_line, self.stored.first, self.stored.end)
        try:
            yield deriver(mine, self.record, self.stored.extent)
        except ValueError as error:
            raise FailureError(str(error)) from error


class VerifiedRows(NamedTuple):
    """The number of rows that were verified, and the problems that were found."""

    row_count: int
    problems: list[Problem]


def verify_table(
    archive: ArchiveStore, record: RunRecord, table: RangeTable, unsound: Collection[StoredRange]
) -> VerifiedRows:
    """Verify the names, the contents and the rows of the files of a run's derived table.

    ``unsound`` are the ranges of games in which a problem was found. Rows that were derived from them are not checked,
    because the games themselves are reported. Only rows that readers use are counted.
    """
    name, games, problems = table.name, archive.list_effective_ranges(record.run_id), list[Problem]()
    folder, files = archive.folder(name, record.run_id), archive.list_files(name, record.run_id)
    for derived_file in sorted(files) if table.command else ():
        if not table.is_extent(derived_file.extent):
            problems.append(Problem(folder / derived_file.name, f"no file of {name} has such a name: remove it"))
        elif games.find_fingerprint(derived_file.first, derived_file.end) not in (None, derived_file.fingerprint):
            problems.append(
                Problem(folder / derived_file.name, "it belongs to games that are not in the archive: remove it")
            )
    rows, best = 0, set(select_ranges_with_most_units(archive, record.run_id, table))
    for extent in sorted({derived_file.extent for derived_file in files if table.is_extent(derived_file.extent)}):
        for stored in archive.list_effective_ranges(record.run_id, name, extent.__eq__):
            sources = [*games.select_overlapping(stored.first, stored.end)]
            file = DerivedTableFile(archive, record, stored, sources, folder / stored.name, table)
            count, wrong = _verify_file(file, not set(sources).intersection(unsound))
            rows += count if stored in best else 0
            problems += wrong
    return VerifiedRows(rows, problems)


def _verify_file(file: DerivedTableFile, with_rows: bool) -> VerifiedRows:
    try:
        rows = sum(map(len, file.read_frames(COMPARED_ROWS)))
    except (ValueError, FileNotFoundError) as error:
        return VerifiedRows(0, [Problem(file.path, f"{error}; {file.table.damaged_file_remedy}")])
    if not with_rows:
        return VerifiedRows(rows, [])
    if file.table is EVALUATIONS_TABLE:
        return VerifiedRows(rows, [*_verify_evaluations(file)])
    derive_rows = file.table.derive_rows
    problems = _verify_decisions(file) if derive_rows is None else _verify_sums(file, derive_rows)
    return VerifiedRows(rows, [*problems])


def _verify_evaluations(table: DerivedTableFile) -> Iterator[Problem]:
    """Yield the problems of a file of evaluations."""
    games, remedy = merge_games([table.read_games(source) for source in table.sources]), table.table.damaged_file_remedy
    for fault in _list_evaluation_faults(pl.concat(table.read_frames()), games, table.record.rules):
        yield Problem(table.path, f"{fault}: {remedy}")


def _list_evaluation_faults(rows: pl.DataFrame, games: RangeGames, rules: Rules) -> Iterator[str]:
    """Yield a sentence for each fault in ``rows``, the evaluations of ``games``."""
    ids, ply = rows["game_id"].to_numpy(), rows["ply"].to_numpy()
    if not ((ply[1:] > ply[:-1]) | ((ply[1:] == ply[:-1]) & (ids[1:] > ids[:-1]))).all():
        yield "its rows are not in order"
    if not rows.select((pl.col("seat") == (pl.col("ply") + 1) % 2).all()).item():
        yield "a seat is not that of its ply"
    value, visits = pl.col("value"), pl.col("visits")
    valid = (value == NO_VALUE) | value.is_between(-VALUE_UNITS, VALUE_UNITS)
    if not rows.select((valid & (visits >= NO_VISITS) & (pl.col("microseconds") >= 0)).all()).item():
        yield "a value is not from -1 to 1, or a number of visits or microseconds is below 0"
    column = np.searchsorted(games.game_id, ids)
    if not (games.game_id[np.minimum(column, len(games.game_id) - 1)] == ids).all():
        yield "a turn is of no game of its range"
        return
    opening, last = games.opening[column], np.minimum(games.games.plies[column], 15)  # a turn may have been illegal
    if not ((opening - (not rules.mover_chooses) <= ply) & (ply <= last)).all():
        yield "a turn is at a ply that its game has not"


def _verify_decisions(table: DerivedTableFile) -> Iterator[Problem]:
    """Yield the problems of a file of exact values.

    Rows are checked by ply and kind of decision, and checking ends at the first ply and kind that has a problem. Only
    the rows of one ply are in memory at a time.
    """
    extent, rules = AnnotationExtent.from_text_or_empty(table.stored.extent), table.record.rules
    sources = [table.read_games(source) for source in table.sources]
    chain = _ValueChain(sources, rules.mover_chooses)
    blocks = zip(*(_derive_known_decisions(games, extent, rules) for games in sources), strict=True)
    for frame, expected in _pair_stored_with_expected_rows(
        table, (pl.concat(frames).sort("game_id") for frames in blocks)
    ):
        if frame.is_empty() and expected.is_empty():  # as most are, where only late decisions were judged
            continue
        if not frame.select(GAME_COLUMNS).equals(expected.select(GAME_COLUMNS)):
            fault = f"its rows are not, in order, the decisions of its games: {DECISIONS_TABLE.damaged_file_remedy}"
            yield Problem(table.path, fault)
            return
        problems = [
            *_verify_value_ranges(table.path, frame, extent.choices),
            *_verify_known_values(table.path, frame, expected),
        ]
        if not chain.is_continued_by(frame):
            problems.append(Problem(table.path, f"values at ply {frame['ply'][0]} do not fit together"))
        if problems:
            yield from problems
            return


def _derive_known_decisions(games: RangeGames, extent: AnnotationExtent, rules: Rules) -> Iterator[pl.DataFrame]:
    """Yield the decisions of games by ply and kind. They contain only those exact values that need no long search."""
    first = find_first_annotated_plies(games, extent)
    return derive_decisions_by_ply(
        games, first, compute_decided_and_late_values(games.games, first, extent.choices, rules), rules
    )


def _pair_stored_with_expected_rows(
    table: DerivedTableFile, expected_frames: Iterable[pl.DataFrame]
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield pairs (stored, expected): each expected frame with the stored rows at the same positions.

    If there are too few stored rows, the stored frame has fewer rows than the expected one. In the last pair, the
    expected frame is empty, and the stored frame has the rows that are left over, if any.
    """
    parts, waiting = table.read_frames(COMPARED_ROWS), pl.DataFrame(schema=table.table.schema)
    nothing = waiting
    for block in expected_frames:
        while len(waiting) < len(block) and (part := next(parts, None)) is not None:
            waiting = pl.concat([waiting, part])
        yield waiting[: len(block)], block
        waiting = waiting[len(block) :]
    yield pl.concat([waiting, *islice(parts, 1)]), nothing


def _verify_value_ranges(path: PurePath, frame: pl.DataFrame, choices: bool) -> Iterator[Problem]:
    before, after, saving = pl.col("value_before"), pl.col("value_after"), pl.col("saving")
    counted = saving.is_between(1, pl.col("legal")) if choices else saving == NOT_COUNTED
    for fault, sound in (
        ("a value is not -1, 0 or 1", before.is_between(-1, 1) & after.is_between(-1, 1)),
        ("a decision leaves more than there was", after <= before),
        ("saving is not between 1 and legal, or not -1 where choices are not counted", counted),
    ):
        wrong = frame.filter(~sound)
        for game in wrong["game_id"].head(1):
            yield Problem(
                path, f"{fault} (one of {format_count_with_noun(len(wrong), 'such decision')} at this ply)", game
            )


def _verify_known_values(path: PurePath, frame: pl.DataFrame, expected: pl.DataFrame) -> Iterator[Problem]:
    """Yield a problem for each column of ``frame`` that contradicts a value in ``expected``.

    Values in ``expected`` that are unknown or were not counted are not compared.
    """
    for name in ("value_before", "value_after", "saving"):
        stored, truth = frame[name], expected[name]
        is_known = truth != NOT_COUNTED if name == "saving" else truth.abs() < UNKNOWN
        wrong = (is_known & (stored != truth)).arg_true()
        for row in wrong.head(1):
            fault = f"{name} is {stored[row]} at ply {frame['ply'][row]}, and in truth {truth[row]}"
            remedy = (
                f"(one of {format_count_with_noun(len(wrong), 'such decision')} at this "
                f"ply): {DECISIONS_TABLE.damaged_file_remedy}"
            )
            yield Problem(path, f"{fault} {remedy}", frame["game_id"][row])


class _ValueChain:
    """The value of each game after its latest checked decision, as the player who decides next sees it."""

    def __init__(self, sources: Sequence[RangeGames], mover_chooses: bool) -> None:
        self._ids = np.sort(np.concatenate([games.game_id for games in sources]))
        self._values = np.full(len(self._ids), UNKNOWN, np.int8)
        self._mover_chooses = mover_chooses

    def is_continued_by(self, decisions: pl.DataFrame) -> bool:
        """Return whether the values before ``decisions`` are the values that the previous decisions left.

        All of ``decisions`` have the same ply and kind. The values after them are kept for the next call.
        """
        at = np.searchsorted(self._ids, decisions["game_id"].to_numpy())
        expected, before, after = (
            self._values[at],
            decisions["value_before"].to_numpy(),
            decisions["value_after"].to_numpy(),
        )
        self._values[at] = -after if self._mover_chooses or (decisions["kind"] == GIFT).any() else after
        return bool(((expected == UNKNOWN) | (expected == before)).all())


def _verify_sums(table: DerivedTableFile, deriver: RowDeriver) -> Iterator[Problem]:
    """Yield a problem if the sums in a file are not the sums over its games.

    Only parts of large tables are in memory.
    """
    tables = [table.derive_rows(source, deriver) for source in table.sources]
    while len(tables) > MAX_MERGED_TABLES:
        starts = range(0, len(tables), MAX_MERGED_TABLES)
        tables = [_merge_sums(table, tables[first : first + MAX_MERGED_TABLES]) for first in starts]
    expected = _merge_sums(table, tables)
    if not all(rows.equals(expected_rows) for rows, expected_rows in _pair_stored_with_expected_rows(table, expected)):
        yield Problem(table.path, f"its rows are not what its games give: {table.table.damaged_file_remedy}")


def _merge_sums(table: DerivedTableFile, tables: Sequence[Iterator[pl.DataFrame]]) -> Iterator[pl.DataFrame]:
    """Yield the rows of several tables, merged and with their sums added up.

    The tables are not read before the first part of the rows is requested. A single table, such as that of a small run,
    is in order already.
    """
    rows, units = compute_rows_per_table(len(tables)), table.stored.units
    if len(tables) == 1:
        yield from (part for frame in tables[0] for part in frame.iter_slices(rows))
        return
    yield from table.table.merge_child_rows(
        [_write_to_spool_and_iterate(table_frames, table.table.schema, rows) for table_frames in tables], units
    )


def _write_to_spool_and_iterate(frames: Iterable[pl.DataFrame], schema: pl.Schema, rows: int) -> Iterator[pl.DataFrame]:
    """Write rows to a temporary file, and return an iterator over these rows in parts of ``rows`` rows.

    The whole file is written before this function returns, so that the rows need not be held in memory.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115  (closed when its rows were read)
    file.write(encode_parquet((part for frame in frames for part in frame.iter_slices(rows)), schema))

    def read_frames() -> Iterator[pl.DataFrame]:
        with file:
            for first in count(0, rows):
                file.seek(0)
                part = pl.scan_parquet(file).slice(first, rows).collect()
                if part.is_empty():
                    return
                yield part

    return read_frames()


def verify_verdicts(archive: ArchiveStore, record: RunRecord) -> VerifiedRows:
    """Verify the verdicts of a run: each must follow from the run's games."""
    paths = [path for path in sprt_verdicts.list_verdict_files(archive) if path.parent.name == f"run={record.run_id}"]
    return VerifiedRows(len(paths), [problem for path in paths for problem in _verify_verdict(archive, record, path)])


def _verify_verdict(archive: ArchiveStore, record: RunRecord, path: PurePath) -> Iterator[Problem]:
    if not record.swapped:
        yield Problem(path, "the run has no pairs: its seats are fixed")
        return
    try:
        verdict = sprt_verdicts.load_verdict(archive, path)
        again = sprt_verdicts.run_sequential_test(archive, record.run_id, verdict.hypotheses, verdict.most_pairs)
    except FailureError as error:
        yield Problem(path, str(error))
        return
    same = (again.accepted, again.counts) == (verdict.accepted, verdict.counts)
    if not again.ended:
        fault = f"only the first {again.pairs} of the {verdict.pairs} pairs that decided it are in the archive"
        yield Problem(path, fault)
    elif not same or abs(again.ratio - verdict.ratio) > RATIO_TOLERANCE:
        yield Problem(
            path,
            f"its games give {again.accepted or 'no decision'} after {format_count_with_noun(again.pairs, 'pair')}",
        )
