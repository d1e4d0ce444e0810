"""The puzzle pages: two links make a turn, which is judged at once and then explained by the solver."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from analytics.exact.puzzle_themes import THEMES, NumberedPuzzle, PuzzleFilter, list_safe_gifts
from analytics.exact.puzzles import load_shipped_puzzles
from quarto.game import game_from_position
from quarto.notation import CLASSIC_NAME, format_cell, format_piece
from quarto.rules import CLASSIC
from runners.config.yaml_options import load_rules
from runners.web.puzzles import pages as puzzle_pages
from runners.web.puzzles.pages import EASY_LEVEL, find_daily_puzzle_number
from runners.web.puzzles.puzzle_set import PuzzleSet, build_overview_url
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
        ("/puzzles?theme=quite", 400, "theme 'quite' does not exist; did you mean 'quiet'?"),
        ("/puzzles/1?theme=quite", 400, "theme 'quite' does not exist"),
        ("/puzzles?rules=torus", 404, "this set has no puzzle under rules 'torus'"),
        ("/puzzles?theme=quiet&level=1", 404, "this set has no puzzle of theme quiet, level 1"),
        ("/puzzles?level=6", 400, "level='6'"),
        ("/puzzles/id/00000000", 404, "this set has no puzzle with the id '00000000'"),
        (f"/puzzles/{NUMBER}?turn=z9", 400, "turn: 'z9' is not a decision"),
        (f"/puzzles/{NUMBER}?turn={GIFT}", 400, "is not a cell"),
        (f"/puzzles/{NUMBER}?turn={CELL}.{CELL}", 400, "is a cell"),
        (f"/puzzles/{NUMBER}?turn={CELL}.{GIFT}.a1", 400, "3 decisions"),
    ):
        page = reader.get(path)
        assert (page.status, line in page.line) == (status, True), (path, page.line)


def test_the_list_counts_puzzles_by_theme_and_level_and_leads_to_each(reader: Visitor) -> None:
    puzzles = reader.site.get_or_create_service(PuzzleSet).puzzles
    page = reader.get("/puzzles")
    assert set(list_links(page, "/puzzles/")) == {f"/puzzles/{puzzle.number}" for puzzle in puzzles} | {
        "/puzzles/today"
    }
    for theme in THEMES.values():
        assert theme.meaning in plain(page.text)
    for wanted, count in Counter(
        PuzzleFilter(theme, level)
        for puzzle in puzzles
        for theme in ("", *puzzle.themes)
        for level in (0, puzzle.level)
    ).items():
        url = build_overview_url(wanted)
        cell = re.search(rf'href="{re.escape(html.escape(url))}"[^>]*>(\d+)</a>', page.text)
        assert (cell and cell[1]) == str(count), url
        selected = reader.get(url)
        query = url.partition("?")[2]
        numbers = [link.partition("?")[0] for link in list_links(selected, "/puzzles/") if link.endswith(f"?{query}")]
        assert len(set(numbers)) == (count if query else 0)


def test_a_filter_stays_from_the_list_to_the_last_puzzle(reader: Visitor) -> None:
    selected = reader.site.get_or_create_service(PuzzleSet).select(PuzzleFilter("quiet", 2))
    url = "/puzzles/{}?theme=quiet&level=2"
    for place, (puzzle, following) in enumerate(pairwise(selected), 1):
        page = reader.get(url.format(puzzle.number))
        assert f"Quiet gifts of level 2 : {place} of {len(selected)}" in plain(page.text)
        assert url.format(following.number) in list_links(page, "/puzzles/")
        assert all(link.endswith("theme=quiet&level=2") for link in list_links(page, f"/puzzles/{puzzle.number}?"))
    assert 'data-next="{}:{} '.format(*selected[0][:2]) in reader.get(url.format(selected[-1].number)).text


def list_turns_to_refute(puzzles: Iterable[NumberedPuzzle]) -> Iterator[tuple[int, str, str]]:
    """List all turns in puzzle ``NUMBER``, and the safe wrong gifts of late puzzles: number, cell, gift."""
    game = game_from_position(PUZZLE.position, CLASSIC)
    for cell, gift in product(map(format_cell, game.empty_cells), map(format_piece, game.pieces_left)):
        yield NUMBER, cell, gift
    for number, _, puzzle, themes, _ in puzzles:
        if "quiet" in themes and puzzle.position.occupied.bit_count() >= 10:
            for piece in {*list_safe_gifts(puzzle, load_rules(puzzle.rules))} - {puzzle.gift}:
                yield number, format_cell(puzzle.cell), format_piece(piece)


def test_a_wrong_turn_is_refuted_by_boards_up_to_the_end_of_the_game(reader: Visitor) -> None:
    lengths = set()
    for number, cell, gift in list_turns_to_refute(reader.site.get_or_create_service(PuzzleSet).puzzles):
        page = reader.ready(f"/puzzles/{number}?turn={cell}.{gift}")
        captions = re.findall(r"<figcaption>((?:Opponent|You): .*?)</figcaption>", page.text)
        if page.says.startswith("Right"):
            assert captions == []
            continue
        players = [caption.partition(":")[0] for caption in captions]
        assert captions[0].startswith(f"Opponent: {gift} on ")
        assert players == ["Opponent", "You", "Opponent", "You", "Opponent"][: len(players)]
        if "It draws" in page.says:
            assert re.fullmatch(r"Opponent: . on .., gives .", *captions)
            continue
        assert captions[-1].endswith(", which wins")
        lost_in = "It loses at once" if len(captions) == 1 else f"It loses in {len(captions) + 1} placements"
        assert lost_in in page.says
        lengths.add(len(captions))
    assert {1, 3, 5} <= lengths


def test_rules_that_are_not_the_classic_ones_are_explained_by_pictures(reader: Visitor) -> None:
    puzzles = load_shipped_puzzles()
    for number in (1, next(number for number, puzzle in enumerate(puzzles, 1) if puzzle.rules == CLASSIC_NAME)):
        text = reader.get(f"/puzzles/{number}").text
        labels = re.findall(r'aria-label="Examples of lines: (.*?)"', text)
        is_square = puzzles[number - 1].rules == "square"
        assert labels == (["rows and columns", "diagonals", "squares of 2x2"] if is_square else [])
        assert ("What counts as a line under square rules" in text) == is_square


def test_an_id_leads_to_its_puzzle(reader: Visitor) -> None:
    (link,) = list_links(reader.get("/puzzles/42"), "/puzzles/id/")
    assert reader.get(link).url == "/puzzles/42"


def test_the_first_page_shows_the_puzzle_of_the_day(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        puzzle_pages, "find_daily_puzzle_number", lambda day: 7 if day <= datetime.now(UTC).date() else 8
    )
    page = reader.ready("/")
    assert "Puzzle of the day" in plain(page.text)
    assert list_links(page, "/puzzles/")[-1] == reader.get("/puzzles/today").url == "/puzzles/7"


def test_each_easy_classic_puzzle_has_its_day() -> None:
    easy = {
        at
        for at, puzzle in enumerate(load_shipped_puzzles(), 1)
        if puzzle.level <= EASY_LEVEL and puzzle.rules == CLASSIC_NAME
    }
    days = [date(2026, 11, 24) + timedelta(days) for days in range(len(easy))]
    assert {find_daily_puzzle_number(day) for day in days} == easy
