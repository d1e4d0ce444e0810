"""Verifies what was derived from the games of a run: annotations, the position index, verdicts of tests.

Of an annotation everything is checked but the values themselves, which only solving again can tell. The values of a
game must fit together: a gift leaves its giver the negative of what the mover has with it, and a placement leaves its
mover what the same player has at the next gift. Positions and verdicts are computed again from the games.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Generic, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables import digests
from analytics.derived_tables.decisions import ANNOTATIONS, Annotation, AnnotationExtent, decisions_of, first_plies
from analytics.derived_tables.derived_table import DerivedTable, Manifest, Shard, is_of
from analytics.derived_tables.digest_making import DigestJob, first_plies_of_job, named, positions_of_job
from analytics.derived_tables.digests import Digest
from analytics.derived_tables.exact_values import ExactValues
from analytics.derived_tables.position_index import INDEXES, Index, count_positions
from analytics.store import sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.blocks import ROW_GROUP_ROWS, read_table, table_of, table_parts
from analytics.store.ranges import overlaps
from analytics.store.records import RunRecord
from analytics.store.schema import GIFT, NOT_COUNTED, PLACEMENT
from analytics.store.range_files import read_games
from analytics.verify.problems import Problem
from quarto.errors import FailureError
from quarto.rules import PIECES

GIVEN = ("game_id", "ply", "kind", "seat", "legal")  # of decisions: columns that follow from the games
RATIO_TOLERANCE = 1e-6  # log-likelihood ratios that differ by less differ by rounding only

M = TypeVar("M", bound=Manifest)


@dataclass(frozen=True)
class StoredTable(Generic[M]):
    """The table of one shard; its file is sound, its rows are to be checked."""

    archive: Archive
    shard: Shard[M]
    manifest: M
    path: PurePath
    frame: pl.DataFrame


Check = Callable[[StoredTable[M]], Iterator[Problem]]


def _verify(table: DerivedTable[M], archive: Archive, record: RunRecord, check: Check[M]) -> tuple[int, list[Problem]]:
    """The number of rows that a run has of a derived table, and the problems of its manifests, files and rows."""
    try:
        log = archive.log(record.run_id)
    except FailureError:  # reported with the games
        return 0, []
    commits, own = {commit.shard: commit for commit in log.commits}, {}
    problems: list[Problem] = []
    for number, commit in commits.items():
        try:
            own[number] = table.of_commit(commit)
        except FailureError as error:
            problems.append(Problem(log.place.path(number), str(error)))
    for path in table.manifest_files(archive, record.run_id):
        if overlaps(log.replaced, int(path.stem), int(path.stem) + 1):
            continue  # its shard was replaced, and the table with it
        try:
            manifest = table.load(archive, path)
        except FailureError as error:
            problems.append(Problem(path, str(error)))
            continue
        known = commits.get(manifest.shard)
        if manifest.shard != int(path.stem):
            problems.append(Problem(path, f"it says shard {manifest.shard}"))
        elif known is None or not is_of(manifest, known):
            problems.append(Problem(path, "it belongs to games that are not in the archive: remove it"))
        elif table.is_current(manifest):  # another one is ignored, and replaced
            own[manifest.shard] = manifest
    counting = {number: manifest for number, manifest in own.items() if manifest is not None}
    for number, manifest in counting.items():
        problems += _file(table, archive, Shard(record, commits[number], manifest), manifest, check)
    return sum(table.stored(manifest).rows for manifest in counting.values()), problems


def _file(table: DerivedTable[M], archive: Archive, shard: Shard[M], manifest: M, check: Check[M]) -> Iterator[Problem]:
    path = table.file(archive, shard.record.run_id, manifest)
    try:
        frame = read_table(archive.backend, path, table.stored(manifest), table.schema)
    except ValueError as error:
        yield Problem(path, f"{error}; {table.remedy}")
        return
    try:
        yield from check(StoredTable(archive, shard, manifest, path, frame))
    except FailureError:  # its games are damaged, which is reported with them
        return


def verify_decisions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """The number of decisions that a run has, and what is wrong with them or with the files that name them."""
    return _verify(ANNOTATIONS, archive, record, _decisions)


def _decisions(table: StoredTable[Annotation]) -> Iterator[Problem]:
    record, annotation = table.shard.record, table.manifest
    shard = read_games(table.archive, record.run_id, table.shard.commit)
    first = first_plies(shard, AnnotationExtent(annotation.choices, annotation.from_pieces))
    expected = decisions_of(shard, first, ExactValues.empty(len(first)), record.rules)
    if not table.frame.select(GIVEN).equals(expected.select(GIVEN)):
        yield Problem(
            table.path, f"its rows are not, in order, the decisions of the shard's games: {ANNOTATIONS.remedy}"
        )
        return
    yield from _exact_values(table.path, table.frame, annotation.choices)
    if not record.rules.mover_chooses:
        yield from _chain(table.path, table.frame, shard.game_id, shard.games.plies)


def _exact_values(path: PurePath, frame: pl.DataFrame, choices: bool) -> Iterator[Problem]:
    before, after, saving = pl.col("value_before"), pl.col("value_after"), pl.col("saving")
    counted = saving.is_between(1, pl.col("legal")) if choices else saving == NOT_COUNTED
    for what, sound in (
        ("a value is not -1, 0 or 1", before.is_between(-1, 1) & after.is_between(-1, 1)),
        ("a decision leaves more than there was", after <= before),
        ("saving is not between 1 and legal, or not -1 where choices are not counted", counted),
    ):
        wrong = frame.filter(~sound)
        for game in wrong["game_id"].head(1):
            yield Problem(path, f"{what} (one of {len(wrong)} such decisions)", game)


def _chain(
    path: PurePath, frame: pl.DataFrame, game_id: NDArray[np.int64], plies: NDArray[np.int8]
) -> Iterator[Problem]:
    lengths = dict(zip(game_id.tolist(), plies.tolist(), strict=True))
    for ply in range(PIECES):
        gifts, placements, following = (
            frame.filter((pl.col("ply") == at) & (pl.col("kind") == kind))
            for at, kind in ((ply, GIFT), (ply, PLACEMENT), (ply + 1, GIFT))
        )
        goes_on = [lengths[game] > ply + 1 for game in placements["game_id"].to_list()]
        pairs = [(-gifts["value_after"], placements["value_before"])]
        if following.height:
            left = placements["value_after"].filter(pl.Series(goes_on, dtype=pl.Boolean))
            pairs.append((left, following["value_before"].tail(len(left))))
        for left, right in pairs:
            if left.len() != right.len() or (left != right).any():
                yield Problem(path, f"values at ply {ply} do not fit together")
                return


def verify_positions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """The number of rows of positions that a run has, and what is wrong with them or with the files that name them."""
    rows, problems = _verify(INDEXES, archive, record, _positions)
    return rows, [*problems, *([] if problems else _digests(archive, record))]


def _digests(archive: Archive, record: RunRecord) -> Iterator[Problem]:
    """The problems of a run's digests, of whose shards the indexes are right."""
    try:
        known = digests.counting(archive, record.run_id)
        shards = {shard.commit.shard: shard for shard in INDEXES.shards(archive, [record.run_id])} if known else {}
    except FailureError as error:
        yield Problem(archive.folder(digests.FOLDER, record.run_id), str(error))
        return
    for digest in known:
        own = tuple(shards[number] for number in shards if digest.first <= number < digest.end)
        damaged = [*_damaged_files(archive, record.run_id, digest)]
        yield from damaged or _other_rows(archive, DigestJob(record, own, digest.level), digest)


