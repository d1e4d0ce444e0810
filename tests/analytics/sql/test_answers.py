"""Questions in SQL, wrong questions, and the form of answers."""

from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest

from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from quarto.errors import RequestError
from tests.analytics.folders import files_of
from tests.analytics.naive_games import RUN_ID

# Read-only.

FORBIDDEN = [
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "COPY games TO '{tmp}/out.csv'",
    "COPY (SELECT 1) TO '{file}'",
    "EXPLAIN COPY (SELECT 1) TO '{file}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN /* x */ ANALYZE COPY (SELECT 1) TO '{file}'",
    "/* x */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{file}'",
    "EXPLAIN EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "ATTACH '{tmp}/other.db'",
    "INSERT INTO runs (run_id) VALUES ('x')",
    "WITH x AS (INSERT INTO runs (run_id) VALUES ('x') RETURNING *) SELECT * FROM x",
    "DELETE FROM runs",
    "DROP VIEW games",
    "CREATE TABLE mine (a INT)",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{tmp}/*')",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '{tmp}/out'",
    "CALL pragma_version()",
    "BEGIN TRANSACTION",
    "COPY (PIVOT games ON ending USING count(*)) TO '{file}'",
    "EXPLAIN ANALYZE COPY (PIVOT games ON ending USING count(*)) TO '{file}'",
    "EXPLAIN PIVOT games ON ending USING count(*)",
    "CREATE TABLE mine AS PIVOT games ON ending USING count(*)",
    "PIVOT games ON ending USING count(*); SELECT 1",
    "PIVOT games ON ending USING count(*); PIVOT games ON ending USING count(*)",
    "WITH x AS (INSERT INTO runs (run_id) VALUES ('x') RETURNING *) FROM x, (PIVOT games ON ending USING count(*))",
    "PIVOT games ON ending USING count(*)) TO '{file}' --",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_nothing_but_a_question_is_answered(shared: Archive, opened: OpenArchive, text: str) -> None:
    folder = Path(shared.root).parent
    secret = folder / "secret.csv"
    secret.write_text("word\nsesame\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RequestError) as caught:
        opened.sql(text.format(tmp=folder, secret=secret, file=files_of(shared, RUN_ID, "plies")[0]))
    assert "\n" not in str(caught.value)
    assert "sesame" not in str(caught.value)
    assert opened.sql("SELECT count(*) FROM runs").item() == 1  # and the next question is answered
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "text", ["EXPLAIN SELECT 1", "explain analyze\nFROM games", "DESCRIBE games", "FROM runs", "VALUES (1)"]
)
def test_every_form_of_a_question_is_answered(opened: OpenArchive, text: str) -> None:
    assert len(opened.sql(text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("selec 1", 'SQL: Parser Error: syntax error at or near "selec"'),
        ("SELECT pice FROM plies", '"pice" not found in FROM clause! Candidate bindings: "piece"'),
        ("SELECT agent FROM games", "; column agent is in the views results, seats, decisions, positions, first_plies"),
        (
            "SELECT * FROM plyes",
            "SQL: there is no table 'plyes'; did you mean 'plies'? valid: agents, boards, decisions, ",
        ),
        ("SELECT 'x'::INT", "Could not convert string 'x' to INT32"),
        ("SELECT range * 9000000000000 FROM range(9999999)", "SQL: Out of Range Error: Overflow in multiplication"),
        ("SELECT INTERVAL 1 DAY AS d", "column 'd' of the answer is of type INTERVAL"),
        ("SELECT created - created AS d FROM runs", "cast it, for instance to VARCHAR"),
        ("SELECT [{'a': MAP {1: INTERVAL 1 DAY}}] AS d", "column 'd' of the answer is of type STRUCT"),
        ("SELECT 3::VARIANT AS d", "column 'd' of the answer is of type VARIANT"),
        ("SELECT 'infinity'::DATE AS d", "column 'd' of the answer has a date outside of the years 1 to 9999"),
        ("SELECT [{'a': '-infinity'::TIMESTAMP}] AS d", "has a date outside of the years 1 to 9999, such as infinity"),
        ("SELECT DATE '20000-01-01' AS d", "cast it, for instance to VARCHAR"),
        ("SELECT 'na\udcefve'", "the question holds bytes that are not UTF-8"),
        ("SELECT 1 AS a, 2 AS a", "2 columns of the answer are named 'a': rename them with AS"),
        ("FROM games JOIN plies ON games.game_id = plies.game_id", "2 columns of the answer are named 'run_id'"),
        ("EXPLAIN PIVOT games ON ending USING count(*)", "PIVOT games ON ending IN ('line', 'full_board')"),
    ],
)
def test_a_mistake_is_explained_in_one_line(opened: OpenArchive, text: str, complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        opened.sql(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_type_that_frames_do_not_have_can_be_cast(opened: OpenArchive) -> None:
    assert opened.sql("SELECT (INTERVAL 1 DAY)::VARCHAR").item() == "1 day"


def test_every_type_is_answered_or_refused(opened: OpenArchive) -> None:
    with duckdb.connect() as connection:
        columns = connection.sql("FROM test_all_types()").columns
    refused = set()
    for name in columns:
        try:
            opened.sql(f'SELECT "{name}" FROM test_all_types()')
        except RequestError:
            refused.add(name)
    assert refused == {
        *("interval", "union", "bignum", "geometry", "bit", "time_tz", "timestamp_s"),
        *("date", "timestamp", "timestamp_ms", "timestamp_tz", "date_array", "timestamp_array", "timestamptz_array"),
    }


# Pivots, which DuckDB splits in several statements unless their values are named.


@pytest.mark.parametrize(
    "text",
    [
        "PIVOT (SELECT winner FROM games) ON winner USING count(*)",
        "FROM (PIVOT (SELECT winner FROM games) ON winner USING count(*)) -- a comment",
        "WITH p AS (PIVOT (SELECT winner FROM games) ON winner USING count(*)) FROM p",
        "PIVOT (SELECT winner FROM games) ON winner IN (-1, 0, 1) USING count(*)",
    ],
)
def test_a_pivot_is_a_question(opened: OpenArchive, text: str) -> None:
    counts = dict(opened.sql("SELECT winner::VARCHAR, count(*) FROM games GROUP BY ALL").rows())
    for _ in range(2):  # nothing of it stays
        assert opened.sql(text).to_dicts() == [counts]


# Whole numbers.


def test_sums_are_integers(opened: OpenArchive) -> None:
    answer = opened.sql("SELECT sum(plies) AS plies, [sum(plies)] AS list, {'x': sum(plies)} AS struct FROM games")
    plies = opened.sql("SELECT count(*) FROM plies").item()
    assert opened.sql("SELECT sum(plies) AS plies FROM games WHERE false").schema == {"plies": pl.Int64}
    assert answer.schema == {"plies": pl.Int64, "list": pl.List(pl.Int64), "struct": pl.Struct({"x": pl.Int64})}
    assert answer.rows() == [(plies, [plies], {"x": plies})]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_widest_integer_fits(opened: OpenArchive, number: int) -> None:
    answer = opened.sql(f"SELECT ({number})::HUGEINT AS a, 1.5::DECIMAL(4, 1) AS b")
    assert answer.schema == {"a": pl.Int64, "b": pl.Decimal(4, 1)}
    assert answer["a"].item() == number


def test_a_wider_integer_is_not_lost(opened: OpenArchive) -> None:
    answer = opened.sql(f"SELECT {2**63}::HUGEINT AS a, 1::HUGEINT AS b")
    assert answer.row(0) == (Decimal(2**63), 1)
    assert answer.schema["b"] == pl.Int64
