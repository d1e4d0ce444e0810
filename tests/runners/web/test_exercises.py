"""Exercises: positions of games in which one looks for the better turn, judged by the solver."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from quarto.notation import format_cell, format_piece, parse_position
from quarto.rules import CLASSIC, NONE
from tests.naive_solver import list_turns

if TYPE_CHECKING:
    from tests.runners.web.visiting import Page, Visitor

pytestmark = pytest.mark.extras

GAME = "/browse/games/8d1cb3670fa3/8"
# Late positions: two with several right turns (in the second one wins at once), and one that is lost.
DRAWN, WON, LOST = ".41B/0FC8/.A.7/563. D", "7F.8/.BE5/A19./0.6C D", "47F./6EB8/3CA./..05 9"


def find_exercise(page: Page) -> str:
    """Find the address of the exercise to which a page of the analysis leads."""
    (link,) = re.findall(r'href="([^"]+)">Find the better turn', page.text)
    return html.unescape(link)


def walk_to_mistake(reader: Visitor, path: str, following: str) -> Page:
    """Go to the first mistake of a game's line whose next decision is a gift (``gives``) or not (``places on``)."""
    page = reader.ready(path)
    while True:
        (link,) = re.findall(r'href="([^"]+)" data-key="n"', page.text)
        page = reader.ready(html.unescape(link))
        step = re.findall(r"Here .*? chose (\w+), which turned", page.text)
        if (len(step[0]) == 1) == (following == "gives"):
            return page


@pytest.mark.parametrize("decision", ["gives", "places on"])
def test_a_mistake_in_a_game_leads_to_an_exercise_and_back(reader: Visitor, decision: str) -> None:
    mistake = walk_to_mistake(reader, f"{GAME}?ply=0", decision)
    page = reader.ready(find_exercise(mistake))
    assert re.search(r"You place . and give a piece\. \d+ of \d+ turns (win|draw)s?\.", page.says)
    back = re.search(r'href="([^"]+)" data-key="n">Back to the game', page.text)
    assert back
    assert reader.get(html.unescape(back[1])).url == mistake.url
    taken = re.search(r"chose (\w+), which", mistake.text)
    assert taken
    cell = taken[1] if decision == "places on" else format_cell(_last_cell(mistake))
    assert f'id="cell-{cell}"' in page.text
    if decision == "places on":  # a mistake is no right turn, whatever is given
        page = reader.get(f"{page.url.replace('position?', f'position?turn={cell}&')}")
        for gift in re.findall(r'id="piece-button-(\w)"[^>]* href=', page.text):
            assert reader.ready(page.url.replace(f"turn={cell}", f"turn={cell}.{gift}")).says.startswith("Wrong: ")


def _last_cell(page: Page) -> int:
    cell = re.search(r'id="cell-(\w\d)" class="cell last', page.text)
    assert cell
    return (int(cell[1][1]) - 1) * 4 + "abcd".index(cell[1][0])


@pytest.mark.parametrize("text", [DRAWN, WON, LOST])
def test_a_turn_is_right_if_it_keeps_the_value_and_wrong_otherwise(reader: Visitor, text: str) -> None:
    turns = list_turns(parse_position(text)[0], CLASSIC)
    value = max(solved.value for solved in turns.values())
    right = sum(solved.value == value for solved in turns.values())
    says = reader.ready("/puzzles/position", position=text).says
    if value < 0:
        assert "Every turn loses" in says
    else:
        goal = {1: "win", 0: "draw"}[value] + ("s" if right == 1 else "")
        assert f"{right} of {len(turns)} turns {goal}." in says
    for (cell, gift), solved in turns.items():
        name = format_cell(cell) + ("" if gift == NONE else f".{format_piece(gift)}")
        page = reader.ready("/puzzles/position", position=text, turn=name)
        assert page.says.startswith("Right: " if solved.value == value else "Wrong: "), (name, page.says)
        assert ("Try again" in page.text) == (solved.value != value)
        assert ("Why it fails" in page.text) == (solved.value != value)
    answer = reader.ready("/puzzles/position", position=text, answer="yes")
    assert answer.says.startswith("One answer is ")


def test_what_is_no_exercise_is_refused_in_a_line(reader: Visitor) -> None:
    for query, line in (
        ({"position": "..../..../..../.... -"}, "is no exercise: it needs a piece in hand"),
        ({"position": "0123/..../..../.... 4"}, "is no exercise: it needs a piece in hand, and a game that goes on"),
        ({"position": "..../..../..../.... 4 own_piece"}, "the mover chooses the piece"),
        ({"position": "nothing"}, "must have 2 or 3 fields"),
        ({"position": DRAWN, "back": "https://example.org/"}, "is not the page of a game on this server"),
        ({"position": DRAWN, "back": "//example.org/play"}, "is not the page of a game on this server"),
        ({"position": DRAWN, "back": "javascript:alert(1)"}, "is not the page of a game on this server"),
        ({"position": DRAWN, "turn": "b1"}, "b1 is taken"),
        ({"position": DRAWN, "turn": "a1.0.a3"}, "3 decisions"),
    ):
        page = reader.get("/puzzles/position", **query)
        assert (page.status, line in page.line) == (400, True), (query, page.line)


def test_an_exercise_under_other_rules_shows_what_counts_as_a_line(reader: Visitor) -> None:
    page = reader.ready("/puzzles/position", position="C93./.54D/.B.F/78.1 6 torus")
    assert "What counts as a line under torus rules" in page.text
    assert "8 broken diagonals" in page.text
