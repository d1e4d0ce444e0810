"""The archive of games and every question to it.

``open_archive`` opens an archive, an ``Archive``; its methods answer questions, each with a ``Result``. Names are
loaded when they are asked for, so importing this package costs neither DuckDB nor numba.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from analytics.shadowing import check_packages

try:
    from analytics.store.files.backend import DEFAULT_ARCHIVE, format_archive_option, parse_location
except ImportError:
    check_packages()  # a package of one of our names is the likely cause
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
    """Open the archive in folder ``archive``, or at a URL (``s3://bucket/prefix``), as it is now.

    See ``Archive``, which is what is returned.

    Args:
        archive: The folder or the URL.
        memory: A question that needs more than this (``1GiB``, or a share of the machine's) spills to the disk,
        spill: at most so much (``10GiB``; None: nine tenths of what is free).
        seconds: A question is interrupted after this time (None: never), which a server should set.
        check: Compare files with their checksums.

    Raises:
        RequestError: ``archive`` is not one, or a limit is wrong.

    Examples:
        >>> import analytics
        >>> analytics.open_archive("data/sample").sql("SELECT count(*) AS games FROM games").item()
        16000

    """
    check_packages()
    # Here, because importing analytics must not cost DuckDB and numba.
    from analytics.library import Archive
    from analytics.questions.sql.query_execution import QueryLimits

    return Archive(parse_location(archive), QueryLimits(memory, spill, seconds), check)


def __getattr__(name: str) -> object:
    """A public name of this package, loaded when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'analytics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
