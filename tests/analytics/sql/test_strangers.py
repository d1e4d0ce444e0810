"""Questions of strangers read the vocabulary and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from analytics.query.cookbook import questions
from analytics.sql.database import OpenArchive
from analytics.sql.views import VIEWS
from analytics.sql.vocabulary import check_vocabulary
from quarto.errors import ArenaError
from tests.paths import SAMPLE

EXPORT = "/tmp/strangers.csv"  # noqa: S108  (never written)


@pytest.fixture(scope="module")
def guarded() -> Iterator[OpenArchive]:
    with OpenArchive(SAMPLE, vocabulary_only=True) as opened:
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM games",
        "WITH g AS (SELECT * FROM games), h AS (FROM g) SELECT count(*) AS n FROM h JOIN runs USING (run_id)",
        "SELECT cell_name(c) AS cell, wilson_low(7, 10) AS low FROM range(16) AS cells(c)",
        "DESCRIBE games",
        "SELECT * FROM (SUMMARIZE runs)",
        "SELECT unnest([1, 2]) AS x, random() > 2 AS y, now() AS z",
        "SELECT (SELECT max(plies) FROM games) AS longest, list_transform([1], lambda x: x + 1) AS l",
        "PIVOT games ON ending IN ('line', 'full_board') USING count(*)",
    ],
)
def test_the_vocabulary_is_answered(guarded: OpenArchive, text: str) -> None:
    assert guarded.first(text, 5).height > 0


def test_every_question_of_the_cookbook_is_allowed() -> None:
    with duckdb.connect() as parser:
        for question in questions():
            check_vocabulary(parser, question.sql, {*VIEWS, "seats", "pairs", "boards", "ordered_openings", "policy"})


WRITES = [
    f"COPY games TO '{EXPORT}'",
    f"COPY (PIVOT games ON ending USING count(*)) TO '{EXPORT}'",
    "INSERT INTO runs SELECT * FROM runs",
    "CREATE TABLE t AS SELECT 1",
    "DROP VIEW games",
    "UPDATE runs SET seed = 1",
    "DELETE FROM runs",
    "ATTACH '/tmp/x.db'",
    f"EXPORT DATABASE '{EXPORT}'",
    "SELECT 1; DROP VIEW games",
    "WITH x AS (INSERT INTO runs SELECT * FROM runs RETURNING *) SELECT * FROM x",
    "SELECT write_log('x')",
    "FROM checkpoint()",
]
SETTINGS = [
    "SET memory_limit = '100GB'",
    "PRAGMA memory_limit = '100GB'",
    "RESET lock_configuration",
    "SET VARIABLE files = ['/etc/passwd']",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL enable_logging()",
    "FROM enable_logging()",
    "FROM disable_optimizer()",
    "SELECT current_setting('temp_directory')",
    "SELECT getvariable('files')",
    "SELECT getenv('HOME')",
    "FROM duckdb_settings()",
    "FROM pg_settings",
    "FROM pg_catalog.pg_settings",
    "FROM duckdb_views()",
    "FROM sqlite_master",
    "SELECT pg_get_viewdef('games')",
    "FROM information_schema.tables",
    "FROM duckdb_secrets()",
    "SELECT b.name FROM (WITH pg_settings AS (SELECT 1 AS q) FROM pg_settings) AS a, pg_settings AS b",
    "SELECT b.sql FROM (WITH Duckdb_Views AS (SELECT 1 AS q) FROM duckdb_views) AS a, duckdb_views AS b",
    "SELECT b.* FROM (WITH _pairings AS (SELECT 1 AS q) FROM _pairings) AS a, _pairings AS b",
    "SHOW ALL TABLES",
    "EXPLAIN SELECT 1",
    "SELECT nextval('s')",
]
FILES = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_json('/proc/self/environ')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('data/sample/x.parquet')",
    "SELECT * FROM read_parquet('http://localhost/x.parquet')",
    "FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "FROM query_table('/etc/passwd')",
    "FROM json_execute_serialized_sql('{}')",
    "WITH games AS (FROM read_text('/etc/passwd')) FROM games",
    "SELECT (SELECT content FROM read_text('/etc/passwd')) AS x",
    "SELECT 1 FROM games WHERE EXISTS (FROM glob('/etc/*'))",
    "SELECT 1 AS x ORDER BY (SELECT count(*) FROM read_text('/etc/passwd'))",
    "SELECT 1 AS x LIMIT (SELECT count(*) FROM read_text('/etc/passwd'))",
    "SELECT 1 AS x UNION SELECT size FROM read_text('/etc/passwd')",
    "SELECT max(x) OVER (ORDER BY (SELECT count(*) FROM glob('/*'))) AS m FROM range(3) t(x)",
    "FROM system.main.duckdb_settings()",
    'SELECT b.* FROM (WITH "/etc/passwd" AS (SELECT 1 AS q) FROM "/etc/passwd") AS a, "/etc/passwd" AS b',
    "FROM games, LATERAL (FROM read_text('/etc/passwd'))",
]


@pytest.mark.parametrize("text", [*WRITES, *SETTINGS, *FILES])
def test_everything_else_is_refused(guarded: OpenArchive, text: str) -> None:
    with pytest.raises(ArenaError, match="SQL") as refused:
        guarded.first(text, 5)
    assert "root:" not in str(refused.value)
    assert not Path(EXPORT).exists()
    assert guarded.first("SELECT count(*) AS n FROM games", 5).item() == 16_000


def test_our_own_questions_may_read_the_catalogue() -> None:
    with OpenArchive(SAMPLE) as opened:
        assert opened.sql("SELECT count(*) AS n FROM duckdb_settings()").item() > 100
        other = opened.fork()
        assert other.sql("SELECT count(*) AS n FROM games").item() == 16_000
        other.close()
        assert opened.sql("SELECT count(*) AS n FROM plies").item() == 143_806
