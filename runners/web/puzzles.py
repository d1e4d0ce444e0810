"""The pages of puzzles: a position, the person's turn as links, and the solver's explanation of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.exact.puzzles import LEVELS, Puzzle, shipped
from quarto.notation import CLASSIC_NAME, format_piece
from quarto.rules import NONE
from runners.exact.puzzle_solving import explanation, is_right, missed, puzzle_numbered, task, theme, verdict
from runners.play.game import Game, NextDecision, attributes, game_at
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.line import USUAL_SECONDS, AnalysisLine, words_in
from runners.web.analyse.pages import POLLED
from runners.web.analyse.solving import SolvedPosition, Solving
from runners.web.archive import links
from runners.web.background import MOMENT, BackgroundJob
from runners.web.pages import go_to, page
from runners.web.site import Site, site_of

router = APIRouter()

PATH = "/puzzles"
EASY_LEVEL = 3  # of the puzzle of a day, at most
STEP = 101  # from one day's puzzle to the next: a prime, so that all have their day


@dataclass(frozen=True)
class PuzzleLine(AnalysisLine):
    """A puzzle and what was decided in it: a cell, and then a gift."""

    number: int = 0

    @property
    def url(self) -> str:
        return links.address(f"{PATH}/{self.number}", {"turn": ".".join(self.words)})


def number_of_day(day: date) -> int:
    """The number of the puzzle that the first page shows on a day: not a hard one, and by the rules that all know."""
    easy = [at for at, each in enumerate(shipped(), 1) if each.level <= EASY_LEVEL and each.rules == CLASSIC_NAME]
    return easy[day.toordinal() * STEP % len(easy)]


def puzzle_of_day(request: Request) -> dict[str, object]:
    """The puzzle of today, as the first page shows it."""
    number = number_of_day(datetime.now(UTC).date())
    puzzle = shipped()[number - 1]
    game = game_at(puzzle.position, site_of(request).service(AgentsAndRules).rules(puzzle.rules))
    return {"number": number, "puzzle": puzzle, "board": game.board, "task": task(puzzle)}


@router.get(PATH)
def first_puzzle() -> Response:
    """The puzzle of the day."""
    return go_to(f"{PATH}/{number_of_day(datetime.now(UTC).date())}")


@router.get(PATH + "/{number}")
def puzzle_page(request: Request, number: int, turn: str = "", answer: bool = False) -> Response:
    """A puzzle. ``turn`` is what was decided, a cell or a cell and a gift; ``answer`` shows the only turn."""
    site, puzzle = site_of(request), puzzle_numbered(shipped(), number)
    known = site.service(AgentsAndRules)
    rules = known.rules(puzzle.rules)
    words = puzzle.turn.split() if answer else words_in(turn, "turn", 2)
    start = game_at(puzzle.position, rules)
    line = PuzzleLine(rules, start, tuple(words), at=len(words), number=number)
    over = len(words) == 2 or line.game.asked is NextDecision.NOTHING
    analysed = AnalysisLine(rules, start, tuple(words), at=len(words))
    shown: dict[str, Any] = {"best": [], "missed": "", "theme": "", "searching": False, "stopped": ""}
    if over:
        shown |= _explained(site, puzzle, analysed, answer)
    else:
        placed = f"{format_piece(puzzle.position.hand)} goes to {words[0]}. Now give a piece." if words else ""
        shown |= {"said": [placed or task(puzzle)], "kind": ""}
    cells, pieces = view.tiles(analysed if over else line, shown.pop("badges", {}), NONE)
    levels = {level: next(at for at, each in enumerate(shipped(), 1) if each.level == level) for level in LEVELS}
    return page(
        request,
        "puzzle.html",
        number=number,
        last=len(shipped()),
        puzzle=puzzle,
        about="" if puzzle.rules == CLASSIC_NAME else known.all_rules[puzzle.rules],
        levels=levels,
        game=line.game,
        cells=cells,
        pieces_left=pieces,
        words=[] if line.game.hand == NONE else attributes(line.game.hand),
        chosen=words,
        over=over,
        analysis=analysed.url,
        **shown,
    )


def _explained(site: Site, puzzle: Puzzle, line: AnalysisLine, answer: bool) -> dict[str, Any]:
    """The verdict on a whole turn, and what the solver has found out about it by now."""
    after, right = line.game, is_right(puzzle, line.game)
    said = [f"The answer is {puzzle.turn}." if answer else verdict(puzzle, after)]
    if after.asked is NextDecision.NOTHING:
        return {"said": said, "kind": "loss"}
    turns, replies = _searches(site.service(Solving), line.start, after)
    found: SolvedPosition | None = replies.latest
    if found:
        solved: SolvedPosition | None = turns.latest
        said += explanation(puzzle, after, found.solution, solved.solution.turns if solved else ())
    return {
        "said": said,
        "kind": "win" if right else "loss",
        "badges": view.exact_badges(after, found.solution if found else None),
        "best": view.best_steps(line, found),
        "theme": theme(puzzle) if right else "",
        "missed": missed(puzzle) if right else "",
        "refresh": POLLED if not (turns.ended and replies.ended) else None,
        "searching": not (turns.ended and replies.ended),
        "stopped": next((job.reason for job in (turns, replies) if job.ended and job.stopped), ""),
    }


def _searches(solving: Solving, start: Game, after: Game) -> list[BackgroundJob]:
    """The searches for the turns of a puzzle and for the replies to one of them. Raises what went wrong."""
    jobs = [solving.solution(game, USUAL_SECONDS) for game in (start, after)]
    for job in jobs:
        job.wait(MOMENT)
        if job.ended:
            job.result()
    return jobs
