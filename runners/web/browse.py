"""Pages about the archive: runs, games, results, sweeps and policies, all read from one open archive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from analytics.query.selection import GameFilter
from analytics.ratings.comparison import compare
from analytics.report.figures.reported_games import MOST_AGENTS
from analytics.report.page import render
from analytics.results.columns import Table
from analytics.sql.database import OpenArchive
from analytics.store.records import RunRecord
from quarto.errors import ArenaError, FailureError, RequestError
from runners.browse import games, links, runs, sections, sweeps
from runners.browse.agents import one_agent, one_policy, policies_table, ranking
from runners.browse.charts import warm
from runners.browse.library import Content, Library, StillOpeningError
from runners.browse.runs import Known, RunRow, known, run_rows
from runners.browse.sections import SUBJECTS
from runners.web.pages import page, status_of
from runners.web.site import Site, site_of

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

    @property
    def usual_rules(self) -> str:
        """The rules that a page shows unless others are named. Raises ``FailureError`` if no record can be read."""
        if not self.known.rules:
            raise FailureError("; ".join(self.content.damaged) or "the archive has no runs")
        return self.known.rules[0]

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
        line = "It has many runs: this takes some seconds, once."
        return page(request, "waiting.html", title="Opening the archive …", line=line, refresh=1)
    return page(request, "browse_empty.html")


router = APIRouter()

FIGURES = 4  # of a section, a page: the largest take 30 kB and a tenth of a second each


@router.get("/browse")
def all_runs(
    reader: Reading, rules: str = "", agent: str = "", status: str = "", text: str = "", order: str = ""
) -> Response:
    """The runs that meet filters."""
    wanted = RunsWanted(GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    found, order = reader.ask(_matching, wanted), order or runs.ORDERS[0]
    pager = reader.pager(len(found))
    return reader.page(
        "browse_runs.html",
        table=reader.ask(_runs_shown, wanted, order, pager["at"]),
        found=len(found),
        games=sum(row.games for row in found),
        total=len(reader.rows),
        wanted={"rules": rules, "agent": agent, "status": status, "text": text, "order": order},
        known=reader.known,
        orders=runs.ORDERS,
        states=runs.STATES,
        **pager,
    )


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
    return reader.page("browse_agent.html", shown=reader.ask(one_agent, agent, rules))


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
    except (NothingToReadError, ArenaError):  # the pages about the archive say what is wrong with it
        return {"archive_shown": False}
    running = next((row for row in rows if row.status == "running"), None)
    standings = _crosstable(reader, running.record) if running and running.games else None
    shown = {"latest": table, "best": best, "rules": rules, "running": running, "standings": standings}
    return {"archive_shown": True, **shown}


def _crosstable(reader: ArchiveReader, record: RunRecord) -> Table | None:
    """The crosstable of a run of several pairings."""
    if len(record.pairings) < 2:
        return None
    return reader.ask(sections.section, "crosstable", GameFilter(runs=(record.run_id,))).section.table


def _latest(opened: OpenArchive) -> Table:
    return runs.runs_table(opened, runs.run_rows(opened)[:LATEST], "Latest runs", brief=True)


@router.get("/browse/runs/{run_id}")
def one_run(reader: Reading, run_id: str) -> Response:
    """A run: its properties and its results."""
    run = reader.ask(runs.one_run, run_id)
    table = _crosstable(reader, run.record) if run.games else None
    return reader.page("browse_run.html", run=run, crosstable=table, subjects_of_run=sections.SUBJECTS)


@router.get("/browse/compare")
def compared(reader: Reading, run: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Runs compared with the first of them."""
    return reader.page("browse_compare.html", comparison=reader.ask(compare, run))


@router.get("/browse/games")
def list_of_games(
    reader: Reading,
    rules: str = "",
    run: str = "",
    agent: str = "",
    opponent: str = "",
    result: str = "",
    order: str = "",
    page: str = "1",
) -> Response:
    """The games that meet filters. Wrong filters are shown again with the reason."""
    order = order or games.ORDERS[0]
    wanted = GameFilter(runs=runs_of(run), rules=rules or None, agent=agent or None, opponent=opponent or None)
    found, error, status = games.NO_GAMES, "", 200
    try:
        found = reader.ask(_games, wanted, result, order, whole(page, 1))
    except RequestError as raised:
        error, status = str(raised), status_of(raised)
    reader.content.failed |= bool(found.damaged)
    return reader.page(
        "browse_games.html",
        status,
        found=found,
        error=error,
        wanted={"rules": rules, "run": run, "agent": agent, "opponent": opponent, "result": result, "order": order},
        known=reader.known,
        results=games.RESULTS,
        orders=games.ORDERS,
        **reader.pager(found.total, games.ROWS),
    )


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
    shown = reader.ask(sections.section, slug, wanted)
    pager = reader.pager(len(shown.section.figures), FIGURES)
    by_agent, number = replace(wanted, agent=agent or None), whole(ply, -1)
    return reader.page(
        "browse_results.html",
        slug=slug,
        shown=shown,
        figures=shown.section.figures[FIGURES * (pager["at"] - 1) : FIGURES * pager["at"]],
        rules=rules,
        run=run,
        trainings=trainings,
        known=reader.known,
        most_agents=MOST_AGENTS,
        wanted={"agent": agent, "kind": kind, "ply": ply},
        worst=reader.ask(sections.worst, by_agent, kind, number if number >= 0 else None)
        if slug == "mistakes" and not shown.section.missing
        else None,
        **pager,
    )


@router.get("/browse/charts.css")
def charts_css() -> Response:
    """The colours of charts, on light and on dark paper."""
    return Response(render("colours.css"), media_type="text/css", headers={"cache-control": "max-age=3600"})


@router.get("/browse/sweeps")
def all_sweeps(reader: Reading) -> Response:
    """The sweeps."""
    rows = reader.ask(sweeps.sweep_rows)
    pager = reader.pager(len(rows))
    table = sweeps.sweeps_table(rows[ROWS * (pager["at"] - 1) : ROWS * pager["at"]])
    return reader.page(
        "browse_list.html",
        title="Sweeps",
        intro="Each sweep plays every combination of some settings.",
        table=table,
        missing="There is no sweep in this archive. This is one:",
        command="qarena sweep agent@a=semi_random opening_plies=0,2,4 rules=classic,square games=20000",
        **pager,
    )


@router.get("/browse/sweeps/{sweep_id}")
def one_sweep(reader: Reading, sweep_id: str) -> Response:
    """A sweep with its picture."""
    return reader.page("browse_sweep.html", sweep=reader.ask(sweeps.one_sweep, sweep_id))


@router.get("/browse/policies")
def all_policies(reader: Reading) -> Response:
    """The policies."""
    return reader.page(
        "browse_list.html",
        title="Policies",
        intro="Tables and genomes that were learned from games, here or elsewhere.",
        table=reader.ask(policies_table),
        missing="There is no policy in this archive. This learns one while it plays:",
        command="qarena train trainer=rl_encoded trainer.games=10000 policy.name=mine",
        pages=1,
    )


@router.get("/browse/policies/{policy}")
def policy_of(reader: Reading, policy: str) -> Response:
    """A policy with its origin and its learning curve."""
    return reader.page("browse_policy.html", policy=reader.ask(one_policy, policy))
