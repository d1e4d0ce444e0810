"""Pages about the archive: runs, games, results, sweeps and policies, all read from one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.columns import Table, format_elo
from analytics.questions.pairings import resolve_shown_agent_label
from analytics.questions.ranking import RANKING_RULE
from analytics.questions.ratings import Ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.report.rendering import render_template
from analytics.report.report_data import MAX_AGENTS
from analytics.store.texts import format_count_with_noun
from quarto.errors import ArenaError, RequestError
from runners.web.archive import games, runs, sections, sweeps, urls
from runners.web.archive.agents import rate_agents
from runners.web.archive.archive_page import ArchivePage, FormField
from runners.web.archive.policies import build_policies_table, build_policy_page
from runners.web.archive.snapshots import ArchiveSnapshot
from runners.web.archive_reader import (
    ARCHIVE_TEMPLATE,
    ROWS_PER_PAGE,
    NothingToReadError,
    ReaderDependency,
    open_reader,
    parse_number_or_default,
    parse_zero_or_one_run_id,
)
from runners.web.background import PAGE_WAIT_SECONDS
from runners.web.page_rendering import find_error_status
from runners.web.runs.columns import build_brief_runs_table

router = APIRouter()

FIGURES_PER_PAGE = 4  # the largest figures of a section take 30 kB and 0.1 s each


def _build_list_page(
    title: str, table: Table, empty_notice: str, links: Mapping[str, str] = MappingProxyType({})
) -> ArchivePage:
    """Build the page of a list; if the list is empty, a notice and links take its place."""
    return (
        ArchivePage(title, parts=[table]) if table.text_rows else ArchivePage(title, links=links, parts=[empty_notice])
    )


YES_NO = ("yes", "no")
LATEST_RUNS, BEST_AGENTS = 8, 5  # rows on the home page


def build_archive_overview(request: Request) -> dict[str, Any]:
    """Return the values for the home page's overview: a run in progress, the latest runs and the best agents.

    If the archive has no runs or cannot be read, ``archive_shown`` is false, because the pages about the archive
    explain what is wrong. If the archive is still being opened, ``opening`` is true.
    """
    try:
        reader = open_reader(request, PAGE_WAIT_SECONDS)
        rules = reader.default_rules
        rows = reader.run_rows[:LATEST_RUNS]
        table = reader.compute_once(build_latest_runs_table)
        ratings = reader.compute_once(rate_agents, rules)
        running = next((row for row in rows if row.status == "running"), None)
        standings = reader.compute_once(sections.build_crosstable_if_tournament, running.run_id) if running else None
    except (NothingToReadError, ArenaError) as error:  # the pages about the archive say what is wrong with it
        opening = isinstance(error, NothingToReadError) and error.is_opening
        return {"archive_shown": False, "opening": opening, "running": None, "standings": None}
    overview = {"latest": table, "rules": rules, "running": running, "standings": standings}
    overview |= {"damaged": reader.list_damage()}
    return {
        "archive_shown": True,
        "opening": False,
        **overview,
        **_build_best_ranked_agents_view(ratings, reader.rules_and_agent_names.agents),
    }


def _build_best_ranked_agents_view(ratings: Ratings | None, linkable_labels: Collection[str]) -> dict[str, Any]:
    """Return the template values for the list of the best-ranked agents, with a note on which agents have a rank.

    ``linkable_labels`` are the labels of agents that have a page. If the ratings have several groups, the list is about
    the largest one.
    """
    if ratings is None:
        return {"rated": False}
    best = [ranked for ranked in ratings.ranked if ranked.group == 0][:BEST_AGENTS]
    rows = [
        (
            resolve_shown_agent_label(rating.agent, linkable_labels) or rating.agent,
            rating.agent,
            format_elo(rating.elo.mean),
        )
        for rating in best
    ]
    missing = "" if best else "No agent has a rank yet: "
    group = "" if ratings.group_count == 1 else "; these are of the largest group of agents with games between them"
    note = f"{missing}{RANKING_RULE}{group if best else ''}."
    return {"rated": True, "best": rows, "ranking_note": note[0].upper() + note[1:]}


def prepare_first_pages(snapshot: ArchiveSnapshot) -> None:
    """Compute what the home page and the list of runs show, and connect to DuckDB.

    So the first visitor need not wait for that.
    """
    names = snapshot.compute_once(runs.list_runs_and_names).names
    snapshot.compute_once(build_latest_runs_table)
    if names.rules:
        snapshot.compute_once(rate_agents, names.rules[0])
    snapshot.compute_once(_connect)


def _connect(opened: OpenArchive) -> None:
    opened.sql("SELECT 1")


def build_latest_runs_table(opened: OpenArchive) -> Table:
    """Build the table of the latest runs for the home page."""
    return build_brief_runs_table(opened, runs.list_runs(opened, LATEST_RUNS), "Latest runs")


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
    """List the games that match the filters; if a filter is invalid, show the form again with the reason."""
    game_filter = GameFilter(
        runs=parse_zero_or_one_run_id(run), rules=rules or None, agent=agent or None, opponent=opponent or None
    )
    games_list, error, status = games.NO_GAMES, "", 200
    try:
        games_list = reader.compute_once(_list_games, game_filter, result, order, parse_number_or_default(page, 1))
    except RequestError as raised:
        error, status = raised.for_command_line, find_error_status(raised)
    filters = (
        FormField("agent", "Agent", agent, "any", kind="agent"),
        FormField("opponent", "Opponent", opponent, "any", kind="agent"),
        FormField("result", "Result for the agent", result, "any result", games.RESULTS),
        FormField("rules", "Rules", rules, "any rules", reader.rules_and_agent_names.rules),
        FormField("run", "Run", run, "all runs"),
        FormField("order", "Order", order, options=games.ORDERS),
    )
    summary = format_count_with_noun(games_list.total, "game")
    if games_list.searched < games_list.matching:
        searched_runs = f"the newest {games_list.searched} of {games_list.matching:,} runs that match"
        summary = f"{summary} in {searched_runs}: choose a run to see others"
    list_page = _build_list_page(
        "Games", games_list.table, "No game meets these filters.", {"Show all games": urls.games_url()}
    )
    if error:
        list_page, summary = ArchivePage("Games"), ""
    pager = reader.build_pager(games_list.total, games.ROWS_PER_PAGE)
    if games_list.damaged and list_page.parts[:1] != [games_list.table]:
        list_page = replace(list_page, parts=["The games of these runs cannot be read."])
    list_page = replace(list_page, left_out=games_list.damaged)
    return reader.render_page(
        ARCHIVE_TEMPLATE,
        status,
        arranges=pager["pages"] == 1,
        page=list_page,
        filters=filters,
        error=error,
        summary=summary,
        **pager,
    )


def _list_games(opened: OpenArchive, game_filter: GameFilter, result: str, order: str, page: int) -> games.GamesPage:
    return games.list_games_page_of_newest_runs(opened, runs.list_runs(opened), game_filter, result, order, page)


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
    """Show a section of the report about the games of one run, or of all runs under the same rules.

    ``trainings`` is ``yes``, ``no``, or "" for the default of the section. ``agent``, ``kind`` and ``ply`` limit the
    list of mistakes, which only the section on mistakes has.
    """
    run, rules = run.strip(), "" if run.strip() else rules or reader.default_rules
    with_trainings = trainings == "yes" if trainings else sections.includes_trainings_by_default(slug)
    game_filter = GameFilter(runs=parse_zero_or_one_run_id(run), rules=rules or None, trainings=with_trainings)
    section_view = reader.compute_once(sections.build_section, slug, game_filter)
    section, pager = section_view.section, reader.build_pager(len(section_view.section.figures), FIGURES_PER_PAGE)
    visible_section = replace(
        section, figures=section.figures[FIGURES_PER_PAGE * (pager["at"] - 1) : FIGURES_PER_PAGE * pager["at"]]
    )
    filters = [
        FormField("rules", "Rules", rules, "" if rules else "those of the run", reader.rules_and_agent_names.rules),
        FormField("run", "Run", run, "all runs"),
        FormField("trainings", "Runs of trainings", "yes" if with_trainings else "no", options=YES_NO),
    ]
    mistake_list: list[Table | str] = []
    if slug == "mistakes":
        filters += [
            FormField("agent", "Agent, in the list", agent, "any", kind="agent"),
            FormField("kind", "Decision, in the list", kind, "any", ("gift", "placement")),
            FormField("ply", "Ply, in the list", ply, "any", kind="number"),
        ]
    if slug == "mistakes" and not section.missing:
        number = parse_number_or_default(ply, -1)
        mistakes = reader.compute_once(
            sections.build_mistakes_table,
            replace(game_filter, agent=agent or None),
            kind,
            number if number >= 0 else None,
        )
        mistake_list = [mistakes if mistakes.text_rows else "No mistake meets these filters."]
    subject = f": run `{run}`" if run else f", {rules} rules"
    has_more_agents = section_view.agents > MAX_AGENTS and slug != "crosstable"  # its note says which are shown
    ranking_rule = "" if RANKING_RULE in section.note else f" ({RANKING_RULE})"
    best_note = (
        f"; shown are the {MAX_AGENTS} best agents of {section_view.agents:,}{ranking_rule}" if has_more_agents else ""
    )
    trainings_note = "" if with_trainings or run else "; without runs of trainings"
    counts = format_count_with_noun(section_view.games, "game"), format_count_with_noun(section_view.runs, "run")
    summary = f"{counts[0]} of {counts[1]}{subject}{trainings_note}{best_note}"
    parts = [f"Nothing to show: {section.missing}." if section.missing else visible_section, *mistake_list]
    section_page = ArchivePage(section.title, parts=parts)
    return reader.render_page(ARCHIVE_TEMPLATE, page=section_page, filters=filters, summary=summary, **pager)


@router.get("/browse/charts.css")
def charts_css() -> Response:
    """Send the style sheet that the pages about the archive share with reports."""
    return Response(render_template("colours.css"), media_type="text/css", headers={"cache-control": "max-age=3600"})


@router.get("/browse/sweeps")
def sweeps_page(reader: ReaderDependency) -> Response:
    """List the sweeps."""
    rows = reader.compute_once(sweeps.list_sweeps)
    pager = reader.build_pager(len(rows))
    table = sweeps.build_sweeps_table(rows[ROWS_PER_PAGE * (pager["at"] - 1) : ROWS_PER_PAGE * pager["at"]])
    example = "qarena sweep agent@a=semi_random opening_plies=0,2,4 rules=classic,square games=20000"
    missing = f"There is no sweep in this archive. This is one: `{example} --archive {reader.root}`"
    summary = "Each sweep plays every combination of some settings." if rows else ""
    return reader.render_page(
        ARCHIVE_TEMPLATE, page=_build_list_page("Sweeps", table, missing), summary=summary, **pager
    )


@router.get("/browse/sweeps/{sweep_id}")
def sweep_page(reader: ReaderDependency, sweep_id: str) -> Response:
    """Show a sweep with its picture and its jobs."""
    return reader.render_page(ARCHIVE_TEMPLATE, page=reader.compute_once(sweeps.build_sweep_page, sweep_id))


@router.get("/browse/policies")
def policies_page(reader: ReaderDependency) -> Response:
    """List the policies."""
    table = reader.compute_once(build_policies_table)
    example = "qarena train trainer=rl_encoded trainer.games=10000 policy.name=mine"
    missing = f"There is no policy in this archive. This learns one while it plays: `{example} --archive {reader.root}`"
    summary = "Tables and genomes that were learned from games, here or elsewhere." if table.text_rows else ""
    return reader.render_page(ARCHIVE_TEMPLATE, page=_build_list_page("Policies", table, missing), summary=summary)


@router.get("/browse/policies/{policy}")
def policy_page(reader: ReaderDependency, policy: str) -> Response:
    """Show a policy with its origin and its learning curve."""
    return reader.render_page(ARCHIVE_TEMPLATE, page=reader.compute_once(build_policy_page, policy))
