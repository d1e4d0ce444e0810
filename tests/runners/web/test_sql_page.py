"""The page of SQL queries: tables, charts, files, and one line for a query that is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from analytics.questions.cookbook import read_cookbook
from runners.web.sql_page import QuestionService
from tests.runners.web.visiting import Page, plain

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

ASKED: tuple[dict[str, str], ...] = (
    {},
    {"question": "1"},
    {"question": "2"},
    {"q": "SELECT 1 AS x"},
    {"q": "SELECT 2"},
)


def ask(reader: Visitor, **values: str) -> Page:
    """Press Ask, and get the page of the query."""
    return reader.send("/ask", **values)


def test_a_link_fills_the_question_in_and_asks_nothing(ada: Visitor, reader: Visitor) -> None:
    text = "SELECT 41 + 1 AS shared"
    asking = reader.site.get_or_create_service(QuestionService).pool
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "request_answer", lambda _question: pytest.fail("a link asked it"))
        for page in (reader.get("/ask", q=text), reader.get("/ask.csv", q=text), reader.get("/ask", question="1")):
            assert page.status == 200
            assert "Press Ask" in page.text
            assert "<table" not in page.text
    answered = ask(reader, q=text)
    assert ">42<" in answered.text
    assert reader.get(answered.url).text == answered.text  # the address of an answer that is kept
    assert reader.get("/ask.csv", q=text).text == "shared\n42\n"
    ada.get("/ask", q=text)
    assert all(slot.process is None for slot in ada.site.get_or_create_service(QuestionService).pool._all)


def test_a_question_of_the_cookbook_is_filled_in_and_answered(reader: Visitor) -> None:
    page = ask(reader, question="1", q=read_cookbook()[0].sql)
    assert page.status == 200
    assert "FROM seats" in page.text
    words = plain(page.text)
    assert "semi_random 10,000 0.9075 0.9002 0.9061 0.9117" in words
    assert all(plain(query.title) in words for query in read_cookbook())
    titles = {re.findall("<title>(.*?)</title>", reader.get("/ask", **values).text)[0] for values in ASKED}
    assert len(titles) == len(ASKED)
    assert reader.get("/ask", question="99").status == 404


def test_an_answer_is_a_table_with_links_a_file_and_a_chart(reader: Visitor) -> None:
    text = "SELECT run_id, game_id, plies FROM games ORDER BY run_id, game_id LIMIT 3"
    page = ask(reader, q=text)
    assert '<a href="/browse/games/2a6d3741319d/1">' in page.text
    file = reader.get("/ask.csv", q=text)
    assert file.headers["content-type"].startswith("text/csv")
    assert file.text.splitlines()[:2] == ["run_id,game_id,plies", "2a6d3741319d,0,6"]
    numbers = ask(reader, q="SELECT 321000 AS games, 0.031333333 AS share, 12345 AS game_id, 1234567.891 AS n")
    assert all(f">{number}<" in numbers.text for number in ("321,000", "0.03133", "12345", "1,234,567.9"))
    ask(reader, q="SELECT '=1+1' AS x, chr(27) AS y")
    assert reader.get("/ask.csv", q="SELECT '=1+1' AS x, chr(27) AS y").text == "x,y\n=1+1,\\x1b\n"
    spreadsheet = reader.get("/ask.csv", q="SELECT '=1+1' AS x, chr(27) AS y", spreadsheet="1")
    assert spreadsheet.text == "x,y\n'=1+1,\\x1b\n"
    shown = ask(reader, q="SELECT chr(27) || chr(8238) AS x, '\t' AS y").text
    assert "\\x1b\\u202e" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    drawn = ask(reader, q="SELECT plies, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL", chart="line")
    assert "<figcaption>games by plies" in drawn.text
    assert re.search(r"<figure.*?<svg", drawn.text, re.DOTALL)
    wrong = ask(reader, q="SELECT 'a' AS x", chart="bars")
    assert "a chart needs rows and a column of numbers" in wrong.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("DROP VIEW games", "one SELECT that only reads"),
        ("COPY games TO 'x'", "one SELECT that only reads"),
        ("SELECT * FROM read_text('/etc/passwd')", "read_text() is not allowed here"),
        ("SET memory_limit = '1TB'", "one SELECT that only reads"),
        ("SELECT * FROM positions LIMIT 1", "not indexed to ply 6 (run 'qarena archive index --archive "),
        ("SELECT nothing FROM games", "Binder Error"),
        ("<script>alert(1)</script>", "SQL"),
    ],
)
def test_what_cannot_be_answered_is_one_line_beside_the_question(reader: Visitor, text: str, line: str) -> None:
    page = ask(reader, q=text)
    assert page.status in (400, 500)
    assert line in page.line
    assert "<textarea" in page.text
    assert "<script>alert" not in page.text


def test_a_long_question_says_that_it_is_being_computed(reader: Visitor) -> None:
    text = "SELECT count(*) FROM plies a, plies b, plies c WHERE a.piece + b.piece = c.cell * 100"
    page = Page(reader.client.post("/ask", data={"token": reader.site.token, "q": text}))
    assert page.refreshes
    assert "Still computing" in page.text
