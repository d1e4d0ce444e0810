"""What a question names is what its syntax names: no text is matched."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.syntax import ParsedQuery, parse_query
from analytics.questions.sql.views import VIEWS
from quarto.errors import RequestError
from tests.paths import SAMPLE


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


DEEP = "+".join("1" * 600)  # deeper than Python reads a tree
VIEWS_READ = {
    "SELECT count(*) FROM games": {"games"},
    "SELECT 'FROM plies', $$plies$$, 'plies' FROM games -- , plies": {"games"},
    "/* FROM plies */ SELECT 1 AS plies FROM games": {"games"},
    "SELECT \"plies\", games.plies, {'seats': 1}.seats FROM games": {"games"},
    'FROM "games" AS seats': {"games"},
    "FROM GAMES": {"games"},
    "FROM 'games'": {"games"},
    "TABLE games": {"games"},
    "DESCRIBE games": {"games"},
    "SHOW games": {"games"},
    "SELECT (SELECT max(ply) FROM plies), plies IN (FROM seats) FROM games": {"games", "plies", "seats"},
    # A name that WITH defines, where it is known and where it is not.
    "WITH games AS (SELECT 1 AS plies) FROM games": set(),
    'WITH "Games" AS (SELECT 1 AS plies) SELECT (SELECT max(plies) FROM games)': set(),
    "WITH games AS (SELECT 1 AS plies), seats AS (FROM games) FROM seats": set(),
    "WITH seats AS (FROM games), games AS (SELECT 1 AS plies) FROM seats": {"games"},
    "WITH games AS (FROM games WHERE plies > 3) FROM games": {"games"},
    "WITH games AS (SELECT 1 AS plies) FROM main.games": {"games"},
    "(WITH games AS (SELECT 1 AS plies) FROM games) UNION ALL FROM games": {"games"},
    "WITH games AS (SELECT 1 AS plies) FROM games UNION ALL FROM games": set(),
    "WITH RECURSIVE games AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM games WHERE n < 3) FROM games": set(),
    "WITH RECURSIVE games AS (FROM games UNION ALL FROM games WHERE plies < 3) FROM games": {"games"},
    "WITH games AS MATERIALIZED (SELECT 1 AS n) PIVOT games ON n IN (1) USING count(*)": set(),
    # What has no tree, or one inside another statement.
    "EXPLAIN SELECT 'plies', 1 AS seats FROM games": {"games"},
    "-- plies\nexplain /* seats */ analyze FROM games": {"games"},
    "PIVOT games ON ending USING count(*) -- of plies": {"games"},
    "PIVOT (SELECT ending, 'all plies' AS n, 'seats taken' FROM games) ON ending USING count(*)": {"games"},
    "PIVOT 'games' ON ending USING count(*)": {"games"},
    f"SELECT {DEEP} AS n, 'a ü and plies' AS x FROM games": {"games"},
    # Names that are made while it is answered.
    "FROM query('FROM ' || 'games')": {*VIEWS},
    "PIVOT (FROM query_table('games')) ON ending USING count(*)": {*VIEWS},
}


@pytest.mark.parametrize("text", VIEWS_READ, ids=[text[:60] for text in VIEWS_READ])
def test_a_question_reads_the_views_that_its_syntax_names(text: str, parser: duckdb.DuckDBPyConnection) -> None:
    query = parse_query(parser, text)
    assert (query.select_views_possibly_read(VIEWS), query.error, query.is_read_only) == (VIEWS_READ[text], "", True)


def test_a_name_that_a_question_defines_fills_no_view() -> None:
    with OpenArchive(SAMPLE) as opened:
        assert opened.sql("WITH games AS (SELECT 1 AS plies) SELECT plies FROM games").item() == 1
        assert opened.sql("SELECT 'plies' AS games -- FROM plies").item() == "plies"
        assert opened._connection is not None
        assert opened._connection._filled_views == set()
        with_itself = "WITH games AS (FROM games WHERE plies > 3) SELECT count(*) > 1000 FROM games"
        assert opened.sql(with_itself).item() is True
        assert opened._connection._filled_views == {"games"}


KINDS = {
    "FROM games": (("SELECT",), False, True),
    "SELECT 1; SELECT 2": (("SELECT", "SELECT"), False, True),
    "": ((), False, True),
    "-- nothing": ((), False, True),
    "explain FROM games": (("SELECT",), True, True),
    "/* x */ EXPLAIN -- y\n ANALYZE FROM games": (("SELECT",), True, True),
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x'": (("COPY",), True, False),
    "EXPLAIN SELECT 1; COPY (SELECT 1) TO 'x'": (("EXPLAIN", "COPY"), False, False),
    "EXPLAIN (FORMAT json) SELECT 1": (("EXPLAIN",), False, False),
    "PIVOT games ON ending USING count(*)": (("MULTI",), False, True),
    "COPY (PIVOT games ON ending USING count(*)) TO 'x'": (("MULTI",), False, False),
    "INSERT INTO games VALUES (1)": (("INSERT",), False, False),
    "WITH a AS (INSERT INTO games VALUES (1) RETURNING *) FROM a": (("SELECT",), False, False),
    f"SELECT {DEEP} AS n": (("SELECT",), False, True),
}


@pytest.mark.parametrize("text", KINDS, ids=[text[:60] for text in KINDS])
def test_a_text_is_of_one_kind_and_reads_or_writes(text: str, parser: duckdb.DuckDBPyConnection) -> None:
    query = parse_query(parser, text)
    assert (query.kinds, query.explains, query.is_read_only) == KINDS[text]


def test_an_error_of_syntax_is_one_line_without_the_question(parser: duckdb.DuckDBPyConnection) -> None:
    for text in ("selec 1", "EXPLAIN selec 1", "FROM games WHERE"):
        assert parse_query(parser, text).error.startswith("syntax error at ")
        with (
            OpenArchive(SAMPLE) as opened,
            pytest.raises(RequestError, match=r"^SQL: Parser Error: syntax error at .*"),
        ):
            opened.sql(text)


def test_a_question_that_writes_inside_with_is_refused_before_it_is_asked() -> None:
    with (
        OpenArchive(SAMPLE) as opened,
        pytest.raises(RequestError, match=r"only reads \(this is: SELECT that writes\)"),
    ):
        opened.sql("WITH a AS (INSERT INTO games VALUES (1) RETURNING *) FROM a")


POLICIES = {
    "FROM games": frozenset(),
    "FROM policy('a') JOIN policy('B') USING (cell)": frozenset({"a", "B"}),
    "FROM policy('a' || 'b')": None,
    "SELECT 'policy' AS policy": frozenset(),
    "EXPLAIN FROM policy('a')": frozenset({"a"}),
    "PIVOT (FROM policy('a')) ON cell USING count(*)": None,
    "FROM query('FROM policy(1)')": None,
}


def test_a_question_names_the_policies_that_it_reads(parser: duckdb.DuckDBPyConnection) -> None:
    assert {text: parse_query(parser, text).policies for text in POLICIES} == POLICIES


def test_what_lists_the_catalogue_is_known(parser: duckdb.DuckDBPyConnection) -> None:
    lists = (
        "SHOW TABLES",
        "DESCRIBE",
        "FROM duckdb_views()",
        "FROM information_schema.tables",
        "FROM pg_catalog.pg_class",
        "SELECT (SELECT count(*) FROM sqlite_master)",
    )
    queries: dict[str, ParsedQuery] = {text: parse_query(parser, text) for text in lists}
    assert all(query.lists_catalogue for query in queries.values())
    for text in ("SELECT 'SHOW TABLES', 'duckdb_views'", "SELECT 1 AS pg_class -- SHOW", "DESCRIBE games"):
        assert not parse_query(parser, text).lists_catalogue
