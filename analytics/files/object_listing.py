"""A backend for one reader of an archive, which asks the store as little as possible.

Each of the archive's folders is listed once, with all in it, and its records are read at once, many at a time. So an
archive with any number of runs is opened with a request for each thousand files and one for each record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from threading import RLock

from analytics.files.backend import RECORD, FileStatus, ObjectUrl
from analytics.files.object_settings import StoreSettings
from analytics.files.objects import ObjectBackend, at_once


class _Tree:
    """The files of one folder of the archive, and of the folders in it."""

    def __init__(self, top: PurePath, files: Mapping[PurePath, FileStatus]) -> None:
        self.files = files
        self.entries: dict[PurePath, dict[PurePath, None]] = {}  # by folder
        for path in files:
            child = path
            while child != top:
                siblings = self.entries.setdefault(child.parent, {})
                if child in siblings:
                    break
                siblings[child] = None
                child = child.parent


class ListedBackend(ObjectBackend):
    """Folders are as they were when they were listed; objects that were not there then are asked for all the same."""

    def __init__(self, root: ObjectUrl, settings: StoreSettings) -> None:
        super().__init__(root.scheme, root.bucket, settings)
        self._root = root
        self._lock = RLock()
        self._trees: dict[PurePath, _Tree] = {}  # by folder of the archive
        self._records: dict[PurePath, bytes] = {}  # that were read, and nobody has asked for yet
        self._fetched: set[PurePath] = set()  # folders

    def _top(self, path: PurePath) -> PurePath | None:
        """The archive's folder that a location is in, or is; None: it is in none."""
        depth = len(self._root.parts)
        inside = len(path.parts) > depth and path.parts[:depth] == self._root.parts
        return self._root / path.parts[depth] if inside else None

    def _tree(self, path: PurePath) -> _Tree | None:
        top = self._top(path)
        if top is None:
            return None
        with self._lock:
            if top not in self._trees:
                self._trees[top] = _Tree(top, super().below(top))
            return self._trees[top]

    def status(self, path: PurePath) -> FileStatus | None:
        tree = self._tree(path)
        found = tree.files.get(path) if tree else None
        return super().status(path) if found is None else found

    def names(self, folder: PurePath) -> list[str]:
        tree = self._tree(folder)
        return super().names(folder) if tree is None else [path.name for path in tree.entries.get(folder, ())]

    def below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        tree = self._tree(folder)
        if tree is None:
            return super().below(folder)
        return {path: status for path, status in tree.files.items() if folder in path.parents}

    def read(self, path: PurePath) -> bytes:
        if path.suffix == RECORD:
            self._fetch(path)
            with self._lock:
                if path in self._records:
                    return self._records.pop(path)
        return super().read(path)

    def _fetch(self, path: PurePath) -> None:
        """Read all records of the archive's folder that a record is in, unless that was done."""
        top, tree = self._top(path), self._tree(path)
        if top is None or tree is None:
            return
        with self._lock:
            if top not in self._fetched:
                self._fetched.add(top)
                paths = [each for each in tree.files if each.suffix == RECORD]
                found = zip(paths, at_once(self._found, paths), strict=True)
                self._records |= {each: content for each, content in found if content is not None}

    def _found(self, path: PurePath) -> bytes | None:
        try:
            return super().read(path)
        except FileNotFoundError:
            return None
