"""The archive of games and the questions to it: SQL, results, statistics."""

from __future__ import annotations

import os
import shlex
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analytics.sql.database import OpenArchive

__all__ = ["DEFAULT_ARCHIVE", "archive_option", "open_archive"]

DEFAULT_ARCHIVE: PurePath = Path(os.environ.get("QARENA_ARCHIVE", "data/archive"))  # where no other is named


def archive_option(root: PurePath) -> str:
    """The option that names the archive at ``root``, with a space in front; nothing for the default one."""
    return "" if root == DEFAULT_ARCHIVE else f" --archive {shlex.quote(str(root))}"


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
    from analytics.files.backend import location_of
    from analytics.sql.answers import Limits
    from analytics.sql.database import OpenArchive

    return OpenArchive(location_of(archive), Limits(memory, spill, seconds), check)
