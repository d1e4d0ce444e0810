"""Runs, results, sweeps, policies: pages of tables and pictures."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.query.game_filter import GameFilter
from analytics.report.figures.reported_games import MOST_AGENTS
from analytics.report.rendering import render
from runners.browse import links, runs, sections, sweeps
from runners.browse.mistakes import worst
from runners.browse.policies import one_policy, policies_table
from runners.web.browse.reader import empty, reader_of

router = APIRouter()

ROWS = 50  # of a list, a page
FIGURES = 5  # of a section, a page: of the largest ones each takes 30 kB


def whole(text: str, default: int) -> int:
    """A number of a form; ``default`` for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default


def paged(page: str, rows: int, size: int = ROWS) -> tuple[int, int]:
    """The page that was asked for, and how many there are."""
    pages = max(1, -(-rows // size))
    return min(max(1, whole(page, 1)), pages), pages


def runs_of(run: str) -> tuple[str, ...]:
    """The runs of a form's field: one, or none for all."""
    return (run.strip(),) if run.strip() else ()


@router.get("/browse")
def all_runs(  # each is a field of the form
    request: Request, rules: str = "", agent: str = "", status: str = "", text: str = "", page: str = "1"
) -> Response:
    """The runs that meet filters."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    found = runs.matching(reader.rows, GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    at, pages = paged(page, len(found))
    query = {"rules": rules, "agent": agent, "status": status, "text": text}
    return reader.page(
        "browse_runs.html",
        table=runs.runs_table(found[ROWS * (at - 1) : ROWS * at], "Runs, the newest first"),
        found=len(found),
        games=sum(row.games for row in found),
        total=len(reader.rows),
        wanted=query,
        known=reader.known,
        states=runs.STATES,
        at=at,
        pages=pages,
        link=lambda number: links.address("/browse", {**query, "page": number if number > 1 else None}),
    )


@router.get("/browse/runs/{run_id}")
def one_run(request: Request, run_id: str) -> Response:
    """A run: its properties and its results."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    return reader.page("browse_run.html", run=reader.ask(runs.one_run, run_id), subjects=sections.SUBJECTS)


@router.get("/browse/results/{slug}")
def results(  # noqa: PLR0913, PLR0917  (each is a field of the form)
    request: Request,
    slug: str,
    rules: str = "",
    run: str = "",
    trainings: str = "",
    agent: str = "",
    kind: str = "",
    ply: str = "",
    page: str = "1",
) -> Response:
    """A section of a report, about the games of the runs under some rules or of one run."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    run, rules = run.strip(), "" if run.strip() else rules or reader.known.rules[0]
    wanted = GameFilter(runs=runs_of(run), rules=rules or None, trainings=trainings == "yes")
    shown = reader.ask(sections.section, slug, wanted)
    at, pages = paged(page, len(shown.section.figures), FIGURES)
    query = {"rules": rules, "run": run, "trainings": trainings, "agent": agent, "kind": kind, "ply": ply}
    by_agent, number = replace(wanted, agent=agent or None), whole(ply, 0) - 1
    path = f"/browse/results/{slug}"
    return reader.page(
        "browse_results.html",
        slug=slug,
        shown=shown,
        figures=shown.section.figures[FIGURES * (at - 1) : FIGURES * at],
        at=at,
        pages=pages,
        link=lambda number: links.address(path, {**query, "page": number if number > 1 else None}),
        rules=rules,
        run=run,
        trainings=trainings,
        known=reader.known,
        most_agents=MOST_AGENTS,
        wanted=query,
        worst=reader.ask(worst, by_agent, kind, number if number >= 0 else None)
        if slug == "mistakes" and not shown.section.missing
        else None,
    )


@router.get("/browse/charts.css")
def charts_css() -> Response:
    """The colours of charts, on light and on dark paper."""
    return Response(render("colours.css"), media_type="text/css", headers={"cache-control": "max-age=3600"})


@router.get("/browse/sweeps")
def all_sweeps(request: Request, page: str = "1") -> Response:
    """The sweeps."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    rows = reader.ask(sweeps.sweep_rows)
    at, pages = paged(page, len(rows))
    return reader.page(
        "browse_sweeps.html",
        table=sweeps.sweeps_table(rows[ROWS * (at - 1) : ROWS * at]),
        found=len(rows),
        at=at,
        pages=pages,
        link=lambda number: links.address("/browse/sweeps", {"page": number if number > 1 else None}),
    )


@router.get("/browse/sweeps/{sweep_id}")
def one_sweep(request: Request, sweep_id: str) -> Response:
    """A sweep with its picture."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    return reader.page("browse_sweep.html", sweep=reader.ask(sweeps.one_sweep, sweep_id))


@router.get("/browse/policies")
def all_policies(request: Request) -> Response:
    """The policies."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    return reader.page("browse_policies.html", table=reader.ask(policies_table))


@router.get("/browse/policies/{policy}")
def policy_of(request: Request, policy: str) -> Response:
    """A policy with its origin and its learning curve."""
    reader = reader_of(request)
    if reader is None:
        return empty(request)
    return reader.page("browse_policy.html", policy=reader.ask(one_policy, policy))
