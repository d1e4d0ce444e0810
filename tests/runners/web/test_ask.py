"""The page that answers questions in SQL: tables, charts, files, and one line for what is not allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from analytics.query.cookbook import questions
from tests.runners.web.visiting import plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras


def test_a_question_of_the_cookbook_is_filled_in_and_answered(reader: Visitor) -> None:
    page = reader.ready("/ask", question="1")
    assert page.status == 200
    assert "FROM seats" in page.text
    words = plain(page.text)
    assert "semi_random 10000 0.9075 0.900226 0.9061 0.911662" in words
    assert all(plain(each.title) in words for each in questions())
    assert reader.get("/ask", question="99").status == 400


def test_an_answer_is_a_table_with_links_a_file_and_a_chart(reader: Visitor) -> None:
    text = "SELECT run_id, game_id, plies FROM games ORDER BY run_id, game_id LIMIT 3"
    page = reader.ready("/ask", q=text)
    assert '<a href="/browse/games/2a6d3741319d/1">' in page.text
    file = reader.get("/ask.csv", q=text)
    assert file.headers["content-type"].startswith("text/csv")
    assert file.text.splitlines()[:2] == ["run_id,game_id,plies", "2a6d3741319d,0,6"]
    drawn = reader.ready("/ask", q="SELECT plies, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL", chart="line")
    assert "<figcaption>games by plies" in drawn.text
    assert re.search(r"<figure.*?<svg", drawn.text, re.DOTALL)
    wrong = reader.ready("/ask", q="SELECT 'a' AS x", chart="bars")
    assert "a chart needs rows and a column of numbers" in wrong.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("DROP VIEW games", "one SELECT that only reads (this is: DROP)"),
        ("COPY games TO 'x'", "one SELECT that only reads (this is: COPY)"),
        ("SELECT * FROM read_text('/etc/passwd')", "read_text() is not allowed here"),
        ("SET memory_limit = '1TB'", "one SELECT that only reads (this is: SET)"),
        ("SELECT * FROM positions LIMIT 1", "not indexed to ply 6: run 'qarena archive index'"),
        ("SELECT nothing FROM games", "Binder Error"),
        ("<script>alert(1)</script>", "SQL"),
    ],
)
def test_what_cannot_be_answered_is_one_line_beside_the_question(reader: Visitor, text: str, line: str) -> None:
    page = reader.ready("/ask", q=text)
    assert page.status in (400, 500)
    assert line in page.line
    assert "<textarea" in page.text
    assert "<script>alert" not in page.text


def test_a_long_question_says_that_it_is_being_computed(reader: Visitor) -> None:
    page = reader.get(
        "/ask", q="SELECT count(*) FROM range(100000000) a, range(100000) b WHERE hash(a.range) = b.range"
    )
    assert page.refreshes
    assert "Still computing" in page.text


def test_an_empty_archive_names_the_command_that_fills_it(ada: Visitor) -> None:
    page = ada.get("/ask", question="1")
    assert (page.status, page.line, page.refreshes) == (200, "", False)
    assert f"qarena run agent@a=rule_based agent@b=random games=10000 archive={ada.site.settings.archive}" in page.text
