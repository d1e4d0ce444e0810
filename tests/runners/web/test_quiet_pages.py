"""Pages leave out what says nothing: equal values, columns of zeros, headings that repeat the heading above."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from tests.runners.places import read_html_tables
from tests.runners.web.visiting import plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

ROUND_ROBIN, IMPOSED = "8d1cb3670fa3", "a0a7dbeb5972"


def test_the_empty_board_does_not_say_sixteen_times_that_it_is_drawn(reader: Visitor) -> None:
    page = reader.ready("/analyse")
    assert page.says.endswith("to give a piece: draw.") or ": draw" in page.says
    assert 'class="badge' not in page.text
    assert "Play the best" not in page.text
    assert "ended before it was done" not in page.text  # nor does it search for a line that it does not show
    assert all(label.endswith(": draw") for name, label in page.labels().items() if len(name) == 1)
    later = reader.ready("/analyse?text=0.6F/.3A./..5./C..9 7")
    assert 'class="badge' in later.text
    assert "Play the best" in later.text


def test_a_game_that_is_over_has_no_section_about_decisions_in_the_archive(reader: Visitor) -> None:
    path = f"/browse/games/{ROUND_ROBIN}/8"
    assert "In the archive" not in reader.ready(path).text
    assert "In the archive" in reader.ready(f"{path}?ply=0").text


def test_imposed_plies_have_a_column_only_if_there_are_any(reader: Visitor) -> None:
    for run_id, is_there in ((ROUND_ROBIN, False), (IMPOSED, True)):
        (table,) = read_html_tables(reader.ready("/browse/games", run=run_id).text)
        assert ("imposed plies" in table.headings) == is_there


@pytest.mark.parametrize("path", ["/browse/games", "/browse/sweeps", "/browse"])
def test_the_caption_of_a_list_does_not_repeat_its_heading(reader: Visitor, path: str) -> None:
    page = reader.ready(path).text
    (heading,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    captions = re.findall(r"<caption><span>(.*?)</span>", page)
    assert captions or '<caption class="hidden">' in page
    assert not [text for text in captions if html.unescape(text).startswith(plain(heading))]
