"""Files that a command line names: read, checked before long work, and written."""

from __future__ import annotations

import sys
from pathlib import Path

from quarto.errors import FailureError, RequestError

STREAM = "-"  # a name that means the standard input or output
TABLE_FORMATS = ("table", "csv", "json", "parquet")  # the first is for people


def read_file(name: str) -> bytes:
    """The content of a file, or of the standard input for ``-``. Raises ``RequestError`` if it cannot be read."""
    if name == STREAM:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise RequestError(
            f"cannot read {name}: {error.strerror or error}; name a text file, or - for standard input"
        ) from error


def check_writable(path: Path) -> None:
    """Raise ``FailureError`` for a folder, and for a file in a folder that does not exist."""
    reason = "it is a folder" if path.is_dir() else None if path.parent.is_dir() else "its folder does not exist"
    if reason:
        raise FailureError(f"cannot write {path}: {reason}; name a file in a folder that exists")


def write_file(path: Path, content: bytes) -> None:
    """Write a file. Raises ``FailureError`` if that fails."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
