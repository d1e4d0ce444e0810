"""The backend of this machine's file systems, also of those that several machines share: hard links, fsync, locks.

Until a file is named, nobody but its writer can tell that it is wanted. So the writer keeps it locked, as long as its
process lives, and ``qarena archive gc`` leaves locked files alone, however old they are.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath

from analytics.files import atomic, locks
from analytics.files.backend import Backend, FileStatus
from analytics.files.pending import PendingFiles
from quarto.errors import RequestError
from quarto.hooks import ignore


class LocalBackend(Backend):
    """Files of this machine. Where each step is taken, ``atomic`` and ``locks`` say how it survives a crash."""

    def read(self, path: PurePath) -> bytes:
        return Path(path).read_bytes()

    def open(self, path: PurePath) -> io.BufferedIOBase:
        return Path(path).open("rb")

    def status(self, path: PurePath) -> FileStatus | None:
        try:
            found = os.stat(path)  # noqa: PTH116  (a pure path has no stat)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _status(found) if stat.S_ISREG(found.st_mode) else None

    def entries(self, folder: PurePath) -> list[PurePath]:
        place = Path(folder)
        return list(place.iterdir()) if place.is_dir() else []

    def folders(self, folder: PurePath) -> list[PurePath]:
        return [path for path in self.entries(folder) if Path(path).is_dir()]

    def listed(self, folder: PurePath) -> Mapping[str, FileStatus]:
        found: dict[str, FileStatus] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # a writer has removed or renamed it meanwhile
                    if stat.S_ISREG(status.st_mode):
                        found[entry.name] = _status(status)
        except (FileNotFoundError, NotADirectoryError):
            pass
        return found

    def names(self, folder: PurePath) -> list[str]:
        try:
            return os.listdir(folder)  # noqa: PTH208  (a pure path lists nothing)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        found: dict[PurePath, FileStatus] = {}
        for path in Path(folder).rglob("*"):
            try:
                if path.is_file():
                    found[path] = _status(path.lstat())
            except FileNotFoundError:
                continue  # a writer has removed or renamed it meanwhile
        return found

    def create(self, path: PurePath, content: bytes, ready: Callable[[], None] = ignore) -> bool:
        atomic.make_folder(Path(path.parent))
        return atomic.create(Path(path), content, ready)

    def replace(self, path: PurePath, content: bytes, ready: Callable[[], None] = ignore) -> None:
        atomic.make_folder(Path(path.parent))
        atomic.replace(Path(path), content, ready)

    def update(self, path: PurePath, guard: PurePath, change: Callable[[bytes | None], bytes | None]) -> None:
        with locks.held(Path(guard)):
            content = change(self.read(path) if self.status(path) else None)
            if content is not None:
                self.replace(path, content)

    def pending(self) -> PendingFiles:
        return _LockedFiles()

    def is_pending(self, path: PurePath) -> bool:
        return locks.is_held(Path(path))

    @contextmanager
    def claimed(self, path: PurePath) -> Iterator[bool]:
        try:
            descriptor = locks.probe(Path(path))
        except FileNotFoundError:
            descriptor = None  # a writer has removed or renamed it meanwhile
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def remove(self, path: PurePath) -> None:
        Path(path).unlink(missing_ok=True)

    def clock(self, root: PurePath) -> float:
        probe = atomic.temporary_beside(Path(root) / "clock")
        try:
            probe.touch(exist_ok=False)
        except OSError:  # the archive is only read, so that nothing will be removed
            return time.time()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def require_room(self, root: PurePath) -> None:
        if Path(root).exists() and not Path(root).is_dir():
            raise RequestError(f"archive {root} is a file: name a folder")

    def may_write(self, folder: PurePath) -> bool:
        return os.access(folder, os.W_OK | os.X_OK)

    def not_writable(self, root: PurePath, error: OSError) -> RequestError:
        del error  # the mode and the owner of the folder say more
        place = Path(root)
        existing = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
        status = existing.stat()
        mode = f"{existing} has mode {status.st_mode & 0o777:o}, owner {status.st_uid}"
        return RequestError(
            f"archive {root} is not writable by user id {os.geteuid()} ({mode}): change its permissions or choose "
            "another archive.root"
        )

    def exists(self, root: PurePath) -> bool:
        return Path(root).exists()

    def identity(self, root: PurePath) -> bytes:
        return os.fsencode(Path(root).resolve())

    def absolute(self, path: PurePath) -> Path:
        return Path(path).absolute()


def _status(found: os.stat_result) -> FileStatus:
    version = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    return FileStatus(found.st_size, found.st_mtime, version)


class _LockedFiles(PendingFiles):
    """Each file stays locked from its first byte until the context is left."""

    def __init__(self) -> None:
        super().__init__()
        self._locks: dict[PurePath, int] = {}

    def add(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        target = Path(path)
        atomic.make_folder(target.parent)
        with atomic.aside(target) as temporary:
            self._locks[path] = atomic.write_locked(temporary, content)
            os.link(temporary, target)
            self._made.append(path)
        atomic.sync_folder(target.parent)

    def adopt(self, path: PurePath) -> None:
        self._locks[path] = locks.hold(Path(path))

    def _look(self) -> None:
        for path in self._locks:
            Path(path).stat()

    def _remove(self, path: PurePath) -> None:
        LOCAL.remove(path)

    def _release(self) -> None:
        for descriptor in self._locks.values():
            os.close(descriptor)


LOCAL = LocalBackend()
