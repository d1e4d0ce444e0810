"""The numbers of runs, which say in what order they began. The clocks of several machines do not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath

from analytics.files.atomic import explained
from analytics.store.archive import Archive
from analytics.store.records import RUN_ID

MOST = 1 << 62  # a greater one is nobody's
RECORD = re.compile(rf"{RUN_ID.pattern}\.json")

# By archive and run: the version of the record that was read, and the number in it. A training begins a run in each
# generation.
_read: dict[tuple[bytes, str], tuple[tuple[str | int, ...], int]] = {}


def next_number(archive: Archive) -> int:
    """The number of a run that begins now: greater than that of every run whose record is there, at least 1.

    Two runs that begin at the same moment may get the same one. A record that cannot be read has none. Raises
    ``FailureError`` if the records cannot be listed.
    """
    with explained("list", archive.root):
        there = archive.backend.below(archive.root / "runs")
    identity = archive.backend.identity(archive.root)
    records = {(identity, path.stem): path for path in there if RECORD.fullmatch(path.name)}
    new = {key: path for key, path in records.items() if _read.get(key, (None, 0))[0] != there[path].version}
    for (key, path), content in zip(new.items(), _contents(archive, list(new.values())), strict=True):
        _read[key] = there[path].version, _number(content)
    return 1 + max((_read[key][1] for key in records), default=0)


def _contents(archive: Archive, paths: Sequence[PurePath]) -> list[bytes]:
    """The contents of files; nothing for one that cannot be read."""
    try:
        return archive.backend.read_all(paths)
    except OSError:
        found = [b""] * len(paths)
        for index, path in enumerate(paths):
            with suppress(OSError):
                found[index] = archive.backend.read(path)
        return found


def _number(content: bytes) -> int:
    """The number in a run's record; 0 if there is none."""
    with suppress(ValueError, AttributeError, RecursionError):
        number = json.loads(content).get("number", 0)
        return number if type(number) is int and 0 <= number <= MOST else 0
    return 0
