"""The archive as the pages of one request read it: an open snapshot, the common values of templates, and pagers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.sql.database import OpenArchive
from analytics.report.page import PAGE_SUBJECTS
from quarto.errors import FailureError
from runners.web.archive import urls
from runners.web.archive.charts import warm_up_renderer
from runners.web.archive.runs import FilterNames, RunRow, list_rules_and_agent_names, list_runs
from runners.web.archive.snapshots import ArchiveSnapshot, SnapshotService, StillOpeningError
from runners.web.page_rendering import render_page
from runners.web.site import Site, find_site

ROWS_PER_PAGE = 50  # rows of a list on one page
# Values of a template for a page without form and pager.
SINGLE_PAGE_VIEW = {
    "filters": (),
    "error": "",
    "summary": "",
    "compare": False,
    "at": 1,
    "pages": 1,
    "link": None,
}

ResultT = TypeVar("ResultT")

# Name and address of each page in the second row of the navigation.
TABS = (
    ("Runs", "/browse"),
    ("Games", "/browse/games"),
    ("Openings", "/browse/openings"),
    *((subject.name, f"/browse/results/{subject.slug}") for subject in PAGE_SUBJECTS),
    ("Sweeps", "/browse/sweeps"),
    ("Policies", "/browse/policies"),
)


class ArchiveService:
    """The snapshots of a site's archive, shared by all pages about the archive."""

    def __init__(self, site: Site) -> None:
        self.snapshots = SnapshotService(site.options.archive)
        threading.Thread(target=warm_up_renderer, name="load charts", daemon=True).start()

    def close(self) -> None:
        """Free the memory and the temporary files of the open snapshot."""
        self.snapshots.close()


class NothingToReadError(Exception):
    """The error for an archive that has no runs or, if ``is_opening`` is true, is still being opened."""

    def __init__(self, is_opening: bool = False) -> None:
        self.is_opening = is_opening


class ArchiveReader:
    """The archive as one request sees it: a snapshot, and the values and methods that pages about the archive need."""

    def __init__(self, request: Request, snapshot: ArchiveSnapshot) -> None:
        self.request = request
        self.snapshot = snapshot

    def compute_once(self, compute: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return ``compute(opened, *arguments)``, and keep the value for later requests to the same snapshot.

        ``opened`` is the open archive, in the state that the snapshot shows.
        """
        return self.snapshot.compute_once(compute, *arguments)

    @property
    def run_rows(self) -> tuple[RunRow, ...]:
        """The rows of all runs, the newest first."""
        return self.compute_once(list_runs)

    @property
    def rules_and_agent_names(self) -> FilterNames:
        """The names of the rules and agents that filters can offer."""
        return self.compute_once(_list_rules_and_agent_names)

    @property
    def root(self) -> str:
        """The location of the archive, in the form in which commands take it."""
        return str(find_site(self.request).options.archive)

    @property
    def default_rules(self) -> str:
        """The name of the rules that a page shows if the request names none: those with the most games.

        Raises ``FailureError`` if no record is readable.
        """
        if not self.rules_and_agent_names.rules:
            raise FailureError("; ".join(self.snapshot.damaged) or "the archive has no runs")
        return self.rules_and_agent_names.rules[0]

    def render_page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a template as a page about the archive, with a line about each damaged record that was left out."""
        common_values = {
            "tabs": TABS,
            "damaged": self.snapshot.damaged,
            "filter_names": self.rules_and_agent_names,
            **SINGLE_PAGE_VIEW,
        }
        return render_page(self.request, template, status, **(common_values | values))

    def build_pager(self, row_count: int, rows_per_page: int = ROWS_PER_PAGE) -> dict[str, Any]:
        """Build the values with which a template divides a list into pages.

        ``at`` is the number of the requested page, from 1; ``pages`` is the number of pages; ``link`` is a function
        that returns the address of the page with a given number.
        """
        pages, query = max(1, -(-row_count // rows_per_page)), dict(self.request.query_params)

        def build_page_url(number: int) -> str:
            return urls.build_url(self.request.url.path, query | {"page": number if number > 1 else None})

        return {
            "at": min(max(1, parse_number_or_default(query.get("page", ""), 1)), pages),
            "pages": pages,
            "link": build_page_url,
        }


def parse_number_or_default(text: str, default: int) -> int:
    """Parse a form field as a whole number of at most nine digits; return ``default`` for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default


def parse_zero_or_one_run_id(run: str) -> tuple[str, ...]:
    """Return the run id in a form field as a tuple; an empty field, which means all runs, gives an empty tuple."""
    return (run.strip(),) if run.strip() else ()


def _list_rules_and_agent_names(opened: OpenArchive) -> FilterNames:
    return list_rules_and_agent_names(list_runs(opened))


def find_archive_service(request: Request) -> ArchiveService:
    """Return the archive service of the site that serves a request."""
    return find_site(request).get_or_create_service(ArchiveService)


def open_reader(request: Request, wait_seconds: float | None = None) -> ArchiveReader:
    """Return a reader of the archive's current snapshot for a request.

    ``wait_seconds`` is how long to wait for an archive that is being opened; None stands for the usual time. Raises
    ``NothingToReadError`` if the archive has no runs or is still being opened.
    """
    try:
        content = find_archive_service(request).snapshots.load_snapshot(wait_seconds)
    except StillOpeningError:
        raise NothingToReadError(is_opening=True) from None
    if content is None:
        raise NothingToReadError
    return ArchiveReader(request, content)


def _open_reader_in_usual_time(request: Request) -> ArchiveReader:
    return open_reader(request)


ReaderDependency = Annotated[ArchiveReader, Depends(_open_reader_in_usual_time)]


def opening_or_empty_archive_page(request: Request, error: Exception) -> Response:
    """Show a page that says that the archive is being opened, or that it has no runs and how to add some.

    ``error`` is the ``NothingToReadError`` that a handler raised.
    """
    if isinstance(error, NothingToReadError) and error.is_opening:
        line = "It has many runs, so opening it takes a few seconds, but only once."
        return render_page(request, "waiting.html", title="Opening the archive …", line=line, refresh=1)
    return render_page(request, "browse_empty.html")
