"""The file that makes a folder an archive: finding it, making it, and refusing folders that are no archive.

A file in the user's cache folder remembers the archives that were made or verified on this machine.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from pathlib import Path, PurePath

from analytics.files.atomic import TEMPORARY, aside
from analytics.files.backends import backend_of
from analytics.files.local import LOCAL
from analytics.store.records import JsonRecord, RecordError, dump, parse
from analytics.store.schema import SCHEMA_VERSION
from quarto.caches import cache_root
from quarto.errors import FailureError, RequestError

logger = logging.getLogger(__name__)

MARKER = "archive.json"
FORMAT = "quarto-arena archive"
REMEMBERED = 4096  # archives: then the older half is forgotten


class Marker(JsonRecord, frozen=True, forbid_unknown_fields=False):
    """The file that makes a folder an archive. One of another schema version may hold other fields too."""

    format: str
    schema_version: int


def require(root: PurePath, create: bool) -> None:
    """Require an archive of this schema version at ``root``; with ``create`` it is made if need be, and writable.

    Raises ``RequestError`` if there is none, ``FailureError`` for a store that does not answer.
    """
    backend = backend_of(root)
    backend.require_room(root)
    content = content_of(root)
    if content is None:
        if not create:
            raise RequestError(f"{_absence(root)}: run an experiment first, or name another folder")
        check_root(root)
        content = _make(root)
    _check(root / MARKER, content)
    if create and not backend.may_write(root):
        raise backend.not_writable(root, PermissionError())


def content_of(root: PurePath) -> bytes | None:
    """The content of the marker; None if there is none. Raises as ``require`` does."""
    try:
        return backend_of(root).read(root / MARKER)
    except FileNotFoundError:
        return None
    except ConnectionError as error:
        raise FailureError(f"archive {root} cannot be opened: {error}") from error
    except OSError as error:
        raise RequestError(f"{root / MARKER} cannot be read ({error}): is this an archive of yours?") from error


def check_root(root: PurePath) -> None:
    """Raises ``RequestError`` if no archive can be in ``root``: it is a file, or a folder with other files in it."""
    backend = backend_of(root)
    backend.require_room(root)
    if content_of(root) is not None:
        return
    try:
        foreign = any(not path.name.startswith(TEMPORARY) for path in backend.entries(root))
    except PermissionError as error:
        raise backend.not_writable(root, error) from error
    except OSError as error:
        raise RequestError(f"{root} cannot be listed: {error}") from error
    if foreign and content_of(root) is None:  # another process may have made the archive just now
        raise RequestError(f"{_absence(root)} but has other files in it: name an empty folder or an archive")


def require_outside(path: Path) -> None:
    """Raise ``RequestError`` if a path is inside an archive of this machine, whichever it may be."""
    absolute = path.resolve()
    for folder in (absolute, *absolute.parents):
        if _is_marked(folder):
            raise RequestError(f"{path} is inside archive {folder}, where only runs write: name another path")


def _is_marked(folder: Path) -> bool:
    """Whether a folder has an archive's marker. Other programs' files of that name are none, unless unreadable."""
    try:
        content = LOCAL.read(folder / MARKER)
    except OSError:
        return (folder / MARKER).exists()
    return FORMAT.encode() in content or (folder / "runs").is_dir()


def _make(root: PurePath) -> bytes:
    """Make an archive in ``root``, and return its marker."""
    backend, content = backend_of(root), dump(Marker(FORMAT, SCHEMA_VERSION))
    try:
        backend.prepare(root)
        if backend.create(root / MARKER, content):  # never replaced: writers lock it
            remember(root)
            return content
    except PermissionError as error:
        raise backend.not_writable(root, error) from error
    except OSError as error:
        raise RequestError(
            f"no archive can be made in {root}: {error.strerror or error}; choose another archive.root"
        ) from error
    return content_of(root) or b""


def _absence(root: PurePath) -> str:
    """The beginning of the message that there is no archive."""
    there = backend_of(root).exists(root)
    return f"{root} is not an archive (it has no {MARKER})" if there else f"there is no archive at {root}"


def _check(marker: PurePath, content: bytes) -> None:
    try:
        found = parse(content, Marker)
    except RecordError as error:
        raise RequestError(f"{marker} cannot be read ({error}): is this an archive of yours?") from error
    if found.format != FORMAT:
        raise RequestError(f"{marker} has format {found.format!r}, not {FORMAT!r}: name another folder")
    if found.schema_version != SCHEMA_VERSION:
        raise RequestError(
            f"{marker} has schema version {found.schema_version}, this program reads and writes "
            f"{SCHEMA_VERSION}: use the program that wrote it, or name another folder"
        )


# Archives of strangers.


def note_if_unknown(root: PurePath) -> None:
    """Log a warning, once, about an archive that this user neither made nor verified on this machine."""
    if _identity(root) not in _remembered():
        remember(root)
        logger.warning(
            "archive %r was neither made nor verified on this machine: run 'qarena archive verify' (said once)",
            str(root),
        )


def remember(root: PurePath) -> None:
    """Remember an archive. One that cannot be remembered is noted again."""
    memory, known = _memory(), _remembered()
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        if len(known) >= REMEMBERED:
            with aside(memory) as temporary:
                temporary.write_text("".join(f"{each}\n" for each in known[REMEMBERED // 2 :]))
                temporary.replace(memory)
        with memory.open("a", encoding="ascii") as file:  # one write: processes may add at the same time
            file.write(f"{_identity(root)}\n")


def _memory() -> Path:
    return cache_root() / "known_archives"


def _remembered() -> list[str]:
    try:
        return _memory().read_text(encoding="ascii").split()
    except (OSError, UnicodeError):
        return []


def _identity(root: PurePath) -> str:
    """The place of an archive, and the times and the number of its marker: a copy is another archive."""
    backend = backend_of(root)
    status = backend.status(root / MARKER)
    return hashlib.sha256(repr((backend.identity(root), status and status.version)).encode()).hexdigest()[:16]
