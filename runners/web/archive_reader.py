"""The archive as the pages of one request read it: an open snapshot, the common values of templates, and pagers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from analytics.report.page import PAGE_SUBJECTS
from analytics.store.archive import match_run_id
from quarto.errors import ArenaError, FailureError
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage, FormField
from runners.web.archive.charts import warm_up_renderer
from runners.web.archive.runs import FilterNames, RunRow, list_runs_and_names
from runners.web.archive.snapshots import ArchiveSnapshot, SnapshotService, StillOpeningError
from runners.web.archive.table_views import FIND, MIN_SEARCHED_ROWS, TableView, list_tables, replace_tables
from runners.web.page_rendering import render_page
from runners.web.site import SAFE_METHODS, Site, find_site

ARCHIVE_TEMPLATE = "browse.html"
ROWS_PER_PAGE = 50  # rows of a list on one page
# Values of a template for a page without form and pager.
SINGLE_PAGE_VIEW = {
    "filters": (),
    "kept_values": (),
    "chosen_columns": (),
    "refused_name_form": None,
    "opens_folded": False,
    "error": "",
    "summary": "",
    "compare": False,
    "at": 1,
    "pages": 1,
    "link": None,
}

ResultT = TypeVar("ResultT")


class Tab(NamedTuple):
    """A page in the second row of the navigation, with the filters that it takes over from another page."""

    name: str
    path: str
    filters: tuple[str, ...] = ()


TABS = (
    Tab("Runs", urls.BROWSE, ("rules", "agent")),
    Tab("Games", f"{urls.BROWSE}/games", ("rules", "run", "agent", "opponent")),
    Tab("Openings", f"{urls.BROWSE}/openings", ("rules", "run", "agent", "opponent")),
    *(Tab(subject.name, urls.results_url(subject.slug), ("rules", "run", "trainings")) for subject in PAGE_SUBJECTS),
    Tab("Insights", urls.INSIGHTS, ("rules", "run", "trainings", "agent")),
    Tab("Sweeps", f"{urls.BROWSE}/sweeps"),
    Tab("Policies", f"{urls.BROWSE}/policies"),
)


class ArchiveService:
    """The snapshots of a site's archive, shared by all pages about the archive."""

    def __init__(self, site: Site) -> None:
        self.snapshots = SnapshotService(site.options.archive)
        self._preparing = threading.Event()
        threading.Thread(target=warm_up_renderer, name="load charts", daemon=True).start()

    def prepare(self, compute: Callable[[ArchiveSnapshot], object]) -> None:
        """Open the archive in the background and compute what the first pages show, unless this was begun before.

        ``compute`` is called with the first snapshot. Errors are left to the pages, which compute again and show them.
        """
        if self._preparing.is_set():
            return
        self._preparing.set()

        def open_and_compute() -> None:
            with suppress(ArenaError, StillOpeningError):
                snapshot = self.snapshots.load_snapshot(threading.TIMEOUT_MAX)
                if snapshot is not None:
                    compute(snapshot)

        threading.Thread(target=open_and_compute, name="prepare pages", daemon=True).start()

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
        self.left_out: list[str] = []  # a line for each run that an answer left out because a file is damaged

    def compute_once(self, compute: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return ``compute(opened, *arguments)``, and keep the value for later requests to the same snapshot.

        ``opened`` is the open archive, in the state that the snapshot shows.
        """
        answer = self.snapshot.compute_once(compute, *arguments)
        self.left_out += self.snapshot.list_left_out(compute, *arguments)
        return answer

    @property
    def run_rows(self) -> tuple[RunRow, ...]:
        """The rows of all runs, the newest first."""
        return self.compute_once(list_runs_and_names).rows

    @property
    def rules_and_agent_names(self) -> FilterNames:
        """The names of the rules and agents that filters can offer."""
        return self.compute_once(list_runs_and_names).names

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

    @property
    def table_view(self) -> TableView:
        """What the address of the request says about the order and the choice of rows."""
        return TableView(self.request.url.path, self.request.query_params.multi_items())

    def render_page(self, template: str, status: int = 200, arranges: bool = True, **values: Any) -> Response:
        """Render a template as a page about the archive, with a line about each damaged file that was left out.

        If ``arranges`` is true, the rows of the tables of ``page`` are sorted and searched as the address says.
        """
        if arranges and isinstance(values.get("page"), ArchivePage):
            values |= self._arrange_tables(values["page"], values.get("filters", ()))
        page = values.get("page")
        left_out = page.left_out if isinstance(page, ArchivePage) else ()
        self.snapshot.failed |= bool(left_out)  # the files may be repaired at any time
        common_values = {
            "tabs": self._list_tabs_with_addresses(),
            "damaged": self.list_damage(left_out),
            "filter_names": self.rules_and_agent_names,
            **SINGLE_PAGE_VIEW,
        }
        return render_page(self.request, template, status, **(common_values | values))

    def list_damage(self, left_out: Iterable[str] = ()) -> list[str]:
        """List a line for each damaged file because of which a page leaves something out, ``left_out`` among them."""
        return [*dict.fromkeys((*self.snapshot.damaged, *self.left_out, *left_out))]

    def _list_tabs_with_addresses(self) -> list[tuple[str, str, str]]:
        """List the name, the path and the address of each tab; the address keeps the filters of this page."""
        query = self.request.query_params
        return [
            (tab.name, tab.path, urls.build_url(tab.path, {name: query.get(name) for name in tab.filters}))
            for tab in TABS
        ]

    def _arrange_tables(self, page: ArchivePage, filters: Sequence[FormField]) -> dict[str, Any]:
        """Return the template values that show a page with the rows that the address asks for.

        If a table is long, the form above the tables has a field to search the rows.
        """
        view = self.table_view
        opened = {"opens_folded": bool(view.find or view.order)}  # its rows are what the reader asked for
        tables = [table for part in page.parts for table in list_tables(part)]
        if not view.find and all(len(table.text_rows) < MIN_SEARCHED_ROWS for table in tables):
            return {"page": replace(page, parts=replace_tables(page.parts, view.arrange)), **opened}
        parts = replace_tables(page.parts, view.arrange)
        if not any(table.text_rows for part in parts for table in list_tables(part)):
            parts = [*parts, f"No row has `{view.find}`."]
        return {"page": replace(page, parts=parts), **opened, **self.build_search_field(filters)}

    def build_search_field(self, filters: Sequence[FormField]) -> dict[str, Any]:
        """Return the template values of a form with these fields and one to search the rows of the tables.

        What else the address says is kept when the form is sent.
        """
        names = {field.name for field in filters} | {FIND, "page"}
        kept = [(name, value) for name, value in self.table_view.query if name not in names]
        return {"filters": (*filters, FormField(FIND, "Rows with", self.table_view.find)), "kept_values": kept}

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
    check_full_run_ids(request, content.run_ids)
    return ArchiveReader(request, content)


class ShortRunIdError(Exception):
    """The error for an address with the first digits of a run's id; ``url`` has the whole id, and is the right one."""

    def __init__(self, url: str) -> None:
        self.url = url


def check_full_run_ids(request: Request, run_ids: Sequence[str]) -> None:
    """Check that the address of a request names runs by whole ids, in its path and in its parameters ``run``.

    Raises ``ShortRunIdError`` for the first digits of one id, and ``RequestError`` for those of several. Unknown runs
    are left to the page.
    """
    if request.method not in SAFE_METHODS:
        return
    path, query = request.url.path, request.query_params.multi_items()
    short_id = request.path_params.get("run_id", "")
    if (run_id := match_run_id(short_id, run_ids)) is not None:
        path = "/".join(run_id if part == short_id else part for part in path.split("/"))
    full_query = [
        (name, (match_run_id(value.strip(), run_ids) or value) if name == "run" else value) for name, value in query
    ]
    if path != request.url.path or full_query != query:
        raise ShortRunIdError(f"{path}?{urlencode(full_query)}".removesuffix("?"))


def redirect_to_full_run_ids(request: Request, error: Exception) -> Response:
    """Redirect to the address with whole ids that a ``ShortRunIdError`` has."""
    del request
    assert isinstance(error, ShortRunIdError)  # noqa: S101  (it is registered for this class alone)
    return RedirectResponse(error.url, 307)


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
