"""The archive of games and the questions to it: SQL, results, statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analytics.query.database import OpenArchive

__all__ = ["open_archive"]


def open_archive(path: str | Path = "data/archive", memory: str = "70%", check: bool = True) -> OpenArchive:
    """The archive in folder ``path`` as it is now, for SQL and data frames; see ``OpenArchive``.

    A question that needs more than ``memory`` (``1GiB``, or a share of the machine's) spills to the disk. Without
    ``check``, files are not compared with their checksums. Raises ``RequestError`` when ``path`` is not an archive.
    """
    from analytics.query.database import OpenArchive  # here, because importing analytics must not cost DuckDB and numba

    return OpenArchive(Path(path), memory, check)