def _damaged_files(archive: Archive, run_id: str, digest: Digest) -> Iterator[Problem]:
    for path, stored in digests.files_of(archive, run_id, digest):
        schema = digests.TABLES[path.parent.parent.name]
        try:
            for _ in table_parts(archive.backend, path, stored, schema, ROW_GROUP_ROWS):
                pass
        except ValueError as error:
            yield Problem(path, f"{error}; {digests.REMEDY}")


def _other_rows(archive: Archive, job: DigestJob, digest: Digest) -> Iterator[Problem]:
    """The first problem of a digest whose files are as they were written: its shards give other bytes."""
    run_id, stored = job.record.run_id, digest.summed_positions
    wrong = f"its rows are not what the games of its shards give: {digests.REMEDY}"
    try:
        part_rows = stored[0].rows if len(stored) > 1 else None
        parts = positions_of_job(archive, job, digest.end_ply, part_rows)
        for expected, part in zip_longest(parts, stored):
            if expected is None or part is None or named(expected, expected.table.stored(part.file)) != part:
                yield Problem(archive.file("summed_positions", run_id, part or stored[-1]), wrong)
                return
        first_plies = table_of(first_plies_of_job(archive, job)).stored(digest.first_plies.file)
        if first_plies != digest.first_plies:
            yield Problem(archive.file("first_plies", run_id, digest.first_plies), wrong)
    except FailureError:  # the games are damaged, or an index is missing, which is reported with them
        return


def _positions(table: StoredTable[Index]) -> Iterator[Problem]:
    expected = count_positions(table.archive, table.shard, range(table.manifest.end_ply))
    if not table.frame.equals(expected):
        yield Problem(table.path, f"its rows are not what the shard's games give: {INDEXES.remedy}")


def verify_verdicts(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """The number of verdicts of a run, and their problems."""
    paths = [path for path in sprt_verdicts.files(archive) if path.parent.name == f"run={record.run_id}"]
    return len(paths), [problem for path in paths for problem in _verdict(archive, record, path)]


def _verdict(archive: Archive, record: RunRecord, path: PurePath) -> Iterator[Problem]:
    if not record.swapped:
        yield Problem(path, "the run has no pairs: its seats are fixed")
        return
    try:
        verdict = sprt_verdicts.read(archive, path)
        again = sprt_verdicts.trial(archive, record.run_id, verdict.hypotheses, verdict.most_pairs)
    except FailureError as error:
        yield Problem(path, str(error))
        return
    same = (again.accepted, again.counts) == (verdict.accepted, verdict.counts)
    if not again.ended:
        what = f"only the first {again.pairs} of the {verdict.pairs} pairs that decided it are in the archive"
        yield Problem(path, what)
    elif not same or abs(again.ratio - verdict.ratio) > RATIO_TOLERANCE:
        yield Problem(path, f"its games give {again.accepted or 'no decision'} after {again.pairs} pairs")
