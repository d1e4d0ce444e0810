"""The page of a finished game: its review, its score and the level that it offers."""

from __future__ import annotations

import html
import random
import re
from typing import TYPE_CHECKING

import pytest

from analytics.exact.game_review import review_game
from quarto.game import Game, NextDecision
from quarto.rules import NONE, Rules
from runners.play.levels import LEVELS, suggest_level_number
from runners.web.analyse.line import AnalysisLine
from runners.web.analyse.review import ReviewView, build_review, build_review_and_start_searches
from runners.web.analyse.searches import AnalysisValues, SearchService
from runners.web.play.addresses import GameSetup
from runners.web.play.pages import build_review_line
from runners.web.play.series import MAX_BROWSERS, SeriesBook, SeriesStanding, format_score
from tests.naive import PRESETS
from tests.runners.web.visiting import plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Page, Visitor

pytestmark = pytest.mark.extras


def play_random_game(rules: Rules, seed: int) -> Game:
    """Play a game of random decisions in which nobody hurries to finish a line."""
    game, dice = Game(rules), random.Random(seed)
    while game.next_decision is not NextDecision.NOTHING:
        steps = [play_random_decision(game, dice) for _ in range(12)]
        game = next((step for step in steps if step.ending is None), steps[0])
    return game


def play_random_decision(game: Game, dice: random.Random) -> Game:
    if game.next_decision is NextDecision.GIFT:
        return game.give(dice.choice(game.pieces_left))
    if game.next_decision is NextDecision.PLACEMENT:
        return game.place(dice.choice(game.empty_cells))
    return game.play(dice.choice(game.pieces_left), dice.choice(game.empty_cells))


def wait_for_review(guest: Visitor, line: AnalysisLine) -> ReviewView:
    service = guest.site.get_or_create_service(SearchService)
    while True:
        review = build_review_and_start_searches(service, line)
        if not review.searching:
            return review


@pytest.mark.parametrize(("preset", "first_ply"), [("classic", 0), ("square", 0), ("own_piece", 9)])
def test_the_review_agrees_with_that_of_the_terminal(ada: Visitor, preset: str, first_ply: int) -> None:
    """Compare from ``first_ply`` on, because the terminal also looks for better choices, which takes long early on."""
    compared = 0
    for seed in range(1 if first_ply else 4):
        game = play_random_game(PRESETS[preset], seed)
        review = wait_for_review(ada, build_review_line(game, GameSetup("dumb", preset, 0, 1, "ada")))
        expected = review_game(game.rules, game.plies, opening=first_ply, seconds=60)
        assert (review.complete, review.unjudged, expected.unjudged_count) == (True, "", 0)
        for seat, side in enumerate(review.sides):
            mistakes = [expected.decisions[index] for index in expected.mistakes]
            assert [(mistake.ply, len(mistake.mark)) for mistake in side.mistakes if mistake.ply >= first_ply] == [
                (mistake.ply, mistake.regret) for mistake in mistakes if mistake.seat == seat
            ]
        first = review.first
        if first is None or first.mistake.ply < first_ply:
            continue
        better = [tile for tile in (*first.cells, *first.gifts) if tile.kind == "better"]
        assert len(better) == 1
        choice = (better[0].piece, NONE if first.gifts else [tile.kind for tile in first.cells].index("better"))
        better_choices = expected.better_choices[expected.mistakes[0]]
        assert choice in better_choices
        assert f"{len(better_choices)} of " in first.better
        compared += 1
    assert compared or first_ply


def test_what_is_not_solved_is_said_and_a_first_mistake_is_called_known() -> None:
    game = play_random_game(PRESETS["classic"], 1)
    line = build_review_line(game, GameSetup("dumb", "classic", 0, 1, "ada"))
    count = len(line.words)
    values = AnalysisValues((*(None for _ in range(count - 3)), 0, -1, -1, -1))
    review = build_review(line, values, None, searching=False, reason="20 seconds were not enough")
    assert review.unjudged == f"{count - 3} early decisions are not solved: 20 seconds were not enough."
    assert (review.complete, [step.kind for step in review.steps[:2]]) == (False, ["", ""])
    assert sum(len(side.mistakes) for side in review.sides) <= 1
    none = build_review(line, None, None, searching=True, reason="")
    assert none.unjudged == f"The solver is still at work on {count} early decisions."
    assert (none.summary, none.sides, none.first) == ("", (), None)


def end_by_resigning(ada: Visitor, agent: str = "dumb", rules: str = "classic", **values: str) -> Page:
    return ada.send(ada.begin(agent, rules, parameters=values).url, command="resign")


