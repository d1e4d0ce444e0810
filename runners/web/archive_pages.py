"""Pages about the archive: runs, games, results, sweeps and policies, all read from one open archive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.columns import Table, format_count_with_noun, format_elo
from analytics.questions.pairings import resolve_shown_agent_label
from analytics.questions.ranking import RANKING_RULE
from analytics.questions.ratings import Ratings
from analytics.questions.run_comparison import compare_runs
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import PAGE_SUBJECTS
from analytics.report.rendering import render_template
from analytics.report.report_data import MAX_AGENTS
from quarto.errors import ArenaError, FailureError, RequestError
from runners.web.archive import games, runs, sections, sweeps, urls
from runners.web.archive.agents_and_policies import (
    build_agent_page,
    build_policies_table,
    build_policy_page,
    rate_agents,
)
from runners.web.archive.archive_page import ArchivePage, FormField
from runners.web.archive.charts import warm_up_renderer
from runners.web.archive.runs import FilterNames, RunRow, list_filter_names, list_runs
from runners.web.archive.snapshots import ArchiveSnapshot, SnapshotService, StillOpeningError
from runners.web.page_rendering import find_error_status, render_page
from runners.web.site import Site, find_site

ROWS_PER_PAGE = 50  # of a list, a page
SINGLE_PAGE_VIEW = {
    "filters": (),
    "error": "",
    "said": "",
    "compare": False,
    "at": 1,
    "pages": 1,
    "link": None,
}  # of a page alone

ResultT = TypeVar("ResultT")

# The pages of the second line of the navigation: name and address.
TABS = (
    ("Runs", "/browse"),
    ("Games", "/browse/games"),
    ("Openings", "/browse/openings"),
    *((each.name, f"/browse/results/{each.slug}") for each in PAGE_SUBJECTS),
    ("Sweeps", "/browse/sweeps"),
    ("Policies", "/browse/policies"),
)


class ArchiveService:
    """The service of these pages."""

    def __init__(self, site: Site) -> None:
        self.snapshots = SnapshotService(site.options.archive)
        threading.Thread(target=warm_up_renderer, name="load charts", daemon=True).start()

    def close(self) -> None:
        """Free memory and temporary files."""
        self.snapshots.close()


class NothingToReadError(Exception):
    """The archive is being opened, or has no runs: a page says which."""

    def __init__(self, is_opening: bool = False) -> None:
        self.is_opening = is_opening


class ArchiveReader:
    """One request's view of the archive."""

    def __init__(self, request: Request, snapshot: ArchiveSnapshot) -> None:
        self.request = request
        self.snapshot = snapshot

    def compute_once(self, compute: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """``compute(opened, *question)``, kept for whoever asks the same."""
        return self.snapshot.compute_once(compute, *arguments)

    @property
    def run_rows(self) -> tuple[RunRow, ...]:
        """All runs, the newest first."""
        return self.compute_once(list_runs)

    @property
    def filter_names(self) -> FilterNames:
        """The names that filters can have."""
        return self.compute_once(_list_filter_names)

    @property
    def root(self) -> str:
        """The place of the archive, for commands."""
        return str(find_site(self.request).options.archive)

    @property
    def default_rules(self) -> str:
        """The rules that a page shows unless others are named. Raises ``FailureError`` if no record can be read."""
        if not self.filter_names.rules:
            raise FailureError("; ".join(self.snapshot.damaged) or "the archive has no runs")
        return self.filter_names.rules[0]

    def render_page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page about the archive, which names the records that were left out because they are damaged."""
        known = {"tabs": TABS, "damaged": self.snapshot.damaged, "known": self.filter_names, **SINGLE_PAGE_VIEW}
        return render_page(self.request, template, status, **(known | values))

    def build_pager(self, row_count: int, rows_per_page: int = ROWS_PER_PAGE) -> dict[str, Any]:
        """The page of a list that was asked for, ``at``, how many there are, and the address of each."""
        pages, query = max(1, -(-row_count // rows_per_page)), dict(self.request.query_params)

        def build_page_url(number: int) -> str:
            return urls.build_url(self.request.url.path, query | {"page": number if number > 1 else None})

        return {
            "at": min(max(1, parse_number_or_default(query.get("page", ""), 1)), pages),
            "pages": pages,
            "link": build_page_url,
        }


def parse_number_or_default(text: str, default: int) -> int:
    """A number of a form; ``default`` for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default


def parse_run_field(run: str) -> tuple[str, ...]:
    """The runs of a form's field: one, or none for all."""
    return (run.strip(),) if run.strip() else ()


def _list_filter_names(opened: OpenArchive) -> FilterNames:
    return list_filter_names(list_runs(opened))


def find_archive_service(request: Request) -> ArchiveService:
    """The service of these pages."""
    return find_site(request).get_or_create_service(ArchiveService)


def open_reader(request: Request) -> ArchiveReader:
    """The archive for a request. Raises ``NothingToReadError``."""
    try:
        content = find_archive_service(request).snapshots.load_snapshot()
    except StillOpeningError:
        raise NothingToReadError(is_opening=True) from None
    if content is None:
        raise NothingToReadError
    return ArchiveReader(request, content)


ReaderDependency = Annotated[ArchiveReader, Depends(open_reader)]


def unreadable_archive_page(request: Request, error: Exception) -> Response:
    """The page for an archive that is being opened, or has no runs, and how it is filled."""
    if isinstance(error, NothingToReadError) and error.is_opening:
        line = "It has many runs: this takes some seconds, once."
        return render_page(request, "waiting.html", title="Opening the archive …", line=line, refresh=1)
    return render_page(request, "browse_empty.html")


router = APIRouter()

ARCHIVE_TEMPLATE = "browse.html"
FIGURES_PER_PAGE = 4  # of a section, a page: the largest take 30 kB and a tenth of a second each


@router.get(urls.BROWSE)
def runs_page(
    reader: ReaderDependency,
    rules: str = "",
    agent: str = "",
    status: str = "",
    text: str = "",
    order: str = runs.ORDERS[0],
) -> Response:
    """The runs that meet filters."""
    wanted = RunFilter(GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    found, total, known = reader.compute_once(_select_runs, wanted), len(reader.run_rows), reader.filter_names
    pager = reader.build_pager(len(found))
    filters = (
        FormField("rules", "Rules", rules, "any rules", known.rules),
        FormField("agent", "Agent", agent, "any", kind="agent"),
        FormField("status", "Status", status, "any status", runs.RUN_STATUSES),
        FormField("text", "Search", text, "id or part of a name"),
        FormField("order", "Order", order, options=runs.ORDERS),
    )
    table = reader.compute_once(_build_runs_table, wanted, order, pager["at"])
    games = format_count_with_noun(sum(row.games for row in found), "game")
    said = f"{len(found):,} of {format_count_with_noun(total, 'run')}, with {games}"
    shown = _build_list_page("Runs", table, "No run meets these filters.", {"Show all runs": urls.BROWSE})
    return reader.render_page(ARCHIVE_TEMPLATE, shown=shown, filters=filters, said=said, compare=True, **pager)


def _build_list_page(
    title: str, table: Table, empty_notice: str, links: Mapping[str, str] = MappingProxyType({})
) -> ArchivePage:
    """The page of a list; if that is empty, a notice and what may help."""
    return ArchivePage(title, parts=[table]) if table.rows else ArchivePage(title, links=links, parts=[empty_notice])


class RunFilter(NamedTuple):
    """The filters of the list of runs."""

    games: GameFilter
    status: str
    text: str


def _select_runs(opened: OpenArchive, run_filter: RunFilter) -> list[runs.RunRow]:
    return runs.select_runs(runs.list_runs(opened), *run_filter)


def _build_runs_table(opened: OpenArchive, run_filter: RunFilter, order: str, page_number: int) -> Table:
    ordered = runs.sort_runs(opened, _select_runs(opened, run_filter), order)
    return runs.build_runs_table(
        opened, ordered[ROWS_PER_PAGE * (page_number - 1) : ROWS_PER_PAGE * page_number], f"Runs, by {order}"
    )


@router.get("/browse/agent")
def agent_page(reader: ReaderDependency, agent: str = "", rules: str = "") -> Response:
    """An agent: its rating, opponents, regret and mistakes."""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=reader.compute_once(build_agent_page, agent, rules))


YES_NO = ("yes", "no")
LATEST_ROWS = 5  # runs, and agents, on the first page


def build_archive_overview(request: Request) -> dict[str, Any]:
    """What the first page shows of the archive: the run that is playing, the latest runs, the best agents.

    Nothing if the archive is being opened or has no runs.
    """
    try:
        reader = open_reader(request)
        rules = reader.default_rules
        rows = reader.run_rows[:LATEST_ROWS]
        table = reader.compute_once(_build_latest_runs_table)
        ratings = reader.compute_once(rate_agents, rules)
        running = next((row for row in rows if row.status == "running"), None)
        standings = reader.compute_once(sections.build_crosstable, running.run_id) if running else []
    except (NothingToReadError, ArenaError):  # the pages about the archive say what is wrong with it
        return {"archive_shown": False}
    shown = {"latest": table, "rules": rules, "running": running, "standings": standings}
    return {"archive_shown": True, **shown, **_view_best_agents(ratings, reader.filter_names.agents)}


def _view_best_agents(ratings: Ratings | None, labels: Collection[str]) -> dict[str, Any]:
    """The first of the agents with a rank, of the largest group if there are several, and the rule for ranks."""
    if ratings is None:
        return {"rated": False}
    best = [rating for rating in ratings.ranked if rating.group == 0][:LATEST_ROWS]
    rows = [
        (resolve_shown_agent_label(each.agent, labels) or each.agent, each.agent, format_elo(each.elo.mean))
        for each in best
    ]
    missing = "" if best else "No agent has a rank yet: "
    group = "" if ratings.group_count == 1 else "; these are of the largest group of agents with games between them"
    note = f"{missing}{RANKING_RULE}{group if best else ''}."
    return {"rated": True, "best": rows, "ranking_note": note[0].upper() + note[1:]}


def _build_latest_runs_table(opened: OpenArchive) -> Table:
    return runs.build_runs_table(opened, runs.list_runs(opened)[:LATEST_ROWS], "Latest runs", brief=True)


@router.get("/browse/runs/{run_id}")
def run_page(reader: ReaderDependency, run_id: str) -> Response:
    """A run: its properties and its results."""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=reader.compute_once(sections.build_run_page, run_id))


