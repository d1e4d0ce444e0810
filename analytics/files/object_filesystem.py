"""Objects as files, for DuckDB: a filesystem by fsspec that reads only, with few requests and without threads."""

from __future__ import annotations

import io
from datetime import UTC, datetime
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


class ObjectFiles(AbstractFileSystem):  # type: ignore[misc]  # an extra: see pyproject.toml
    """The objects of a backend's bucket under their URLs. obstore has such a class too, which starts a thread."""

    cachable = False  # instances of other buckets are others

    def __init__(self, backend: ObjectBackend) -> None:
        super().__init__()
        self.protocol = backend.bucket.scheme
        self._backend = backend

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
        return _ObjectFile(self._backend, path, self.info(path)["size"])


class _ObjectFile(io.BufferedIOBase):
    """A file of which ranges are read when they are asked for."""

    def __init__(self, backend: ObjectBackend, path: str, size: int) -> None:
        self._backend, self._path, self.size = backend, location_of(path), size
        self._at = 0
        self._kept = size, b""  # where they begin, and the last bytes of the file

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
        end = self.size if size is None or size < 0 else min(self.size, self._at + size)
        if end <= self._at:
            return b""
        begin = self._kept[0]
        if self._at < begin and (self.size <= WHOLE_BYTES or self._at >= self.size - TAIL_BYTES):
            begin = 0 if self.size <= WHOLE_BYTES else self.size - TAIL_BYTES
            self._kept = begin, self._backend.read_range(self._path, begin, self.size)
        if self._at >= begin:
            found = self._kept[1][self._at - begin : end - begin]
        else:
            found = self._backend.read_range(self._path, self._at, end)
        self._at += len(found)
        return found
