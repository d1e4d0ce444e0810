"""Objects as files, for DuckDB: a filesystem by fsspec that reads only, with few requests and without threads."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from analytics.files.location import location_of
from quarto.errors import of_extra

if TYPE_CHECKING:
    from analytics.files.objects import ObjectBackend

with of_extra("s3", "an archive on object storage"):
    from fsspec import AbstractFileSystem

# The end of a Parquet file, where its metadata is, is read by one request; so is a file that is not much larger.
TAIL_BYTES = 1 << 16
WHOLE_BYTES = 1 << 18
BLOCK_BYTES = 1 << 19  # elsewhere whole blocks are read: what lies side by side is asked for together, in any order
KEPT_BYTES = 1 << 26  # of such ends, for the next question: committed files never change


class ObjectFiles(AbstractFileSystem):  # type: ignore[misc]  # an extra: see pyproject.toml
    """The objects of a backend's bucket under their URLs. obstore has such a class too, which starts a thread."""

    cachable = False  # instances of other buckets are others

    def __init__(self, backend: ObjectBackend) -> None:
        super().__init__()
        self.protocol = backend.bucket.scheme
        self._backend = backend
        self._ends: dict[PurePath, tuple[int, bytes]] = {}  # of files: where they begin, and their bytes
        self._room = KEPT_BYTES

    def end_of(self, path: PurePath, size: int) -> tuple[int, bytes]:
        """The end of a file, or all of a small one: where it begins, and its bytes."""
        found = self._ends.get(path)
        if found is None:
            begin = 0 if size <= WHOLE_BYTES else size - TAIL_BYTES
            found = begin, self.range_of(path, begin, size)
            if self._room >= len(found[1]):
                self._room -= len(found[1])
                self._ends[path] = found
        return found

    def range_of(self, path: PurePath, start: int, end: int) -> bytes:
        """The bytes of a file from ``start`` to before ``end``."""
        return self._backend.read_range(path, start, end)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The name, size and kind of a file. Raises ``FileNotFoundError``."""
        status = self._backend.status(location_of(path))
        if status is None:
            raise FileNotFoundError(f"{path} does not exist")
        return {"name": path, "size": status.bytes, "type": "file", "mtime": status.modified}

    def modified(self, path: str) -> datetime:
        """The time of the last change, in UTC."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The file itself: names with patterns in them are no archive's."""
        return [path] if self.exists(path) else []

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BufferedIOBase:
        """A file to read."""
        if mode != "rb":
            raise ValueError(f"{path} can only be read")
        return _ObjectFile(self, path, self.info(path)["size"])


class _ObjectFile(io.BufferedIOBase):
    """A file of which ranges are read when they are asked for."""

    def __init__(self, files: ObjectFiles, path: str, size: int) -> None:
        self._files, self._path, self.size = files, location_of(path), size
        self._at = 0
        self._block = 0, b""  # what was read last: where it begins, and its bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; returns it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, as many as asked for or as there are."""
        start = self._at
        end = self.size if size is None or size < 0 else min(self.size, start + size)
        if end <= start:
            return b""
        if self.size <= WHOLE_BYTES or start >= self.size - TAIL_BYTES:
            begin, content = self._files.end_of(self._path, self.size)
        else:
            begin, content = self._block
            if not begin <= start < end <= begin + len(content):
                begin = start - start % BLOCK_BYTES
                content = self._files.range_of(self._path, begin, min(self.size, max(end, begin + BLOCK_BYTES)))
                self._block = begin, content
        found = content[start - begin : end - begin]
        self._at = start + len(found)
        return found
