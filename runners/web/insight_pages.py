"""Pages of questions, each with a picture and folded numbers: insights into all games, and the page of an agent.

The pictures of a large archive take longer to compute than a reader waits for a page. So a request computes answers
until its time is up. The page says which ones are still missing, and reloads itself until it has them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import INSIGHTS, Insight
from analytics.report.result import Result
from analytics.store.texts import format_count_with_noun
from quarto.errors import ArenaError, RequestError
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.archive import agents, urls
from runners.web.archive.archive_page import FormField
from runners.web.archive.sections import link_agents, select_reported_games
from runners.web.archive.table_views import TableView, list_tables, replace_tables
from runners.web.archive_reader import ArchiveReader, ReaderDependency, parse_zero_or_one_run_id
from runners.web.page_rendering import find_error_status
from runners.web.site import Site, find_site

router = APIRouter()

TEMPLATE = "questions.html"
SECONDS = 0.1  # of a request, after which no further answer is begun
RELOAD_SECONDS = 0.6  # until the page asks for the missing answers
YES_NO = ("yes", "no")
NO_LINKS: Mapping[str, str] = MappingProxyType({})
NO_ANSWER = Result()


class Question(NamedTuple):
    """A question of a page, and the function and its arguments that compute the answer."""

    slug: str
    title: str
    compute: Callable[..., Result]
    arguments: tuple[Hashable, ...]
    links: Mapping[str, str] = NO_LINKS  # where a reader can go on: addresses by name


class QuestionView(NamedTuple):
    """A question as a page shows it; ``section`` is None if it has not been computed yet."""

    slug: str
    title: str
    section: Result | None
    links: Mapping[str, str]
    is_sorted: bool = False  # the address asks for another order of one of its tables


def _answer_in_time(reader: ArchiveReader, questions: Sequence[Question]) -> list[QuestionView]:
    """Return the views of all questions, with the answers that are kept already and those for which there is time."""
    begun, time_is_up, views = time.monotonic(), False, list[QuestionView]()
    for question in questions:
        section = None
        if not time_is_up:
            section = reader.compute_once(_answer_with_pictures, question.compute, *question.arguments)
            time_is_up = time.monotonic() - begun > SECONDS
        views.append(QuestionView(question.slug, question.title, section, question.links))
    return views


def _answer_with_pictures(opened: OpenArchive, compute: Callable[..., Result], *arguments: Hashable) -> Result:
    """Return the answer to one question. Its pictures are rendered now, so that their time counts as this request's."""
    section = compute(opened, *arguments)
    for figure in section.figures:
        figure.svg  # noqa: B018  (rendered here)
    return section


def _render_questions(
    reader: ArchiveReader, views: Sequence[QuestionView], status: int = 200, **values: Any
) -> Response:
    has_pending = any(view.section is None for view in views)
    common_values = {"lead": "", "links": NO_LINKS, "refresh": RELOAD_SECONDS if has_pending else None}
    arranged = _arrange_tables(reader.table_view, views)
    return reader.render_page(TEMPLATE, status, views=arranged, **(common_values | values))


def _arrange_tables(table_view: TableView, views: Sequence[QuestionView]) -> list[QuestionView]:
    """Return the views with tables whose headings sort them, in the order that the address asks for.

    The tables of a page are numbered. The numbers do not change while answers are missing, because the first answers
    come first.
    """
    sections = [view.section or NO_ANSWER for view in views]
    counts = [len(list_tables(section)) for section in sections]
    ends = [*accumulate(counts)]
    arranged = replace_tables(sections, table_view.arrange)
    number = table_view.order.table if table_view.order else -1
    return [
        view._replace(section=view.section and section, is_sorted=end - count <= number < end)
        for view, section, count, end in zip(views, arranged, counts, ends, strict=True)
    ]


# Insights.

