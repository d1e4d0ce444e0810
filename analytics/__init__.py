"""The archive of games and the questions to it: SQL, results, statistics."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from analytics.store.files.backend import DEFAULT_ARCHIVE, format_archive_option, parse_location

if TYPE_CHECKING:
    from analytics.questions.sql.database import OpenArchive

__all__ = ["DEFAULT_ARCHIVE", "format_archive_option", "open_archive"]


def open_archive(
    archive: str | PurePath = DEFAULT_ARCHIVE,
    memory: str = "70%",
    spill: str | None = None,
    seconds: float | None = None,
    check: bool = True,
) -> OpenArchive:
    """The archive in folder ``archive``, or at a URL (``s3://bucket/prefix``), as it is now, for SQL and data frames.

    See ``OpenArchive``.

    A question that needs more than ``memory`` (``1GiB``, or a share of the machine's) spills to the disk, at most
    ``spill`` (``10GiB``; None: nine tenths of what is free). It is interrupted after ``seconds`` (None: never), which a
    server should set. Without ``check``, files are not compared with their checksums. Raises ``RequestError`` when
    ``archive`` is not one, and for wrong limits.
    """
    # Here, because importing analytics must not cost DuckDB and numba.
    from analytics.questions.sql.database import OpenArchive
    from analytics.questions.sql.query_execution import QueryLimits

    return OpenArchive(parse_location(archive), QueryLimits(memory, spill, seconds), check)
