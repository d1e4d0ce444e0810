"""The backend for this machine's file systems, including those that several machines share: fsync, rename, locks.

Each file is written under a temporary name, synced and renamed, so it is whole or absent. The last functions choose
between this backend and the one for object storage.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from analytics.store.files.backend import (
    Backend,
    FileStatus,
    ObjectUrl,
    StoreOptions,
    check_record_size,
    temporary_name,
)
from quarto.errors import RequestError

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
UNSETTLED_SECONDS = 2.0  # after a change, a folder may change again without another time of change
WRITE_ATTEMPTS = 5  # at writing a file, if its temporary file is taken away each time
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF}


def temporary_beside(path: Path) -> Path:
    """Return a path in the same folder as ``path``, with a name that no other writer uses."""
    return path.with_name(temporary_name())


@contextmanager
def use_temporary_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and remove the file there at the end if it still exists.

    The caller writes a file there and renames the file once it is complete.
    """
    temporary = temporary_beside(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _write_temporary(path: Path, content: bytes | bytearray | memoryview) -> Iterator[Path]:
    """Write ``content`` to a temporary file beside ``path``, sync that file to the disk, and yield the file's path.

    If the temporary file still exists at the end, it is removed.
    """
    with use_temporary_path(path) as temporary:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk. Raises ``OSError`` if that fails."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new names in it survive a crash. Raises ``OSError`` if that fails."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_folder(folder: Path) -> None:
    """Create a folder and its missing parents so that they survive a crash. Raises ``OSError`` if that fails."""
    if not folder.is_dir():
        create_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def replace_file(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Create ``path`` or replace its content in one step, so that readers see either the old or the new content.

    The content is first written to a temporary file; if another process removes that file meanwhile, it is written
    again. Raises ``OSError`` if writing fails.
    """
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        create_folder(path.parent)
        try:
            with _write_temporary(path, content) as temporary:
                temporary.replace(path)
            break
        except FileNotFoundError:
            if attempt == WRITE_ATTEMPTS:
                raise
    sync_folder(path.parent)


# Advisory locks end with the process that holds them, however it ends, and no clock is involved. A file system without
# locks is used without them. Each function that takes a lock says what is then lost.


def _lock_or_close_descriptor(descriptor: int, operation: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file and return True; if the lock is taken, close the file and return False.

    False is possible only if ``operation`` does not wait. On a file system without locks, the result is True. If
    locking fails for another reason, the file is closed and the error is raised.
    """
    try:
        fcntl.flock(descriptor, operation)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _NO_LOCKS:
            return True
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return False
        raise
    return True


def try_lock(path: Path) -> int | None:
    """Lock a file, creating it if needed, and return its open descriptor, or None if the lock is taken.

    The lock lasts until the descriptor is closed. The holder of the lock may delete the file. Raises ``OSError`` if the
    file cannot be opened, or if locking fails although the lock is not taken.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if not _lock_or_close_descriptor(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                return descriptor
        os.close(descriptor)  # it was deleted meanwhile


@contextmanager
def _lock_existing_file(path: Path) -> Iterator[None]:
    """Lock an existing file inside the context. Only one thread or process at a time can be in the context.

    Raises ``OSError`` if the file cannot be opened or locked.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)  # network file systems want it for such a lock
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    _lock_or_close_descriptor(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


class IrregularFileError(OSError):
    """The error for a link, pipe or device where a file or folder is expected, or a folder where a file is expected."""

    def __init__(self, path: str, mode: int) -> None:
        expected = "not a file" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        super().__init__(errno.EINVAL, f"{path} is {_describe_mode(mode)}, {expected}")


class LocalBackend(Backend):
    """A reader and writer of this machine's files; each of its completed operations survives a crash.

    An archive is a tree of folders and regular files, and may come from a stranger. So no link below ``root`` is
    followed, and only regular files are opened. The root itself may be a link, because the user named it. Without a
    root, the files are the user's own, and links to them are followed.

    Folders are checked first and used afterwards. In between, an attacker could replace one with a link, but anybody
    who can do that can write to the archive anyway and needs no link. Content is read from a descriptor that was
    checked.
    """

    def __init__(self, root: PurePath | None = None) -> None:
        self._root = root

    def _check_regular_and_find_status(self, path: PurePath) -> os.stat_result | None:
        """Return the status of a file or folder, or None if nothing is there.

        Raises ``IrregularFileError`` if the path, or a folder below the root that leads to it, is any other kind of
        entry.
        """
        status = None
        try:
            for name in self._list_ancestors_and_path(path):
                status = os.lstat(name) if self._root else os.stat(name)  # noqa: PTH116  (a pure path has no stat)
                if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                    raise IrregularFileError(name, status.st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status

    def _list_ancestors_and_path(self, path: PurePath) -> Iterator[str]:
        """Yield the folders below the root that lead to a path, then the path itself.

        Without a root, yield only the path. Raises ``ValueError`` if the path is not in the root.
        """
        name, root = str(path), self._root
        if root is None:
            yield name
            return
        top = str(root if path.is_absolute() == root.is_absolute() else Path(root).absolute())
        before = "" if top == "." else f"{top.rstrip(os.sep)}{os.sep}"
        if name == top:
            yield before or name  # the folder, which a link may lead to
            return
        if not name.startswith(before) or f"{os.sep}..{os.sep}" in f"{os.sep}{name[len(before) :]}":
            raise ValueError(f"{name} is not in {top}")
        end = name.find(os.sep, len(before))
        while end >= 0:
            yield name[:end]
            end = name.find(os.sep, end + 1)
        yield name

    def _is_folder(self, path: PurePath) -> bool:
        """Return whether a path is a folder. Raises ``IrregularFileError`` if it is neither a folder nor a file."""
        status = self._check_regular_and_find_status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def read(self, path: PurePath) -> bytes:
        with self.open(path) as file:
            check_record_size(path, os.fstat(file.fileno()).st_size)
            return file.read()

    def open(self, path: PurePath) -> io.BufferedIOBase:
        self._check_regular_and_find_status(path)
        # Opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if self._root else 0))
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise IrregularFileError(str(path), mode)
        return os.fdopen(descriptor, "rb")

    def status(self, path: PurePath) -> FileStatus | None:
        try:
            status = self._check_regular_and_find_status(path)
        except IrregularFileError:
            return None
        return _status_from_stat(status) if status and stat.S_ISREG(status.st_mode) else None

    @contextmanager
    def _scan_folder(self, folder: PurePath) -> Iterator[Iterator[os.DirEntry[str]]]:
        """Yield an iterator over the entries of a folder. The iterator is empty if there is no such folder."""
        with ExitStack() as stack:
            try:
                entries = stack.enter_context(os.scandir(folder)) if self._is_folder(folder) else iter(())
            except FileNotFoundError:
                entries = iter(())
            yield entries

    def list_names(self, folder: PurePath) -> list[str]:
        try:
            return os.listdir(folder) if self._is_folder(folder) else []  # noqa: PTH208  (a pure path lists nothing)
        except FileNotFoundError:
            return []

    def list_statuses(self, folder: PurePath) -> Mapping[str, FileStatus]:
        statuses: dict[str, FileStatus] = {}
        with self._scan_folder(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a writer has removed or renamed it meanwhile
                    if entry.is_file(follow_symlinks=False):
                        statuses[entry.name] = _status_from_stat(entry.stat(follow_symlinks=False))
        return statuses

    def list_folder_versions(self, folder: PurePath) -> Mapping[str, Hashable]:
        versions: dict[str, Hashable] = {}
        latest = time.time() - UNSETTLED_SECONDS
        with self._scan_folder(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a writer has removed or renamed it meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and status.st_mtime < latest:
                        versions[entry.name] = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        return versions

    def list_files_below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        """Return the status of each file in a folder and its subfolders, keyed by path.

        Raises ``IrregularFileError`` for any other kind of entry, because a listing without it would look complete.
        """
        statuses: dict[PurePath, FileStatus] = {}
        for path, status in self._walk_folder(folder):
            if not stat.S_ISREG(status.st_mode):
                raise IrregularFileError(str(path), status.st_mode)
            statuses[path] = _status_from_stat(status)
        return statuses

    def list_irregular_files(self, root: PurePath) -> Iterator[tuple[PurePath, str]]:
        for path, status in self._walk_folder(root):
            if not stat.S_ISREG(status.st_mode):
                yield path, _describe_mode(status.st_mode)

    def _walk_folder(self, folder: PurePath) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield each entry below a folder, except folders, with its status. Links are not followed."""
        waiting = [Path(folder)]
        while waiting:
            with self._scan_folder(waiting.pop()) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # a writer has removed or renamed it meanwhile
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(Path(entry.path))
                        else:
                            yield Path(entry.path), entry.stat(follow_symlinks=False)

    def create(self, path: PurePath, content: bytes) -> bool:
        self._check_regular_and_find_status(path)
        create_folder(Path(path.parent))
        with _write_temporary(Path(path), content) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                # A network file system repeats a request whose answer was lost: then the existing file is our own.
                if not temporary.samefile(path):
                    return False
        sync_folder(Path(path.parent))
        return True

    def replace(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        self._check_regular_and_find_status(path)
        replace_file(Path(path), content)

    def update(self, path: PurePath, guard: PurePath, change: Callable[[bytes | None], bytes | None]) -> None:
        self._check_regular_and_find_status(guard)
        with _lock_existing_file(Path(guard)):
            content = change(self.read(path) if self.status(path) else None)
            if content is not None:
                self.replace(path, content)

    @contextmanager
    def lock(self, path: PurePath) -> Iterator[bool]:
        self._check_regular_and_find_status(path)
        create_folder(Path(path.parent))
        descriptor = try_lock(Path(path))
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                self.remove(path)
                os.close(descriptor)

    def remove(self, path: PurePath) -> None:
        self._check_regular_and_find_status(path)
        Path(path).unlink(missing_ok=True)

    def remove_empty_folders(self, folder: PurePath) -> None:
        if not self._is_folder(folder):
            return
        for name in self.list_names(folder):
            self.remove_empty_folders(folder / name)
        with suppress(OSError):  # it is not empty, or was removed meanwhile
            Path(folder).rmdir()

    def read_clock(self, root: PurePath) -> float:
        probe = temporary_beside(Path(root) / "clock")
        try:
            probe.touch(exist_ok=False)
        except OSError:  # the archive is only read, so that nothing will be removed
            return time.time()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def can_write_as_far_as_known(self, folder: PurePath) -> bool:
        return os.access(folder, os.W_OK | os.X_OK)

    def not_writable_error(self, root: PurePath, error: OSError) -> RequestError:
        del error  # the mode and the owner of the folder say more
        path = Path(root)
        existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        status = existing.stat()
        mode = f"{existing} has mode {status.st_mode & 0o777:o}, owner {status.st_uid}"
        return RequestError(
            f"archive {root} is not writable by user id {os.geteuid()} ({mode}): change its permissions or choose "
            "another archive.root"
        )

    def encode_absolute_location(self, root: PurePath) -> bytes:
        return os.fsencode(Path(root).resolve())

    def absolute(self, path: PurePath) -> Path:
        return Path(path).absolute()


def _status_from_stat(stat_result: os.stat_result) -> FileStatus:
    version = (stat_result.st_size, stat_result.st_mtime_ns, stat_result.st_ctime_ns, stat_result.st_ino)
    return FileStatus(stat_result.st_size, stat_result.st_mtime, version)


def _describe_mode(mode: int) -> str:
    """Describe the kind of file that a mode (``st_mode``) stands for, such as ``a named pipe``."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


LOCAL = LocalBackend()  # of files that the user named, in no archive


# The choice of a backend: the type of a location says it.


def find_backend(location: PurePath) -> Backend:
    """Return the backend that reads and writes the files below a location.

    For a URL, raises ``MissingExtraError`` if the library for object storage is not installed, and ``RequestError`` if
    a setting for object storage is invalid.
    """
    if not isinstance(location, ObjectUrl):
        return _local_backend(location)
    return _find_object_backend(
        location.scheme, location.bucket, StoreOptions.from_environment_without_credentials(location.scheme)
    )


_local_backend = cache(LocalBackend)


@cache
def _find_object_backend(scheme: str, bucket: str, settings: StoreOptions) -> Backend:
    from analytics.store.files.object_storage import ObjectBackend  # the library takes time to import, and is an extra

    return ObjectBackend(scheme, bucket, settings)


def build_filesystem_unless_local(backend: Backend) -> Any:
    """Build the fsspec filesystem through which DuckDB reads a backend's files.

    Returns None if DuckDB can read the files itself.
    """
    if isinstance(backend, LocalBackend):
        return None
    from analytics.store.files.object_filesystem import ObjectFilesystem
    from analytics.store.files.object_storage import ObjectBackend

    return ObjectFilesystem(backend) if isinstance(backend, ObjectBackend) else None


def find_listing_backend(root: PurePath) -> Backend:
    """Return a backend that may keep the listings of an archive's folders for one reader.

    For object storage, where requests are slow, it lists each folder only once. Local folders are listed each time.
    """
    if not isinstance(root, ObjectUrl):
        return _local_backend(root)
    from analytics.store.files.object_storage import ListingBackend

    return ListingBackend(root, StoreOptions.from_environment_without_credentials(root.scheme))
