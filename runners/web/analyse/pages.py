"""The board: positions with the exact value of each decision, logged games, and what was played in a position."""

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

from analytics.questions.openings import BY, EMPTY_BOARD, OpeningsQuery
from analytics.questions.selection import GameFilter
from quarto.errors import RequestError
from quarto.notation import CLASSIC_NAME, parse_piece
from quarto.rules import NONE
from runners.play.game import NextDecision, attributes
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.line import (
    PATH,
    SECONDS,
    AnalysisLine,
    line_of_game,
    parse_line,
    read_pasted,
    start_of,
    text_of,
)
from runners.web.analyse.solving import PlayedHere, SolvedPosition, Solving, Values, known_thoughts, known_values
from runners.web.archive import links
from runners.web.archive.archive_page import Field
from runners.web.archive.explorer import DECIDERS, Found, found_in, nothing, played_table
from runners.web.archive.games import logged_game, neighbours
from runners.web.archive.pictures import boards_svg, moving_svg
from runners.web.archive.runs import Known
from runners.web.archive_pages import ArchiveReader, Reading, whole
from runners.web.background import IDLE, MOMENT, BackgroundJob, compiling
from runners.web.pages import SEE_OTHER, page, status_of
from runners.web.site import allowing_style, site_of
from runners.web.tiles import player_name

router = APIRouter()

EXAMPLE = "C@d2 B@a3 4@c2 0@b3 F@d3 3@a2 8@b4 E@c1 1@a1 6@d4 9@a4"
PICTURE, SVG = "/picture.svg", "image/svg+xml"
Shows = Literal["board", "boards", "moving"]  # of a picture
GAME = "/browse/games/{run_id}/{game_id}"
OPENINGS = "/browse/openings"
EXACT = (  # what the template reads of exact values and of a logged game
    *("heading", "value", "mistake", "gifts", "turns", "best", "steps", "next_mistake", "previous_mistake"),
    *("searching", "stopped", "error", "losses", "thoughts"),
)
POLLED = 1  # half-seconds until a page that waits loads itself again


@router.get(PATH)
def analysis(request: Request, text: str | None = None, rules: str = CLASSIC_NAME, piece: str = "") -> Response:
    """The position of an address. A pasted ``text`` leads to the address of its line, or to a choice among several."""
    site = site_of(request)
    choices = site.service(AgentsAndRules)
    if text is not None:
        return _pasted(request, text, rules, choices)
    line = parse_line(request.query_params, choices)
    return _shown(request, line, _chosen(line, piece))


def _chosen(line: AnalysisLine, piece: str) -> int:
    """The piece to place, where the mover chooses one first; NONE before that."""
    chosen = parse_piece(piece) if piece and line.game.asked is NextDecision.PLY else NONE
    return chosen if chosen in line.game.left else NONE


