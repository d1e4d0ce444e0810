"""The backend of object storage (S3, Google Cloud Storage, Azure), through the library obstore of the extra ``s3``.

A store has neither folders, links nor locks. An object appears whole, and writing it again is harmless where its name
says what it holds. Only the records of runs change. A record is created only if its name is free (``If-None-Match``).
It is replaced only if it is still the version that was read (``If-Match``). A request whose answer was lost may have
been carried out. So each attempt puts a mark of its own on what it creates under a condition. If an
object is already there, another writer created it only if its mark differs.
"""

from __future__ import annotations

import os
import random
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import PurePath
from threading import RLock
from typing import Any, NamedTuple, TypeVar

from analytics.store.files.backend import (
    RECORD_SUFFIX,
    Backend,
    FileStatus,
    ObjectUrl,
    StoreOptions,
    check_record_size,
    temporary_name,
)
from quarto.errors import RequestError, require_extra

with require_extra("s3", "an archive on object storage"):
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        NotSupportedError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )
    from obstore.store import from_url

REQUESTS_AT_ONCE = 32  # requests, where many are needed
REQUEST_ATTEMPTS = 6  # for a conditional request whose answer was lost
MAX_CONFLICTS = 200  # other writers' changes of one object that are waited for
PAUSE_SECONDS = 0.05  # between two attempts, doubled each time, up to
MAX_PAUSE_SECONDS = 5.0
MARK_ATTRIBUTE = "writer"  # an object's attribute

T = TypeVar("T")


# Errors of the store as ``OSError``, each with a reason of one line that says what to do.

_NO_BUCKET_TEXTS = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_REFUSAL_CODES = (
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "Forbidden",
)
_NO_CREDENTIALS_TEXTS = ("169.254.169.254", "metadata.google.internal", "metadata server", "must be specified")
CREDENTIAL_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_STATUS_PATTERN = re.compile(r"status code: (\d{3}) ?([A-Za-z -]*)")
_PASSING_STATUS = re.compile(r"5\d\d|429|408")


@contextmanager
def translate_errors(path: PurePath, settings: StoreOptions) -> Iterator[None]:
    """Convert the errors that obstore raises in the context to ``OSError``.

    The error is ``FileNotFoundError`` if the object does not exist, ``FileExistsError`` if the condition of a write was
    not met, ``PermissionError`` if credentials are missing or insufficient, and ``ConnectionError`` if the store did
    not answer in time or its error may be temporary.
    """
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise _to_os_error(path, settings, error) from error


def _to_os_error(path: PurePath, settings: StoreOptions, error: Exception) -> OSError:
    text, store = str(error), f"the store at {settings.endpoint}" if settings.endpoint else "the store"
    status = _STATUS_PATTERN.search(text)
    refused = next((code for code in _REFUSAL_CODES if code in text), status[1] if status else "")
    if any(code in text for code in _NO_BUCKET_TEXTS):
        bucket = path.bucket if isinstance(path, ObjectUrl) else path
        return OSError(f"{store} has no bucket {bucket}: name another one, or make it first")
    if any(code in text for code in _NO_CREDENTIALS_TEXTS):
        scheme = path.scheme if isinstance(path, ObjectUrl) else ""
        return PermissionError(
            f"there are no credentials: set {CREDENTIAL_VARIABLES.get(scheme, 'those of the store')}"
        )
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or refused in _REFUSAL_CODES:
        return PermissionError(f"{store} refuses it ({refused}): check the credentials and their rights")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{path} does not exist")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        return FileExistsError(f"{path} was written by another writer")
    return _response_error(text, status, store, settings)


def _response_error(text: str, status: re.Match[str] | None, store: str, settings: StoreOptions) -> OSError:
    """Build the error for an unexpected response of the store, or for no response.

    ``text`` is obstore's message, ``status`` the match of the HTTP status in it, if any, and ``store`` a description of
    the store for messages.
    """
    if status:
        answer = f"{store} answers {status[1]} {status[2]}".strip()
        return (
            ConnectionError(f"{answer}: try again later") if _PASSING_STATUS.fullmatch(status[1]) else OSError(answer)
        )
    if re.search("timed out|kind: Timeout", text):
        return ConnectionError(f"{store} took more than {settings.timeout:g} s to answer: try again later")
    if re.search("sending request|[Cc]onnect|HTTP error", text):
        return ConnectionError(f"{store} does not answer: is the address right, and the server running?")
    return OSError(" ".join(text.partition("Debug source")[0].split())[:300])


