"""Pages about runs: the list of runs, the page of a run with its name and note, and the comparison of runs."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.columns import SortLink, Table
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore, find_run_id
from analytics.store.run_notes import update_note
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from runners.web.archive import runs, urls
from runners.web.archive.archive_page import ArchivePage, FormField, NameForm
from runners.web.archive.table_views import SORT, build_sort_link
from runners.web.archive_reader import (
    ARCHIVE_TEMPLATE,
    ROWS_PER_PAGE,
    ArchiveReader,
    ReaderDependency,
    find_archive_service,
)
from runners.web.page_rendering import find_error_status, redirect_to
from runners.web.runs import columns as run_columns
from runners.web.runs.columns import RunColumn
from runners.web.runs.comparison import build_comparison_page
from runners.web.runs.run_page import build_run_page
from runners.web.site import find_site

router = APIRouter()

MAX_SHOWN = 40  # parameters ``show`` of an address


class RunFilter(NamedTuple):
    """The filters of the list of runs."""

    games: GameFilter
    status: str
    text: str


class RunListQuery(NamedTuple):
    """What the address of the list of runs asks for."""

    filter: RunFilter
    chosen: tuple[str, ...]  # headings of columns
    order: str  # a heading, after ``-`` if the order is descending
    page: int  # from 1
    path: str
    address: tuple[tuple[str, str], ...]  # the parameters of the address


@router.get(urls.BROWSE)
def runs_page(
    reader: ReaderDependency,
    rules: str = "",
    agent: str = "",
    status: str = "",
    text: str = "",
    sort: str = "",
    show: Annotated[tuple[str, ...], Query()] = (),
) -> Response:
    """List the runs that match the filters, with the chosen columns."""
    run_filter = RunFilter(GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    rows, names = reader.compute_once(_select_runs, run_filter), reader.rules_and_agent_names
    pager = reader.build_pager(len(rows))
    chosen = tuple(dict.fromkeys(filter(None, show)))[:MAX_SHOWN] or run_columns.DEFAULT_CHOSEN
    address = tuple(reader.request.query_params.multi_items())
    query = RunListQuery(run_filter, chosen, sort.strip(), pager["at"], reader.request.url.path, address)
    table = reader.compute_once(build_runs_list, query)
    filters = (
        FormField("rules", "Rules", rules, "any rules", names.rules),
        FormField("agent", "Agent", agent, "any", kind="agent"),
        FormField("status", "Status", status, "any status", runs.RUN_STATUSES),
        FormField("text", "Search", text, "id, name, note or agent"),
    )
    total = format_count_with_noun(len(reader.run_rows), "run")
    games = format_count_with_noun(sum(row.games for row in rows), "game")
    page = (
        ArchivePage("Runs", parts=[table])
        if rows
        else ArchivePage("Runs", links={"Show all runs": urls.BROWSE}, parts=["No run meets these filters."])
    )
    columns = [(column, column in chosen) for column in reader.compute_once(_list_choosable_headings)]
    return reader.render_page(
        ARCHIVE_TEMPLATE,
        arranges=False,
        page=page,
        filters=filters,
        kept_values=[(SORT, sort)] if sort else [],
        chosen_columns=columns,
        summary=f"{len(rows):,} of {total}, with {games}",
        compare=True,
        **pager,
    )


def _select_runs(opened: OpenArchive, run_filter: RunFilter) -> list[runs.RunRow]:
    return runs.select_runs(runs.list_runs(opened), *run_filter)


def _list_choosable_headings(opened: OpenArchive) -> list[str]:
    return [column.heading for column in run_columns.list_choosable_columns(runs.list_runs(opened))]


def build_runs_list(opened: OpenArchive, query: RunListQuery) -> Table:
    """Build one page of the list of runs, whose headings link to the list in another order."""
    all_rows = runs.list_runs(opened)
    columns = run_columns.choose_columns(all_rows, query.chosen)
    sortable = [*columns, *(other for other in run_columns.list_choosable_columns(all_rows) if other not in columns)]
    rows = run_columns.sort_runs(opened, runs.select_runs(all_rows, *query.filter), sortable, query.order)
    heading = query.order.removeprefix("-")
    by = f"by {heading}" if heading else "the newest first"
    shown = rows[ROWS_PER_PAGE * (query.page - 1) : ROWS_PER_PAGE * query.page]

    def build_link(column: RunColumn) -> SortLink:
        is_sorted, descending = heading == column.heading, query.order.startswith("-")
        direction = "" if not is_sorted else "descending" if descending else "ascending"
        next_descending = not descending if is_sorted else column.is_number
        value = f"{'-' if next_descending else ''}{column.heading}"
        return build_sort_link(query.path, query.address, value, direction)

    return run_columns.build_runs_table(opened, shown, f"Runs, {by}", columns, build_link)


@router.get("/browse/runs/{run_id}")
def run_page(reader: ReaderDependency, run_id: str) -> Response:
    """Show the properties and the results of a run."""
    return _render_run_page(reader, run_id)


def _render_run_page(reader: ArchiveReader, run_id: str, status: int = 200, **values: Any) -> Response:
    page = reader.compute_once(build_run_page, run_id)
    row = next((row for row in reader.run_rows if row.run_id == run_id), None)
    refresh = 2 if row is not None and row.status == "running" else None
    return reader.render_page(ARCHIVE_TEMPLATE, status, page=page, refresh=refresh, typed=True, **values)


@router.post("/browse/runs/{run_id}/name")
def name_run(
    request: Request,
    reader: ReaderDependency,
    run_id: str,
    name: Annotated[str, Form()] = "",
    note: Annotated[str, Form()] = "",
) -> Response:
    """Give a run the name and the note of a form; if they are refused, show the form again with the reason."""
    archive = ArchiveStore.open(find_site(request).options.archive)
    full_id = find_run_id(archive, run_id)
    try:
        update_note(archive, full_id, name, note)
    except RequestError as error:
        form = NameForm(urls.run_name_url(full_id), name, note)
        return _render_run_page(
            reader, full_id, find_error_status(error), error=error.for_command_line, refused_name_form=form
        )
    find_archive_service(request).snapshots.expect_change()
    return redirect_to(urls.run_url(full_id))


@router.get("/browse/compare")
def comparison_page(reader: ReaderDependency, run: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Compare the first of the given runs with each of the others."""
    return reader.render_page(ARCHIVE_TEMPLATE, page=reader.compute_once(build_comparison_page, run))
