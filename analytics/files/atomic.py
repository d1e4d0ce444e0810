"""Durable files: each is written under a temporary name, synced and renamed, so it is whole or absent."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from quarto.errors import FailureError

TEMPORARY = ".tmp-"  # prefix of the name of every file that is not finished
ATTEMPTS = 5  # at writing a file, if its temporary file is taken away each time

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "your disk quota is used up: free some space and run the same command again",
    errno.EFBIG: "a limit on the size of files was hit (see 'ulimit -f'): raise it and run the same command again",
    errno.EACCES: "permission denied: make the folder writable or choose another archive.root",
    errno.EPERM: "the file system does not allow it: choose another archive.root",
    errno.EROFS: "the file system is read-only: choose another archive.root",
    errno.ENOENT: "it was removed while in use: run the same command again",
}

_READING = ("find", "list", "read")  # what is done without writing


@contextmanager
def explained(what: str, path: PurePath) -> Iterator[None]:
    """Turn an ``OSError`` inside into a ``FailureError`` of one line: what failed, where, why, what to do."""
    try:
        yield
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        if error.errno == errno.EACCES and what in _READING:
            raise FailureError(f"cannot {what} {path}: permission denied: let this user read it") from error
        raise FailureError(f"cannot {what} {path}: {reason}; what was written before is kept") from error


def temporary_beside(path: Path) -> Path:
    """A path in the same folder with a name that no other writer uses."""
    return path.with_name(temporary_name())


def temporary_name() -> str:
    """A name that no other writer uses, of a file that is not finished or does not stay."""
    return f"{TEMPORARY}{uuid.uuid4().hex}"


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``, for a file to be renamed; what is still there at the end is removed."""
    temporary = temporary_beside(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _finished(path: Path, content: bytes | bytearray | memoryview) -> Iterator[Path]:
    """A temporary file beside ``path`` with this content, on the disk."""
    with aside(path) as temporary:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk. Raises ``OSError``."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new names in it survive a crash. Raises ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless they are there: each name survives a crash. Raises ``OSError``."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def replace(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Create ``path`` or replace its content in one step: a reader sees the old or the new one. Raises ``OSError``.

    If somebody takes the temporary file away meanwhile, it is written again.
    """
    for attempt in range(1, ATTEMPTS + 1):
        make_folder(path.parent)
        try:
            with _finished(path, content) as temporary:
                temporary.replace(path)
            break
        except FileNotFoundError:
            if attempt == ATTEMPTS:
                raise
    sync_folder(path.parent)


def create(path: Path, content: bytes) -> bool:
    """Create ``path`` in one step; false when another writer has created it before. Raises ``OSError``."""
    with _finished(path, content) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system repeats a request whose answer was lost: then the existing file is our own.
            if not temporary.samefile(path):
                return False
    sync_folder(path.parent)
    return True
