"""The puzzle pages: two links make a turn, which is judged at once and then explained by the solver."""

from __future__ import annotations

import html
import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from analytics.exact.puzzles import load_shipped_puzzles
from quarto.notation import CLASSIC_NAME
from runners.web import puzzle_pages
from runners.web.puzzle_pages import EASY_LEVEL, find_daily_puzzle_number
from tests.runners.web.visiting import plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Page, Visitor

pytestmark = pytest.mark.extras

NUMBER = next(
    number for number, puzzle in enumerate(load_shipped_puzzles(), 1) if puzzle.position.occupied.bit_count() >= 11
)
PUZZLE = load_shipped_puzzles()[NUMBER - 1]
CELL, GIFT = PUZZLE.turn.split()


def list_links(page: Page, to: str) -> list[str]:
    """List the links of a page whose addresses begin with ``to``."""
    return [html.unescape(address) for address in re.findall(r'href="([^"]+)"', page.text) if address.startswith(to)]


def test_the_right_turn_is_found_by_two_links_and_explained(reader: Visitor) -> None:
    page = reader.get(f"/puzzles/{NUMBER}")
    assert not page.refreshes
    assert "You place" in page.says
    (to_cell,) = [address for address in list_links(page, f"/puzzles/{NUMBER}?turn=") if address.endswith(f"={CELL}")]
    page = reader.get(to_cell)
    assert "Now give a piece" in page.says
    (to_gift,) = [address for address in list_links(page, f"/puzzles/{NUMBER}?turn=") if address.endswith(f".{GIFT}")]
    page = reader.ready(to_gift)
    assert f"Right: {PUZZLE.turn} is the only turn that {PUZZLE.goal}s." in page.says
    assert "The other turns: " in page.says
    assert "Agents missed it in" in page.says
    assert list_links(page, f"/puzzles/{NUMBER + 1}")
    assert not re.search(r"Try again|Show the answer", page.text)
    (analysis,) = {address for address in list_links(page, "/analyse?") if address.endswith(f"line={CELL}.{GIFT}&at=2")}
    assert reader.ready(analysis).status == 200


def test_every_other_turn_is_wrong_and_has_a_reply(reader: Visitor) -> None:
    for cell in list_links(reader.get(f"/puzzles/{NUMBER}"), f"/puzzles/{NUMBER}?turn="):
        for turn in list_links(reader.get(cell), cell + "."):
            page = reader.ready(turn)
            right = turn.endswith(f"={CELL}.{GIFT}")
            assert page.says.startswith("Right: " if right else "Wrong: "), turn
            assert ("Best play" in page.text, "Try again" in page.text) == (True, not right)


def test_the_answer_is_shown_to_who_asks(reader: Visitor) -> None:
    page = reader.ready(f"/puzzles/{NUMBER}?answer=yes")
    assert page.says.startswith(f"The answer is {PUZZLE.turn}.")


def test_wrong_addresses_are_explained_in_a_line(reader: Visitor) -> None:
    for path, status, line in (
        ("/puzzles/0", 404, "there is no puzzle 0: this set has 1 to 300"),
        ("/puzzles/301", 404, "there is no puzzle 301"),
        ("/puzzles/x", 400, "number='x'"),
        (f"/puzzles/{NUMBER}?turn=z9", 400, "turn: 'z9' is not a decision"),
        (f"/puzzles/{NUMBER}?turn={GIFT}", 400, "is not a cell"),
        (f"/puzzles/{NUMBER}?turn={CELL}.{CELL}", 400, "is a cell"),
        (f"/puzzles/{NUMBER}?turn={CELL}.{GIFT}.a1", 400, "3 decisions"),
    ):
        page = reader.get(path)
        assert (page.status, line in page.line) == (status, True), (path, page.line)


def test_the_first_page_shows_the_puzzle_of_the_day(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        puzzle_pages, "find_daily_puzzle_number", lambda day: 7 if day <= datetime.now(UTC).date() else 8
    )
    page = reader.ready("/")
    assert "Puzzle of the day" in plain(page.text)
    assert list_links(page, "/puzzles/")[-1] == reader.get("/puzzles").url == "/puzzles/7"


def test_each_easy_classic_puzzle_has_its_day() -> None:
    easy = {
        at
        for at, puzzle in enumerate(load_shipped_puzzles(), 1)
        if puzzle.level <= EASY_LEVEL and puzzle.rules == CLASSIC_NAME
    }
    days = [date(2026, 11, 24) + timedelta(days) for days in range(len(easy))]
    assert {find_daily_puzzle_number(day) for day in days} == easy
