"""What the pages share on which one looks for a turn: the board, the searches, and the line that refutes a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from analytics.report.line_families import list_line_families
from quarto.game import Game, list_attribute_words
from quarto.notation import CLASSIC_NAME, format_cell, format_piece
from quarto.rules import NONE
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse import view
from runners.web.analyse.line import DEFAULT_SEARCH_SECONDS, AnalysisLine, format_game_position
from runners.web.analyse.pages import POLL_HALF_SECONDS
from runners.web.analyse.searches import SearchService, SolvedPosition
from runners.web.background import BackgroundJob
from runners.web.site import Site
from runners.web.tiles import Badge

MAX_REFUTATION_BOARDS = 6


def build_board_view(site: Site, line: AnalysisLine, *, is_over: bool, badges: Mapping[str, Badge]) -> dict[str, Any]:
    """Return the template values of a page on which one looks for a turn, as long as nothing is judged.

    ``line`` begins at the position in question, and has the decisions made there. If ``is_over`` is true, they are a
    whole turn; the board then leads to the analysis, and shows the badges.
    """
    analysed = build_analysis_line(line)
    cells, tray = view.build_cell_and_piece_tiles(analysed if is_over else line, badges, NONE)
    choices, rules, game = site.get_or_create_service(AgentsAndRules), line.rules, line.game
    is_explained = rules.name != CLASSIC_NAME
    return {
        "game": game,
        "position": format_game_position(line.start),
        "cells": cells,
        "tray": tray,
        "words": [] if game.hand == NONE else list_attribute_words(game.hand),
        "chosen": line.words,
        "over": is_over,
        "analysis": analysed.url,
        "about": choices.all_rules.get(rules.name, "") if is_explained else "",
        "families": list_line_families(rules) if is_explained else (),
        "best": [],
        "refutation": [],
        "searching": False,
        "stopped": "",
        "outcome": "",
    }


def build_analysis_line(line: AnalysisLine) -> AnalysisLine:
    """Return the same line for the page of the analysis."""
    return AnalysisLine(line.rules, line.start, line.words, at=line.at)


def build_replies_view(line: AnalysisLine, reply: SolvedPosition | None, *, is_refuted: bool) -> dict[str, Any]:
    """Return the template values that show the replies to a turn, as far as they are solved.

    If ``is_refuted`` is true, the turn is wrong, and boards show why.
    """
    return {
        "badges": view.build_exact_badges(line.game, reply.solution if reply else None),
        "best": view.build_best_steps(build_analysis_line(line), reply),
        "refutation": list_refutation_boards(line.game, reply) if is_refuted and reply else [],
    }


def build_search_view(*jobs: BackgroundJob) -> dict[str, Any]:
    """Return the template values that say whether searches run, and whether one ended before it was done."""
    searching = not all(job.ended for job in jobs)
    return {
        "searching": searching,
        "refresh": POLL_HALF_SECONDS if searching else None,
        "stopped": next((job.reason for job in jobs if job.ended and job.stopped), ""),
    }


class RefutationBoard(NamedTuple):
    """A board of the line that refutes a wrong turn, after a placement and, if the game goes on, a gift."""

    game: Game  # after the placement
    text: str  # such as "Opponent: 5 on b2, gives 7"


def list_refutation_boards(game_after: Game, reply: SolvedPosition) -> list[RefutationBoard]:
    """List the boards of best play after a wrong turn.

    If the turn loses, the line is shown to the end, but at most ``MAX_REFUTATION_BOARDS`` boards of it. If the turn
    draws where another one wins, the reply that holds the draw is shown alone.
    """
    boards: list[RefutationBoard] = []
    for index, game in enumerate(reply.best_line):
        piece, cell = game.plies[-1]
        if len(game.plies) == len(game_after.plies) + len(boards) + 1:
            player = "You" if len(boards) % 2 else "Opponent"
            following = reply.best_line[index + 1].hand if index + 1 < len(reply.best_line) else NONE
            outcome = (
                ", which wins" if game.lines else "" if following == NONE else f", gives {format_piece(following)}"
            )
            boards.append(RefutationBoard(game, f"{player}: {format_piece(piece)} on {format_cell(cell)}{outcome}"))
    return boards[: MAX_REFUTATION_BOARDS if reply.solution.value else 1]


def find_or_start_searches(search_service: SearchService, game_before: Game, game_after: Game) -> list[BackgroundJob]:
    """Return two jobs: the search for the turns in ``game_before``, and the search for the replies in ``game_after``.

    ``game_before`` is the game at the puzzle's position, and ``game_after`` the game after a turn. Jobs that do not
    exist yet are started. If a search has failed, its exception is raised.
    """
    jobs = [search_service.find_or_start_solution(game, DEFAULT_SEARCH_SECONDS) for game in (game_before, game_after)]
    for job in jobs:
        job.wait_for_latest()
    return jobs
