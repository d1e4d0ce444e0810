"""The state that the pages about the archive share: the open archive, and the threads that judge games."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from analytics.sql.database import OpenArchive
from runners.browse.charts import warm
from runners.browse.library import Content, Library
from runners.browse.replay import prepare
from runners.browse.runs import Known, RunRow, known, run_rows
from runners.browse.sections import SUBJECTS
from runners.web.background import Background
from runners.web.pages import page
from runners.web.settings import Site, site_of

JUDGES = 1  # games that are judged at once
IDLE_SECONDS = 30.0

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
        self.judges = Background(JUDGES, kept=300, idle_seconds=IDLE_SECONDS, politely=True)
        self.judges.job("what solves is loaded", lambda _job: prepare(), seconds=600.0)
        threading.Thread(target=warm, name="load charts", daemon=True).start()

    def close(self) -> None:
        """Free memory and temporary files."""
        self.judges.close()
        self.library.close()


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

    def page(self, template: str, **values: Any) -> Response:
        """A page about the archive."""
        return page(self.request, template, tabs=TABS, **values)


def _known(opened: OpenArchive) -> Known:
    return known(run_rows(opened))


def reader_of(request: Request) -> ArchiveReader | None:
    """The archive for a request; None: ``empty`` says why there is none."""
    content = archive_service(request).library.content()
    return None if content is None else ArchiveReader(request, content)


def archive_service(request: Request) -> ArchiveService:
    """The service of these pages."""
    return site_of(request).service(ArchiveService)


def empty(request: Request) -> Response:
    """The page for an archive that cannot be read yet: it is being opened, or has no runs, and how it is filled."""
    if archive_service(request).library.is_opening:
        return page(request, "browse_opening.html", refresh=1)
    return page(request, "browse_empty.html")
