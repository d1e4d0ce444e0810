"""Questions of strangers read the vocabulary and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from analytics.questions.cookbook import read_cookbook
from analytics.questions.sql.conditions import check_condition
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.syntax import parse_query, walk_nodes
from analytics.questions.sql.views import VIEWS
from analytics.questions.sql.vocabulary import check_vocabulary
from quarto.errors import RequestError
from tests.paths import SAMPLE

EXPORT = "/tmp/strangers.csv"  # noqa: S108  (that some of the questions try to write)


@pytest.fixture(scope="module")
def restricted_archive() -> Iterator[OpenArchive]:
    with OpenArchive(SAMPLE, vocabulary_only=True) as opened:
        yield opened


VOCABULARY = (
    "SELECT count(*) AS n FROM games",
    "WITH g AS (SELECT * FROM games), h AS (FROM g) SELECT count(*) AS n FROM h JOIN runs USING (run_id)",
    "SELECT cell_name(c) AS cell, wilson_low(7, 10) AS low FROM range(16) AS cells(c)",
    "SELECT cluster_reach(wins, games) AS reach FROM results",
    "DESCRIBE games",
    "SELECT * FROM (SUMMARIZE runs)",
    "SELECT unnest([1, 2]) AS x, random() > 2 AS y, now() AS z",
    "SELECT (SELECT max(plies) FROM games) AS longest, list_transform([1], lambda x: x + 1) AS l",
    "PIVOT games ON ending IN ('line', 'full_board') USING count(*)",
    "SELECT g.plies FROM (WITH games AS (SELECT 1 AS plies) FROM games) AS g, games LIMIT 1",
    'WITH "mean score" AS (SELECT avg(score) AS x FROM Seats) FROM "mean score"',
    "FROM range(3) AS t(x), LATERAL (SELECT x + 1 AS y FROM runs)",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) FROM r",
    "FROM ordered_openings(2)",
)


def test_the_vocabulary_is_answered(restricted_archive: OpenArchive) -> None:
    for text in VOCABULARY:
        assert restricted_archive.read_first_rows(text, 5).height > 0


def test_every_question_of_the_cookbook_is_allowed() -> None:
    with duckdb.connect() as parser:
        for question in read_cookbook():
            query = parse_query(parser, question.sql)
            check_vocabulary(parser, query, {*VIEWS, "seats", "pairs", "boards", "ordered_openings", "policy"})


def test_everything_else_is_refused(restricted_archive: OpenArchive) -> None:
    hostile = (Path(__file__).with_name("hostile_questions.sql")).read_text().splitlines()[1:]
    hostile += [f"EXPLAIN SELECT 1 AS x_{view}" for view in (*VIEWS, "query")]
    # Afterwards the views have rows, so that their files' paths are in the catalogue.
    assert (
        restricted_archive.read_first_rows(
            "SELECT count(*) AS n FROM games JOIN boards USING (run_id, game_id)", 5
        ).item()
        > 16_000
    )
    for text in hostile:
        with pytest.raises(RequestError, match=r"^SQL") as refused:
            restricted_archive.read_first_rows(text, 5)
        assert "root:" not in str(refused.value), text
        assert str(SAMPLE) not in str(refused.value), text
    assert len(hostile) > 200
    assert not Path(EXPORT).exists()
    with OpenArchive(SAMPLE) as fresh:
        for view in ("games", "plies", "runs", "results", "seats", "first_plies"):
            count = f"SELECT count(*) AS n FROM {view}"
            assert restricted_archive.read_first_rows(count, 5).item() == fresh.sql(count).item() > 0


def test_a_question_that_is_nested_too_deeply_is_refused_and_says_so(restricted_archive: OpenArchive) -> None:
    for opening, closing in (("SELECT * FROM (", ")"), ("SELECT (", ")"), ("SELECT ARRAY(", ")")):
        text = opening * 1000 + "SELECT 1" + closing * 1000
        with pytest.raises(RequestError, match=r"^SQL: it is nested too deeply: write fewer levels of brackets"):
            restricted_archive.read_first_rows(text, 5)
    assert restricted_archive.read_first_rows("SELECT * FROM (" * 40 + "SELECT 1 AS x" + ")" * 40, 5).height == 1
    assert restricted_archive.read_first_rows("SELECT " + " + ".join("1" * 150) + " AS x", 5).item() == 150
    where = "plies IN (" + "SELECT * FROM (" * 400 + "SELECT 1" + ")" * 401
    with pytest.raises(RequestError, match="nested too deeply") as refused:
        check_condition(restricted_archive, where)
    assert len(str(refused.value)) < 700


def test_our_own_questions_may_read_the_catalogue() -> None:
    with OpenArchive(SAMPLE) as opened:
        assert opened.sql("SELECT count(*) AS n FROM duckdb_settings()").item() > 100
        other = opened.fork()
        assert other.sql("SELECT count(*) AS n FROM games").item() == 16_000
        other.close()
        assert opened.sql("SELECT count(*) AS n FROM plies").item() == 143_806


SUM = "+".join("1" * 600)


def test_questions_nested_deeply_are_answered_or_refused_in_one_line(restricted_archive: OpenArchive) -> None:
    """Nest more additions than Python's limit of recursion, about 1,000; each is a level of DuckDB's tree."""
    with pytest.raises(RequestError, match=r"^SQL: it is nested too deeply: write fewer levels"):
        restricted_archive.read_first_rows(f"SELECT {SUM} AS n", 5)
    with OpenArchive(SAMPLE) as opened:
        assert opened.sql(f"SELECT {SUM} AS n FROM games LIMIT 1").item() == 600
        with pytest.raises(RequestError, match=r"is not a condition on games: .*it is nested too deeply"):
            check_condition(opened, f"plies < {SUM}")
        check_condition(opened, f"plies < {SUM[:201]}")


def test_nodes_come_before_those_inside_them() -> None:
    tree = {"name": 1, "a": [{"name": 2, "b": {"name": 3}}, 7, [{"name": 4}]], "c": {"name": 5}}
    assert [node["name"] for node in walk_nodes(tree)] == [1, 2, 3, 4, 5]