@router.get("/browse/compare")
def comparison_page(reader: ReaderDependency, run: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Runs compared with the first of them."""
    found = reader.compute_once(compare_runs, run)
    ways = {f"Run {each}": urls.run_url(each) for each in found.runs}
    lead = f"Each is compared with the first one, {found.runs[0]}."
    return reader.render_page(
        ARCHIVE_TEMPLATE, shown=ArchivePage("Runs compared", lead, ways, [*found.agent_match_notes, *found.tables])
    )


@router.get("/browse/games")
def games_page(
    reader: ReaderDependency,
    rules: str = "",
    run: str = "",
    agent: str = "",
    opponent: str = "",
    result: str = "",
    order: str = games.ORDERS[0],
    page: str = "1",
) -> Response:
    """The games that meet filters. Wrong filters are shown again with the reason."""
    wanted = GameFilter(runs=parse_run_field(run), rules=rules or None, agent=agent or None, opponent=opponent or None)
    found, error, status = games.NO_GAMES, "", 200
    try:
        found = reader.compute_once(_list_games, wanted, result, order, parse_number_or_default(page, 1))
    except RequestError as raised:
        error, status = str(raised), find_error_status(raised)
    reader.snapshot.failed |= bool(found.damaged)
    filters = (
        FormField("agent", "Agent", agent, "any", kind="agent"),
        FormField("opponent", "Opponent", opponent, "any", kind="agent"),
        FormField("result", "Result for the agent", result, "any result", games.RESULTS),
        FormField("rules", "Rules", rules, "any rules", reader.filter_names.rules),
        FormField("run", "Run", run, "all runs"),
        FormField("order", "Order", order, options=games.ORDERS),
    )
    some = f" in the newest {found.searched} of {found.matching:,} runs that match: choose a run to see others"
    said = f"{format_count_with_noun(found.total, 'game')}{some if found.searched < found.matching else ''}"
    shown = _build_list_page("Games", found.table, "No game meets these filters.", {"Show all games": urls.games_url()})
    if error:
        shown, said = ArchivePage("Games"), ""
    pager = reader.build_pager(found.total, games.ROWS_PER_PAGE)
    damaged = (*reader.snapshot.damaged, *found.damaged)
    return reader.render_page(
        ARCHIVE_TEMPLATE, status, shown=shown, filters=filters, error=error, said=said, damaged=damaged, **pager
    )


def _list_games(opened: OpenArchive, game_filter: GameFilter, result: str, order: str, page: int) -> games.GamesPage:
    return games.list_games(opened, runs.list_runs(opened), game_filter, result, order, page)


@router.get("/browse/results/{slug}")
def results_page(
    reader: ReaderDependency,
    slug: str,
    rules: str = "",
    run: str = "",
    trainings: str = "",
    agent: str = "",
    kind: str = "",
    ply: str = "",
) -> Response:
    """A section of a report, about the games of the runs under some rules or of one run."""
    run, rules = run.strip(), "" if run.strip() else rules or reader.default_rules
    with_trainings = trainings == "yes" if trainings else sections.counts_trainings(slug)
    wanted = GameFilter(runs=parse_run_field(run), rules=rules or None, trainings=with_trainings)
    found = reader.compute_once(sections.build_section, slug, wanted)
    section, pager = found.section, reader.build_pager(len(found.section.figures), FIGURES_PER_PAGE)
    part = replace(
        section, figures=section.figures[FIGURES_PER_PAGE * (pager["at"] - 1) : FIGURES_PER_PAGE * pager["at"]]
    )
    filters = [
        FormField("rules", "Rules", rules, "" if rules else "those of the run", reader.filter_names.rules),
        FormField("run", "Run", run, "all runs"),
    ]
    if slug != "learning":
        filters.append(FormField("trainings", "Runs of trainings", "yes" if with_trainings else "no", options=YES_NO))
    listed: list[Table | str] = []
    if slug == "mistakes":
        filters += [
            FormField("agent", "Agent, in the list", agent, "any", kind="agent"),
            FormField("kind", "Decision, in the list", kind, "any", ("gift", "placement")),
            FormField("ply", "Ply, in the list", ply, "any", kind="number"),
        ]
    if slug == "mistakes" and not section.missing:
        number = parse_number_or_default(ply, -1)
        worst = reader.compute_once(
            sections.build_mistakes_table, replace(wanted, agent=agent or None), kind, number if number >= 0 else None
        )
        listed = [worst if worst.rows else "No mistake meets these filters."]
    of = f": run `{run}`" if run else f", {rules} rules"
    many = found.agents > MAX_AGENTS
    best = f"; shown are the {MAX_AGENTS} best agents of {found.agents:,} ({RANKING_RULE})" if many else ""
    without = "" if with_trainings or run else "; without runs of trainings"
    counts = format_count_with_noun(found.games, "game"), format_count_with_noun(found.runs, "run")
    said = f"{counts[0]} of {counts[1]}{of}{without}{best}"
    parts = [f"Nothing to show: {section.missing}." if section.missing else part, *listed]
    shown = ArchivePage(section.title, parts=parts, pieces=slug == "gifts")
    return reader.render_page(ARCHIVE_TEMPLATE, shown=shown, filters=filters, said=said, **pager)


@router.get("/browse/charts.css")
def charts_css() -> Response:
    """The styles that pages share with reports."""
    return Response(render_template("colours.css"), media_type="text/css", headers={"cache-control": "max-age=3600"})


@router.get("/browse/sweeps")
def sweeps_page(reader: ReaderDependency) -> Response:
    """The sweeps."""
    rows = reader.compute_once(sweeps.list_sweeps)
    pager = reader.build_pager(len(rows))
    table = sweeps.build_sweeps_table(rows[ROWS_PER_PAGE * (pager["at"] - 1) : ROWS_PER_PAGE * pager["at"]])
    example = "qarena sweep agent@a=semi_random opening_plies=0,2,4 rules=classic,square games=20000"
    missing = f"There is no sweep in this archive. This is one: `{example} --archive {reader.root}`"
    said = "Each sweep plays every combination of some settings." if rows else ""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=_build_list_page("Sweeps", table, missing), said=said, **pager)


@router.get("/browse/sweeps/{sweep_id}")
def sweep_page(reader: ReaderDependency, sweep_id: str) -> Response:
    """A sweep with its picture."""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=reader.compute_once(sweeps.build_sweep_page, sweep_id))


@router.get("/browse/policies")
def policies_page(reader: ReaderDependency) -> Response:
    """The policies."""
    table = reader.compute_once(build_policies_table)
    example = "qarena train trainer=rl_encoded trainer.games=10000 policy.name=mine"
    missing = f"There is no policy in this archive. This learns one while it plays: `{example} --archive {reader.root}`"
    said = "Tables and genomes that were learned from games, here or elsewhere." if table.rows else ""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=_build_list_page("Policies", table, missing), said=said)


@router.get("/browse/policies/{policy}")
def policy_page(reader: ReaderDependency, policy: str) -> Response:
    """A policy with its origin and its learning curve."""
    return reader.render_page(ARCHIVE_TEMPLATE, shown=reader.compute_once(build_policy_page, policy))