# Where a reader who has seen the picture can go on, by the slug of the insight: name and path of the page.
NEXT_PAGES = {
    "lengths": ("The longest games", f"{urls.BROWSE}/games"),
    "placements": ("All openings", f"{urls.BROWSE}/openings"),
    "gifts": ("All openings", f"{urls.BROWSE}/openings"),
    "evaluations": ("Mistakes, by exact values", urls.results_url("mistakes")),
    "learning": ("All policies", f"{urls.BROWSE}/policies"),
}


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
    game_filter = GameFilter(
        runs=parse_zero_or_one_run_id(run), rules=rules or None, agent=agent or None, trainings=trainings != "no"
    )
    filters = (
        FormField("rules", "Rules", rules, "" if rules else "those of the run", reader.rules_and_agent_names.rules),
        FormField("agent", "Agent", agent, "all together", kind="agent"),
        FormField("run", "Run", run, "all runs"),
        FormField("trainings", "Runs of trainings", "yes" if game_filter.trainings else "no", options=YES_NO),
    )
    summary, error, status, views = "", "", 200, list[QuestionView]()
    try:
        summary = reader.compute_once(_describe_games, game_filter)
        views = _answer_in_time(reader, _list_insights(game_filter))
    except RequestError as raised:
        error, status = raised.for_command_line, find_error_status(raised)
    return _render_questions(
        reader, views, status, title="Insights", filters=filters, error=error, summary=summary, typed=True
    )


def _list_insights(game_filter: GameFilter) -> list[Question]:
    query = {
        "rules": game_filter.rules,
        "run": next(iter(game_filter.runs), None),
        "agent": game_filter.agent,
        "trainings": None if game_filter.trainings else "no",
    }
    questions = []
    for insight in INSIGHTS:
        name, path = NEXT_PAGES[insight.slug]
        order = "longest" if insight.slug == "lengths" else None
        url = path if insight.slug == "learning" else urls.build_url(path, {**query, "order": order})
        questions.append(Question(insight.slug, insight.question, _build_insight, (insight, game_filter), {name: url}))
    return questions


def _describe_games(opened: OpenArchive, game_filter: GameFilter) -> str:
    data = select_reported_games(opened, game_filter)
    games, runs = data.selection.games, len(data.records)
    subject = f"run `{game_filter.runs[0]}`" if game_filter.runs else f"{game_filter.rules} rules"
    about = f"; about {game_filter.agent} alone" if game_filter.agent else ""
    trainings = "" if game_filter.trainings or game_filter.runs else "; without runs of trainings"
    counts = f"{format_count_with_noun(games, 'game')} of {format_count_with_noun(runs, 'run')}"
    return f"{counts}, {subject}{trainings}{about}"


def _build_insight(opened: OpenArchive, insight: Insight, game_filter: GameFilter) -> Result:
    data = replace(select_reported_games(opened, game_filter), agent=game_filter.agent)
    section = insight.build_overview(data)
    return replace(section, table=link_agents(section.table, data.records.values()))


# The page of an agent.

AGENT_QUESTIONS = (
    ("form", "Form over time", agents.build_form_section),
    ("regret", "Regret by ply", agents.build_regret_section),
    ("opponents", "Whom it beats", agents.build_opponents_section),
    ("openings", "Best and worst openings", agents.build_openings_section),
    ("mistakes", "Its largest mistakes", agents.build_own_mistakes_section),
)


@router.get(f"{urls.BROWSE}/agent")
def named_agent_page(request: Request, reader: ReaderDependency, agent: str = "", rules: str = "") -> Response:
    """Show the page of an agent: its rating, form, opponents, openings, regret and mistakes.

    ``rules`` limits the page to the named rules.
    """
    header = reader.compute_once(agents.build_agent_header, agent, rules)
    questions = [Question(slug, title, compute, (agent, header.rules)) for slug, title, compute in AGENT_QUESTIONS]
    views = _answer_in_time(reader, questions)
    regret = next(view.section for view in views if view.slug == "regret")
    if regret is not None and regret.missing:  # it says how decisions are judged, which mistakes need, too
        views = [view for view in views if view.slug != "mistakes"]
    can_play = find_site(request).get_or_create_service(PlayableAgents).is_playable(agent)
    play = {"Play it": urls.build_url("/play", {"agent": agent, "rules": header.rules})} if can_play else {}
    return _render_questions(reader, views, title=agent, lead=header.lead, links={**play, **header.links})


class PlayableAgents:
    """Which agents of the archive can be played against here: no people, and no labels that name no agent here."""

    def __init__(self, site: Site) -> None:
        self._agents = site.get_or_create_service(AgentsAndRules)
        self._is_playable: dict[str, bool] = {}

    def is_playable(self, label: str) -> bool:
        """Return whether a game against the agent with this label can begin."""
        if label not in self._is_playable:
            try:
                self._agents.load_agent(label)
            except ArenaError:
                return False  # not kept, because the policy that the label names may come
            self._is_playable[label] = True
        return self._is_playable[label]
