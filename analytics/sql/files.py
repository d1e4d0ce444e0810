"""The files of an open archive: which ones count, whether they are sound, and the paths by which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from analytics.derived_tables import digests
from analytics.derived_tables.decisions import ANNOTATIONS
from analytics.derived_tables.derived_table import Shard
from analytics.derived_tables.digests import Digest
from analytics.derived_tables.merged_positions import Key
from analytics.derived_tables.position_index import INDEXES, Index, NotIndexedError, index_jobs
from analytics.sql.records import TABLE
from analytics.sql.scratch import Scratch
from analytics.store.archive import Archive
from analytics.store.checked_files import CheckedFile, first_damaged
from analytics.store.inventory import require_consistent
from analytics.store.policy_cards import folder_of
from analytics.store.records import PolicyCard, PolicyFile, StoredFile
from analytics.store.schema import TABLES
from analytics.store.snapshot import Snapshot
from quarto.errors import FailureError, RequestError, nearest


def damage(file: CheckedFile) -> FailureError:
    """The error for a file that is not as it was written."""
    return FailureError(f"{file.path} is missing or damaged: run 'qarena archive verify'")


def require_whole(files: Iterable[CheckedFile]) -> None:
    """Raise ``FailureError`` for a file that is missing or truncated."""
    for file in files:
        if not file.is_whole:
            raise damage(file)


def _checked(archive: Archive, run_id: str, path: PurePath, stored: StoredFile | PolicyFile) -> CheckedFile:
    return CheckedFile(run_id, archive.backend.absolute(path), stored, archive.backend)


def _committed(archive: Snapshot) -> dict[str, list[CheckedFile]]:
    files: dict[str, list[CheckedFile]] = {table: [] for table in TABLES}
    for run_id in archive.run_ids():
        for commit in archive.commits(run_id):
            for table in TABLES:
                stored: StoredFile = getattr(commit, table)
                files[table].append(_checked(archive, run_id, archive.file(table, run_id, stored), stored))
    return files


def _annotated(archive: Snapshot) -> list[CheckedFile]:
    return [
        _checked(archive, run_id, ANNOTATIONS.file(archive, run_id, annotation), annotation.decisions)
        for run_id in archive.run_ids()
        for annotation in ANNOTATIONS.counting(archive, run_id).values()
    ]


def _require_consistent(archive: Snapshot) -> None:
    """Raise ``FailureError`` for commits that are lost, hold the same games, or contradict themselves."""
    for run_id in sorted({*archive.run_ids(), *archive.recorded()}):
        record = None
        with suppress(FailureError):  # a damaged record spoils the views that need it
            record = archive.run(run_id)
        require_consistent(archive, run_id, record)


class PositionFiles(NamedTuple):
    """Where the turns in a position are, of one run."""

    of_digests: list[PurePath]
    shards: list[Shard[Index]]  # in no digest that helps
    tables: set[str]  # of which all these files are: see ``_files_of``


class ArchiveFiles:
    """The files of an archive that count, as it was at one moment."""

    def __init__(self, root: PurePath, check: bool = True) -> None:
        """See ``OpenArchive``."""
        self._root = root
        self._check = check
        self._scratch: Scratch | None = None
        self.refresh()

    def refresh(self) -> None:
        """See the archive as it is now. Raises ``FailureError`` as opening it does."""
        self.close()
        self.archive = Snapshot(Archive.open(self._root).root)
        if self._check:
            _require_consistent(self.archive)
        self._decisions = _annotated(self.archive)
        self._files: dict[str, list[CheckedFile]] = {}  # by table, those that were found: see ``_files_of``
        self._shards: list[Shard[Index]] | FailureError | None = None
        self._digests: dict[str, list[Digest]] = {}  # by run
        self._loose: dict[tuple[str, tuple[str, ...]], list[Shard[Index]]] = {}  # by run and the names of its digests
        self._unchecked = {*TABLES, "decisions", "positions", "first_plies"} if self._check else set()
        self._sound: set[PurePath] = set()  # files that are as they were written

    def _files_of(self, table: str) -> list[CheckedFile]:
        """The files of a table; found when they are needed first, because a question about runs needs none.

        Those of ``first_plies`` are of digests, and files of plies for the shards in none; those of ``digests`` all
        files of digests, and indexes for the shards in none. Raises ``FailureError`` for a damaged digest.
        """
        if table not in self._files:
            if table == "positions":
                self._files[table] = [*self._indexed()]
            elif table == "digests":
                self._files[table] = [*self._digested()]
            elif table == "first_plies":
                self._files[table] = [file for part in self.first_plies_files() for file in part]
            else:
                self._files |= _committed(self.archive) | {"decisions": self._decisions}
        return self._files[table]

    def digests(self, run_id: str) -> list[Digest]:
        """The digests of a run that count. Raises ``FailureError`` for a damaged one."""
        if run_id not in self._digests:
            self._digests[run_id] = digests.counting(self.archive, run_id)
        return self._digests[run_id]

    def first_plies_files(self, run_id: str | None = None) -> tuple[list[CheckedFile], list[CheckedFile]]:
        """The files with the first plies of digests, and the files of plies of the shards in none; of one run or all.

        Raises ``FailureError`` for a damaged digest.
        """
        counted, rest = [], []
        for each in self.archive.run_ids() if run_id is None else [run_id]:
            known = self.digests(each)
            for digest in known:
                path = self.archive.file("first_plies", each, digest.first_plies)
                counted.append(_checked(self.archive, each, path, digest.first_plies))
            for commit in digests.outside(self.archive.commits(each), known):
                path = self.archive.file("plies", each, commit.plies)
                rest.append(_checked(self.archive, each, path, commit.plies))
        return counted, rest

    def close(self) -> None:
        """Free memory and temporary files. May be called twice; the next question opens everything again."""
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def place(self, path: PurePath) -> PurePath:
        """The path or URL by which DuckDB and Polars read a file of the archive.

        They take some names of folders as patterns, and none that is not UTF-8. URLs hold neither.
        """
        root = self.archive.backend.absolute(self.archive.root)
        if not isinstance(root, Path):
            return path
        plain = self._scratch_folder().plain(root)
        return path if plain == root else plain / self.archive.backend.absolute(path).relative_to(root)

    def shards(self) -> list[Shard[Index]]:
        """All shards with the indexes of their positions, by run and number.

        Raises ``FailureError`` for a damaged index and for a run without a record.
        """
        if self._shards is None:
            try:
                self._shards = INDEXES.shards(self.archive, self.archive.run_ids())
            except FailureError as error:
                self._shards = error
        if isinstance(self._shards, FailureError):
            raise self._shards
        return self._shards

    def _scratch_folder(self) -> Scratch:
        if self._scratch is None:
            try:
                self._scratch = Scratch()
            except OSError as error:
                raise FailureError(
                    f"no temporary folder can be made: {error.strerror or error}; name another one in TMPDIR"
                ) from error
        return self._scratch

    def _require_sound(self, tables: set[str]) -> None:
        """Raise ``FailureError`` if a file of these tables is not as it was written; each is looked at once."""
        tables &= self._unchecked
        damaged = first_damaged(self._root, [file for table in sorted(tables) for file in self._files_of(table)])
        if damaged is not None:
            raise damage(damaged)
        self._unchecked -= tables

    def positions_at(self, run_id: str, first: Key, last: Key) -> PositionFiles:
        """The files and shards of a run in which the turns between two places in the order of positions are.

        Raises ``FailureError`` for a run without a record, and for a damaged manifest.
        """
        whole, files = [], []
        for digest in self.digests(run_id):
            parts = [
                self.archive.file("summed_positions", run_id, part)
                for part in digests.positions_at(digest, first, last)
            ]
            if digest.end_ply > last[0] and all(map(self.archive.backend.status, parts)):
                whole.append(digest)
                files += parts
        table = "digests" if len(whole) == len(self.digests(run_id)) else "positions"
        return PositionFiles(files, self._outside(run_id, whole), {"digests", table})

    def _outside(self, run_id: str, known: Sequence[Digest]) -> list[Shard[Index]]:
        """The shards of a run that are in none of some digests."""
        key = run_id, tuple(digest.name for digest in known)
        if key not in self._loose:
            record = self.archive.run(run_id)
            if record is None:
                raise FailureError(f"run {run_id} has games and no record: restore its record")
            commits = digests.outside(self.archive.commits(run_id), known)
            indexes = INDEXES.counting_of(self.archive, run_id, commits)
            self._loose[key] = [Shard(record, commit, indexes.get(commit.shard)) for commit in commits]
        return self._loose[key]

    def _digested(self) -> Iterator[CheckedFile]:
        """The files of ``digests`` of all runs; of runs with an error none."""
        for run_id in self.archive.run_ids():
            with suppress(FailureError):
                known = self.digests(run_id)
                for digest in known:
                    for path, stored in digests.files_of(self.archive, run_id, digest):
                        yield _checked(self.archive, run_id, path, stored)
                yield from self._index_files(self._outside(run_id, known))

    def _indexed(self) -> Iterator[CheckedFile]:
        """The files of positions; none if an error hides the shards, which must not prevent other answers."""
        with suppress(FailureError):
            yield from self._index_files(self.shards())

    def _index_files(self, shards: Sequence[Shard[Index]]) -> Iterator[CheckedFile]:
        for shard in shards:
            if shard.manifest is not None:
                run_id, index = shard.record.run_id, shard.manifest
                yield _checked(self.archive, run_id, INDEXES.file(self.archive, run_id, index), index.positions)

    def _was_replaced(self) -> bool:
        """Whether files are gone, and all that are were replaced by others since the archive was opened."""
        files = [file for files in self._files.values() for file in files]
        gone = {file.path for file in files if file.backend.status(file.path) is None}
        if not gone:
            return False
        now = Snapshot(self._root)
        known = _committed(now) | {"decisions": _annotated(now)}
        return not gone & {file.path for files in known.values() for file in files}

    def _require_indexed(self) -> None:
        """Raise ``NotIndexedError`` unless all shards are indexed, since a part would be a wrong answer."""
        shards = self.shards()
        missing = len(index_jobs(self.archive, shards))
        if missing:
            what = f"{missing} of {len(shards)} shards are not indexed"
            raise NotIndexedError(f"{what}: run 'qarena archive index' first")

    def _policy_card(self, wanted: str) -> PolicyCard:
        """The card of a policy by its id or name. Raises ``RequestError`` if there is none."""
        cards = self.archive.cards()
        found = [card for card in cards if wanted in (card.policy_id, card.name)]
        if not found:
            known = {card.name for card in cards}
            raise RequestError(f"policy {wanted!r} is not in archive {self._root}{nearest(wanted, known)}")
        return found[-1]  # the newest card of a name

    def _policy_file(self, card: PolicyCard) -> CheckedFile | None:
        """The table of a policy; None: it is a genome and has none."""
        if TABLE not in card.files:
            return None
        path = folder_of(self.archive, card.policy_id) / card.stored_name(TABLE)
        return _checked(self.archive, "", path, card.files[TABLE])

    def _sound_policy_file(self, card: PolicyCard) -> CheckedFile | None:
        """The same. Raises ``FailureError`` if it is not as it was written."""
        file = self._policy_file(card)
        if file is not None and (first_damaged(self._root, [file]) if self._check else not file.is_whole):
            raise damage(file)
        return file
