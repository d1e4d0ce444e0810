"""Insights: one page with a picture for each question about the games of the archive, the numbers folded.

The pictures of a large archive take longer to compute than a reader waits for a page. So a request computes pictures
until its time is up. The page says which pictures are still missing, and reloads itself until it has them all.
"""

from __future__ import annotations

import time
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import INSIGHTS, Insight
from analytics.report.result import Result
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError, RequestError
from runners.web.archive import urls
from runners.web.archive.archive_page import FormField
from runners.web.archive.sections import link_agents, select_reported_games
from runners.web.archive_reader import ArchiveReader, ReaderDependency, parse_zero_or_one_run_id
from runners.web.page_rendering import find_error_status

router = APIRouter()

SECONDS = 0.1  # of a request, after which no further picture is begun
RELOAD_SECONDS = 0.6  # until the page asks for the missing pictures
YES_NO = ("yes", "no")
# Where a reader who has seen the picture can go on, by the slug of the insight: name and path of the page.
NEXT_PAGES = {
    "lengths": ("The longest games", f"{urls.BROWSE}/games"),
    "placements": ("All openings", f"{urls.BROWSE}/openings"),
    "gifts": ("All openings", f"{urls.BROWSE}/openings"),
    "evaluations": ("Mistakes, by exact values", f"{urls.BROWSE}/results/mistakes"),
    "learning": ("All policies", f"{urls.BROWSE}/policies"),
}


class InsightView(NamedTuple):
    """An insight as the page shows it; ``section`` is None if it has not been computed yet."""

    slug: str
    question: str
    section: Result | None
    next_name: str
    next_url: str


def redirect_to_insight(request: Request) -> Response:
    """Lead from the former page of a section to its place on the page of insights."""
    query = {name: value for name, value in request.query_params.items() if name in ("rules", "run", "trainings")}
    slug = request.url.path.rpartition("/")[2]
    return RedirectResponse(f"{urls.build_url(urls.INSIGHTS, query)}#{slug}", HTTPStatus.MOVED_PERMANENTLY)


for _insight in INSIGHTS:
    router.get(urls.results_url(_insight.slug))(redirect_to_insight)


@router.get(urls.INSIGHTS)
def insights_page(
    reader: ReaderDependency, rules: str = "", run: str = "", trainings: str = "", agent: str = ""
) -> Response:
    """Show a picture for each question, about the games that match the filters."""
    run, agent = run.strip(), agent.strip()
    rules = "" if run else rules or reader.default_rules
    with_trainings = trainings != "no"
    game_filter = GameFilter(
        runs=parse_zero_or_one_run_id(run), rules=rules or None, agent=agent or None, trainings=with_trainings
    )
    filters = (
        FormField("rules", "Rules", rules, "" if rules else "those of the run", reader.rules_and_agent_names.rules),
        FormField("agent", "Agent", agent, "all together", kind="agent"),
        FormField("run", "Run", run, "all runs"),
        FormField("trainings", "Runs of trainings", "yes" if with_trainings else "no", options=YES_NO),
    )
    summary, error, status, views = "", "", 200, list[InsightView]()
    try:
        summary = reader.compute_once(_describe_games, game_filter)
        views = _compute_views(reader, game_filter)
    except RequestError as raised:
        error, status = raised.for_command_line, find_error_status(raised)
    pending = [view for view in views if view.section is None]
    return reader.render_page(
        "insights.html",
        status,
        filters=filters,
        error=error,
        summary=summary,
        views=views,
        refresh=RELOAD_SECONDS if pending else None,
        typed=True,
    )


def _describe_games(opened: OpenArchive, game_filter: GameFilter) -> str:
    data = select_reported_games(opened, game_filter)
    games, runs = data.selection.games, len(data.records)
    subject = f"run `{game_filter.runs[0]}`" if game_filter.runs else f"{game_filter.rules} rules"
    about = f"; about {game_filter.agent} alone" if game_filter.agent else ""
    trainings = "" if game_filter.trainings or game_filter.runs else "; without runs of trainings"
    counts = f"{format_count_with_noun(games, 'game')} of {format_count_with_noun(runs, 'run')}"
    return f"{counts}, {subject}{trainings}{about}"


def _compute_views(reader: ArchiveReader, game_filter: GameFilter) -> list[InsightView]:
    """Return all insights, with the sections that are kept already and those for which there is time."""
    begun, time_is_up, views = time.monotonic(), False, list[InsightView]()
    query = {
        "rules": game_filter.rules,
        "run": next(iter(game_filter.runs), None),
        "agent": game_filter.agent,
        "trainings": None if game_filter.trainings else "no",
    }
    for insight in INSIGHTS:
        name, path = NEXT_PAGES[insight.slug]
        section = None
        if not time_is_up:
            section, damaged = reader.compute_once(_build_section_or_reason, insight, game_filter)
            reader.snapshot.failed |= damaged
            time_is_up = time.monotonic() - begun > SECONDS
        order = "longest" if insight.slug == "lengths" else None
        next_url = urls.build_url(path, query | {"order": order}) if insight.slug != "learning" else path
        views.append(InsightView(insight.slug, insight.question, section, name, next_url))
    return views


def _build_section_or_reason(opened: OpenArchive, insight: Insight, game_filter: GameFilter) -> tuple[Result, bool]:
    """Build the section of an insight; return it, and whether a damaged file prevented it."""
    data = replace(select_reported_games(opened, game_filter), agent=game_filter.agent)
    try:
        section = insight.build_overview(data)
    except FailureError as error:  # the other pictures may need other files
        return Result(missing=error.for_command_line), True
    for figure in section.figures:
        figure.svg  # noqa: B018  (rendered now, so that its time counts as the time of this request)
    return replace(section, table=link_agents(section.table, data.records.values())), False
