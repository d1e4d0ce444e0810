"""Exercises: any position in which one looks for a turn that keeps the value.

The pages of games lead from a mistake to its exercise. Unlike in a puzzle, several turns may be right, so the solver
judges the turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.game import Game, NextDecision
from quarto.notation import format_cell, format_piece, parse_position
from quarto.rules import NONE
from quarto.solver.solution import Solution, SolvedTurn, turn_sort_key
from runners.exact.puzzle_dialogue import describe_outcome
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse.exercise_urls import EXERCISE_PATH, build_exercise_url
from runners.web.analyse.line import (
    DEFAULT_SEARCH_SECONDS,
    AnalysisLine,
    parse_decision_words,
    parse_start_position,
)
from runners.web.analyse.searches import SearchService, SolvedPosition
from runners.web.background import BackgroundJob
from runners.web.page_rendering import render_page
from runners.web.puzzles.board import build_board_view, build_replies_view, build_search_view, find_or_start_searches
from runners.web.site import find_site

router = APIRouter()

BACK_PATHS = re.compile(r"/(?:analyse|browse/games|play)(?:[/?][!-~]{0,2000})?")  # of this server: no page elsewhere
GOALS = {1: "win", 0: "draw"}  # by the value of the position


@dataclass(frozen=True)
class ExerciseLine(AnalysisLine):
    """An exercise with the decisions made in it so far: none, a cell, or a cell and a gift."""

    back: str = ""  # address of the page that led here

    @property
    def url(self) -> str:
        """The address of the exercise after these decisions."""
        return build_exercise_url(self.start, self.back, turn=".".join(self.words))


@router.get(EXERCISE_PATH)
def exercise_page(request: Request, position: str, turn: str = "", answer: bool = False, back: str = "") -> Response:
    """Show an exercise, with the decisions made so far or with a turn that keeps the value.

    ``turn`` holds the decisions so far: a cell, or a cell and a gift. ``back`` is the page of a game that led here.
    """
    if back and not BACK_PATHS.fullmatch(back):
        raise RequestError(f"back={back[:40]!r} is not the page of a game on this server")
    site = find_site(request)
    start = _parse_exercise(position, site.get_or_create_service(AgentsAndRules))
    searches = site.get_or_create_service(SearchService)
    job = searches.find_or_start_solution(start, DEFAULT_SEARCH_SECONDS)
    solved: SolvedPosition | None = job.wait_for_latest()
    solution = solved.solution if solved and solved.solution.turns else None
    answer_words = min(solution.turns, key=turn_sort_key).text.split() if answer and solution else []
    words = answer_words or parse_decision_words(turn, "turn", 2)
    line = ExerciseLine(start.rules, start, tuple(words), at=len(words), back=back)
    is_over = len(words) == 2 or line.game.next_decision is NextDecision.NOTHING
    values: dict[str, Any] = {"badges": {}, "kind": "", "sentences": [_describe_task(line, solution)]}
    values |= build_search_view(job)
    if is_over:
        values |= _build_verdict_view(searches, line, solution, is_answer_shown=bool(answer_words))
    return render_page(
        request,
        "puzzles/exercise.html",
        **build_board_view(site, line, is_over=is_over, badges=values.pop("badges")) | values,
        back=back,
        again_url=build_exercise_url(start, back),
        answer_url=build_exercise_url(start, back, answer="yes"),
    )


def _parse_exercise(text: str, choices: AgentsAndRules) -> Game:
    """Parse the position of an exercise, and return the game that begins there.

    Raises ``RequestError`` for an invalid text, and for a position in which no piece is to be placed.
    """
    rules = choices.load_rules(parse_position(text)[1])
    start = parse_start_position(text, rules)
    if start.next_decision is not NextDecision.PLACEMENT:
        raise RequestError(f"position {text[:60]!r} is no exercise: it needs a piece in hand, and a game that goes on")
    return start


def _describe_task(line: AnalysisLine, solution: Solution | None) -> str:
    """Describe what to look for, and how many turns are right if the values of all turns are known."""
    hand = format_piece(line.start.hand)
    if line.words:
        return f"{hand} goes to {line.words[0]}. Now give a piece."
    if solution is None:
        return f"You place {hand} and give a piece. Find a turn that keeps the value."
    if solution.value < 0:
        return f"You place {hand} and give a piece. Every turn loses if the opponent plays perfectly."
    right = sum(turn.value == solution.value for turn in solution.turns)
    total = format_count_with_noun(len(solution.turns), "turn")
    goal = f"{GOALS[solution.value]}{'s' if right == 1 else ''}"
    return f"You place {hand} and give a piece. {right} of {total} {goal}."


def _find_turn(line: AnalysisLine, solution: Solution) -> SolvedTurn:
    """Return the solved turn that the decisions of the line make."""
    taken = line.game.plies[-1][1], line.game.hand
    return next(turn for turn in solution.turns if (turn.cell, turn.gift) == taken)


def _build_verdict_view(
    searches: SearchService, line: ExerciseLine, solution: Solution | None, *, is_answer_shown: bool
) -> dict[str, Any]:
    """Return the template values that judge a turn. Without ``solution``, they say that the solver is at work."""
    after = line.game
    name = f"{format_cell(after.plies[-1][1])} {'' if after.hand == NONE else format_piece(after.hand)}".strip()
    if solution is None:
        return {"sentences": [f"You chose {name}. The solver judges it as soon as it knows all turns."]}
    is_right = _find_turn(line, solution).value == solution.value
    judged = f"Right: {name} keeps the value." if is_right else f"Wrong: {name} does not {GOALS[solution.value]}."
    values: dict[str, Any] = {
        "sentences": [f"One answer is {name}." if is_answer_shown else judged],
        "kind": "win" if is_right else "loss",
        "outcome": "answer" if is_answer_shown else "right" if is_right else "wrong",
    }
    if after.next_decision is NextDecision.NOTHING:
        values["sentences"].append("It wins at once." if after.lines else "The board is full: a draw.")
        return values
    jobs: list[BackgroundJob] = find_or_start_searches(searches, line.start, after)
    reply: SolvedPosition | None = jobs[1].latest
    if reply:
        values["sentences"].append(describe_outcome(solution.value, after, reply.solution))
    return values | build_replies_view(line, reply, is_refuted=not is_right) | build_search_view(*jobs)
