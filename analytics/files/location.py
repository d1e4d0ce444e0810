"""Names of files: a ``Path`` on this machine, or the URL of an object.

A location is a name and nothing more: it can be taken apart and joined like any pure path. A ``Backend`` reads and
writes the file behind it.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath, PurePosixPath

from quarto.errors import RequestError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?(.*)", re.DOTALL)
SCHEMES = ("s3", "gs", "az")  # of object storage
_CONTAINER = re.compile(r"[a-z0-9][a-z0-9_.-]{1,221}[a-z0-9]")
_KEY = re.compile(r"([A-Za-z0-9_.=-]+/)*[A-Za-z0-9_.=-]+/?|")


class ObjectUrl(PurePosixPath):
    """The URL of an object, of a prefix, or of a bucket (on Azure: a container): ``s3://bucket/prefix/name``."""

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
        """The name in the bucket."""
        return "/".join(self.parts[2:])


def location_of(text: str | PurePath) -> PurePath:
    """The location that a user named: a folder, or a URL that begins with ``s3://``, ``gs://`` or ``az://``.

    Raises ``RequestError`` for a malformed URL, and one of another kind.
    """
    if isinstance(text, ObjectUrl):
        return text
    found = _URL.fullmatch(str(text))
    if not found or not (found[1] in SCHEMES or "://" in str(text)):
        return Path(text)
    scheme, rest = found[1], found[2]
    if scheme not in SCHEMES:
        raise RequestError(f"{text}: {scheme}:// is not a kind of archive: name a folder, or s3://, gs:// or az://")
    bucket, _, key = rest.partition("/")
    if not _CONTAINER.fullmatch(bucket):
        raise RequestError(
            f"{text} does not name a bucket ({bucket!r} has not 3 to 223 of a-z, 0-9, '.', '-', '_'): write "
            f"{scheme}://BUCKET/PREFIX"
        )
    if not _KEY.fullmatch(key) or {".", ".."} & set(key.split("/")):
        raise RequestError(
            f"{text} has a prefix that cannot be used: write names of letters, digits, '_', '.', '=' and '-', with one "
            "'/' between them"
        )
    return ObjectUrl(f"{scheme}:", bucket, *filter(None, key.split("/")))
