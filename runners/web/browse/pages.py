"""Runs, results, sweeps, policies: pages of tables and pictures."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from starlette.responses import Response

from analytics.query.game_filter import GameFilter
from analytics.report.figures.reported_games import MOST_AGENTS
from analytics.report.rendering import render
from runners.browse import runs, sections, sweeps
from runners.browse.policies import one_policy, policies_table
from runners.web.browse.reader import ROWS, Reading, runs_of, whole

router = APIRouter()

FIGURES = 5  # of a section, a page: of the largest ones each takes 30 kB


@router.get("/browse")
def all_runs(reader: Reading, rules: str = "", agent: str = "", status: str = "", text: str = "") -> Response:
    """The runs that meet filters."""
    found = runs.matching(reader.rows, GameFilter(rules=rules or None, agent=agent or None), status, text.strip())
    pager = reader.pager(len(found))
    return reader.page(
        "browse_runs.html",
        table=runs.runs_table(found[ROWS * (pager["at"] - 1) : ROWS * pager["at"]], "Runs, the newest first"),
        found=len(found),
        games=sum(row.games for row in found),
        total=len(reader.rows),
        wanted={"rules": rules, "agent": agent, "status": status, "text": text},
        known=reader.known,
        states=runs.STATES,
        **pager,
    )


@router.get("/browse/runs/{run_id}")
def one_run(reader: Reading, run_id: str) -> Response:
    """A run: its properties and its results."""
    return reader.page("browse_run.html", run=reader.ask(runs.one_run, run_id), subjects_of_run=sections.SUBJECTS)


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
    run, rules = run.strip(), "" if run.strip() else rules or reader.known.rules[0]
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
    return reader.page("browse_sweeps.html", table=table, found=len(rows), **pager)


@router.get("/browse/sweeps/{sweep_id}")
def one_sweep(reader: Reading, sweep_id: str) -> Response:
    """A sweep with its picture."""
    return reader.page("browse_sweep.html", sweep=reader.ask(sweeps.one_sweep, sweep_id))


@router.get("/browse/policies")
def all_policies(reader: Reading) -> Response:
    """The policies."""
    return reader.page("browse_policies.html", table=reader.ask(policies_table))


@router.get("/browse/policies/{policy}")
def policy_of(reader: Reading, policy: str) -> Response:
    """A policy with its origin and its learning curve."""
    return reader.page("browse_policy.html", policy=reader.ask(one_policy, policy))
