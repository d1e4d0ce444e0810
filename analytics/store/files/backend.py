"""The interface between an archive and where its files are: this machine's file system, or object storage.

Everything above works with locations and with these few operations. A location is a name and nothing more: a ``Path``,
or the URL of an object. It can be taken apart and joined like any pure path. A file appears whole or not at all, also
to others who read at the same moment. All operations raise ``OSError`` if they fail, with a reason of one line.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from quarto.errors import Advice, FailureError, RequestError, describe_value

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?(.*)", re.DOTALL)
SCHEMES = ("s3", "gs", "az")  # of object storage
_CONTAINER = re.compile(r"[a-z0-9][a-z0-9_.-]{1,221}[a-z0-9]")
_KEY = re.compile(r"([A-Za-z0-9_.=-]+/)*[A-Za-z0-9_.=-]+/?|")


class ObjectUrl(PurePosixPath):
    """The URL of an object, a prefix or a bucket (on Azure: a container), such as ``s3://bucket/prefix/name``."""

    __slots__ = ()

    def __str__(self) -> str:
        text = super().__str__()
        return text.replace(":/", "://", 1) if text.partition("/")[0].removesuffix(":") in SCHEMES else text

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is not a file of this machine")

    @property
    def scheme(self) -> str:
        return self.parts[0].removesuffix(":")

    @property
    def bucket(self) -> str:
        return self.parts[1]

    @property
    def key(self) -> str:
        """The part of the URL after the bucket, which names the object."""
        return "/".join(self.parts[2:])