# The backend.


class _ObjectVersion(NamedTuple):
    """The content of one version of an object, and the condition for a write: this version is still current."""

    content: bytes
    condition: Any


def generate_pauses() -> Iterator[float]:
    """Yield, endlessly, the seconds to wait before each further attempt.

    The pauses grow, and they are random so that writers do not collide.
    """
    longest = PAUSE_SECONDS
    while True:
        yield random.uniform(0, longest)
        longest = min(2 * longest, MAX_PAUSE_SECONDS)


class ObjectBackend(Backend):
    """A reader and writer of the objects of one bucket."""

    checks_bytes = True  # a store keeps a checksum of each object; reading all bytes once more would cost the transfer

    def __init__(self, scheme: str, bucket: str, settings: StoreOptions) -> None:
        self.settings = settings
        self.bucket = ObjectUrl(f"{scheme}:", bucket)
        self._answered = False

    @cached_property
    def _stores(self) -> tuple[Any, Any]:
        """Two clients of the same store: the first retries failed requests for a shorter time than the second.

        The first is used until the store has answered once, the second afterwards.
        """
        options, url = self.settings.client_options(), str(self.bucket)
        with translate_errors(self.bucket, self.settings):
            first, later = (
                from_url(url, client_options=options, retry_config=self.settings.retry_options(is_first))
                for is_first in (True, False)
            )
        return first, later

    @contextmanager
    def _use_store(self, path: PurePath) -> Iterator[Any]:
        """Yield the store for one request about an object or prefix.

        Raises ``OSError`` if the store refuses the request.
        """
        try:
            with translate_errors(path, self.settings):
                yield self._stores[self._answered]
        except (FileNotFoundError, FileExistsError):
            self._answered = True
            raise
        self._answered = True

    # Reading.

    def _request_with_retries(self, path: PurePath, send: Callable[[Any], T]) -> T:
        """Send a request that changes nothing and return its answer.

        If only a part of the answer arrives, the request is repeated, because obstore does not do that itself.
        """
        last = time.monotonic() + self.settings.patience
        for attempt, pause in enumerate(generate_pauses(), 1):
            try:
                with self._use_store(path) as store:
                    return send(store)
            except ConnectionError:
                if attempt == REQUEST_ATTEMPTS or time.monotonic() > last or not self._answered:
                    raise
                time.sleep(pause)
        raise AssertionError

    def _read_content_and_write_condition(self, path: PurePath) -> _ObjectVersion:
        def get(store: Any) -> _ObjectVersion:
            response = obstore.get(store, _object_key(path))
            meta = response.meta
            check_record_size(path, meta["size"])
            condition = {name: meta[name] for name in ("e_tag", "version") if meta[name]}
            return _ObjectVersion(bytes(response.bytes()), condition)

        return self._request_with_retries(path, get)

    def read(self, path: PurePath) -> bytes:
        return self._read_content_and_write_condition(path).content

    def read_range(self, path: PurePath, start: int, end: int) -> bytes:
        """Return the bytes of an object from ``start`` up to but not including ``end``."""
        return self._request_with_retries(
            path, lambda store: bytes(obstore.get_range(store, _object_key(path), start=start, end=end))
        )

    def read_all(self, paths: Sequence[PurePath]) -> list[bytes]:
        return request_at_once(self.read, paths)

    def status(self, path: PurePath) -> FileStatus | None:
        try:
            return self._request_with_retries(
                path, lambda store: _status_from_metadata(obstore.head(store, _object_key(path)))
            )
        except FileNotFoundError:
            return None

    def _request_listing(self, folder: PurePath, list_method: Callable[[Any, str | None], Any]) -> Any:
        return self._request_with_retries(folder, lambda store: list_method(store, _object_key(folder) or None))

    def list_names(self, folder: PurePath) -> list[str]:
        listing = self._request_listing(folder, obstore.list_with_delimiter)
        return [
            url.name
            for url in self._select_valid_keys_as_urls(
                [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
            )
        ]

    def list_files_below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        listing = self._request_listing(folder, lambda store, prefix: obstore.list(store, prefix).collect())
        return {
            url: _status_from_metadata(entry)
            for entry in listing
            for url in self._select_valid_keys_as_urls([entry["path"]])
        }

    def _select_valid_keys_as_urls(self, keys: Any) -> Iterator[ObjectUrl]:
        """Yield the URLs of keys, except keys that no archive uses, such as ``a//b``."""
        for key in keys:
            url = self.bucket / key
            if url.key == key.rstrip("/"):
                yield url

    # Writing.

    def create(self, path: PurePath, content: bytes) -> bool:
        return self.put_if(path, content, "create")

    def put_if(self, path: PurePath, content: bytes | bytearray | memoryview, condition: Any) -> bool:
        """Write an object if ``condition`` (``create``, or a version) holds, and return whether it was written.

        If the answer to a successful request is lost, the request is repeated, and the store refuses the repetition. So
        each call marks its object, and the mark shows whether this call wrote it. The bytes cannot show that, because
        other writers may write the same bytes.
        """
        mark = uuid.uuid4().hex
        options = {"attributes": {MARK_ATTRIBUTE: mark}, "use_multipart": False}
        for attempt, pause in enumerate(generate_pauses(), 1):
            try:
                with self._use_store(path) as store:
                    self._put_with_condition_if_supported(store, path, content, condition, options)
            except (FileExistsError, ConnectionError):
                there = self._read_mark(path)
                if there is not None:
                    return there == mark
                if attempt == REQUEST_ATTEMPTS:
                    raise
                time.sleep(pause)
            else:
                return True
        raise AssertionError

    def _put_with_condition_if_supported(
        self, store: Any, path: PurePath, content: bytes | bytearray | memoryview, condition: Any, options: Any
    ) -> None:
        try:
            obstore.put(store, _object_key(path), content, mode=condition, **options)
        except NotSupportedError:
            if condition == "create":  # without which two writers would not notice each other
                raise
            obstore.put(store, _object_key(path), content, **options)

    def _read_mark(self, path: PurePath) -> str | None:
        """Return the mark of an object, "" if the object has no mark, or None if there is no such object."""
        try:
            with self._use_store(path) as store:
                return str(
                    obstore.get(store, _object_key(path), options={"head": True}).attributes.get(MARK_ATTRIBUTE, "")
                )
        except FileNotFoundError:
            return None

    def replace(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        with self._use_store(path) as store:
            obstore.put(store, _object_key(path), content, use_multipart=False)

    def update(self, path: PurePath, guard: PurePath, change: Callable[[bytes | None], bytes | None]) -> None:
        """Update a file as ``Backend.update`` does; in a store without ``If-Match``, the last writer wins.

        See docs/storage.md.
        """
        del guard  # a condition takes the place of a lock
        for attempt, pause in enumerate(generate_pauses(), 1):
            try:
                stored = self._read_content_and_write_condition(path)
            except FileNotFoundError:
                stored = None
            content = change(stored and stored.content)
            if content is None:
                return
            if self.put_if(path, content, stored.condition if stored else "create"):
                return
            if attempt == MAX_CONFLICTS:
                raise OSError(f"other writers change it all the time ({MAX_CONFLICTS} attempts)")
            time.sleep(pause)

    @contextmanager
    def lock(self, path: PurePath) -> Iterator[bool]:
        alone = self.create(path, f"{socket.gethostname()} {os.getpid()}".encode())
        try:
            yield alone
        finally:
            if alone:
                self.remove(path)

    def remove(self, path: PurePath) -> None:
        try:
            with self._use_store(path) as store:
                obstore.delete(store, _object_key(path))
        except FileNotFoundError:
            pass

    def read_clock(self, root: PurePath) -> float:
        probe = root / temporary_name()
        try:
            self.replace(probe, b"")
        except PermissionError:  # the archive is only read, so that nothing will be removed
            return time.time()
        try:
            status = self.status(probe)
            return time.time() if status is None else status.modified
        finally:
            self.remove(probe)

    # An archive as a whole.

    def can_write_as_far_as_known(self, folder: PurePath) -> bool:
        del folder  # only an attempt can tell
        return True

    def not_writable_error(self, root: PurePath, error: OSError) -> RequestError:
        return RequestError(f"archive {root} is not writable: {error}")

    def check_conditional_writes(self, root: PurePath) -> None:
        """Raise ``OSError`` if the store replaces an object although the request forbids that.

        In such a store, writers could overwrite each other's records.
        """
        probe = root / temporary_name()
        try:
            kept = self.create(probe, b"first") and not self.create(probe, b"second")
        finally:
            self.remove(probe)
        if not kept:
            raise OSError("the store ignores 'If-None-Match: *', so two writers could overwrite each other's records")

    def encode_absolute_location(self, root: PurePath) -> bytes:
        return f"{self.settings.endpoint} {root}".encode()

    # Other readers.

    @property
    def polars_arguments(self) -> dict[str, Any]:
        return self.settings.polars_arguments()


def request_at_once(send: Callable[[PurePath], Any], paths: Sequence[PurePath]) -> list[Any]:
    """Call ``send`` with each of many paths, several at a time, and return the answers in the order of ``paths``."""
    if len(paths) < 2:
        return [send(path) for path in paths]
    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(paths))) as pool:
        return list(pool.map(send, paths))


