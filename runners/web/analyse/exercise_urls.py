"""Addresses of exercises, to which the pages of games lead from a mistake."""

from __future__ import annotations

from quarto.game import Game, NextDecision
from runners.web.analyse.line import AnalysisLine, format_game_position
from runners.web.archive import urls

EXERCISE_PATH = "/puzzles/position"


def build_exercise_url(start: Game, back: str = "", **query: object) -> str:
    """Build the address of the exercise that begins at a position; ``back`` is the page to which it leads back."""
    return urls.build_url(EXERCISE_PATH, {"position": format_game_position(start), **query, "back": back})


def build_url_of_exercise_at(line: AnalysisLine) -> str:
    """Build the address of the exercise for the turn to which the next decision of a line belongs.

    A turn is a placement and the gift after it, so if the next decision is a gift, the exercise begins a decision
    earlier. The address is "" if there is no such turn: before the first gift of a game, at its end, and under rules by
    which the mover chooses the piece.
    """
    games = line.games[max(line.at - 1, 0) : line.at + 1]
    if games[-1].next_decision is NextDecision.GIFT:
        games.pop()
    start = games[-1] if games else line.start
    return build_exercise_url(start, line.url) if start.next_decision is NextDecision.PLACEMENT else ""
