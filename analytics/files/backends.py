"""The choice of a backend: a location says by its type what reads and writes it."""

from __future__ import annotations

from pathlib import PurePath

from analytics.files.backend import Backend
from analytics.files.local import LOCAL
from analytics.files.location import ObjectUrl
from quarto.errors import RequestError


def backend_of(location: PurePath) -> Backend:
    """What reads and writes the files of a location. Raises ``RequestError`` for a URL."""
    if isinstance(location, ObjectUrl):
        raise RequestError(f"{location}: archives on object storage cannot be read or written")
    return LOCAL
