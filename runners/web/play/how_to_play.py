"""The page that teaches the game in pictures: pieces, lines, turns and rule sets. It begins first games with help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.report.line_families import LineFamily, list_line_families
from quarto.game import Game, describe_line, game_from_position
from quarto.notation import ATTRIBUTE_WORDS, parse_position
from quarto.rules import CLASSIC, Rules
from runners.play.levels import LEVELS
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.page_rendering import render_page
from runners.web.site import find_site
from runners.web.tiles import describe_piece

router = APIRouter()

HOW_TO_PLAY_PATH = "/play/how-to-play"
FIRST_OPPONENT = LEVELS[0].agent
ATTRIBUTE_PIECES = ((9, 1), (7, 3), (10, 8), (13, 12))  # by attribute: two pieces that differ in it alone


class AttributeLesson(NamedTuple):
    """An attribute of the pieces: its two words, each with a piece."""

    words: tuple[str, str]
    pieces: tuple[int, int]


class BoardLesson(NamedTuple):
    """A board with what it teaches."""

    title: str
    text: str
    game: Game
    hand: str = ""  # heading of the piece in hand, or "" if none is shown


class RulesLesson(NamedTuple):
    """A rule set with its families of lines."""

    rules: Rules
    text: str  # one-line description
    families: tuple[LineFamily, ...]
    can_begin: bool  # the opponent of first games can play by these rules


@router.get(HOW_TO_PLAY_PATH)
def how_to_play_page(request: Request) -> Response:
    """Show how the game is played, with a section for each rule set that this server offers."""
    site = find_site(request)
    choices = site.get_or_create_service(AgentsAndRules)
    playable = choices.list_playable_rules(FIRST_OPPONENT)
    return render_page(
        request,
        "play/how_to_play.html",
        attributes=[AttributeLesson(*lesson) for lesson in zip(ATTRIBUTE_WORDS, ATTRIBUTE_PIECES, strict=True)],
        describe_piece=describe_piece,
        lines=build_line_lessons(),
        turns=build_turn_lessons(),
        rule_sets=[
            RulesLesson(rules, text, list_line_families(rules), name in playable)
            for name, text in choices.all_rules.items()
            for rules in [choices.load_rules(name)]
        ],
        opponent=FIRST_OPPONENT,
        name=site.options.name,
    )


def build_line_lessons() -> Sequence[BoardLesson]:
    """Build the boards that show what a line is: two lines, and four pieces in a row that are none."""
    row, diagonal, none = map(_parse_game, ("..../8A9E/..../.... -", "5.../.7../..F./...D -", "..../..../0FA5/.... -"))
    wins = f"Whoever places the fourth piece wins: {describe_line(diagonal, diagonal.lines[0])}."
    return (
        BoardLesson("A line", f"Four high pieces in a row: {describe_line(row, row.lines[0])}.", row),
        BoardLesson("A line, too", wins, diagonal),
        BoardLesson("Not a line", "Each attribute differs somewhere in this row, so nobody has won.", none),
    )


def build_turn_lessons() -> Sequence[BoardLesson]:
    """Build the boards that show a turn: a gift, its placement, the next gift, and a gift that loses."""
    given, placed, gave, loses = map(
        _parse_game,
        (".3../..A./..../4... 6", ".3../..A./.6../4... -", ".3../..A./.6../4... B", "..../8E9./..6./.... B"),
    )
    return (
        BoardLesson("1. You are given a piece", "Your opponent chooses it.", given, "In your hand"),
        BoardLesson("2. You place it", "On any empty cell.", placed),
        BoardLesson("3. You give a piece", "Any piece that is left. Your opponent places it.", gave, "You give"),
        BoardLesson("Beware", "A high piece finishes a line on d2, so give a low one.", loses, "This gift loses"),
    )


def _parse_game(text: str) -> Game:
    return game_from_position(parse_position(text)[0], CLASSIC)
