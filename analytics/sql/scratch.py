"""The temporary folder of an open archive: the rows that questions spill, and a plain name for the archive.

A process that is killed leaves its folder. Each folder holds a file that its process has locked, so the next process
sees which ones nobody uses any more, and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from quarto.errors import FailureError

PREFIX = "quarto-arena-sql-"
_LOCK = "lock"
_ARCHIVE = "archive"
_PATTERN = frozenset("*?[")  # in names of files, DuckDB reads these as patterns
_YOUNG_SECONDS = 60  # a folder without a lock may be about to get it


class Scratch:
    """A new temporary folder. Folders that killed processes of this user left are removed."""

    folders: ClassVar[set[Path]] = set()  # of this process: what ends it at once removes them

    def __init__(self) -> None:
        """Raises ``FailureError`` if the folder cannot be made."""
        try:
            remove_abandoned(Path(tempfile.gettempdir()))
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise FailureError(
                f"no temporary folder can be made: {error.strerror or error}; name another one in TMPDIR"
            ) from error
        self.folders.add(self.folder)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @property
    def spill(self) -> Path:
        """The folder for the rows that questions spill; DuckDB makes it when it needs it."""
        return self.folder / "spill"

    def plain(self, root: Path) -> Path:
        """A path to an archive that DuckDB takes as it is: no pattern, and UTF-8."""
        text = str(root)
        if not _PATTERN & set(text) and text.encode(errors="replace").decode() == text:
            return root
        link = self.folder / _ARCHIVE
        if not link.is_symlink():
            link.symlink_to(root, target_is_directory=True)
        return link

    def remove(self) -> None:
        """Remove the folder with all that is in it. May be called twice."""
        shutil.rmtree(self.folder, ignore_errors=True)  # links in it are removed, not followed
        self.folders.discard(self.folder)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(temporary: Path) -> None:
    """Remove the folders of this user's processes that have ended. Others share ``temporary``: theirs stay."""
    for folder in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process removes it at the same time
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not _is_in_use(folder, status):
                shutil.rmtree(folder, ignore_errors=True)


def _is_in_use(folder: Path, status: os.stat_result) -> bool:
    young = time.time() - status.st_mtime < _YOUNG_SECONDS
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return young
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return young and not any(each.name != _LOCK for each in folder.iterdir())
