"""Brings an archive of an older format to the present one, step by step.

A step leads from one format to the next, and loses nothing. First it writes what the new format needs beside what is
there. Then the records say the new format, one by one, then the archive's marker. Last it removes what only the old
format needed. So a killed upgrade is gone on with by the same command: files that are there are written again, or left
alone, and records that say the new format already are not changed.

A step works on files and JSON values, not on the classes of today, because these describe the present format only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from analytics.store import marker, policy_cards, sprt_verdicts
from analytics.store.files.backend import Backend, explained
from analytics.store.files.local import backend_of
from analytics.store.marker import MARKER, Marker
from analytics.store.records import CHECKSUM, RESTORE, dump, sealed
from analytics.store.schema import SCHEMA_VERSION
from quarto.errors import FailureError, RequestError

VERSION = "schema_version"  # the key of records
FOLDERS = ("runs", policy_cards.FOLDER, sprt_verdicts.FOLDER)  # with records that have it

Values = dict[str, Any]  # of a record, without its checksum


def _do_nothing(_backend: Backend, _root: PurePath) -> None:
    """Do nothing: a step may concern records only."""


def _keep(_name: str, values: Values) -> Values:
    """Return the values of a record as they are: a step may concern other files only."""
    return values


@dataclass(frozen=True)
class Step:
    """The way from a format to the next one. All functions may be called again after they were killed."""

    before: int  # the format from which it leads to the one after it
    summary: str  # what it does, for the user
    write_files: Callable[[Backend, PurePath], None] = _do_nothing  # given the root; removes nothing
    convert_record: Callable[[str, Values], Values] = _keep  # given the name of its file below the root
    remove_files: Callable[[Backend, PurePath], None] = _do_nothing  # that the new format does not need


# Format 1 was never released: its archives had a log of commits, and lived for three days in November 2026.
STEPS: tuple[Step, ...] = ()


def upgrade(root: PurePath, steps: Sequence[Step] = STEPS) -> list[Step]:
    """Bring the archive at ``root`` to the present format; returns the steps that were taken, none if it has it.

    No other program may use the archive meanwhile. The oldest format of any record counts, because records may have
    been copied here from another archive.

    Raises:
        RequestError: There is no archive, its format is newer than the present one, or no step leads there.
        FailureError: A record is damaged, or a file cannot be read or written.

    """
    backend, oldest = backend_of(root), marker.read_marker(root).schema_version
    for path, values in _read_records(backend, root):
        if values[VERSION] > SCHEMA_VERSION:
            raise RequestError(f"{path} {marker.other_format(root, values[VERSION])}, or move the file away")
        oldest = min(oldest, values[VERSION])
    by_format = {step.before: step for step in steps}
    way = []
    for version in range(oldest, SCHEMA_VERSION):
        if version not in by_format:
            raise RequestError(
                f"archive {root} has format {oldest}, and nothing leads from format {version} to {version + 1}: use "
                "the program that wrote it"
            )
        way.append(by_format[version])
    with explained("write to", root):
        for step in way:
            _take(step, backend, root)
        for step in steps:  # an earlier upgrade may have been killed before this
            step.remove_files(backend, root)
    return way


def _take(step: Step, backend: Backend, root: PurePath) -> None:
    """Take a step but for the removal of files."""
    step.write_files(backend, root)
    for path, values in _read_records(backend, root):
        if values[VERSION] == step.before:
            name = path.relative_to(root).as_posix()
            changed = {**step.convert_record(name, values), VERSION: step.before + 1}
            backend.replace(path, (json.dumps(sealed(changed), ensure_ascii=False, indent=1) + "\n").encode())
    if marker.read_marker(root).schema_version == step.before:
        is_known = marker.memory_of(root).exists()
        backend.replace(root / MARKER, dump(Marker(marker.FORMAT, step.before + 1)))
        if is_known:  # a new marker is that of another archive
            marker.remember(root)


def _read_records(backend: Backend, root: PurePath) -> Iterator[tuple[PurePath, Values]]:
    """Yield the files of records that say a format, with their values."""
    for folder in FOLDERS:
        for path in sorted(backend.below(root / folder)):
            if path.suffix == ".json" and (folder != policy_cards.FOLDER or path.name == policy_cards.CARD):
                yield path, _read_values(backend, path)


def _read_values(backend: Backend, path: PurePath) -> Values:
    """Return the values of a record. Raises ``FailureError`` for a damaged one, which must not get a new checksum."""
    with explained("read", path):
        content = backend.read(path)
    try:
        values = json.loads(content)
        checksum = values.pop(CHECKSUM)
        is_sound = checksum == sealed(values)[CHECKSUM] and type(values[VERSION]) is int
    except (ValueError, KeyError, AttributeError, RecursionError, TypeError):
        is_sound = False
    if not is_sound:
        raise FailureError(f"{path} is damaged: {RESTORE}")
    known: Mapping[str, Any] = values
    return dict(known)
