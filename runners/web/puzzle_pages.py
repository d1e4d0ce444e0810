"""The puzzle pages: a position, links for the person's turn, and the solver's explanation of that turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.exact.puzzles import LEVELS, Puzzle, load_shipped_puzzles
from quarto.game import Game, NextDecision, game_from_position, list_attribute_words
from quarto.notation import CLASSIC_NAME, format_piece
from quarto.rules import NONE
from runners.exact.puzzle_dialogue import (
    describe_miss_rate,
    describe_task,
    describe_theme,
    describe_turn_consequences,
    describe_whether_turn_is_right,
    find_puzzle_by_number,
    is_right_turn,
)
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.line import DEFAULT_SEARCH_SECONDS, AnalysisLine, parse_decision_words
from runners.web.analyse.pages import POLL_HALF_SECONDS
from runners.web.analyse.searches import SearchService, SolvedPosition
from runners.web.archive import urls
from runners.web.background import PAGE_WAIT_SECONDS, BackgroundJob
from runners.web.page_rendering import redirect_to, render_page
from runners.web.site import Site, find_site

router = APIRouter()

PUZZLES_PATH = "/puzzles"
EASY_LEVEL = 3  # the highest level of a daily puzzle
DAILY_STEP = 101  # from one day's puzzle to the next; a prime, so that every easy puzzle has its day


@dataclass(frozen=True)
class PuzzleLine(AnalysisLine):
    """A puzzle with the decisions made in it so far: none, a cell, or a cell and a gift."""

    number: int = 0

    @property
    def url(self) -> str:
        """The address of the puzzle's page after these decisions."""
        return urls.build_url(f"{PUZZLES_PATH}/{self.number}", {"turn": ".".join(self.words)})


def find_daily_puzzle_number(day: date) -> int:
    """Return the number, counted from 1, of the puzzle for a day: an easy puzzle under the classic rules."""
    easy_numbers = [
        number
        for number, puzzle in enumerate(load_shipped_puzzles(), 1)
        if puzzle.level <= EASY_LEVEL and puzzle.rules == CLASSIC_NAME
    ]
    return easy_numbers[day.toordinal() * DAILY_STEP % len(easy_numbers)]


def build_daily_puzzle_view(request: Request) -> dict[str, object]:
    """Return the values with which the home page shows today's puzzle."""
    number = find_daily_puzzle_number(datetime.now(UTC).date())
    puzzle = load_shipped_puzzles()[number - 1]
    game = game_from_position(
        puzzle.position, find_site(request).get_or_create_service(AgentsAndRules).load_rules(puzzle.rules)
    )
    return {"number": number, "puzzle": puzzle, "board": game.board, "task": describe_task(puzzle)}


@router.get(PUZZLES_PATH)
def daily_puzzle_page() -> Response:
    """Redirect to today's puzzle."""
    return redirect_to(f"{PUZZLES_PATH}/{find_daily_puzzle_number(datetime.now(UTC).date())}")


@router.get(PUZZLES_PATH + "/{number}")
def puzzle_page(request: Request, number: int, turn: str = "", answer: bool = False) -> Response:
    """Show a puzzle, with the decisions made so far or with the solution.

    ``turn`` holds the decisions so far: a cell, or a cell and a gift. If ``answer`` is true, the page shows the
    solution.
    """
    site, puzzle = find_site(request), find_puzzle_by_number(load_shipped_puzzles(), number)
    choices = site.get_or_create_service(AgentsAndRules)
    rules = choices.load_rules(puzzle.rules)
    words = puzzle.turn.split() if answer else parse_decision_words(turn, "turn", 2)
    start = game_from_position(puzzle.position, rules)
    line = PuzzleLine(rules, start, tuple(words), at=len(words), number=number)
    over = len(words) == 2 or line.game.next_decision is NextDecision.NOTHING
    analysed = AnalysisLine(rules, start, tuple(words), at=len(words))
    verdict: dict[str, Any] = {"best": [], "missed": "", "theme": "", "searching": False, "stopped": ""}
    if over:
        verdict |= _build_verdict_view(site, puzzle, analysed, answer)
    else:
        placed = f"{format_piece(puzzle.position.hand)} goes to {words[0]}. Now give a piece." if words else ""
        verdict |= {"sentences": [placed or describe_task(puzzle)], "kind": ""}
    cells, pieces = view.build_cell_and_piece_tiles(analysed if over else line, verdict.pop("badges", {}), NONE)
    levels = {
        level: next(at for at, candidate in enumerate(load_shipped_puzzles(), 1) if candidate.level == level)
        for level in LEVELS
    }
    return render_page(
        request,
        "puzzle.html",
        number=number,
        last=len(load_shipped_puzzles()),
        puzzle=puzzle,
        about="" if puzzle.rules == CLASSIC_NAME else choices.all_rules[puzzle.rules],
        levels=levels,
        game=line.game,
        cells=cells,
        pieces_left=pieces,
        words=[] if line.game.hand == NONE else list_attribute_words(line.game.hand),
        chosen=words,
        over=over,
        analysis=analysed.url,
        **verdict,
    )


def _build_verdict_view(site: Site, puzzle: Puzzle, line: AnalysisLine, is_answer_shown: bool) -> dict[str, Any]:
    """Return the template values that say whether a finished turn is right, and what the solver has found so far.

    If ``is_answer_shown`` is true, the turn is the puzzle's solution, and the page says so instead of judging the turn.
    """
    after, right = line.game, is_right_turn(puzzle, line.game)
    sentences = [f"The answer is {puzzle.turn}." if is_answer_shown else describe_whether_turn_is_right(puzzle, after)]
    if after.next_decision is NextDecision.NOTHING:
        return {"sentences": sentences, "kind": "loss"}
    turns, replies = _find_or_start_searches(site.get_or_create_service(SearchService), line.start, after)
    reply: SolvedPosition | None = replies.latest
    if reply:
        solved: SolvedPosition | None = turns.latest
        sentences += describe_turn_consequences(puzzle, after, reply.solution, solved.solution.turns if solved else ())
    return {
        "sentences": sentences,
        "kind": "win" if right else "loss",
        "badges": view.build_exact_badges(after, reply.solution if reply else None),
        "best": view.build_best_steps(line, reply),
        "theme": describe_theme(puzzle) if right else "",
        "missed": describe_miss_rate(puzzle) if right else "",
        "refresh": POLL_HALF_SECONDS if not (turns.ended and replies.ended) else None,
        "searching": not (turns.ended and replies.ended),
        "stopped": next((job.reason for job in (turns, replies) if job.ended and job.stopped), ""),
    }


def _find_or_start_searches(search_service: SearchService, game_before: Game, game_after: Game) -> list[BackgroundJob]:
    """Return two jobs: the search for the turns in ``game_before``, and the search for the replies in ``game_after``.

    ``game_before`` is the game at the puzzle's position, and ``game_after`` the game after a turn. Jobs that do not
    exist yet are started. If a search has failed, its exception is raised.
    """
    jobs = [search_service.find_or_start_solution(game, DEFAULT_SEARCH_SECONDS) for game in (game_before, game_after)]
    for job in jobs:
        job.wait(PAGE_WAIT_SECONDS)
        if job.ended:
            job.get_result_or_raise_work_error()
    return jobs
