"""The page that teaches the game, the games with help, and the links to the page from wherever a rule is named."""

from __future__ import annotations

import html
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from analytics.report.line_families import list_families_unlike_classic, list_line_families
from quarto.game import Game, NextDecision
from quarto.notation import ATTRIBUTE_WORDS, format_cell, format_piece
from quarto.rules import NONE, find_finished_lines
from runners.web.play.guide import GIFT_LINE, Guide, build_guide
from runners.web.play.how_to_play import ATTRIBUTE_PIECES, build_line_lessons, build_turn_lessons
from tests import naive
from tests.naive import PRESETS
from tests.runners.web.test_play_review import play_random_decision
from tests.runners.web.visiting import Page, plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

PATH = "/play/how-to-play"


def test_the_page_shows_attributes_lines_and_every_rule_set(reader: Visitor) -> None:
    page = reader.get(PATH)
    words = plain(page.text)
    assert all(word in words for pair in ATTRIBUTE_WORDS for word in pair)
    sections = re.findall(r'id="rules-(\w+)"', page.text)
    assert {*PRESETS} <= {*sections}
    assert "9 squares of 2x2" in words
    assert "16 wrapped squares of 2x2" in words
    assert "You choose the piece that you place yourself." in words
    assert len(page.text) < 100_000


def test_the_pieces_of_an_attribute_differ_in_it_alone() -> None:
    assert [one ^ other for one, other in ATTRIBUTE_PIECES] == [8, 4, 2, 1]


def test_the_boards_show_what_their_texts_say() -> None:
    row, diagonal, none = (lesson.game for lesson in build_line_lessons())
    assert ([len(game.lines) for game in (row, diagonal)], none.lines) == ([1, 1], [])
    given, placed, gave, loses = (lesson.game for lesson in build_turn_lessons())
    assert given.position.hand in {piece for piece, _ in placed.plies}
    assert (placed.hand, gave.plies) == (NONE, placed.plies)
    assert loses.place(7).lines
    unloaded = replace(loses, hand=NONE)
    winning = {piece for piece in unloaded.pieces_left if unloaded.give(piece).place(7).lines}
    assert winning == {piece for piece in unloaded.pieces_left if piece >= 8}  # the high ones


def test_families_hold_all_lines_and_name_what_the_classic_rules_lack() -> None:
    for rules in PRESETS.values():
        assert sum(int(family.text.split()[0]) for family in list_line_families(rules)) == len(rules.lines)
    unlike = {name: [family.text for family in list_families_unlike_classic(rules)] for name, rules in PRESETS.items()}
    assert unlike["classic"] == unlike["own_piece"] == []
    assert unlike["square"] == ["9 squares of 2x2"]
    assert unlike["torus_square"] == ["8 broken diagonals", "16 wrapped squares of 2x2"]


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("/play?rules=square", "square"),
        ("/analyse?rules=torus", "torus"),
        ("/browse/games/8d1cb3670fa3/8", "classic"),
        ("/browse/openings", "classic"),
        ("/puzzles/290", "square"),
    ],
)
def test_whoever_names_a_rule_links_to_it(reader: Visitor, path: str, rules: str) -> None:
    text = reader.get(path).text
    assert f'href="{PATH}#rules-{rules}"' in text
    assert f'id="rules-{rules}"' in reader.get(PATH).text


def begin_with_help(ada: Visitor, rules: str = "classic") -> Page:
    """Begin a game with help as the button of the page does."""
    section = ada.get(PATH).text.partition(f'id="rules-{rules}"')[2]
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', section.partition("</form>")[0]))
    assert fields.pop("token")
    return ada.send("/play", **{name: html.unescape(value) for name, value in fields.items()})


def read_help(page: Page) -> str:
    match = re.search(r'aria-label="Help"[^>]*>(.*?)</section>', page.text, re.DOTALL)
    return plain(match[1]) if match else ""


@pytest.mark.parametrize("rules", ["classic", "square", "own_piece"])
def test_every_decision_of_a_game_with_help_is_explained(ada: Visitor, rules: str) -> None:
    page, dice = begin_with_help(ada, rules), random.Random(1)
    assert (page.query["guided"], page.query["rules"]) == ("yes", rules)
    assert "Every piece is high or low" in read_help(page)
    while "Rematch" not in page.text:
        if len(page.query.get("moves", "").split(".")) == (
            3 if rules == "own_piece" else 99
        ):  # searches take long here
            page = ada.send(page.url, command="resign")
            continue
        assert read_help(page)
        assert ada.get(page.url).text == page.text  # a game of the past keeps its help
        if not page.decisions():
            name = next(name for name, label in page.labels().items() if label.startswith("Place "))
            page = ada.ready(f"{page.url}&piece={name}")
        page = ada.send(page.url, decision=dice.choice(page.decisions()))
    assert "because you used hints" in page.text
    assert 'class="button primary" data-focus>Rematch without help' in page.text
    assert "of 3 wins in a row" not in page.text


def list_guided_games(rules_name: str) -> list[tuple[Game, Guide]]:
    games = []
    for seed in range(5):
        game, dice = Game(PRESETS[rules_name]), random.Random(seed)
        while game.next_decision is not NextDecision.NOTHING:
            if len(game.plies) >= 6:
                games.append((game, build_guide(game)))
            steps = [play_random_decision(game, dice) for _ in range(12)]
            game = next((step for step in steps if step.ending is None), steps[0])
    return games


def test_the_help_counts_safe_gifts_and_marks_what_loses_at_once() -> None:
    seen = set[str]()
    for game, guide in list_guided_games("classic"):
        if game.next_decision is NextDecision.GIFT:
            safe = {format_piece(piece) for piece in naive.safe_pieces(game.board, game.pieces_left, game.rules)}
            assert {*guide.badges} == {format_piece(piece) for piece in game.pieces_left} - safe
            assert guide.good <= safe
            seen.add("gift" if guide.lines[0] == GIFT_LINE else "no safe gift")
        elif game.next_decision is NextDecision.PLACEMENT:
            wins = naive.winning_cells(game.board, game.hand, game.rules)
            if wins:
                assert guide.good == {format_cell(cell) for cell in wins}
                seen.add("win")
                continue
            boards = {cell: naive.with_piece(game.board, game.hand, cell) for cell in game.empty_cells}
            assert not any(find_finished_lines(board, game.rules) for board in boards.values())
            counts = {
                format_cell(cell): str(len(naive.safe_pieces(board, game.pieces_left, game.rules)))
                for cell, board in boards.items()
            }
            assert {cell: badge.text for cell, badge in guide.badges.items()} == (counts if game.pieces_left else {})
            seen.add("placement")
    assert seen == {"gift", "no safe gift", "win", "placement"}