def _object_key(path: PurePath) -> str:
    if not isinstance(path, ObjectUrl):
        raise TypeError(f"{path} is no URL")
    return path.key


def _status_from_metadata(meta: Any) -> FileStatus:
    version = meta["e_tag"] or meta["version"] or meta["last_modified"].isoformat()
    return FileStatus(meta["size"], meta["last_modified"].timestamp(), (meta["size"], version))


# One reader of an archive asks the store as little as possible. Each of the archive's folders is listed once, with all
# in it. Its records are read at once, many at a time. So an archive with any number of runs is opened with one request
# for each thousand files and one for each record.


class _FolderTree:
    """The listing of one top-level folder of the archive: all files in it and in its subfolders."""

    def __init__(self, top: PurePath, files: Mapping[PurePath, FileStatus]) -> None:
        self.files = files
        self.entries: dict[PurePath, dict[PurePath, None]] = {}  # by folder
        for path in files:
            child = path
            while child != top:
                siblings = self.entries.setdefault(child.parent, {})
                if child in siblings:
                    break
                siblings[child] = None
                child = child.parent


class ListingBackend(ObjectBackend):
    """A backend that lists each folder only once. Objects that are missing from the listing are still requested."""

    def __init__(self, root: ObjectUrl, settings: StoreOptions) -> None:
        super().__init__(root.scheme, root.bucket, settings)
        self._root = root
        self._lock = RLock()
        self._trees: dict[PurePath, _FolderTree] = {}  # by folder of the archive
        self._records: dict[PurePath, bytes] = {}  # that were read, and nobody has asked for yet
        self._fetched: set[PurePath] = set()  # folders

    def _find_top_folder(self, path: PurePath) -> PurePath | None:
        """Return the archive's top-level folder that contains or is ``path``, or None if there is none."""
        depth = len(self._root.parts)
        inside = len(path.parts) > depth and path.parts[:depth] == self._root.parts
        return self._root / path.parts[depth] if inside else None

    def _get_top_folder_tree(self, path: PurePath) -> _FolderTree | None:
        top = self._find_top_folder(path)
        if top is None:
            return None
        with self._lock:
            if top not in self._trees:
                self._trees[top] = _FolderTree(top, super().list_files_below(top))
            return self._trees[top]

    def status(self, path: PurePath) -> FileStatus | None:
        tree = self._get_top_folder_tree(path)
        status = tree.files.get(path) if tree else None
        return super().status(path) if status is None else status

    def list_names(self, folder: PurePath) -> list[str]:
        tree = self._get_top_folder_tree(folder)
        return super().list_names(folder) if tree is None else [path.name for path in tree.entries.get(folder, ())]

    def list_files_below(self, folder: PurePath) -> Mapping[PurePath, FileStatus]:
        tree = self._get_top_folder_tree(folder)
        if tree is None:
            return super().list_files_below(folder)
        return {path: status for path, status in tree.files.items() if folder in path.parents}

    def read(self, path: PurePath) -> bytes:
        if path.suffix == RECORD_SUFFIX:
            self._prefetch_records(path)
            with self._lock:
                if path in self._records:
                    return self._records.pop(path)
        return super().read(path)

    def _prefetch_records(self, path: PurePath) -> None:
        """Read all records in the archive's top-level folder that contains ``path``, unless that was done before."""
        top, tree = self._find_top_folder(path), self._get_top_folder_tree(path)
        if top is None or tree is None:
            return
        with self._lock:
            if top not in self._fetched:
                self._fetched.add(top)
                paths = [record_path for record_path in tree.files if record_path.suffix == RECORD_SUFFIX]
                responses = zip(paths, request_at_once(self._read_if_there, paths), strict=True)
                self._records |= {record_path: content for record_path, content in responses if content is not None}

    def _read_if_there(self, path: PurePath) -> bytes | None:
        try:
            return super().read(path)
        except FileNotFoundError:
            return None
