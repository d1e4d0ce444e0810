"""The puzzle pages: the list of puzzles; a puzzle with links for a turn, and the solver's explanation of that turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.exact.puzzle_themes import ANY_PUZZLE, PuzzleFilter
from analytics.exact.puzzles import LEVELS, Puzzle, load_shipped_puzzles
from quarto.errors import NotFoundError
from quarto.game import NextDecision, game_from_position
from quarto.notation import CLASSIC_NAME, format_piece
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
from runners.web.analyse.line import AnalysisLine, parse_decision_words
from runners.web.analyse.searches import SearchService, SolvedPosition
from runners.web.page_rendering import redirect_to, render_page
from runners.web.puzzles.board import build_board_view, build_replies_view, build_search_view, find_or_start_searches
from runners.web.puzzles.puzzle_set import (
    PUZZLES_PATH,
    PuzzleSet,
    WantedPuzzles,
    build_overview_url,
    build_puzzle_url,
    describe_filter,
    format_order,
    group_links_by_level,
    sort_from_next,
)
from runners.web.site import Site, find_site

router = APIRouter()

EASY_LEVEL = 3  # the highest level of a daily puzzle
DAILY_STEP = 101  # from one day's puzzle to the next; a prime, so that every easy puzzle has its day


@dataclass(frozen=True)
class PuzzleLine(AnalysisLine):
    """A puzzle with the decisions made in it so far: none, a cell, or a cell and a gift."""

    number: int = 0
    wanted: PuzzleFilter = ANY_PUZZLE  # selects the puzzles that follow

    @property
    def url(self) -> str:
        """The address of the puzzle's page after these decisions."""
        return build_puzzle_url(self.number, self.wanted, turn=".".join(self.words))


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
def puzzles_page(request: Request, wanted: WantedPuzzles) -> Response:
    """List the puzzles that meet a filter, and count all puzzles by theme and level."""
    puzzle_set = find_site(request).get_or_create_service(PuzzleSet)
    selected = puzzle_set.select(wanted)
    return render_page(
        request,
        "puzzles/index.html",
        wanted=wanted,
        selection=describe_filter(wanted),
        theme_rows=puzzle_set.build_theme_rows(wanted),
        levels=LEVELS,
        links_by_level=group_links_by_level(selected, wanted),
        first_url=build_puzzle_url(selected[0].number, wanted),
        order=format_order(selected),
        overview_url=build_overview_url(wanted),
        all_ids=puzzle_set.ids,
        last=len(puzzle_set.puzzles),
    )


@router.get(PUZZLES_PATH + "/today")
def daily_puzzle_page() -> Response:
    """Redirect to today's puzzle."""
    return redirect_to(f"{PUZZLES_PATH}/{find_daily_puzzle_number(datetime.now(UTC).date())}")


@router.get(PUZZLES_PATH + "/id/{puzzle_id}")
def permanent_puzzle_page(request: Request, puzzle_id: str) -> Response:
    """Redirect to the puzzle with this id, which does not change if the puzzle's number does."""
    for numbered in find_site(request).get_or_create_service(PuzzleSet).puzzles:
        if numbered.puzzle_id == puzzle_id:
            return redirect_to(f"{PUZZLES_PATH}/{numbered.number}")
    raise NotFoundError(f"this set has no puzzle with the id {puzzle_id[:40]!r}")


@router.get(PUZZLES_PATH + "/{number}")
def puzzle_page(request: Request, number: int, wanted: WantedPuzzles, turn: str = "", answer: bool = False) -> Response:
    """Show a puzzle, with the decisions made so far or with the solution.

    ``turn`` holds the decisions so far: a cell, or a cell and a gift. If ``answer`` is true, the page shows the
    solution.
    """
    site, puzzle = find_site(request), find_puzzle_by_number(load_shipped_puzzles(), number)
    rules = site.get_or_create_service(AgentsAndRules).load_rules(puzzle.rules)
    words = puzzle.turn.split() if answer else parse_decision_words(turn, "turn", 2)
    start = game_from_position(puzzle.position, rules)
    line = PuzzleLine(rules, start, tuple(words), at=len(words), number=number, wanted=wanted)
    over = len(words) == 2 or line.game.next_decision is NextDecision.NOTHING
    verdict = dict[str, Any]()
    if over:
        verdict |= _build_verdict_view(site, puzzle, line, answer)
    else:
        placed = f"{format_piece(puzzle.position.hand)} goes to {words[0]}. Now give a piece." if words else ""
        verdict |= {"sentences": [placed or describe_task(puzzle)], "kind": ""}
    values = build_board_view(site, line, is_over=over, badges=verdict.pop("badges", {})) | verdict
    return render_page(
        request, "puzzles/puzzle.html", puzzle=puzzle, **_build_place_in_set(site, number, wanted), **values
    )


def _build_place_in_set(site: Site, number: int, wanted: PuzzleFilter) -> dict[str, Any]:
    """Return the template values on a puzzle's place among the puzzles that meet a filter."""
    puzzle_set = site.get_or_create_service(PuzzleSet)
    selected = puzzle_set.select(wanted)
    others = sort_from_next(selected, number)
    numbers = [numbered.number for numbered in selected]
    return {
        "number": number,
        "last": len(puzzle_set.puzzles),
        "puzzle_id": puzzle_set.puzzles[number - 1].puzzle_id,
        "all_ids": puzzle_set.ids,
        "wanted": wanted,
        "selection": describe_filter(wanted),
        "selected_count": len(selected),
        "place": numbers.index(number) + 1 if number in numbers else None,
        "order": format_order(others),
        "next_url": build_puzzle_url(others[0].number, wanted) if others and others[0].number > number else "",
        "again_url": build_puzzle_url(number, wanted),
        "answer_url": build_puzzle_url(number, wanted, answer="yes"),
        "overview_url": build_overview_url(wanted),
    }


def _build_verdict_view(site: Site, puzzle: Puzzle, line: AnalysisLine, is_answer_shown: bool) -> dict[str, Any]:
    """Return the template values that say whether a finished turn is right, and what the solver has found so far.

    If ``is_answer_shown`` is true, the turn is the puzzle's solution, and the page says so instead of judging the turn.
    """
    after, right = line.game, is_right_turn(puzzle, line.game)
    sentences = [f"The answer is {puzzle.turn}." if is_answer_shown else describe_whether_turn_is_right(puzzle, after)]
    outcome = "answer" if is_answer_shown else "right" if right else "wrong"
    if after.next_decision is NextDecision.NOTHING:
        return {"sentences": sentences, "kind": "loss", "outcome": outcome}
    turns, replies = find_or_start_searches(site.get_or_create_service(SearchService), line.start, after)
    reply: SolvedPosition | None = replies.latest
    if reply:
        solved: SolvedPosition | None = turns.latest
        sentences += describe_turn_consequences(puzzle, after, reply.solution, solved.solution.turns if solved else ())
    if right:
        sentences.append(f"{describe_theme(puzzle, after.rules)} {describe_miss_rate(puzzle)}")
    return {
        "sentences": sentences,
        "kind": "win" if right else "loss",
        "outcome": outcome,
        **build_replies_view(line, reply, is_refuted=not right),
        **build_search_view(turns, replies),
    }
