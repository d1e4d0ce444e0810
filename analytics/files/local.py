"""The backend of this machine's file systems, also of those that several machines share: fsync, rename, locks."""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from analytics.files import atomic, locks
from analytics.files.backend import Backend, FileStatus
from quarto.errors import RequestError


class LocalBackend(Backend):
    """Files of this machine. ``atomic`` and ``locks`` say how each step survives a crash."""

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
        found = Path(folder)
        return list(found.iterdir()) if found.is_dir() else []

    def folders(self, folder: PurePath) -> list[PurePath]:
        return [path for path in self.entries(folder) if Path(path).is_dir()]

    def listed(self, folder: PurePath) -> Mapping[str, FileStatus]:
        found: dict[str, FileStatus] = {}
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a writer has removed or renamed it meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found[entry.name] = _status(status)
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

    def create(self, path: PurePath, content: bytes) -> bool:
        atomic.make_folder(Path(path.parent))
        return atomic.create(Path(path), content)

    def replace(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        atomic.replace(Path(path), content)

    def update(self, path: PurePath, guard: PurePath, change: Callable[[bytes | None], bytes | None]) -> None:
        with locks.held(Path(guard)):
            content = change(self.read(path) if self.status(path) else None)
            if content is not None:
                self.replace(path, content)

    @contextmanager
    def exclusive(self, path: PurePath) -> Iterator[bool]:
        atomic.make_folder(Path(path.parent))
        descriptor = locks.claim(Path(path))
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                self.remove(path)
                os.close(descriptor)

    def if_abandoned(self, path: PurePath) -> str:
        del path  # the lock ends with the process that holds it
        return ""

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
        path = Path(root)
        existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
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


LOCAL = LocalBackend()