def expand_home_if_known(path: str | PurePath) -> Path:
    """Return the path with ``~`` or ``~NAME`` replaced by the home folder of this user or of the user NAME.

    The path is returned unchanged if there is no such user. Shells expand ``~`` too, but neither after ``=`` nor in
    quotes.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  (``Path.expanduser`` raises if there is no such user)


DEFAULT_ARCHIVE: PurePath = expand_home_if_known(
    os.environ.get("QARENA_ARCHIVE", "data/archive")
)  # where no other is named


def parse_location(text: str | PurePath) -> PurePath:
    """Parse the location that a user named: a folder, or a URL that begins with ``s3://``, ``gs://`` or ``az://``.

    ``~`` stands for the user's home folder. Raises ``RequestError`` if ``text`` is empty or neither a text nor a path,
    or if it is a URL that is malformed or has another scheme.
    """
    if isinstance(text, ObjectUrl):
        return text
    if not isinstance(text, str | PurePath):
        raise RequestError(f"{describe_value(text)} is no archive: name its folder or its URL")
    if not str(text):
        raise RequestError(Advice("an archive needs a name", "--archive DIR", "give the path of a folder, or a URL"))
    match = _URL.fullmatch(str(text))
    if not match or not (match[1] in SCHEMES or "://" in str(text)):
        return expand_home_if_known(text)
    scheme, rest = match[1], match[2]
    if scheme not in SCHEMES:
        raise RequestError(f"{text}: {scheme}:// is not a kind of archive: name a folder, or s3://, gs:// or az://")
    bucket, _, key = rest.partition("/")
    if not _CONTAINER.fullmatch(bucket):
        raise RequestError(
            f"{text} does not name a bucket ({bucket!r} does not have 3 to 223 of a-z, 0-9, '.', '-', '_'): write "
            f"{scheme}://BUCKET/PREFIX"
        )
    if not _KEY.fullmatch(key) or {".", ".."} & set(key.split("/")):
        raise RequestError(
            f"{text} has a prefix that cannot be used: write names of letters, digits, '_', '.', '=' and '-', with one "
            "'/' between them"
        )
    return ObjectUrl(f"{scheme}:", bucket, *filter(None, key.split("/")))


def format_archive_option(root: PurePath) -> str:
    """Format the option that names an archive, for commands that messages suggest.

    Args:
        root: The location of the archive.

    Returns:
        `` --archive ROOT``, quoted for a shell, with a space in front; "" for the default archive.

    Examples:
        >>> from pathlib import PurePosixPath
        >>> format_archive_option(PurePosixPath("my games"))
        " --archive 'my games'"

    """
    return "" if root == DEFAULT_ARCHIVE else f" --archive {_quote_path_for_shell(root)}"


def _quote_path_for_shell(path: PurePath) -> str:
    r"""Quote a path for a shell.

    If terminals cannot show some characters of the path, it is quoted in the form ``$'\xef'``: bytes that are not
    printable ASCII are written as escapes.
    """
    text = str(path)
    if text.isprintable():
        return shlex.quote(text)
    parts = (
        byte if 32 <= ord(byte) < 127 and byte not in "'\\" else f"\\x{ord(byte):02x}"
        for byte in os.fsencode(path).decode("latin-1")
    )
    return f"$'{''.join(parts)}'"


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT])i)?B")


def parse_size(size: str, prefix: str = "", alternative: str = "") -> int:
    """Parse a size such as ``1GiB`` and return its number of bytes.

    Raises ``RequestError`` if ``size`` is 0 or not a size. The error's message begins with ``prefix`` and ends with
    ``alternative``, which tells what else the user may write.
    """
    match = _SIZE.fullmatch(size)
    if not match or not float(match[1]):
        raise RequestError(
            f"{prefix}{size!r} is not a size: write a number and KiB, MiB, GiB or TiB, such as 1GiB{alternative}"
        )
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2] or " "))


RECORD_SUFFIX = ".json"  # how names of records end
MAX_RECORD_BYTES = 1 << 24  # JSON takes up to fifty times its size in memory; a tournament of 1,000 agents has 15 MB


def check_record_size(path: PurePath, size: int) -> None:
    """Raise ``OSError`` if ``path`` is a record and ``size``, in bytes, exceeds ``MAX_RECORD_BYTES``.

    Tables have no such limit.
    """
    if path.suffix == RECORD_SUFFIX and size > MAX_RECORD_BYTES:
        raise OSError(errno.EINVAL, f"it has {size:,} bytes, and a record at most {MAX_RECORD_BYTES:,}")


# Errors, and files that are not finished.

TEMPORARY_PREFIX = ".tmp-"  # prefix of the name of every file that is not finished

NO_INODES_ADVICE = "the file system has no inode left (see 'df -i'): remove files and run the same command again"
_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "your disk quota is used up: free some space and run the same command again",
    errno.EFBIG: "a limit on the size of files was hit (see 'ulimit -f'): raise it and run the same command again",
    errno.EACCES: "permission denied: make the folder writable or choose another archive.root",
    errno.EPERM: "the file system does not allow it: choose another archive.root",
    errno.EROFS: "the file system is read-only: choose another archive.root",
    errno.ENOENT: "it was removed while in use: run the same command again",
}

_READING_VERBS = ("find", "list", "read")  # what is done without writing


@contextmanager
def explain_errors(verb: str, path: PurePath) -> Iterator[None]:
    """Convert an ``OSError`` in the context to a ``FailureError``, which says in one line what failed and what to do.

    ``verb`` names the operation on ``path`` for this message, such as ``read`` or ``write to``.
    """
    try:
        yield
    except OSError as error:
        reason = (
            NO_INODES_ADVICE
            if is_inode_shortage(error, path)
            else _ADVICE.get(error.errno or 0, error.strerror or str(error))
        )
        if error.errno == errno.EACCES and verb in _READING_VERBS:
            place = error.filename or path  # a folder or a file in it
            raise FailureError(f"cannot {verb} {place}: permission denied: let this user read it") from error
        raise FailureError(f"cannot {verb} {path}: {reason}; what was written before is kept") from error


def is_inode_shortage(error: OSError, path: PurePath) -> bool:
    """Return whether creating ``path`` failed for lack of inodes, which the system reports as a full disk.

    File systems that make inodes on demand (Btrfs) report a total of 0; for these, the result is False.
    """
    if error.errno != errno.ENOSPC or not isinstance(path, Path):
        return False
    folder = next((folder for folder in (path, *path.parents) if folder.exists()), Path.cwd())
    status = os.statvfs(folder)
    return status.f_files > 0 and status.f_favail == 0


def temporary_name() -> str:
    """Return a name that no other writer uses, for an unfinished or short-lived file."""
    return f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"


class FileStatus(NamedTuple):
    """The facts about a file that are known without reading its content."""

    bytes: int
    modified: float  # seconds since 1970, by the clock of the backend
    version: tuple[str | int, ...]  # differs after each change


class Backend(ABC):
    """A reader and writer of files. It keeps no files open, and any number of threads may use it at once."""

    # Reading.

    @abstractmethod
    def read(self, path: PurePath) -> bytes:
        """Read the content of a file.

        Raises ``FileNotFoundError`` if there is no such file, ``OSError`` for a record that is too large.
        """

    def open(self, path: PurePath) -> io.BufferedIOBase:
        """Open a file for reading in parts.

        Its content stays readable if the file is removed meanwhile. Raises ``FileNotFoundError`` if there is no such
        file.
        """
        return io.BytesIO(self.read(path))

    def read_all(self, paths: Sequence[PurePath]) -> list[bytes]:
        """Return the contents of files in the order of ``paths``; many are read at once if requests are slow."""
        return [self.read(path) for path in paths]

    @abstractmethod
    def status(self, path: PurePath) -> FileStatus | None:
        """Return the status of a file, or None if there is no such file."""

    @abstractmethod
    def list_names(self, folder: PurePath) -> list[str]:
        """List the names of the entries directly in a folder, in any order.

        The list is empty if there is no such folder.
        """

    def list_statuses(self, folder: PurePath) -> Mapping[str, FileStatus]:
        """Return the status of each file directly in a folder, keyed by name."""
        files = self.list_files_below(folder).items()
        return {path.name: status for path, status in files if path.parent == folder}

    def list_folder_versions(self, folder: PurePath) -> Mapping[str, Hashable]:
        """Return a value for each folder directly in a folder that differs if entries were added, replaced or removed.

        A folder is left out if nothing tells whether it will change, as in object stores, which have no folders.
        """
        del folder
        return {}

    @abstractmethod
    def list_files_below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        """Return the status of each file in a folder and its subfolders, keyed by path."""

    def list_irregular_files(self, root: PurePath) -> Iterable[tuple[PurePath, str]]:
        """Yield each entry below ``root`` that is neither a regular file nor a folder, and its kind in words."""
        del root
        return ()

    # Writing.

    @abstractmethod
    def create(self, path: PurePath, content: bytes) -> bool:
        """Create a file atomically and return True; if it already exists, leave it unchanged and return False."""

    @abstractmethod
    def replace(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        """Create a file, or replace its content, in one step. A failed call may safely be repeated."""

    @abstractmethod
    def update(self, path: PurePath, guard: PurePath, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replace a file's content with what ``change`` returns for the present content.

        ``change`` gets None if there is no file; if it returns None, the file is left as it is. Writers that pass the
        same ``guard``, which is an existing file, do not undo each other's changes: the other writers wait, or
        ``change`` is called again with the content that one of them stored.
        """

    @abstractmethod
    def lock(self, path: PurePath) -> AbstractContextManager[bool]:
        """Hold a lock file inside the context and yield True, or yield False if another process holds the lock."""

    # What is not needed any more.

    @abstractmethod
    def remove(self, path: PurePath) -> None:
        """Remove a file if it exists."""

    def remove_empty_folders(self, folder: PurePath) -> None:
        """Remove a folder and all its subfolders, except folders that hold files.

        Object stores have no folders, so nothing happens there.
        """
        del folder

    @abstractmethod
    def read_clock(self, root: PurePath) -> float:
        """Return the time, in seconds since the epoch, by the clock that dates an archive's files.

        That clock may differ from this machine's clock.
        """

    # An archive as a whole.

    @abstractmethod
    def can_write_as_far_as_known(self, folder: PurePath) -> bool:
        """Return whether files can be added to an existing folder, as far as that is known in advance."""

    @abstractmethod
    def not_writable_error(self, root: PurePath, error: OSError) -> RequestError:
        """Build the error for an archive that this user may not write to; ``error`` is the cause."""

    @abstractmethod
    def encode_absolute_location(self, root: PurePath) -> bytes:
        """Return bytes that identify the location ``root`` and do not depend on the working folder."""

    def check_conditional_writes(self, root: PurePath) -> None:
        """Raise ``OSError`` if writers could overwrite each other's records in ``root``.

        This is called before an archive is made.
        """
        del root

    # Other readers.

    checks_bytes: bool = False  # whether the store itself keeps and compares a checksum of each file

    def absolute(self, path: PurePath) -> PurePath:
        """Return the location of a file in a form that does not depend on the reader's working folder."""
        return path

    @property
    def polars_arguments(self) -> dict[str, Any]:
        """The arguments that ``pl.scan_parquet`` needs to read files of this backend."""
        return {}


