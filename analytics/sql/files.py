"""The files of an open archive: which ones count, whether they are sound, and the paths by which they are read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath

from analytics.derived_tables.decisions import ANNOTATIONS
from analytics.derived_tables.derived_table import Shard
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
        self._known: dict[str, list[CheckedFile]] | None = None
        self._shards: list[Shard[Index]] | FailureError = []
        self._unchecked = {*TABLES, "decisions", "positions"} if self._check else set()
        self._sound: set[tuple[str, str | None]] = set()  # tables of runs, None: of all, that are as they were written

    @property
    def _files(self) -> dict[str, list[CheckedFile]]:
        """The files by table; found when they are needed first, because a question about runs needs none."""
        if self._known is None:
            self._known = _committed(self.archive) | {"decisions": self._decisions}
            self._shards = self._find_shards(self._known)
        return self._known

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
        _ = self._files  # with which they are found
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
        damaged = first_damaged(self._root, [file for table in sorted(tables) for file in self._files[table]])
        if damaged is not None:
            raise damage(damaged)
        self._unchecked -= tables

    def _find_shards(self, files: dict[str, list[CheckedFile]]) -> list[Shard[Index]] | FailureError:
        """The shards, or the error that hides them, which must not prevent answers about other views."""
        files["positions"] = []
        try:
            shards = INDEXES.shards(self.archive, self.archive.run_ids())
        except FailureError as error:
            return error
        for shard in shards:
            if shard.manifest is not None:
                run_id, index = shard.record.run_id, shard.manifest
                path = INDEXES.file(self.archive, run_id, index)
                files["positions"].append(_checked(self.archive, run_id, path, index.positions))
        return shards

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
