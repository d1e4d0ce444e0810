"""Pages about the archive: runs, games, results, sweeps and policies, all read from one open archive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.columns import Table
from analytics.questions.comparison import compare
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import PAGES
from analytics.report.rendering import render
from analytics.report.reported_games import MOST_AGENTS
from quarto.errors import ArenaError, FailureError, RequestError
from runners.terminal.console import number_of
from runners.web.archive import games, links, runs, sections, sweeps
from runners.web.archive.agents import one_agent, one_policy, policies_table, ranking
from runners.web.archive.archive_page import ArchivePage, Field
from runners.web.archive.charts import warm
from runners.web.archive.library import Content, Library, StillOpeningError
from runners.web.archive.runs import Known, RunRow, known, run_rows
from runners.web.pages import page, status_of
from runners.web.site import Site, site_of

ROWS = 50  # of a list, a page
WHOLE = {"filters": (), "error": "", "said": "", "compare": False, "at": 1, "pages": 1, "link": None}  # of a page alone

Made = TypeVar("Made")

# The pages of the second line of the navigation: name and address.
TABS = (
    ("Runs", "/browse"),
    ("Games", "/browse/games"),
    ("Openings", "/browse/openings"),
    *((each.name, f"/browse/results/{each.slug}") for each in PAGES),
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

    @property
    def root(self) -> str:
        """The place of the archive, for commands."""
        return str(site_of(self.request).settings.archive)

    @property
    def usual_rules(self) -> str:
        """The rules that a page shows unless others are named. Raises ``FailureError`` if no record can be read."""
        if not self.known.rules:
            raise FailureError("; ".join(self.content.damaged) or "the archive has no runs")
        return self.known.rules[0]

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page about the archive, which names the records that were left out because they are damaged."""
        known = {"tabs": TABS, "damaged": self.content.damaged, "known": self.known, **WHOLE}
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
        line = "It has many runs: this takes some seconds, once."
        return page(request, "waiting.html", title="Opening the archive …", line=line, refresh=1)
    return page(request, "browse_empty.html")


router = APIRouter()

LIST = "browse.html"
FIGURES = 4  # of a section, a page: the largest take 30 kB and a tenth of a second each


