"""Files that a writer has stored and that nothing names yet: first the files, then the small one that names them.

Until the second step nobody but their writer can tell that they are wanted. So the writer keeps each of them locked, as
long as its process lives, and ``qarena archive gc`` leaves locked files alone, however old they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from analytics.store import locks
from analytics.store.atomic import aside, make_folder, sync_folder, write_locked


class PendingFiles:
    """The files of one commit, manifest or card. A context manager.

    An error removes them as long as nothing can name them. From ``check`` on, something may: then nobody but ``gc``
    removes them, unless ``drop`` says that it was another writer's name after all.
    """

    def __init__(self) -> None:
        self._locks: dict[Path, int] = {}
        self._made: list[Path] = []
        self._may_be_named = False

    def add(self, path: Path, content: bytes | memoryview) -> None:
        """Store a new file, whole or not at all. Raises ``OSError``, also when ``path`` exists."""
        make_folder(path.parent)
        with aside(path) as temporary:
            self._locks[path] = write_locked(temporary, content)
            os.link(temporary, path)
            self._made.append(path)
        sync_folder(path.parent)

    def adopt(self, path: Path) -> None:
        """Keep a file that is there already, to name it again. Raises ``OSError``."""
        self._locks[path] = locks.hold(path)

    def check(self) -> None:
        """Look whether all files are there: to be called when only the step is left that names them.

        Raises ``FileNotFoundError`` for a file that somebody has removed.
        """
        for path in self._locks:
            path.stat()
        self._may_be_named = True

    def refused(self) -> None:
        """The step that names the files was not taken, and will not be."""
        self._may_be_named = False

    def drop(self) -> None:
        """Remove the files that were made: another writer was faster."""
        for path in self._made:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None and not self._may_be_named:
                self.drop()
        finally:
            for descriptor in self._locks.values():
                os.close(descriptor)
