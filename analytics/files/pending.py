"""Files that a writer has stored and that nothing names yet: first the files, then the small one that names them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import PurePath
from types import TracebackType
from typing import Self

# A writer names its files within this time, or looks once more whether it may: so ``gc`` can go by the age of a file.
LEASE_SECONDS = 1800.0


def boot_seconds() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class PendingFiles(ABC):
    """The files of one commit, manifest or card. A context manager.

    An error removes them as long as nothing can name them. From ``check`` on, something may: then nobody but ``gc``
    removes them, unless ``drop`` says that it was another writer's name after all.
    """

    def __init__(self) -> None:
        self._made: list[PurePath] = []
        self._may_be_named = False

    @abstractmethod
    def add(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        """Store a new file, whole or not at all. Raises ``OSError``, also when ``path`` exists."""

    @abstractmethod
    def adopt(self, path: PurePath) -> None:
        """Keep a file that is there already, to name it again. Raises ``OSError``."""

    def check(self) -> None:
        """Look whether all files are there: to be called when only the step is left that names them.

        Raises ``FileNotFoundError`` for a file that somebody has removed.
        """
        self._look()
        self._may_be_named = True

    def refused(self) -> None:
        """The step that names the files was not taken, and will not be."""
        self._may_be_named = False

    def drop(self) -> None:
        """Remove the files that were made: another writer was faster."""
        for path in self._made:
            self._remove(path)

    @abstractmethod
    def _look(self) -> None:
        """Raise ``FileNotFoundError`` for a file that is not there."""

    @abstractmethod
    def _remove(self, path: PurePath) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def _release(self) -> None:
        """Keep nothing any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None and not self._may_be_named:
                self.drop()
        finally:
            self._release()
