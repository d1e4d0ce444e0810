"""Tables that are derived from the shards of games: which of them count, which are missing, and storing one.

The table of a shard is one Parquet file. It counts if a manifest, a small JSON file with the number of the shard, names
it, and as long as the shard has the file of plies that it was made from. Like a commit, a manifest appears whole; it is
replaced in one step by that of a table which holds more. Every derived table can be made again from the games.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, TypeVar

import polars as pl

from analytics.files.atomic import explained
from analytics.store.archive import Archive, commit_files, store
from analytics.store.blocks import ROW_GROUP_ROWS, table_of, table_parts
from analytics.store.json_records import CHECKSUM, RESTORE, Count, RecordError, StoredRecord, dump, typed
from analytics.store.ranges import overlaps
from analytics.store.records import Commit, RunRecord, Sha256, StoredFile, now
from quarto.errors import FailureError


class Manifest(StoredRecord, frozen=True):
    """Names the file that counts for one shard, in a field that is called like the table.

    After that, a kind of manifest has fields of its own and, last, the time ``created``.
    """

    shard: Count  # of the games
    plies: Sha256  # of that shard's file of plies


M = TypeVar("M", bound=Manifest)


def is_of(manifest: Manifest, commit: Commit) -> bool:
    """Whether a manifest belongs to the shard that a commit names."""
    return (manifest.shard, manifest.plies) == (commit.shard, commit.plies.sha256)


@dataclass(frozen=True)
class Shard(Generic[M]):
    """A shard of games, and the manifest of its derived table if one counts."""

    record: RunRecord
    commit: Commit
    manifest: M | None


def parts_of_file(
    archive: Archive, path: PurePath, stored: StoredFile, schema: pl.Schema, rows: int, remedy: str
) -> Iterator[pl.DataFrame]:
    """A stored table in parts of so many rows. A damaged one raises ``FailureError``, which ends with ``remedy``."""
    try:
        yield from table_parts(archive.backend, path, stored, schema, rows)
    except ValueError as error:
        raise FailureError(f"{path} {error}; {remedy}") from error


@dataclass(frozen=True)
class DerivedTable(Generic[M]):
    """A kind of derived table: where its files lie, and which of them count."""

    name: str  # of the table, of the folder of its files, and of the manifests' field
    manifests: str  # the folder of the manifests
    schema: pl.Schema
    manifest: type[M]
    command: str  # makes what is missing
    is_current: Callable[[M], bool] = lambda _manifest: True  # a manifest that is not current is ignored, and replaced
    group_rows: int = ROW_GROUP_ROWS  # of a row group of its files

    @property
    def remedy(self) -> str:
        """The advice for a damaged file."""
        return f"remove it and run '{self.command}'"

    def manifest_files(self, archive: Archive, run_id: str) -> list[PurePath]:
        """The manifests of a run, damaged or not, by shard."""
        return commit_files(archive, archive.folder(self.manifests, run_id))

    def load(self, archive: Archive, path: PurePath) -> M:
        """The manifest in a file. Raises ``FailureError`` for a damaged one."""
        return archive.load(path, self.manifest, self.remedy)

    def counts(self, manifest: M, commit: Commit | None) -> bool:
        """Whether a manifest counts for the shard of a commit; None: there is no shard of its number."""
        return commit is not None and is_of(manifest, commit) and self.is_current(manifest)

    def counting(self, archive: Archive, run_id: str) -> dict[int, M]:
        """The manifests of a run that count, by shard. Raises ``FailureError`` for a damaged one."""
        files, log = self.manifest_files(archive, run_id), archive.log(run_id)
        if not files and not log.summary.derived:
            return {}
        return self._of(archive, files, {commit.shard: commit for commit in log.commits})

    def counting_of(self, archive: Archive, run_id: str, commits: Sequence[Commit]) -> dict[int, M]:
        """The same for some commits that count: no other manifest is read."""
        wanted = {commit.shard: commit for commit in commits}
        files = [path for path in self.manifest_files(archive, run_id) if int(path.stem) in wanted] if wanted else []
        return self._of(archive, files, wanted)

    def _of(self, archive: Archive, files: Sequence[PurePath], commits: Mapping[int, Commit]) -> dict[int, M]:
        """The manifests of commits: those in files and, where none counts, those that came with a commit."""
        found = {number: own for number, commit in commits.items() if (own := self.of_commit(commit)) is not None}
        loaded = [self.load(archive, path) for path in files]
        return found | {each.shard: each for each in loaded if self.counts(each, commits.get(each.shard))}

    def of_commit(self, commit: Commit) -> M | None:
        """The manifest that came with a commit which replaced others, if it is current."""
        if self.name not in commit.derived:
            return None
        values = {"shard": commit.shard, "plies": commit.plies.sha256, **commit.derived[self.name]}
        try:
            own = typed(values, self.manifest, f"derived.{self.name}")
        except RecordError as error:
            raise FailureError(f"commit {commit.shard} is damaged ({error}): {RESTORE}") from error
        return own if self.is_current(own) else None

    def fields(self, manifest: M) -> dict[str, Any]:
        """The fields of a manifest that are its own, and the time: how a commit holds it."""
        values = json.loads(dump(manifest))
        return {name: value for name, value in values.items() if name not in ("shard", "plies", CHECKSUM)}

    def count(self, archive: Archive, run_id: str) -> int:
        """The number of shards of a run that have a manifest, damaged or not."""
        log = archive.log(run_id)
        numbers = {int(path.stem) for path in self.manifest_files(archive, run_id)}
        counting = {number for number in numbers if not overlaps(log.replaced, number, number + 1)}
        if log.summary.derived:
            counting |= {commit.shard for commit in log.commits if self.name in commit.derived}
        return len(counting)

    def shards(self, archive: Archive, run_ids: Sequence[str]) -> list[Shard[M]]:
        """The shards of runs, each with the manifest that counts.

        Raises ``FailureError`` for a damaged file, and for a run without a record: its rules are not known.
        """
        found = []
        for run_id in run_ids:
            record, commits = archive.run(run_id), archive.commits(run_id)
            if record is None:
                raise FailureError(
                    f"run {run_id} has games and no record, so its rules are not known: restore its record"
                )
            known = self.counting(archive, run_id)
            found += [Shard(record, commit, known.get(commit.shard)) for commit in commits]
        return found

    def stored(self, manifest: M) -> StoredFile:
        """The file that a manifest names."""
        stored: StoredFile = getattr(manifest, self.name)
        return stored

    def file(self, archive: Archive, run_id: str, manifest: M) -> PurePath:
        """The path of the file that a manifest names."""
        return archive.file(self.name, run_id, self.stored(manifest))

    def parts(self, archive: Archive, run_id: str, manifest: M, rows: int) -> Iterator[pl.DataFrame]:
        """The table that a manifest names, in parts of so many rows. Raises ``FailureError`` for a damaged file."""
        path = self.file(archive, run_id, manifest)
        return parts_of_file(archive, path, self.stored(manifest), self.schema, rows, self.remedy)

    def files(self, archive: Archive) -> list[PurePath]:
        """The paths of all files that count, also for shards that were replaced.

        Raises ``FailureError`` for a damaged commit or manifest.
        """
        return [
            self.file(archive, run_id, manifest)
            for run_id in archive.run_ids()
            for manifest in self._of(archive, self.manifest_files(archive, run_id), archive.log(run_id).all).values()
        ]

    def lacks(self, archive: Archive, shard: Shard[M], enough: Callable[[M], bool]) -> bool:
        """Whether the table of a shard is not ``enough``, or its file missing or cut off. Its bytes are not checked."""
        known = shard.manifest
        if known is None or not enough(known):
            return True
        status = archive.backend.status(self.file(archive, shard.record.run_id, known))
        return status is None or status.bytes != self.stored(known).bytes

    def renewed(self, archive: Archive, shard: Shard[M]) -> Shard[M]:
        """The shard with the manifest that counts by now. Raises ``FailureError`` for a damaged one."""
        path = self._manifest_file(archive, shard)
        files = [path] if archive.backend.status(path) else []
        known = self._of(archive, files, {shard.commit.shard: shard.commit})
        return Shard(shard.record, shard.commit, known.get(shard.commit.shard))

    def store(
        self,
        archive: Archive,
        shard: Shard[M],
        frame: pl.DataFrame,
        fields: Mapping[str, Any],
        enough: Callable[[M], bool],
    ) -> StoredFile | None:
        """Store the table of a shard: its file, then the manifest that makes it count, with its own ``fields``.

        Returns None, and leaves nothing, when another writer was faster and its table is ``enough``. Raises
        ``FailureError`` when a file cannot be written or was removed meanwhile. Interrupted in the last step, it leaves
        the file even if nothing names it: a file that may count is removed by ``gc`` alone.
        """
        commit, target = shard.commit, self._manifest_file(archive, shard)
        name = f"part-{commit.shard:06d}-{uuid.uuid4().hex}.parquet"
        path = archive.folder(self.name, shard.record.run_id) / name
        with explained("write to", archive.root), archive.backend.pending() as pending:
            stored = store(pending, path, table_of(frame, self.group_rows))
            values: dict[str, Any] = {"shard": commit.shard, "plies": commit.plies.sha256, "created": now()}
            values[self.name] = stored
            content = dump(self.manifest(**fields, **values))
            if archive.backend.create(target, content, pending.check):
                return stored
            pending.refused()
            if self.lacks(archive, self.renewed(archive, shard), enough):
                archive.backend.replace(target, content, pending.check)
                return stored
            pending.drop()
        return None

    def _manifest_file(self, archive: Archive, shard: Shard[M]) -> PurePath:
        return archive.folder(self.manifests, shard.record.run_id) / f"{shard.commit.shard:06d}.json"
