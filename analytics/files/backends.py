"""The choice of a backend: the type of a location says which one reads and writes it."""

from __future__ import annotations

from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from analytics.files.backend import Backend, ObjectUrl
from analytics.files.local import LocalBackend

if TYPE_CHECKING:
    from analytics.files.object_settings import StoreSettings


def backend_of(location: PurePath) -> Backend:
    """The backend that reads and writes the files below a location.

    For a URL raises ``MissingExtraError`` without the library, and ``RequestError`` for a wrong setting.
    """
    if not isinstance(location, ObjectUrl):
        return _local(location)
    from analytics.files.object_settings import StoreSettings

    return _objects(location.scheme, location.bucket, StoreSettings.of_environment(location.scheme))


_local = cache(LocalBackend)


@cache
def _objects(scheme: str, bucket: str, settings: StoreSettings) -> Backend:
    from analytics.files.objects import ObjectBackend  # the library takes time to import, and is an extra

    return ObjectBackend(scheme, bucket, settings)


def filesystem_of(backend: Backend) -> Any:
    """The filesystem by fsspec with which DuckDB is to read files; None: its own."""
    if isinstance(backend, LocalBackend):
        return None
    from analytics.files.object_filesystem import ObjectFiles
    from analytics.files.objects import ObjectBackend

    return ObjectFiles(backend) if isinstance(backend, ObjectBackend) else None


def listed_once(root: PurePath) -> Backend:
    """The same for one reader of an archive: where a request takes long, each folder is listed once."""
    if not isinstance(root, ObjectUrl):
        return _local(root)
    from analytics.files.object_listing import ListedBackend
    from analytics.files.object_settings import StoreSettings

    return ListedBackend(root, StoreSettings.of_environment(root.scheme))
