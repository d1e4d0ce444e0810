"""The pages of analysing: what was pasted, and every position in a line with the exact value of each decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from quarto.errors import RequestError
from quarto.notation import CLASSIC_NAME, parse_piece
from quarto.rules import NONE
from runners.play.game import NextDecision
from runners.play.wording import attributes
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.line import PATH, SECONDS, AnalysisLine, parse_line, text_of
from runners.web.analyse.reading import read_pasted
from runners.web.analyse.solving import SolvedPosition, Solving, Values
from runners.web.analyse.statistics import Found, Statistics
from runners.web.background import IDLE, MOMENT, BackgroundJob, compiling
from runners.web.pages import SEE_OTHER, page
from runners.web.settings import site_of

router = APIRouter()

EXAMPLE = "C@d2 B@a3 4@c2 0@b3 F@d3 3@a2 8@b4 E@c1 1@a1 6@d4 9@a4"
STOP = "/analyse/stop"
AGAIN = "/analyse/again"


@router.get(PATH)
def analysis(request: Request, text: str | None = None, rules: str = CLASSIC_NAME, piece: str = "") -> Response:
    """The position of an address. A pasted ``text`` leads to the address of its line, or to a choice among several."""
    site = site_of(request)
    choices = site.service(AgentsAndRules)
    if text is not None:
        return _pasted(request, text, rules, choices)
    line = parse_line(request.query_params, choices)
    chosen = parse_piece(piece) if piece and line.game.asked is NextDecision.PLY else NONE
    return _shown(request, line, chosen if chosen in line.game.left else NONE)


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


@router.post(STOP)
def stop(request: Request) -> Response:
    """Stop the searches of a line."""
    site = site_of(request)
    line = parse_line(request.query_params, site.service(AgentsAndRules))
    for job in _searches(site.service(Solving), line):
        job.stop("you stopped it")
    return RedirectResponse(line.url, SEE_OTHER)


@router.post(AGAIN)
def search_again(request: Request) -> Response:
    """Search on where searches of a line were stopped."""
    site = site_of(request)
    line = parse_line(request.query_params, site.service(AgentsAndRules))
    _searches(site.service(Solving), line, again=True)
    return RedirectResponse(line.url, SEE_OTHER)


def _searches(solving: Solving, line: AnalysisLine, again: bool = False) -> list[BackgroundJob]:
    jobs = [solving.values(line.games, line.seconds, again)] if line.words else []
    if line.game.asked is not NextDecision.NOTHING:
        jobs.insert(0, solving.solution(line.game, line.seconds, again))
    return jobs


def _shown(request: Request, line: AnalysisLine, chosen: int) -> Response:
    site = site_of(request)
    jobs = _searches(site.service(Solving), line)
    over = line.game.asked is NextDecision.NOTHING
    archive = None if over else site.service(Statistics).of(text_of(line.game))
    for job in (*jobs, *([archive] if archive else [])):
        job.wait(MOMENT)
    for job in jobs:
        if job.ended:
            job.result()  # raises what went wrong
    solved: SolvedPosition | None = None if over else jobs[0].latest
    values: Values | None = jobs[-1].latest if line.words else None
    pending = [job for job in jobs if not job.ended or job.reason == IDLE]  # for which this page asks again
    return page(
        request,
        "analyse.html",
        **_content(line, solved, values, chosen),
        found=_found(archive),
        asked=line.game.asked,
        over=over,
        searching=pending[0] if pending else None,
        queued=bool(pending) and all(job.queued for job in pending),
        stopped=next((job.reason for job in jobs if job.ended and job.stopped), ""),
        longer=next((replace(line, seconds=each) for each in SECONDS if each > line.seconds), None),
        again=line.url.replace(PATH, AGAIN, 1),
        compiling=bool(pending) and compiling().active,
        all_rules=site.service(AgentsAndRules).all_rules,
        example=EXAMPLE,
        stop=line.url.replace(PATH, STOP, 1),
        refresh=1 if pending or (archive is not None and not archive.ended) else None,
    )


def _content(line: AnalysisLine, solved: SolvedPosition | None, values: Values | None, chosen: int) -> dict[str, Any]:
    """The page's text about a position of a line."""
    solution = solved.solution if solved else None
    hand = line.game.hand if chosen == NONE else chosen
    cells, pieces = view.tiles(line, solution, chosen)
    wrong = view.mistakes(line, values)
    before, after = [at for at in wrong if at < line.at], [at for at in wrong if at > line.at]
    return {
        "line": line,
        "cells": cells,
        "pieces_left": pieces,
        "chosen": chosen,
        "hand": hand,
        "words": [] if hand == NONE else attributes(hand),
        "sentence": view.sentence(line, solution),
        "value": view.badge(solution.value, solution.distance) if solution else None,
        "gifts": view.gifts_text(line.game, solved),
        "turns": view.turns_of(line, solved),
        "steps": view.steps(line, values),
        "mistake": view.mistake_text(line, values),
        "mistakes": len(wrong),
        "next_mistake": line.stepped(after[0]).url if after else "",
        "previous_mistake": line.stepped(before[-1]).url if before else "",
        "position": text_of(line.game),
        "game": view.game_text(line),
    }


def _found(archive: BackgroundJob | None) -> Found | None:
    """The archive's answer; None while it is asked."""
    if archive is None:
        return Found(0, (), "the game is over")
    if not archive.ended:
        return None
    if archive.stopped:
        return Found(0, (), archive.reason)
    found: Found = archive.result()
    return found
