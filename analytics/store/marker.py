"""The file that makes a folder an archive: finding it, making it, and refusing folders that are not archives.

A file in the user's cache folder remembers each archive that was made or verified on this machine, and which of its
files are sound.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from analytics.store.files.backend import TEMPORARY_PREFIX, Backend, FileStatus, explain_errors, format_archive_option
from analytics.store.files.local_files import LOCAL, find_backend, use_temporary_path
from analytics.store.parquet.metadata import read_footer
from analytics.store.ranges import parse_file_name
from analytics.store.records import JsonRecord, RecordError, encode_record, parse_record
from analytics.store.schema import SCHEMA_VERSION
from quarto.errors import FailureError, RequestError
from quarto.sources import cache_root, create_missing_folders_privately, project_root

logger = logging.getLogger(__name__)

MARKER_NAME = "archive.json"
ARCHIVE_FORMAT = "quarto-arena archive"


class Marker(JsonRecord, frozen=True, forbid_unknown_fields=False):
    """The content of the file that makes a folder an archive. Other schema versions may have additional fields."""

    format: str
    schema_version: int


def ensure_archive(root: PurePath, create: bool) -> None:
    """Check that ``root`` is an archive of this schema version; with ``create``, make the archive if it is missing.

    With ``create``, the archive must also be writable. Raises ``RequestError`` if a check fails, ``FailureError`` if
    the store does not answer.
    """
    backend = find_backend(root)
    content = read_marker_content(root)
    if content is None:
        if not create:
            raise RequestError(f"{_describe_absence(root)}: run an experiment first, or name another folder")
        check_is_or_can_become_archive(root)
        content = _create_archive_and_read_marker(root)
    _check_format(root, content)
    if create and not backend.can_write_as_far_as_known(root):
        raise backend.not_writable_error(root, PermissionError())


def read_marker_content(root: PurePath) -> bytes | None:
    """Return the content of the marker, or None if there is no marker.

    Raises the errors of ``ensure_archive``.
    """
    if isinstance(root, Path) and root.exists() and not root.is_dir():
        raise RequestError(f"archive {root} is a file: name a folder")
    try:
        return find_backend(root).read(root / MARKER_NAME)
    except FileNotFoundError:
        return None
    except ConnectionError as error:
        raise FailureError(f"archive {root} cannot be opened: {error}") from error
    except OSError as error:
        raise RequestError(f"{root / MARKER_NAME} cannot be read ({error}): is this an archive of yours?") from error


def check_is_or_can_become_archive(root: PurePath) -> None:
    """Raise ``RequestError`` if ``root`` cannot become an archive because it is a file or a folder with other files.

    An existing archive passes the check.
    """
    backend = find_backend(root)
    if read_marker_content(root) is not None:
        return
    try:
        foreign = any(not name.startswith(TEMPORARY_PREFIX) for name in backend.list_names(root))
    except PermissionError as error:
        raise backend.not_writable_error(root, error) from error
    except OSError as error:
        raise RequestError(f"{root} cannot be listed: {error}") from error
    if foreign and read_marker_content(root) is None:  # another process may have made the archive just now
        raise RequestError(f"{_describe_absence(root)} but has other files in it: name an empty folder or an archive")


def check_outside_archives(path: Path) -> None:
    """Raise ``RequestError`` if a path is inside any archive on this machine."""
    absolute = path.resolve()
    for folder in (absolute, *absolute.parents):
        if _has_marker(folder):
            raise RequestError(f"{path} is inside archive {folder}, where only runs write: name another path")


def _has_marker(folder: Path) -> bool:
    """Return whether a folder has an archive's marker.

    Another program's file with the same name does not count as a marker.
    """
    try:
        content = LOCAL.read(folder / MARKER_NAME)
    except OSError:
        return (folder / MARKER_NAME).exists()
    return ARCHIVE_FORMAT.encode() in content or (folder / "runs").is_dir()


def _create_archive_and_read_marker(root: PurePath) -> bytes:
    """Make an archive in ``root``, unless another process does so first, and return the content of its marker."""
    backend, content = find_backend(root), encode_record(Marker(ARCHIVE_FORMAT, SCHEMA_VERSION))
    try:
        backend.check_conditional_writes(root)
        if backend.create(root / MARKER_NAME, content):  # never replaced: writers lock it
            remember_archive(root)
            return content
    except PermissionError as error:
        raise backend.not_writable_error(root, error) from error
    except OSError as error:
        raise RequestError(
            f"no archive can be made in {root}: {error.strerror or error}; choose another archive.root"
        ) from error
    return read_marker_content(root) or b""


def _describe_absence(root: PurePath) -> str:
    """Return the beginning of the message that there is no archive at ``root``."""
    there = root.exists() if isinstance(root, Path) else find_backend(root).list_names(root)
    return f"{root} is not an archive (it has no {MARKER_NAME})" if there else f"there is no archive at {root}"


def read_marker(root: PurePath) -> Marker:
    """Read the marker of an archive whose format is the present one or an older one.

    Raises:
        RequestError: There is no archive at ``root``, or its format is newer.
        FailureError: The store does not answer.

    """
    content = read_marker_content(root)
    if content is None:
        raise RequestError(f"{_describe_absence(root)}: run an experiment first, or name another folder")
    return _parse_marker(root, content)


def _parse_marker(root: PurePath, content: bytes) -> Marker:
    try:
        marker = parse_record(content, Marker)
    except RecordError as error:
        raise RequestError(f"{root / MARKER_NAME} cannot be read ({error}): is this an archive of yours?") from error
    if marker.format != ARCHIVE_FORMAT:
        raise RequestError(
            f"{root / MARKER_NAME} has format {marker.format!r}, not {ARCHIVE_FORMAT!r}: name another folder"
        )
    if marker.schema_version > SCHEMA_VERSION:
        raise RequestError(
            f"{_format_archive_and_marker_name(root)} {describe_other_format(root, marker.schema_version)}, "
            "or name another folder"
        )
    return marker


def _check_format(root: PurePath, content: bytes) -> None:
    version = _parse_marker(root, content).schema_version
    if version != SCHEMA_VERSION:
        raise RequestError(f"{_format_archive_and_marker_name(root)} {describe_other_format(root, version)}")


def _format_archive_and_marker_name(root: PurePath) -> str:
    """Return a text that names an archive and its marker, for messages about a wrong format.

    The marker is named because a single flipped bit in it can change the format that it states.
    """
    return f"archive {root} ({MARKER_NAME})"


def describe_other_format(root: PurePath, version: int) -> str:
    """Describe how the format of an archive or record differs from the present one, and what to do about it."""
    if version > SCHEMA_VERSION:
        remedy = "use the newer program that wrote it"
    else:
        remedy = f"run 'qarena archive upgrade{format_archive_option(root)}'"
    return f"has format {version}, and this program reads and writes format {SCHEMA_VERSION}: {remedy}"


# Archives of strangers.


def warn_at_first_use_of_foreign_archive(root: PurePath) -> None:
    """Log a warning about an archive unless this user has made, verified or used it on this machine.

    The archive then counts as used, so that the warning is not repeated. There is no warning for the sample that comes
    with the program, because whoever can change that sample can change the program too.
    """
    is_known = _is_shipped_sample(root)
    with suppress(OSError):
        is_known = is_known or sound_stamps_path(root).exists()
    if not is_known:
        logger.warning(
            "archive %r was neither made nor verified on this machine: run 'qarena archive verify%s' (said once)",
            str(root),
            format_archive_option(root),
        )
    remember_archive(root)


def _is_shipped_sample(root: PurePath) -> bool:
    return isinstance(root, Path) and root.resolve() == project_root() / "data" / "sample"


def remember_archive(root: PurePath) -> None:
    """Record that this user has used an archive. If that fails, the next use warns about the archive again."""
    memory = sound_stamps_path(root)
    with suppress(OSError):
        create_missing_folders_privately(memory.parent)
        memory.touch()


def sound_stamps_path(root: PurePath) -> Path:
    """Return the path of the cache file that records which files of an archive were found undamaged.

    The cache file exists once this user has made, verified or used the archive. Its name depends on the location of the
    archive and on the version of its marker, so a copy of the archive has a cache file of its own.
    """
    backend = find_backend(root)
    status = backend.status(root / MARKER_NAME)
    identity = hashlib.sha256(
        repr((backend.encode_absolute_location(root), status and status.version)).encode()
    ).hexdigest()
    return cache_root() / "checked" / f"{identity[:16]}.json"


# Sound files. A flipped bit in a page is a wrong answer and no error to most readers of Parquet. So the bytes of a
# table file are compared with the check in its name before the first question to it, once per archive and machine. Its
# rows are counted then, because DuckDB and Polars open files by their names. A sound file is remembered outside the
# archive, for as long as its size, times and inode stay. Bytes can change while these stay, as on a failing disk.
# ``qarena archive verify`` finds that, because it always reads everything.

MIN_LISTED_FILES = 64  # of a folder: with fewer, each is asked for on its own

MEMORY_LIFETIME_SECONDS = 90 * 86400  # the memory of an archive that has not changed for so long is removed


Stamp = list[str | int]


class VerifiableFile(NamedTuple):
    """A file whose SHA-256, or the beginning of it, is known from the file's name or from a policy's card."""

    run_id: str  # empty: of no run
    path: PurePath  # absolute
    checksum: str  # the SHA-256 of its bytes in hex digits, or the beginning of it
    backend: Backend
    rows: int | None = None  # as a card states; None: the file's name says how many there can be
    condition: str = ""  # in SQL: the rows of games or plies that readers use; empty: all

    @property
    def name(self) -> str:
        """The path of the file relative to the archive."""
        return "/".join(self.path.parts[-3:])

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        with explain_errors("find", self.path):
            return self.backend.status(self.path) is not None

    def count_rows_if_sound(self) -> int | None:
        """Count the file's rows if it has the bytes that were written, and no more rows than allowed, else return None.

        This reads the whole file.
        """
        named = parse_file_name(self.path.name)
        try:
            with self.backend.open(self.path) as file:
                if not hashlib.file_digest(file, "sha256").hexdigest().startswith(self.checksum):
                    return None
                rows = read_footer(file).rows
                return rows if rows == self.rows or (named is not None and rows <= named.max_rows) else None
        except (OSError, ValueError):
            return None

    def build_stamp(self, status: FileStatus) -> Stamp:
        """Build the stamp that is remembered, with the number of rows, once the file is found undamaged.

        It consists of the file's checksum and version. A file whose stamp is not the remembered one is verified again.
        """
        return [self.checksum, *status.version]


def find_damaged_file(root: PurePath, files: Sequence[VerifiableFile]) -> VerifiableFile | None:
    """Return one of ``files`` that is missing or damaged, or None if all of them are sound.

    A file is damaged if it differs from what was written to the archive at ``root``. Files that were found sound before
    and have not changed since are not read again. If the backend compares checksums itself, only missing files are
    found.
    """
    if not files:
        return None
    if files[0].backend.checks_bytes:
        return next((file for file in files if not file.is_there), None)
    memory = sound_stamps_path(root)
    remembered = _read_sound_stamps(memory)
    stamps: dict[VerifiableFile, Stamp] = {}
    for file, status in zip(files, _list_statuses(files), strict=True):
        if status is None:
            return file
        stamp = file.build_stamp(status)
        if remembered.get(file.name, [])[:-1] != stamp:
            stamps[file] = stamp
    if not stamps:
        return None
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing leaves the interpreter to other threads
        rows = dict(zip(stamps, pool.map(VerifiableFile.count_rows_if_sound, stamps), strict=True))
    sound = {file: count for file, count in rows.items() if count is not None}
    remembered = remembered | {file.name: [*stamps[file], count] for file, count in sound.items()}
    _write_sound_stamps(memory, remembered)
    return next((file for file in stamps if file not in sound), None)


def _list_statuses(files: Sequence[VerifiableFile]) -> Iterator[FileStatus | None]:
    """Yield the status of each file, or None for a file that does not exist.

    A folder of which many files are wanted is listed once, because asking for one file after the other takes five times
    as long.
    """
    paths = [os.path.split(file.path) for file in files]
    wanted_files = Counter(folder for folder, _ in paths)
    statuses = dict[str, Mapping[str, FileStatus]]()
    for file, (folder, name) in zip(files, paths, strict=True):
        if wanted_files[folder] < MIN_LISTED_FILES:
            with explain_errors("find", file.path):
                yield file.backend.status(file.path)
            continue
        if folder not in statuses:
            with explain_errors("list", file.path.parent):
                statuses[folder] = file.backend.list_statuses(file.path.parent)
        yield statuses[folder].get(name)


def find_remembered_row_counts(root: PurePath, files: Sequence[VerifiableFile]) -> list[int] | None:
    """Return the number of rows of each file, or None unless all of them are remembered as sound.

    No file is opened. ``find_damaged_file`` must have found the files sound.
    """
    remembered = _read_sound_stamps(sound_stamps_path(root))
    rows = [remembered[file.name][-1] for file in files if file.name in remembered]
    counts = [count for count in rows if isinstance(count, int)]
    return counts if len(counts) == len(files) else None


def _read_sound_stamps(memory: Path) -> dict[str, Stamp]:
    try:
        status = memory.stat()
        version = status.st_mtime_ns, status.st_size, status.st_ino
        if memory not in _memories or _memories[memory][0] != version:
            stamps = json.loads(memory.read_bytes())
            _memories[memory] = version, stamps if isinstance(stamps, dict) else {}
    except (OSError, ValueError):
        return {}  # none yet, or not ours: the files are read again
    return _memories[memory][1]


# The stamps that were read last, with the version of their file: parsing the file of ten thousand runs takes 60 ms.
_memories: dict[Path, tuple[tuple[int, int, int], dict[str, Stamp]]] = {}


def _write_sound_stamps(memory: Path, stamps: dict[str, Stamp]) -> None:
    with suppress(OSError):  # a cache that cannot be written costs time only
        create_missing_folders_privately(memory.parent)
        with use_temporary_path(memory) as temporary:
            temporary.write_text(json.dumps(stamps))
            temporary.replace(memory)
        _remove_old_stamp_files(memory.parent)


@cache
def _remove_old_stamp_files(folder: Path) -> None:
    """Remove each cache file, whichever archive it belongs to, that has not changed for ``MEMORY_LIFETIME_SECONDS``.

    This is done once per process.
    """
    oldest = time.time() - MEMORY_LIFETIME_SECONDS
    for memory in folder.iterdir():
        if memory.stat().st_mtime < oldest:
            memory.unlink(missing_ok=True)
