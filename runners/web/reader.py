"""The open archive, which all pages that read it share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from analytics.sql.database import OpenArchive
from runners.browse import links
from runners.browse.charts import warm
from runners.browse.library import Content, Library, StillOpeningError
from runners.browse.runs import Known, RunRow, known, run_rows
from runners.browse.sections import SUBJECTS
from runners.web.pages import page
from runners.web.settings import Site, site_of

ROWS = 50  # of a list, a page

Made = TypeVar("Made")

# The pages of the second line of the navigation: name and address.
TABS = (
    ("Runs", "/browse"),
    ("Games", "/browse/games"),
    ("Openings", "/browse/openings"),
    *((subject.name, f"/browse/results/{subject.slug}") for subject in SUBJECTS),
    ("Sweeps", "/browse/sweeps"),
    ("Policies", "/browse/policies"),
)


class ArchiveService:
    """The service of these pages."""

    def __init__(self, site: Site) -> None:
        self.library = Library(site.settings.archive)
        threading.Thread(target=warm, name="load charts", daemon=True).start()

    def close(self) -> None:
        """Free memory and temporary files."""
        self.library.close()


class NothingToReadError(Exception):
    """The archive is being opened, or has no runs: a page says which."""

    def __init__(self, is_opening: bool = False) -> None:
        self.is_opening = is_opening


class ArchiveReader:
    """One request's view of the archive."""

    def __init__(self, request: Request, content: Content) -> None:
        self.request = request
        self.content = content

    def ask(self, make: Callable[..., Made], *question: Hashable) -> Made:
        """``make(opened, *question)``, kept for whoever asks the same."""
        return self.content.ask(make, *question)

    @property
    def rows(self) -> tuple[RunRow, ...]:
        """All runs, the newest first."""
        return self.ask(run_rows)

    @property
    def known(self) -> Known:
        """The names that filters can have."""
        return self.ask(_known)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page about the archive, which names the records that were left out because they are damaged."""
        known = {"tabs": TABS, "charts": True, "damaged": self.content.damaged}
        return page(self.request, template, status, **(known | values))

    def pager(self, rows: int, size: int = ROWS) -> dict[str, Any]:
        """The page of a list that was asked for, ``at``, how many there are, and the address of each."""
        pages, query = max(1, -(-rows // size)), dict(self.request.query_params)

        def link(number: int) -> str:
            return links.address(self.request.url.path, query | {"page": number if number > 1 else None})

        return {"at": min(max(1, whole(query.get("page", ""), 1)), pages), "pages": pages, "link": link}


def whole(text: str, default: int) -> int:
    """A number of a form; ``default`` for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default


def runs_of(run: str) -> tuple[str, ...]:
    """The runs of a form's field: one, or none for all."""
    return (run.strip(),) if run.strip() else ()


def _known(opened: OpenArchive) -> Known:
    return known(run_rows(opened))


def archive_service(request: Request) -> ArchiveService:
    """The service of these pages."""
    return site_of(request).service(ArchiveService)


def reader_of(request: Request) -> ArchiveReader:
    """The archive for a request. Raises ``NothingToReadError``."""
    try:
        content = archive_service(request).library.content()
    except StillOpeningError:
        raise NothingToReadError(is_opening=True) from None
    if content is None:
        raise NothingToReadError
    return ArchiveReader(request, content)


Reading = Annotated[ArchiveReader, Depends(reader_of)]


def nothing_to_read(request: Request, error: Exception) -> Response:
    """The page for an archive that is being opened, or has no runs, and how it is filled."""
    if isinstance(error, NothingToReadError) and error.is_opening:
        return page(request, "browse_opening.html", refresh=1)
    return page(request, "browse_empty.html")
