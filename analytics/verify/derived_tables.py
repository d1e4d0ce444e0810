"""Verifies the derived tables of a run: manifests and files here, rows by a check that each kind of table has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import polars as pl

from analytics.store.archive import Archive
from analytics.store.derived_tables import DerivedTable, Manifest, Shard, is_of
from analytics.store.problems import Problem, read_checked
from analytics.store.records import RunRecord
from quarto.errors import FailureError

M = TypeVar("M", bound=Manifest)


@dataclass(frozen=True)
class StoredTable(Generic[M]):
    """The table of one shard; its file is sound, its rows are to be checked."""

    archive: Archive
    shard: Shard[M]
    manifest: M
    path: Path
    frame: pl.DataFrame


Check = Callable[[StoredTable[M]], Iterator[Problem]]


def verify_derived(
    table: DerivedTable[M], archive: Archive, record: RunRecord, check: Check[M]
) -> tuple[int, list[Problem]]:
    """The number of rows that a run has of a derived table, and the problems of its manifests, files and rows."""
    try:
        commits = {commit.shard: commit for commit in archive.commits(record.run_id)}
    except FailureError:  # reported with the games
        return 0, []
    rows, problems = 0, []
    for path in table.manifest_files(archive, record.run_id):
        try:
            manifest = table.load(path)
        except FailureError as error:
            problems.append(Problem(path, str(error)))
            continue
        commit = commits.get(manifest.shard)
        if manifest.shard != int(path.stem):
            problems.append(Problem(path, f"it says shard {manifest.shard}"))
        elif commit is None or not is_of(manifest, commit):
            problems.append(Problem(path, "it belongs to games that are not in the archive: remove it"))
        elif table.is_current(manifest):  # another one is ignored, and replaced
            rows += table.stored(manifest).rows
            problems += _file(table, archive, Shard(record, commit, manifest), manifest, check)
    return rows, problems


def _file(table: DerivedTable[M], archive: Archive, shard: Shard[M], manifest: M, check: Check[M]) -> Iterator[Problem]:
    path = table.file(archive, shard.record.run_id, manifest)
    frame = read_checked(path, table.stored(manifest), table.schema)
    if isinstance(frame, Problem):
        yield Problem(frame.file, f"{frame.what}; {table.remedy}")
        return
    try:
        yield from check(StoredTable(archive, shard, manifest, path, frame))
    except FailureError:  # its games are damaged, which is reported with them
        return
