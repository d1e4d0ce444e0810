"""The archive of games and every question to it.

``open_archive`` opens an archive and returns an ``Archive``, whose methods answer questions, each with a ``Result``.
The package loads its classes when they are first used, so that importing it costs neither DuckDB nor numba.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from analytics.shadowing import check_own_packages_not_hidden

try:
    from analytics.store.files.backend import DEFAULT_ARCHIVE, format_archive_option, parse_location
except ImportError:
    check_own_packages_not_hidden()  # a package of one of our names is the likely cause
    raise

if TYPE_CHECKING:
    from analytics.library import Archive, GameFilters
    from analytics.report.result import Result

    __version__: str

__all__ = [
    "DEFAULT_ARCHIVE",
    "Archive",
    "GameFilters",
    "Result",
    "__version__",
    "format_archive_option",
    "open_archive",
]

_MODULES = {
    "Archive": "analytics.library",
    "GameFilters": "analytics.library",
    "Result": "analytics.report.result",
}


def open_archive(
    archive: str | PurePath = DEFAULT_ARCHIVE,
    memory: str = "70%",
    spill: str | None = None,
    seconds: float | None = None,
    check: bool = True,
) -> Archive:
    """Open the archive in a folder or at a URL (``s3://bucket/prefix``), with the content that it has now.

    Args:
        archive: The folder or the URL.
        memory: The most memory that one query of the archive may use, such as ``1GiB`` or a share of the machine's
            memory. A query that needs more memory than this spills to disk.
        spill: The most disk space that one query may use, such as ``10GiB``, or None for nine tenths of the free space.
        seconds: The number of seconds after which a query is interrupted, or None for no limit. A server should set a
            limit.
        check: Whether to compare files with their checksums.

    Returns:
        The open ``Archive``.

    Raises:
        RequestError: ``archive`` is not an archive, or a limit is malformed.

    Examples:
        >>> import analytics
        >>> analytics.open_archive("data/sample").sql("SELECT count(*) AS games FROM games").item()
        16000

    """
    check_own_packages_not_hidden()
    # Here, because importing analytics must not cost DuckDB and numba.
    from analytics.library import Archive
    from analytics.questions.sql.query_execution import QueryLimits

    return Archive(parse_location(archive), QueryLimits(memory, spill, seconds), check)


def __getattr__(name: str) -> object:
    """Load a public name of this package when the name is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'analytics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