def _pasted(request: Request, text: str, rules: str, choices: AgentsAndRules) -> Response:
    pasted, error = [], ""
    try:
        pasted = read_pasted(text, rules, choices)
    except RequestError as raised:
        error = str(raised)
    if len(pasted) == 1 and pasted[0].line is not None:
        return RedirectResponse(pasted[0].line.url, SEE_OTHER)
    return page(
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


@router.get(PATH + PICTURE)
def picture(request: Request, shows: Shows = "board") -> Response:
    """The position of an address as SVG, its line board by board, or as it is played."""
    return _picture(parse_line(request.query_params, site_of(request).service(AgentsAndRules)), shows)


@router.get(GAME + PICTURE)
def picture_of_game(request: Request, reader: Reading, run_id: str, game_id: int, shows: Shows = "board") -> Response:
    """The same for a logged game."""
    return _picture(line_of_game(reader.ask(logged_game, run_id, game_id), request.query_params), shows)


def _picture(line: AnalysisLine, shows: str) -> Response:
    title = text_of(line.game)
    if shows == "moving":
        svg = moving_svg(line.games[-1], line.names, title, len(line.start.plies))
        return Response(svg, headers=allowing_style(svg), media_type=SVG)
    placed = [each for each in line.games[1:] if each.hand == NONE] if shows == "boards" else []
    return Response(boards_svg(placed or [line.game], title), media_type=SVG)


@router.get(GAME)
def game_page(request: Request, reader: Reading, run_id: str, game_id: int) -> Response:
    """A logged game: the same board with the names of its players, and the values that are annotated."""
    game = reader.ask(logged_game, run_id, game_id)
    before, after = reader.ask(neighbours, run_id, game_id)
    return _shown(
        request,
        line_of_game(game, request.query_params),
        NONE,
        reader,
        heading=tuple(player_name(each) for each in game.agents),
        result="A draw" if game.winner == NONE else f"{player_name(game.agents[game.winner])} won",
        previous_game=None if before is None else links.game_page(run_id, before),
        next_game=None if after is None else links.game_page(run_id, after),
    )


@router.post(PATH)
def command(request: Request, command: Annotated[str, Form()]) -> Response:
    """Stop the searches of a line, or search on."""
    return _carried_out(request, parse_line(request.query_params, site_of(request).service(AgentsAndRules)), command)


@router.post(GAME)
def command_in_game(
    request: Request, reader: Reading, run_id: str, game_id: int, command: Annotated[str, Form()]
) -> Response:
    """The same for a logged game."""
    game = reader.ask(logged_game, run_id, game_id)
    return _carried_out(request, line_of_game(game, request.query_params), command, known_values(reader, game))


def _carried_out(
    request: Request, line: AnalysisLine, command: str, known: Mapping[int, int] = MappingProxyType({})
) -> Response:
    if command not in ("stop", "again"):
        raise RequestError(f"command {command[:40]!r} is not known: stop or again")
    for job in _searches(site_of(request).service(Solving), line, known, again=command == "again"):
        if command == "stop":
            job.stop("you stopped it")
    return RedirectResponse(line.url, SEE_OTHER)


def _searches(
    solving: Solving, line: AnalysisLine, known: Mapping[int, int], again: bool = False
) -> list[BackgroundJob]:
    """The search for the turns of what is shown, unless the game is over, and that for the values of the line."""
    jobs = [solving.values(line.games, line.seconds, again, known)] if line.words else []
    if line.game.asked is not NextDecision.NOTHING:
        jobs.insert(0, solving.solution(line.game, line.seconds, again))
    return jobs


def _shown(
    request: Request, line: AnalysisLine, chosen: int, reader: ArchiveReader | None = None, **others: Any
) -> Response:
    """The board with exact values, and what the archive knows about the position."""
    site, over = site_of(request), line.game.asked is NextDecision.NOTHING
    known = known_values(reader, line.logged) if reader and line.logged else {}
    jobs = _searches(site.service(Solving), line, known)
    archive = None if over else site.service(PlayedHere).of(text_of(line.game))
    for job in (*jobs, *([archive] if archive else [])):
        job.wait(MOMENT)
    for job in jobs:
        if job.ended:
            job.result()  # raises what went wrong
    solved: SolvedPosition | None = None if over else jobs[0].latest
    values: Values | None = jobs[-1].latest if line.words else None
    pending = [job for job in jobs if not job.ended or job.reason == IDLE]  # for which this page asks again
    solution = solved.solution if solved else None
    wrong = view.mistakes(line, values)
    before, after = [at for at in wrong if at < line.at], [at for at in wrong if at > line.at]
    shown: dict[str, Any] = {
        "badges": view.exact_badges(line.game, solution),
        "sentence": view.sentence(line, solution),
        "value": view.badge(solution.value, solution.distance) if solution else None,
        "gifts": view.gifts_text(line.game, solved),
        "turns": view.turns_of(line, solved),
        "best": view.best_steps(line, solved),
        "steps": view.steps(line, values),
        "mistake": view.mistake_text(line, values),
        "mistakes": len(wrong),
        "losses": view.losses(line, values),
        "thoughts": view.thought_lines(line, known_thoughts(reader, line.logged) if reader and line.logged else {}),
        "next_mistake": line.stepped(after[0]).url if after else "",
        "previous_mistake": line.stepped(before[-1]).url if before else "",
        "searching": pending[0] if pending else None,
        "queued": bool(pending) and all(job.queued for job in pending),
        "stopped": next((job.reason for job in jobs if job.ended and job.stopped), ""),
        "longer": next((replace(line, seconds=each) for each in SECONDS if each > line.seconds), None),
        "compiling": bool(pending) and compiling().active,
        "typed": not line.words and not line.start.plies,
        "refresh": POLLED if pending or (archive is not None and not archive.ended) else None,
    }
    return _board(request, line, chosen, reader, _found(archive), **(shown | others))


def _found(archive: BackgroundJob | None) -> Found | None:
    """The archive's answer; None while it is asked."""
    if archive is None:
        return nothing("the game is over")
    if not archive.ended:
        return None
    return nothing(archive.reason) if archive.stopped else archive.result()


def _board(
    request: Request,
    line: AnalysisLine,
    chosen: int,
    reader: ArchiveReader | None,
    found: Found | None,
    status: int = 200,
    **values: Any,
) -> Response:
    """The page of a position: its board, its pieces and its line. ``reader``: it is among the pages of the archive."""
    hand = line.game.hand if chosen == NONE else chosen
    cells, pieces = view.tiles(line, values.pop("badges"), chosen)
    explored, brief = found and found.explored, line.filters is None
    known = {
        **dict.fromkeys(EXACT, ""),
        "line": line,
        "cells": cells,
        "pieces_left": pieces,
        "chosen": chosen,
        "hand": hand,
        "words": [] if hand == NONE else attributes(hand),
        "asked": line.game.asked,
        "over": line.game.asked is NextDecision.NOTHING,
        "position": text_of(line.game),
        "game": view.game_text(line),
        "picture": partial(_picture_url, line.url),
        "found": found,
        "played": explored and played_table(explored, lambda word: line.chosen(word).url, brief),
        "decider": DECIDERS[explored.by] if explored else "the player who decides",
        "openings": links.openings_page(text_of(line.game)),
        "all_rules": site_of(request).service(AgentsAndRules).all_rules,
        "example": EXAMPLE,
    }
    shown = reader.page if reader else partial(page, request)
    return shown("analyse.html", status, **(known | values))


def _picture_url(page_url: str, shows: str | None = None) -> str:
    path, _, query = page_url.partition("?")
    return links.address(path + PICTURE, {**dict(parse_qsl(query)), "shows": shows})


@router.get(OPENINGS)
def openings(request: Request, reader: Reading, position: str = "", rules: str = "", piece: str = "") -> Response:
    """The decisions that the archive's games made in a position, with their results on the same board."""
    fields, known = (position or EMPTY_BOARD).split(), {row.rules: row.record.rules for row in reader.rows}
    named = fields[2] if len(fields) == 3 else CLASSIC_NAME if position else reader.usual_rules
    if (name := rules or named) not in known:
        raise RequestError(f"no games were played by rules {name!r} here, only by: {', '.join(known)}")
    given = {key: value.strip() for key, value in request.query_params.items()}
    filters: dict[str, object] = {
        "by": given["by"] if given.get("by") in BY else None,
        **{key: given.get(key, "") for key in ("agent", "opponent", "run", "since", "until")},
        "least": max(1, whole(given.get("least", ""), 1)),
        "imposed": given.get("imposed") == "yes",
    }
    text = " ".join(fields[:2])
    line = AnalysisLine(known[name], start_of(text, known[name]), filters=_given(filters))
    found, error, status = nothing("the game is over"), "", 200
    if line.game.asked is not NextDecision.NOTHING:
        try:
            found = reader.ask(found_in, _query(text_of(line.game), filters))
        except RequestError as raised:
            error, status = str(raised), status_of(raised)
    reader.content.failed |= found.damaged
    return _board(
        request,
        line,
        _chosen(line, piece),
        reader,
        found,
        status,
        badges=view.played_badges(found.played),
        sentence=view.sentence(line, None),
        error=error,
        filters=filters,
        fields=_fields(text_of(line.game), name, filters, reader.known),
    )


def _fields(position: str, rules: str, filters: Mapping[str, object], known: Known) -> tuple[Field, ...]:
    return (
        Field("position", "Position", position, kind="whole"),
        Field("agent", "Agent that decides", filters["agent"], "any", kind="agent"),
        Field("opponent", "Opponent", filters["opponent"], "any", kind="agent"),
        Field("run", "Run", filters["run"], "all runs"),
        Field("rules", "Rules", rules, options=known.rules),
        Field("by", "Decision", filters["by"], "the next one", BY),
        Field("since", "Runs since", filters["since"], "2026-01-31"),
        Field("until", "Runs until", filters["until"], "2026-12-31"),
        Field("least", "At least games", filters["least"], kind="number"),
        Field("imposed", "With imposed plies", filters["imposed"], kind="checkbox"),
    )


def _given(filters: Mapping[str, object]) -> dict[str, object]:
    """The filters as an address has them: without those that choose everything."""
    yes_or_no = {
        "imposed": "yes" if filters["imposed"] else None,
        "least": None if filters["least"] == 1 else filters["least"],
    }
    return {**filters, **yes_or_no}


def _query(text: str, filters: Mapping[str, Any]) -> OpeningsQuery:
    agent, opponent, run, since, until = (
        filters[name] or None for name in ("agent", "opponent", "run", "since", "until")
    )
    games = GameFilter(runs=(run,) if run else (), agent=agent, opponent=opponent, since=since, until=until)
    return OpeningsQuery(text, filters["by"], games, filters["least"], filters["imposed"])
