"""Objects as files, for DuckDB: a read-only filesystem of fsspec that needs few requests and no threads."""

from __future__ import annotations

import io
from collections import OrderedDict
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Any

from analytics.store.files.backend import parse_location
from quarto.errors import require_extra

if TYPE_CHECKING:
    from analytics.store.files.object_storage import ObjectBackend

with require_extra("s3", "an archive on object storage"):
    from fsspec import AbstractFileSystem

# The end of a Parquet file, where its metadata is, is read by one request; so is a file that is not much larger.
TAIL_BYTES = 1 << 16
WHOLE_BYTES = 1 << 18
BLOCK_BYTES = 1 << 19  # elsewhere whole blocks are read: what lies side by side is asked for together, in any order
CACHE_BYTES = 1 << 26  # of the ranges that were read last: DuckDB opens files again, and committed files never change
MIN_CACHED_RANGES = 64  # ranges that are kept whatever their size, because threads may be reading them


class ObjectFilesystem(AbstractFileSystem):  # type: ignore[misc]  # an extra: see pyproject.toml
    """An fsspec file system of the objects in a backend's bucket. Each object is named by its URL.

    It takes the place of obstore's own class, which starts a thread.
    """

    cachable = False  # instances of other buckets are others

    def __init__(self, backend: ObjectBackend) -> None:
        super().__init__()
        self.protocol = backend.bucket.scheme
        self._backend = backend
        self._kept: OrderedDict[tuple[PurePath, int, int], Future[bytes]] = OrderedDict()  # what was used last is last
        self._room = CACHE_BYTES
        self._lock = Lock()

    def read_range(self, path: PurePath, start: int, end: int) -> bytes:
        """Return the bytes of a file from ``start`` up to but not including ``end``, and cache them."""
        key = path, start, end
        with self._lock:
            cached = self._kept.get(key)
            reading: Future[bytes] = cached or Future()
            self._kept[key] = reading
            self._kept.move_to_end(key)
        if cached is None:  # other threads that want the same wait for this one
            try:
                reading.set_result(self._backend.read_range(path, start, end))
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                reading.set_exception(error)
                raise
            self._evict_oldest(end - start)
        return reading.result()

    def _evict_oldest(self, new_bytes: int) -> None:
        """Drop the least recently used ranges from the cache to make room for ``new_bytes``.

        Ranges that are being read are among the most recent, so they stay.
        """
        with self._lock:
            self._room -= new_bytes
            while self._room < 0 and len(self._kept) > MIN_CACHED_RANGES:
                (_, start, end), _ = self._kept.popitem(last=False)
                self._room += end - start

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the name, size and kind of a file. Raises ``FileNotFoundError`` if there is no such file."""
        status = self._backend.status(parse_location(path))
        if status is None:
            raise FileNotFoundError(f"{path} does not exist")
        return {"name": path, "size": status.bytes, "type": "file", "mtime": status.modified}

    def modified(self, path: str) -> datetime:
        """Return the time at which a file was last changed, in UTC."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the path itself if it exists.

        Patterns are not expanded, because no file of an archive has wildcards in its name.
        """
        return [path] if self.exists(path) else []

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BufferedIOBase:
        """Open a file for reading. Raises ``ValueError`` for any other mode."""
        if mode != "rb":
            raise ValueError(f"{path} can only be read")
        return _ObjectFile(self, path, self.info(path)["size"])


class _ObjectFile(io.BufferedIOBase):
    """An object opened as a file. Its bytes are requested only when they are read, one range at a time."""

    def __init__(self, files: ObjectFilesystem, path: str, size: int) -> None:
        self._files, self._path, self.size = files, parse_location(path), size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset in the file and return the new position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read the next ``size`` bytes, or all remaining bytes if ``size`` is None or negative.

        Fewer bytes are returned at the end of the file.
        """
        start = self._at
        end = self.size if size is None or size < 0 else min(self.size, start + size)
        if end <= start:
            return b""
        begin, last = self._widen_range(start, end)
        content = self._files.read_range(self._path, begin, last)[start - begin : end - begin]
        self._at = start + len(content)
        return content

    def _widen_range(self, start: int, end: int) -> tuple[int, int]:
        """Widen a requested range to the range to read: whole blocks, the file's tail, or all of a small file."""
        if self.size <= WHOLE_BYTES:
            return 0, self.size
        if start >= self.size - TAIL_BYTES:
            return self.size - TAIL_BYTES, self.size
        begin = start - start % BLOCK_BYTES
        return begin, min(self.size, max(end, begin + BLOCK_BYTES))
