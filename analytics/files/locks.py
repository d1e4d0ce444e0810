"""Advisory locks on files: they end with the process that holds them, however it ends, and no clock is involved.

A file system without locks is used without them. Each function that takes a lock says what is then lost.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF}


def _flock(descriptor: int, operation: int = fcntl.LOCK_EX) -> None:
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _opened(path: Path) -> int:
    """A descriptor of a file; for writing if that is allowed, since network file systems want it for such a lock."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def hold(path: Path) -> int:
    """Lock a file and return the open descriptor that keeps the lock until it is closed. Raises ``OSError``."""
    return _locked(_opened(path))


def _locked(descriptor: int, operation: int = fcntl.LOCK_EX) -> int:
    try:
        _flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _locked_or_none(descriptor: int, operation: int) -> int | None:
    """The descriptor with its lock; closed, and None, if somebody holds it."""
    try:
        return _locked(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def claim(path: Path) -> int | None:
    """Create or open a file and lock it; None if somebody holds it. Raises ``OSError``.

    Returns the descriptor as ``hold`` does. Who holds the lock may delete the file.
    """
    while True:
        descriptor = _locked_or_none(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), fcntl.LOCK_EX)
        if descriptor is None:
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                return descriptor
        os.close(descriptor)  # it was deleted meanwhile


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep a file locked inside the context: threads and processes enter one after the other. Raises ``OSError``."""
    descriptor = hold(path)
    try:
        yield
    finally:
        os.close(descriptor)
