"""Upgrades an archive of an older format to the present format, step by step.

A step leads from one format to the next, and loses nothing. First it writes the files that the new format needs,
without touching the old ones. Then it changes the number of the format in each record, and last in the archive's
marker. At the end it removes the files that only the old format needed. Therefore, the same command continues an
upgrade that was killed: files that are there already are written again or left alone, and records with the new number
are not changed.

A step works on files and JSON values, not on the classes of today, because these describe the present format only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from analytics.store import marker, policy_cards, sprt_verdicts
from analytics.store.files.backend import Backend, explain_errors
from analytics.store.files.local_files import find_backend
from analytics.store.marker import MARKER_NAME, Marker
from analytics.store.records import encode_record
from analytics.store.run_notes import NOTE_FILE
from analytics.store.schema import SCHEMA_VERSION
from analytics.tables.upkeep import evaluations_step
from analytics.tables.upkeep.raw_records import RecordValues, read_record_and_check_checksum, write_record_with_checksum
from quarto.errors import RequestError

VERSION_KEY = "schema_version"  # the key under which a record has the number of its format
FOLDERS = ("runs", policy_cards.FOLDER, sprt_verdicts.FOLDER)  # the folders of records with this key


def _do_nothing(_backend: Backend, _root: PurePath) -> None:
    """Do nothing: the default for the file operations of a step that changes only records."""


def _keep_values(_name: str, values: RecordValues) -> RecordValues:
    """Return a record's values unchanged: the default for a step that changes only other files."""
    return values


@dataclass(frozen=True)
class UpgradeStep:
    """The step that upgrades an archive from one format to the next. A step that was interrupted may be repeated."""

    before: int  # the format that it upgrades; the next number is the new format
    summary: str  # what it does, for the user
    write_files: Callable[[Backend, PurePath], None] = _do_nothing  # given the root; removes nothing
    convert_record: Callable[[str, RecordValues], RecordValues] = (
        _keep_values  # given the name of its file below the root
    )
    remove_files: Callable[[Backend, PurePath], None] = _do_nothing  # removes what the new format does not need


# Format 1 was never released: its archives had a log of commits, and lived for three days in November 2026.
STEPS: tuple[UpgradeStep, ...] = (
    UpgradeStep(
        2,
        "thoughts are called evaluations",
        evaluations_step.copy_table_and_convert_jobs,
        evaluations_step.rename_word_in_record,
        evaluations_step.remove_old_table_folder,
    ),
)


def upgrade_archive(root: PurePath, steps: Sequence[UpgradeStep] = STEPS) -> list[UpgradeStep]:
    """Upgrade the archive at ``root`` to the present format, and return the steps taken.

    The list is empty if the archive is up to date. No other program may use the archive meanwhile. The upgrade begins
    with the oldest format of any record, because records may have been copied from another archive.

    Raises:
        RequestError: There is no archive, its format is newer than the present one, or a step is missing.
        FailureError: A record is damaged, or a file cannot be read or written.

    """
    backend, oldest = find_backend(root), marker.read_marker(root).schema_version
    for path, values in _read_records_with_format(backend, root):
        if values[VERSION_KEY] > SCHEMA_VERSION:
            raise RequestError(
                f"{path} {marker.describe_other_format(root, values[VERSION_KEY])}, or move the file away"
            )
        oldest = min(oldest, values[VERSION_KEY])
    by_format = {step.before: step for step in steps}
    way = []
    for version in range(oldest, SCHEMA_VERSION):
        if version not in by_format:
            raise RequestError(
                f"archive {root} has format {oldest}, and nothing leads from format {version} to {version + 1}: use "
                "the program that wrote it"
            )
        way.append(by_format[version])
    with explain_errors("write to", root):
        for step in way:
            _apply_step_without_removal(step, backend, root)
        for step in steps:  # an earlier upgrade may have been killed before this
            step.remove_files(backend, root)
    return way


def _apply_step_without_removal(step: UpgradeStep, backend: Backend, root: PurePath) -> None:
    """Apply an upgrade step, but do not remove any files yet."""
    step.write_files(backend, root)
    for path, values in _read_records_with_format(backend, root):
        if values[VERSION_KEY] == step.before:
            name = path.relative_to(root).as_posix()
            changed = {**step.convert_record(name, values), VERSION_KEY: step.before + 1}
            write_record_with_checksum(backend, path, changed)
    if marker.read_marker(root).schema_version == step.before:
        is_known = marker.sound_stamps_path(root).exists()
        backend.replace(root / MARKER_NAME, encode_record(Marker(marker.ARCHIVE_FORMAT, step.before + 1)))
        if is_known:  # a new marker is that of another archive
            marker.remember_archive(root)


def _read_records_with_format(backend: Backend, root: PurePath) -> Iterator[tuple[PurePath, RecordValues]]:
    """Yield the path and the values of each record that contains the number of its format.

    Names and notes of runs have no format: they stay as they are.
    """
    for folder in FOLDERS:
        for path in sorted(backend.list_files_below(root / folder)):
            is_record = path.suffix == ".json" and not NOTE_FILE.fullmatch(path.name)
            if is_record and (folder != policy_cards.FOLDER or path.name == policy_cards.CARD):
                yield path, read_record_and_check_checksum(backend, path, VERSION_KEY)
