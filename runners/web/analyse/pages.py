"""The board pages: a position with the exact value of each decision, a logged game, and the opening explorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from analytics.questions.columns import Table
from analytics.questions.logged_games import load_logged_game
from analytics.questions.openings import DECISION_KINDS, EMPTY_BOARD, OpeningsQuery, OpeningsResult
from analytics.questions.selection import GameFilter
from analytics.report.board_svg import render_animated_game_svg, render_boards_svg
from quarto.errors import RequestError
from quarto.game import NextDecision, list_attribute_words
from quarto.notation import CLASSIC_NAME, parse_piece
from quarto.rules import NONE
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.exercise_urls import build_url_of_exercise_at
from runners.web.analyse.line import (
    ANALYSE_PATH,
    SEARCH_SECONDS,
    AnalysisLine,
    format_game_position,
    parse_address_line,
    parse_game_line,
    parse_pasted_text,
    parse_start_position,
)
from runners.web.analyse.review import ReviewView, build_review_and_start_searches
from runners.web.analyse.searches import (
    AnalysisValues,
    ExplorerService,
    SearchService,
    SolvedPosition,
    read_annotated_values_for_seat_0,
    read_undamaged_evaluations,
)
from runners.web.archive import urls
from runners.web.archive.archive_page import FormField
from runners.web.archive.explorer import (
    DECIDERS,
    ExplorerResult,
    build_decisions_table,
    build_empty_result,
    explore_position_if_readable,
)
from runners.web.archive.games import find_neighbour_ids, format_ending
from runners.web.archive.runs import FilterNames
from runners.web.archive_reader import ArchiveReader, ReaderDependency, parse_number_or_default
from runners.web.background import PAGE_WAIT_SECONDS, BackgroundJob, find_compilation_counter
from runners.web.page_rendering import SEE_OTHER, find_error_status, render_page
from runners.web.site import build_style_policy_headers, find_site
from runners.web.tiles import strip_person_prefix

router = APIRouter()

EXAMPLE = "C@d2 B@a3 4@c2 0@b3 F@d3 3@a2 8@b4 E@c1 1@a1 6@d4 9@a4"
PICTURE_SUFFIX, SVG_TYPE = "/picture.svg", "image/svg+xml"
PictureKind = Literal["board", "boards", "moving"]  # the position, all boards of its line, an animation
GAME_ROUTE = "/browse/games/{run_id}/{game_id}"
OPENINGS_ROUTE = "/browse/openings"
EXACT_VIEW_KEYS = (  # values of the template that only exact values and logged games have
    *("heading", "value", "mistake", "exercise", "gifts", "turns", "best", "steps", "next_mistake", "previous_mistake"),
    *("searching", "stopped", "error", "losses", "evaluations", "review"),
)
POLL_HALF_SECONDS = 1  # half-seconds until a waiting page reloads itself


@router.get(ANALYSE_PATH)
def analysis_page(request: Request, text: str | None = None, rules: str = CLASSIC_NAME, piece: str = "") -> Response:
    """Show the position that the address describes, or the games and positions in a pasted text.

    A pasted ``text`` has a game or a position on each line; ``rules`` applies to lines that do not name rules. If the
    text has one line, the response redirects to the address of that line; if it has several, the page lets the user
    choose one. ``piece`` is the piece that the mover chose to place, or "".
    """
    site = find_site(request)
    choices = site.get_or_create_service(AgentsAndRules)
    if text is not None:
        return _render_pasted_text(request, text, rules, choices)
    line = parse_address_line(request.query_params, choices)
    return _render_analysis_page(request, line, _parse_piece_chosen_to_place(line, piece))


def _parse_piece_chosen_to_place(line: AnalysisLine, piece: str) -> int:
    """Return the piece that the mover chose to place, or NONE if no available piece was chosen.

    ``piece`` is the query parameter that names the piece, or "".
    """
    chosen = parse_piece(piece) if piece and line.game.next_decision is NextDecision.PLY else NONE
    return chosen if chosen in line.game.pieces_left else NONE


def _render_pasted_text(request: Request, text: str, rules: str, choices: AgentsAndRules) -> Response:
    pasted, error = [], ""
    try:
        pasted = parse_pasted_text(text, rules, choices)
    except RequestError as raised:
        error = str(raised)
    if len(pasted) == 1 and pasted[0].line is not None:
        return RedirectResponse(pasted[0].line.url, SEE_OTHER)
    return render_page(
        request,
        "analyse_choice.html",
        400 if error else 200,
        pasted=pasted,
        error=error,
        text=text,
        rules=rules,
        all_rules=choices.all_rules,
        example=EXAMPLE,
    )


@router.get(ANALYSE_PATH + PICTURE_SUFFIX)
def position_picture(request: Request, shows: PictureKind = "board") -> Response:
    """Send an SVG picture of the position that the address describes.

    ``shows`` selects the position's board (``board``), the board after each placement of the line (``boards``), or an
    animation of the line (``moving``).
    """
    return _render_svg_response(
        parse_address_line(request.query_params, find_site(request).get_or_create_service(AgentsAndRules)), shows
    )


@router.get(GAME_ROUTE + PICTURE_SUFFIX)
def game_picture(
    request: Request, reader: ReaderDependency, run_id: str, game_id: int, shows: PictureKind = "board"
) -> Response:
    """Send an SVG picture of a logged game.

    ``shows`` selects the board at the position that the address names (``board``), the board after each placement
    (``boards``), or an animation of the game (``moving``).
    """
    return _render_svg_response(
        parse_game_line(reader.compute_once(load_logged_game, run_id, game_id), request.query_params), shows
    )


def _render_svg_response(line: AnalysisLine, kind: str) -> Response:
    title = format_game_position(line.game)
    if kind == "moving":
        svg = render_animated_game_svg(line.games[-1], line.names, title, len(line.start.plies))
        return Response(svg, headers=build_style_policy_headers(svg), media_type=SVG_TYPE)
    games_after_placements = [game for game in line.games[1:] if game.hand == NONE] if kind == "boards" else []
    return Response(render_boards_svg(games_after_placements or [line.game], title), media_type=SVG_TYPE)


@router.get(GAME_ROUTE)
def game_page(request: Request, reader: ReaderDependency, run_id: str, game_id: int) -> Response:
    """Show a logged game on the analysis board, with the names of its players and its annotated values."""
    game = reader.compute_once(load_logged_game, run_id, game_id)
    neighbours = reader.compute_once(find_neighbour_ids, run_id, game_id)
    return _render_analysis_page(
        request,
        parse_game_line(game, request.query_params),
        NONE,
        reader,
        heading=tuple(strip_person_prefix(label) for label in game.agents),
        ending=format_ending(game.ending),
        result="A draw" if game.winner == NONE else f"{strip_person_prefix(game.agents[game.winner])} won",
        previous_game=None if neighbours.before is None else urls.game_url(run_id, neighbours.before),
        next_game=None if neighbours.after is None else urls.game_url(run_id, neighbours.after),
    )


@router.post(ANALYSE_PATH)
def stop_or_restart_line_searches(request: Request, command: Annotated[str, Form()]) -> Response:
    """Stop the searches of the line that the address describes, or restart the stopped ones.

    ``command`` is ``stop`` or ``again``.
    """
    return _stop_or_restart_searches(
        request,
        parse_address_line(request.query_params, find_site(request).get_or_create_service(AgentsAndRules)),
        command,
    )


@router.post(GAME_ROUTE)
def stop_or_restart_game_searches(
    request: Request, reader: ReaderDependency, run_id: str, game_id: int, command: Annotated[str, Form()]
) -> Response:
    """Stop the searches of a logged game, or restart the stopped ones.

    ``command`` is ``stop`` or ``again``.
    """
    game = reader.compute_once(load_logged_game, run_id, game_id)
    return _stop_or_restart_searches(
        request, parse_game_line(game, request.query_params), command, read_annotated_values_for_seat_0(reader, game)
    )


def _stop_or_restart_searches(
    request: Request, line: AnalysisLine, command: str, known_values: Mapping[int, int] = MappingProxyType({})
) -> Response:
    if command not in ("stop", "again"):
        raise RequestError(f"command {command[:40]!r} is not known: stop or again")
    for job in _find_or_start_searches(
        find_site(request).get_or_create_service(SearchService), line, known_values, restart_stopped=command == "again"
    ):
        if command == "stop":
            job.stop("you stopped it")
    return RedirectResponse(line.url, SEE_OTHER)


def _find_or_start_searches(
    search_service: SearchService, line: AnalysisLine, known_values: Mapping[int, int], restart_stopped: bool = False
) -> list[BackgroundJob]:
    """Return the jobs of the searches that a page about a line needs, and start the jobs that do not exist yet.

    The first job searches for the turns of the current position, unless the game is over; the last one searches for the
    values of the line's positions, unless the line is empty. ``known_values`` has the exact values for seat 0 that are
    known already; each key is the number of decisions before the position. If ``restart_stopped`` is true, stopped jobs
    are replaced by new ones.
    """
    jobs = (
        [search_service.find_or_start_values(line.games, line.seconds, restart_stopped, known_values)]
        if line.words
        else []
    )
    if line.game.next_decision is not NextDecision.NOTHING:
        jobs.insert(0, search_service.find_or_start_solution(line.game, line.seconds, restart_stopped))
    return jobs


def _render_analysis_page(
    request: Request, line: AnalysisLine, chosen_piece: int, reader: ArchiveReader | None = None, **other_values: Any
) -> Response:
    """Render the analysis page of a line, with the exact values known so far and the archive's games in this position.

    ``chosen_piece`` is the piece that the mover chose to place, or NONE. ``other_values`` are passed to the template
    too, and replace values of the same name.
    """
    site, over = find_site(request), line.game.next_decision is NextDecision.NOTHING
    annotated_values = read_annotated_values_for_seat_0(reader, line.logged) if reader and line.logged else {}
    jobs = _find_or_start_searches(site.get_or_create_service(SearchService), line, annotated_values)
    archive = (
        None
        if over
        else site.get_or_create_service(ExplorerService).find_or_start_exploration(format_game_position(line.game))
    )
    for job in (*jobs, *([archive] if archive else [])):
        job.wait(PAGE_WAIT_SECONDS)
    for job in jobs:
        if job.ended:
            job.get_result_or_raise_work_error()  # raises the exception of a failed search
    solved: SolvedPosition | None = None if over else jobs[0].latest
    values: AnalysisValues | None = jobs[-1].latest if line.words else None
    pending = [job for job in jobs if job.is_pending]
    solution = solved.solution if solved else None
    review: ReviewView | None = None
    if line.logged and over and line.words and not line.branch:
        review = build_review_and_start_searches(site.get_or_create_service(SearchService), line, annotated_values)
    mistakes = view.find_mistakes(line, values)
    earlier_mistakes, later_mistakes = [at for at in mistakes if at < line.at], [at for at in mistakes if at > line.at]
    template_values: dict[str, Any] = {
        "badges": view.build_exact_badges(line.game, solution),
        "sentence": view.describe_position(line, solution),
        "value": view.build_badge(solution.value, solution.distance) if solution else None,
        "gifts": view.describe_gifts(line.game, solved),
        "turns": view.build_turns_table(line, solved),
        "best": view.build_best_steps(line, solved),
        "steps": view.build_steps(line, values),
        "mistake": view.describe_next_decision_if_mistake(line, values),
        "exercise": build_url_of_exercise_at(line) if line.at in mistakes else "",
        "mistakes": len(mistakes),
        "losses": view.describe_mistakes_and_regret(line, values) if line.logged and not line.branch else "",
        "review": review,
        "evaluations": view.format_evaluation_polylines(
            line, read_undamaged_evaluations(reader, line.logged) if reader and line.logged else {}
        ),
        "next_mistake": line.with_position(later_mistakes[0]).url if later_mistakes else "",
        "previous_mistake": line.with_position(earlier_mistakes[-1]).url if earlier_mistakes else "",
        "searching": pending[0] if pending else None,
        "queued": bool(pending) and all(job.queued for job in pending),
        "stopped": next((job.reason for job in jobs if job.ended and job.stopped), ""),
        "longer": next((replace(line, seconds=seconds) for seconds in SEARCH_SECONDS if seconds > line.seconds), None),
        "compiling": bool(pending) and find_compilation_counter().active,
        "typed": not line.words and not line.start.plies,
        "refresh": POLL_HALF_SECONDS
        if pending or (review and review.searching) or (archive is not None and not archive.ended)
        else None,
    }
    return _render_board_page(
        request,
        line,
        chosen_piece,
        reader,
        _get_explorer_result_unless_running(archive),
        **(template_values | other_values),
    )


def _get_explorer_result_unless_running(exploration: BackgroundJob | None) -> ExplorerResult | None:
    """Return what the archive's games show about the position, or None while the archive is still being searched.

    ``exploration`` is the job of the search. If the game is over, it is None, and the result is empty.
    """
    if exploration is None:
        return build_empty_result("the game is over")
    if not exploration.ended:
        return None
    return (
        build_empty_result(exploration.reason) if exploration.stopped else exploration.get_result_or_raise_work_error()
    )


def _render_board_page(
    request: Request,
    line: AnalysisLine,
    chosen_piece: int,
    reader: ArchiveReader | None,
    explorer_result: ExplorerResult | None,
    status: int = 200,
    **values: Any,
) -> Response:
    """Render a page with the board, the pieces and the line of a position.

    If ``reader`` is given, the page is shown as one of the pages about the archive.
    """
    hand = line.game.hand if chosen_piece == NONE else chosen_piece
    cells, pieces = view.build_cell_and_piece_tiles(line, values.pop("badges"), chosen_piece)
    explored = explorer_result and explorer_result.explored
    template_values = {
        **dict.fromkeys(EXACT_VIEW_KEYS, ""),
        "line": line,
        "cells": cells,
        "pieces_left": pieces,
        "chosen": chosen_piece,
        "hand": hand,
        "words": [] if hand == NONE else list_attribute_words(hand),
        "next_decision": line.game.next_decision,
        "over": line.game.next_decision is NextDecision.NOTHING,
        "position": format_game_position(line.game),
        "start": format_game_position(line.start),
        "game": view.format_decisions_so_far(line),
        "picture": partial(_build_picture_url, line.url),
        "explorer_result": explorer_result,
        "played": explored and _build_decisions_table(line, explored),
        "decider": DECIDERS[explored.by] if explored else "the player who decides",
        "openings": urls.openings_url(format_game_position(line.game)),
        "all_rules": find_site(request).get_or_create_service(AgentsAndRules).all_rules,
        "example": EXAMPLE,
    }
    render = reader.render_page if reader else partial(render_page, request)
    return render("analyse.html", status, **(template_values | values))


def _build_decisions_table(line: AnalysisLine, explored: OpeningsResult) -> Table:
    """Build the table of the decisions that were made in the current position in archived games.

    The links in the table keep the page's filters.
    """
    filters = {**(line.filters or {}), "first": None}
    return build_decisions_table(
        explored,
        lambda word: line.with_decision(word).url,
        brief=line.filters is None,
        url_of_position=lambda position: urls.openings_url(position, **filters),
    )


def _build_picture_url(page_url: str, kind: str | None = None) -> str:
    path, _, query = page_url.partition("?")
    return urls.build_url(path + PICTURE_SUFFIX, {**dict(parse_qsl(query)), "shows": kind})


@router.get(OPENINGS_ROUTE)
def openings_page(
    request: Request, reader: ReaderDependency, position: str = "", rules: str = "", piece: str = ""
) -> Response:
    """Show, on the analysis board, the decisions made in a position in archived games, with their results."""
    fields, rules_by_name = (position or EMPTY_BOARD).split(), {row.rules: row.record.rules for row in reader.run_rows}
    default_name = fields[2] if len(fields) == 3 else CLASSIC_NAME if position else reader.default_rules
    if (name := rules or default_name) not in rules_by_name:
        raise RequestError(f"no games were played by rules {name!r} here, only by: {', '.join(rules_by_name)}")
    parameters = {key: value.strip() for key, value in request.query_params.items()}
    filters: dict[str, object] = {
        "by": parameters["by"] if parameters.get("by") in DECISION_KINDS else None,
        **{key: parameters.get(key, "") for key in ("agent", "opponent", "run", "since", "until")},
        "least": max(1, parse_number_or_default(parameters.get("least", ""), 1)),
        "imposed": parameters.get("imposed") == "yes",
        "first": parameters.get("first") == "yes",
    }
    text = " ".join(fields[:2])
    line = AnalysisLine(
        rules_by_name[name], parse_start_position(text, rules_by_name[name]), filters=_format_filters(filters)
    )
    explorer_result, error, status = build_empty_result("the game is over"), "", 200
    if line.game.next_decision is not NextDecision.NOTHING:
        try:
            explorer_result = reader.compute_once(
                explore_position_if_readable, _build_openings_query(format_game_position(line.game), filters)
            )
        except RequestError as raised:
            error, status = str(raised), find_error_status(raised)
    reader.snapshot.failed |= explorer_result.damaged
    return _render_board_page(
        request,
        line,
        _parse_piece_chosen_to_place(line, piece),
        reader,
        explorer_result,
        status,
        badges=view.build_share_and_score_badges(explorer_result.results),
        sentence=view.describe_position(line, None),
        error=error,
        filters=filters,
        fields=_build_form_fields(format_game_position(line.game), name, filters, reader.rules_and_agent_names),
    )


def _build_form_fields(
    position: str, rules: str, filters: Mapping[str, object], filter_names: FilterNames
) -> tuple[FormField, ...]:
    return (
        FormField("position", "Position", position, kind="whole"),
        FormField("agent", "Agent that decides", filters["agent"], "any", kind="agent"),
        FormField("opponent", "Opponent", filters["opponent"], "any", kind="agent"),
        FormField("run", "Run", filters["run"], "all runs"),
        FormField("rules", "Rules", rules, options=filter_names.rules),
        FormField("by", "Decision", filters["by"], "the next one", DECISION_KINDS),
        FormField("since", "Runs since", filters["since"], "2026-01-31"),
        FormField("until", "Runs until", filters["until"], "2026-12-31"),
        FormField("least", "Games, at least", filters["least"], kind="number"),
        FormField("imposed", "With imposed plies", filters["imposed"], kind="checkbox"),
        FormField("first", "First free decisions", filters["first"], kind="checkbox"),
    )


def _format_filters(filters: Mapping[str, object]) -> dict[str, object]:
    """Convert the filters of the opening explorer into query parameters of an address.

    The default values of ``imposed``, ``first`` and ``least`` become None, which an address leaves out.
    """
    yes_or_no = {
        "imposed": "yes" if filters["imposed"] else None,
        "first": "yes" if filters["first"] else None,
        "least": None if filters["least"] == 1 else filters["least"],
    }
    return {**filters, **yes_or_no}


def _build_openings_query(position: str, filters: Mapping[str, Any]) -> OpeningsQuery:
    agent, opponent, run, since, until = (
        filters[name] or None for name in ("agent", "opponent", "run", "since", "until")
    )
    games = GameFilter(runs=(run,) if run else (), agent=agent, opponent=opponent, since=since, until=until)
    first = filters["first"] or None
    return OpeningsQuery(position, filters["by"], games, filters["least"], filters["imposed"], first_free=first)