def test_a_finished_game_has_its_review_score_and_title(ada: Visitor) -> None:
    page = ada.begin()
    dice = random.Random(2)
    while "Rematch" not in page.text:
        page = ada.send(page.url, decision=dice.choice(page.decisions()))
    words = plain(page.text)
    title = re.search(r"<title>(.*?) · quarto-arena</title>", page.text)
    assert title
    result = {"You won": "ada 1, dumb 0", "You lost": "ada 0, dumb 1", "A draw": "ada ½, dumb ½"}[title[1]]
    assert result in words
    assert page.text.count('class="value-graph"') == 1
    assert re.search(r"dumb made (no|\d+) mistakes?.*; ada made (no|\d+) mistake", words)
    assert "Play again with the other seat" in words
    link = re.search(r'href="([^"]+)">Analyse from here', page.text)
    assert link
    assert "which turned a" in ada.ready(html.unescape(link[1])).says


def test_each_mistake_of_a_review_leads_to_its_exercise(reader: Visitor) -> None:
    page = reader.ready("/browse/games/8d1cb3670fa3/8")
    mistakes = re.findall(r"<li><a data-quick[^>]*>Ply (\d+): (?:gave|placed)", page.text)
    exercises = re.findall(r'href="([^"]+)" aria-label="Find the better turn in ply (\d+)"', page.text)
    assert mistakes
    assert [ply for _, ply in exercises] == mistakes
    for address, _ in exercises:
        assert re.search(r"You place . and give a piece\.", reader.ready(html.unescape(address)).says)


def test_resigning_what_was_no_loss_is_said(ada: Visitor) -> None:
    page = end_by_resigning(ada)
    assert "<title>You lost ·" in page.text
    assert "The position in which ada resigned was a draw." in plain(page.text)
    begun = ada.begin(seat=0)
    assert 'class="value-graph"' not in ada.send(begun.url, command="resign").text  # no decision, so no review


def test_the_game_of_the_archive_has_the_same_review(reader: Visitor) -> None:
    page = reader.ready("/browse/games/8d1cb3670fa3/8")
    words = plain(page.text)
    assert "Ply 8: gave 6 ? draw → loss" in words
    assert re.search(
        r"First mistake Ply 8: random gave 6, which turned a draw into a loss\. Giving \w was better", words
    )
    assert "First mistake" not in reader.ready("/browse/games/8d1cb3670fa3/8?at=3").text


def test_levels_follow_the_results(ada: Visitor) -> None:
    level_1, level_2, level_4 = LEVELS[0].agent, LEVELS[1].agent, LEVELS[3].agent
    lost = end_by_resigning(ada, level_2)
    assert "Level 1, random, places and gives at random." in plain(lost.text)
    assert f'name="agent" value="{level_1}"' in lost.text
    assert 'class="notice offer"' not in end_by_resigning(ada, level_1).text  # nothing is below
    assert "so far: ada 0, ga5 2" in plain(end_by_resigning(ada, level_2).text)
    assert "Level 3" in plain(end_by_resigning(ada, level_4).text)
    assert 'class="notice offer"' not in end_by_resigning(ada, "dumb").text  # no level


def test_three_wins_in_a_row_without_help_lead_to_the_next_level() -> None:
    book, key = SeriesBook(), ("ada", "random", "classic")
    results = [(2, False), (2, True), (2, False), (1, False), (2, False), (2, False), (2, False)]
    standings = [book.record_result("browser", key, *result) for result in results]
    assert [standing.wins_in_a_row for standing in standings] == [1, 1, 2, 0, 1, 2, 3]
    assert standings[-1] == SeriesStanding(7, 13, 3)
    assert [suggest_level_number("random", 2, standing.wins_in_a_row) for standing in standings] == [None] * 6 + [2]
    assert suggest_level_number(LEVELS[-1].agent, 2, 3) is None
    assert suggest_level_number(LEVELS[-1].agent, 0, 0) == len(LEVELS) - 1
    assert suggest_level_number("dumb", 0, 0) is None


def test_results_of_many_browsers_are_forgotten() -> None:
    book, key = SeriesBook(), ("ada", "random", "classic")
    for number in range(MAX_BROWSERS + 1):
        book.record_result(str(number), key, 2, is_aided=False)
    assert book.record_result("0", key, 2, is_aided=False).games == 1
    assert book.record_result(str(MAX_BROWSERS), key, 2, is_aided=False).games == 2


@pytest.mark.parametrize(
    ("half_points", "text"), [((0, 2), "a 0, b 1"), ((1, 1), "a ½, b ½"), ((3, 5), "a 1½, b 2½"), ((0, 0), "a 0, b 0")]
)
def test_scores_are_by_name(half_points: tuple[int, int], text: str) -> None:
    assert format_score("ab", half_points) == text