@router.get(links.BROWSE)
def all_runs(
    reader: Reading, rules: str = "", agent: str = "", status: str = "", text: str = "", order: str = runs.ORDERS[0]
) -> Response:
    """The runs that meet filters."""
    wanted = RunsWanted(GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    found, total, known = reader.ask(_matching, wanted), len(reader.rows), reader.known
    pager = reader.pager(len(found))
    filters = (
        Field("rules", "Rules", rules, "any rules", known.rules),
        Field("agent", "Agent", agent, "any", kind="agent"),
        Field("status", "Status", status, "any status", runs.STATES),
        Field("text", "Search", text, "id or part of a name"),
        Field("order", "Order", order, options=runs.ORDERS),
    )
    table = reader.ask(_runs_shown, wanted, order, pager["at"])
    said = f"{len(found):,} of {number_of(total, 'run')}, with {number_of(sum(row.games for row in found), 'game')}"
    shown = _listed("Runs", table, "No run meets these filters.", {"Show all runs": links.BROWSE})
    return reader.page(LIST, shown=shown, filters=filters, said=said, compare=True, **pager)


def _listed(title: str, table: Table, missing: str, ways: Mapping[str, str] = MappingProxyType({})) -> ArchivePage:
    """The page of a list; if that is empty, a notice and what may help."""
    return ArchivePage(title, parts=[table]) if table.rows else ArchivePage(title, links=ways, parts=[missing])


class RunsWanted(NamedTuple):
    """The filters of the list of runs."""

    games: GameFilter
    status: str
    text: str


def _matching(opened: OpenArchive, wanted: RunsWanted) -> list[runs.RunRow]:
    return runs.matching(runs.run_rows(opened), *wanted)


def _runs_shown(opened: OpenArchive, wanted: RunsWanted, order: str, at: int) -> Table:
    ordered = runs.in_order(opened, _matching(opened, wanted), order)
    return runs.runs_table(opened, ordered[ROWS * (at - 1) : ROWS * at], f"Runs, by {order}")


@router.get("/browse/agent")
def agent_of(reader: Reading, agent: str = "", rules: str = "") -> Response:
    """An agent: its rating, opponents, regret and mistakes."""
    return reader.page(LIST, shown=reader.ask(one_agent, agent, rules))


LATEST = 5  # runs, and agents, on the first page


def first_look(request: Request) -> dict[str, Any]:
    """What the first page shows of the archive: the run that is playing, the latest runs, the best agents.

    Nothing if the archive is being opened or has no runs.
    """
    try:
        reader = reader_of(request)
        rules = reader.usual_rules
        rows = reader.rows[:LATEST]
        table = reader.ask(_latest)
        best = reader.ask(ranking, rules)[:LATEST]
        running = next((row for row in rows if row.status == "running"), None)
        standings = reader.ask(sections.crosstable_of, running.run_id) if running else []
    except (NothingToReadError, ArenaError):  # the pages about the archive say what is wrong with it
        return {"archive_shown": False}
    shown = {"latest": table, "best": best, "rules": rules, "running": running, "standings": standings}
    return {"archive_shown": True, **shown}


def _latest(opened: OpenArchive) -> Table:
    return runs.runs_table(opened, runs.run_rows(opened)[:LATEST], "Latest runs", brief=True)


@router.get("/browse/runs/{run_id}")
def one_run(reader: Reading, run_id: str) -> Response:
    """A run: its properties and its results."""
    return reader.page(LIST, shown=reader.ask(sections.one_run, run_id))


@router.get("/browse/compare")
def compared(reader: Reading, run: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Runs compared with the first of them."""
    found = reader.ask(compare, run)
    ways = {f"Run {each}": links.run_page(each) for each in found.runs}
    lead = f"Each is compared with the first one, {found.runs[0]}."
    return reader.page(LIST, shown=ArchivePage("Runs compared", lead, ways, [*found.renamed, *found.tables]))


@router.get("/browse/games")
def list_of_games(
    reader: Reading,
    rules: str = "",
    run: str = "",
    agent: str = "",
    opponent: str = "",
    result: str = "",
    order: str = games.ORDERS[0],
    page: str = "1",
) -> Response:
    """The games that meet filters. Wrong filters are shown again with the reason."""
    wanted = GameFilter(runs=runs_of(run), rules=rules or None, agent=agent or None, opponent=opponent or None)
    found, error, status = games.NO_GAMES, "", 200
    try:
        found = reader.ask(_games, wanted, result, order, whole(page, 1))
    except RequestError as raised:
        error, status = str(raised), status_of(raised)
    reader.content.failed |= bool(found.damaged)
    filters = (
        Field("agent", "Agent", agent, "any", kind="agent"),
        Field("opponent", "Opponent", opponent, "any", kind="agent"),
        Field("result", "Result for the agent", result, "any result", games.RESULTS),
        Field("rules", "Rules", rules, "any rules", reader.known.rules),
        Field("run", "Run", run, "all runs"),
        Field("order", "Order", order, options=games.ORDERS),
    )
    some = f" in the newest {found.searched} of {found.matching:,} runs that match: choose a run to see others"
    said = f"{found.total:,} games{some if found.searched < found.matching else ''}"
    shown = _listed("Games", found.table, "No game meets these filters.", {"Show all games": links.games_page()})
    if error:
        shown, said = ArchivePage("Games"), ""
    pager = reader.pager(found.total, games.ROWS)
    damaged = (*reader.content.damaged, *found.damaged)
    return reader.page(LIST, status, shown=shown, filters=filters, error=error, said=said, damaged=damaged, **pager)


def _games(opened: OpenArchive, wanted: GameFilter, result: str, order: str, page: int) -> games.GamesPage:
    return games.games_list(opened, runs.run_rows(opened), wanted, result, order, page)


@router.get("/browse/results/{slug}")
def results(
    reader: Reading,
    slug: str,
    rules: str = "",
    run: str = "",
    trainings: str = "",
    agent: str = "",
    kind: str = "",
    ply: str = "",
) -> Response:
    """A section of a report, about the games of the runs under some rules or of one run."""
    run, rules = run.strip(), "" if run.strip() else rules or reader.usual_rules
    wanted = GameFilter(runs=runs_of(run), rules=rules or None, trainings=trainings == "yes")
    found = reader.ask(sections.section, slug, wanted)
    section, pager = found.section, reader.pager(len(found.section.figures), FIGURES)
    part = replace(section, figures=section.figures[FIGURES * (pager["at"] - 1) : FIGURES * pager["at"]])
    filters = [
        Field("rules", "Rules", rules, "" if rules else "those of the run", reader.known.rules),
        Field("run", "Run", run, "all runs"),
    ]
    if slug != "learning":
        filters.append(Field("trainings", "With runs of trainings", wanted.trainings, kind="checkbox"))
    listed: list[Table | str] = []
    if slug == "mistakes":
        filters += [
            Field("agent", "Agent, in the list", agent, "any", kind="agent"),
            Field("kind", "Decision, in the list", kind, "any", ("gift", "placement")),
            Field("ply", "Ply, in the list", ply, "any", kind="number"),
        ]
    if slug == "mistakes" and not section.missing:
        number = whole(ply, -1)
        worst = reader.ask(sections.worst, replace(wanted, agent=agent or None), kind, number if number >= 0 else None)
        listed = [worst if worst.rows else "No mistake meets these filters."]
    of = f": run `{run}`" if run else f", {rules} rules"
    best = f"; shown are the {MOST_AGENTS} best agents of {found.agents:,}" if found.agents > MOST_AGENTS else ""
    said = f"{found.games:,} games of {number_of(found.runs, 'run')}{of}{best}"
    parts = [f"Nothing to show: {section.missing}." if section.missing else part, *listed]
    shown = ArchivePage(section.title, parts=parts, pieces=slug == "gifts")
    return reader.page(LIST, shown=shown, filters=filters, said=said, **pager)


@router.get("/browse/charts.css")
def charts_css() -> Response:
    """The styles that pages share with reports."""
    return Response(render("colours.css"), media_type="text/css", headers={"cache-control": "max-age=3600"})


@router.get("/browse/sweeps")
def all_sweeps(reader: Reading) -> Response:
    """The sweeps."""
    rows = reader.ask(sweeps.sweep_rows)
    pager = reader.pager(len(rows))
    table = sweeps.sweeps_table(rows[ROWS * (pager["at"] - 1) : ROWS * pager["at"]])
    example = "qarena sweep agent@a=semi_random opening_plies=0,2,4 rules=classic,square games=20000"
    missing = f"There is no sweep in this archive. This is one: `{example} --archive {reader.root}`"
    said = "Each sweep plays every combination of some settings." if rows else ""
    return reader.page(LIST, shown=_listed("Sweeps", table, missing), said=said, **pager)


@router.get("/browse/sweeps/{sweep_id}")
def one_sweep(reader: Reading, sweep_id: str) -> Response:
    """A sweep with its picture."""
    return reader.page(LIST, shown=reader.ask(sweeps.one_sweep, sweep_id))


@router.get("/browse/policies")
def all_policies(reader: Reading) -> Response:
    """The policies."""
    table = reader.ask(policies_table)
    example = "qarena train trainer=rl_encoded trainer.games=10000 policy.name=mine"
    missing = f"There is no policy in this archive. This learns one while it plays: `{example} --archive {reader.root}`"
    said = "Tables and genomes that were learned from games, here or elsewhere." if table.rows else ""
    return reader.page(LIST, shown=_listed("Policies", table, missing), said=said)


@router.get("/browse/policies/{policy}")
def policy_of(reader: Reading, policy: str) -> Response:
    """A policy with its origin and its learning curve."""
    return reader.page(LIST, shown=reader.ask(one_policy, policy))