# Settings of object storage. All come from the environment, and none is ever stored, logged or shown.

# By scheme: the variables that may name an endpoint, and the one that allows HTTP to another machine.
ENDPOINT_VARIABLES = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "gs": ("GOOGLE_BASE_URL",)}
ALLOW_HTTP_VARIABLES = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP"}
TIMEOUT_VARIABLE = "QARENA_STORE_TIMEOUT"  # seconds of one request
PATIENCE_VARIABLE = "QARENA_STORE_PATIENCE"  # seconds for which a failing request is repeated
FIRST_PATIENCE_SECONDS = 5.0  # the same for a store that has not answered yet
RETRIES = 10
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class StoreOptions:
    """The settings for access to an object store, except credentials, which the libraries read from the environment."""

    scheme: str
    endpoint: str  # empty: the provider's own
    allow_http: bool
    timeout: float  # seconds
    patience: float  # seconds

    @staticmethod
    def from_environment_without_credentials(scheme: str) -> StoreOptions:
        """Read the options for a URL scheme from environment variables.

        Raises ``RequestError`` if a number is malformed or an endpoint is not encrypted.
        """
        endpoint = next((os.environ[name] for name in ENDPOINT_VARIABLES.get(scheme, ()) if os.environ.get(name)), "")
        parts, allow = urlsplit(endpoint), ALLOW_HTTP_VARIABLES.get(scheme, "")
        http_allowed = os.environ.get(allow, "").lower() in ("1", "true", "yes")
        if endpoint and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise RequestError(f"the endpoint {_strip_credentials(endpoint)} is not a URL: write https://HOST:PORT")
        local = parts.hostname in LOCAL_HOSTS
        if parts.scheme == "http" and not (local or http_allowed):
            raise RequestError(
                f"the endpoint {_strip_credentials(endpoint)} is not encrypted: write https://, or allow it with "
                f"{allow}=true"
            )
        times = _read_seconds(TIMEOUT_VARIABLE, 60.0), _read_seconds(PATIENCE_VARIABLE, 120.0)
        return StoreOptions(scheme, _strip_credentials(endpoint), parts.scheme == "http", *times)

    def client_options(self) -> dict[str, Any]:
        """Return the options for obstore's connections."""
        options: dict[str, Any] = {"timeout": timedelta(seconds=self.timeout)}
        options["connect_timeout"] = timedelta(seconds=min(5.0, self.timeout))
        return options | ({"allow_http": True} if self.allow_http else {})

    def retry_options(self, is_first: bool) -> dict[str, Any]:
        """Return the options for retrying requests that fail temporarily (429, 5xx, lost connections).

        The pauses between attempts grow. With ``is_first``, the options are for requests to a store that has not
        answered yet; such requests are repeated for a shorter time.
        """
        seconds = min(FIRST_PATIENCE_SECONDS, self.patience) if is_first else self.patience
        return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=seconds)}

    def polars_arguments(self) -> dict[str, Any]:
        """Return the arguments that Polars' own reader needs besides the environment variables that it reads itself.

        ``credential_provider`` is None, because Polars would otherwise ask the libraries of Google and Amazon for
        credentials if these are installed. Those libraries read other variables than obstore, which writes the archive,
        so reading and writing could use different credentials.
        """
        options: dict[str, str] = {}
        if self.scheme == "s3":
            options |= {"aws_endpoint_url": self.endpoint} if self.endpoint else {}
            options |= {"aws_allow_http": "true"} if self.allow_http else {}
        return {"storage_options": options, "credential_provider": None}


def _read_seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise RequestError(f"{name}={text} is not a time: write a number of seconds above 0")
    return seconds


MASK, MIN_SECRET_CHARACTERS = "***", 4  # a shorter password alone may be a part of any word


def hide_endpoint_credentials(text: str) -> str:
    """Return a text, such as a traceback, with the credentials in it masked.

    The credentials are the user names and passwords in the endpoints that environment variables give.
    """
    for name in {name for names in ENDPOINT_VARIABLES.values() for name in names}:
        with suppress(ValueError):  # it is no URL
            user, at, _ = urlsplit(os.environ.get(name, "")).netloc.rpartition("@")
            password = user.partition(":")[2]
            for secret in (user + at if user else "", password, unquote(password)):
                text = text.replace(secret, MASK) if len(secret) >= MIN_SECRET_CHARACTERS else text
    return text


def _strip_credentials(endpoint: str) -> str:
    """Return the endpoint without its user and password, if it has any."""
    parts = urlsplit(endpoint)
    return endpoint.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else endpoint
