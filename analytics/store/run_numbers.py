"""The numbers of runs, which say in what order they began: no clock of several machines does."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from analytics.store.archive import Archive

MOST = 1 << 62  # a greater one is nobody's

# By file: what tells whether it is still the same, and the number in it. A training begins a run in each generation.
_read: dict[Path, tuple[tuple[int, int], int]] = {}


def next_number(archive: Archive) -> int:
    """The number of a run that begins now: greater than that of every run whose record is there, at least 1.

    Two runs that begin at the same moment may get the same one. A record that cannot be read has none.
    """
    folder = archive.root.resolve() / "runs"
    return 1 + max((_number(folder / f"{run_id}.json") for run_id in archive.recorded()), default=0)


def _number(path: Path) -> int:
    """The number in a run's record; 0 if there is none."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        status = path.stat()
        version = status.st_ino, status.st_mtime_ns
        if _read.get(path, (None, 0))[0] != version:
            number = json.loads(path.read_bytes()).get("number", 0)
            _read[path] = version, number if type(number) is int and 0 <= number <= MOST else 0
        return _read[path][1]
    return 0
