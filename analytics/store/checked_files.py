"""Compares the bytes of table files with the checks in their names, once per archive and machine.

A flipped bit in a page is a wrong answer and no error to most readers of Parquet. So a file is read once as a whole
before the first question to it. Its rows are counted then, because DuckDB and Polars open files by their names. A
sound file is remembered outside the archive, for as long as its size, times and inode stay. Bytes can change while
these stay, as on a failing disk. ``qarena archive verify`` finds that, because it always reads everything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from analytics.files.backend import Backend, explained
from analytics.files.local import aside
from analytics.parquet.metadata import footer_of
from analytics.store.marker import memory_of
from analytics.store.ranges import range_named

FORGOTTEN_SECONDS = 90 * 86400  # the memory of an archive that has not changed for so long is removed


class CheckedFile(NamedTuple):
    """A file whose SHA-256 is known, from its name or from a card."""

    run_id: str  # empty: of no run
    path: PurePath  # absolute
    check: str  # the SHA-256 of its bytes in hex digits, or the beginning of it
    backend: Backend
    rows: int | None = None  # that a card says; None: its name says how many there can be

    @property
    def name(self) -> str:
        """Its path in the archive."""
        return "/".join(self.path.parts[-3:])

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        with explained("find", self.path):
            return self.backend.status(self.path) is not None

    @property
    def is_sound(self) -> bool:
        """Whether its bytes are those that were written, and has no more rows than it may have; reads the file."""
        known = range_named(self.path.name)
        try:
            with self.backend.open(self.path) as file:
                if not hashlib.file_digest(file, "sha256").hexdigest().startswith(self.check):
                    return False
                rows = footer_of(file).rows
                return rows == self.rows or (known is not None and rows <= known.most_rows)
        except (OSError, ValueError):
            return False

    def stamp(self) -> list[str | int] | None:
        """The values that are remembered of a sound file: if one changes, it is read again. None: there is no file."""
        with explained("find", self.path):
            status = self.backend.status(self.path)
        return None if status is None else [self.check, *status.version]


def first_damaged(root: PurePath, files: Sequence[CheckedFile]) -> CheckedFile | None:
    """The first of some files of the archive in ``root`` that is missing or not as it was written; None if all are.

    Files that were sound before and have not been touched since are not read again.
    """
    if not files:
        return None
    if files[0].backend.checks_bytes:
        return next((file for file in files if not file.is_there), None)
    memory = memory_of(root)
    known = _remembered(memory)
    stamps: dict[CheckedFile, list[str | int]] = {}
    for file in files:
        stamp = file.stamp()
        if stamp is None:
            return file
        if known.get(file.name) != stamp:
            stamps[file] = stamp
    if not stamps:
        return None
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing leaves the interpreter to other threads
        sound = dict(zip(stamps, pool.map(lambda file: file.is_sound, stamps), strict=True))
    known = known | {file.name: stamp for file, stamp in stamps.items() if sound[file]}
    _remember(memory, known)
    return next((file for file in stamps if not sound[file]), None)


def _remembered(memory: Path) -> dict[str, list[str | int]]:
    try:
        status = memory.stat()
        version = status.st_mtime_ns, status.st_size, status.st_ino
        if memory not in _READ or _READ[memory][0] != version:
            known = json.loads(memory.read_bytes())
            _READ[memory] = version, known if isinstance(known, dict) else {}
    except (OSError, ValueError):
        return {}  # none yet, or not ours: the files are read again
    return _READ[memory][1]


# What was read last, with the version of its file: that of ten thousand runs takes 60 ms to parse.
_READ: dict[Path, tuple[tuple[int, int, int], dict[str, list[str | int]]]] = {}


def _remember(memory: Path, known: dict[str, list[str | int]]) -> None:
    with suppress(OSError):  # a cache that cannot be written costs time only
        memory.parent.mkdir(parents=True, exist_ok=True)
        with aside(memory) as temporary:
            temporary.write_text(json.dumps(known))
            temporary.replace(memory)
        for other in memory.parent.iterdir():
            if other.stat().st_mtime < memory.stat().st_mtime - FORGOTTEN_SECONDS:
                other.unlink(missing_ok=True)
