"""Questions that only count rows: the numbers of rows that are remembered give the same answers as the files."""

from __future__ import annotations

import json

import polars as pl
import pytest

from analytics.questions.sql import connection
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.syntax import ParsedQuery
from analytics.store.archive import ArchiveStore
from analytics.store.marker import sound_stamps_path
from analytics.store.schema import TABLE_SCHEMAS
from quarto.errors import ArenaError
from tests.analytics.folders import list_table_files
from tests.analytics.naive_games import RUN_ID, store_span

# Questions that read no file. The run is that of the fixture.
COUNTING = (
    "SELECT count(*) FROM games",
    "FROM plies SELECT count(*)",
    "SELECT COUNT( * ) /* rows */ FROM Plies -- all",
    "SELECT run_id, count(*) FROM games GROUP BY run_id",
    "SELECT run_id AS run, count() AS n, 'x' AS label FROM games AS g GROUP BY ALL ORDER BY n DESC, g.run_id LIMIT 9",
    "SELECT run_id, count(*) FROM plies GROUP BY 1 HAVING count(*) > 3 ORDER BY ALL",
    'SELECT count(*), count(*) AS plies FROM plies AS "select" ORDER BY plies',
    f"SELECT count(*) FROM games WHERE run_id IN ('{RUN_ID}', 'x') AND NOT run_id = 'y'",
    "SELECT count(*) FROM games WHERE run_id = 'none'",
    "SELECT run_id, count(*) FROM games WHERE run_id > 'zz' GROUP BY ALL",
    "SELECT count(*) FROM games HAVING count(*) > 1000000",
)
# Questions for which numbers of rows do not suffice, among them wrong ones.
OTHERS = (
    "SELECT count(*) FROM games WHERE winner = 0",
    "SELECT count(winner) FROM games",
    "SELECT count(*) FILTER (run_id = 'x') FROM games",
    "SELECT count(DISTINCT run_id) FROM games",
    "SELECT count(*), max(plies) FROM games",
    "SELECT rules, count(*) FROM games GROUP BY ALL",
    "SELECT run_id, count(*) FROM games",
    "SELECT count(*) FROM games GROUP BY run_id, pairing ORDER BY ALL",
    "SELECT count(*) FROM games GROUP BY ROLLUP (run_id) ORDER BY ALL",
    "SELECT count(*) FROM games ORDER BY winner",
    "SELECT DISTINCT count(*) FROM games",
    "SELECT sum(n) FROM (SELECT count(*) AS n FROM games)",
    "SELECT count(*) FROM games, plies",
    "SELECT count(*) FROM games AS g (winner)",
    "SELECT count(*) + 1 FROM games",
    "SELECT count(*) OVER () FROM games",
    "SELECT count(*) FROM games WHERE run_id = (SELECT min(run_id) FROM runs)",
    "WITH games AS (SELECT 1) SELECT count(*) FROM games",
    "SELECT _rows, count(*) FROM games GROUP BY ALL",
    "SELECT count(*) FROM main.games",
    "SELECT count(*) FROM games; SELECT 1",
    "EXPLAIN SELECT count(*) FROM games",
    "SELECT count(*) AS é FROM games",
)


def answer_or_error(archive: ArchiveStore, question: str) -> pl.DataFrame | str:
    with OpenArchive(archive.root) as opened:
        try:
            return opened.sql(question)
        except ArenaError as error:
            return str(error)


def rewrites_nothing(_query: ParsedQuery) -> None:
    return None


@pytest.mark.parametrize("question", [*COUNTING, *OTHERS])
def test_numbers_of_rows_answer_as_files_do(
    archive: ArchiveStore, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = answer_or_error(archive, question)
    monkeypatch.setattr(connection, "rewrite_row_count", rewrites_nothing)
    expected = answer_or_error(archive, question)
    if isinstance(answer, pl.DataFrame) and isinstance(expected, pl.DataFrame):
        assert answer.schema == expected.schema
        assert answer.equals(expected)
    else:
        assert answer == expected


@pytest.mark.parametrize("question", COUNTING)
def test_a_count_reads_no_file_once_all_are_known(archive: ArchiveStore, question: str) -> None:
    with OpenArchive(archive.root) as opened:
        answer = opened.sql(question)
        for path in (path for table in TABLE_SCHEMAS for path in list_table_files(archive, RUN_ID, table)):
            path.unlink()
        assert opened.sql(question).equals(answer)


def test_rows_of_a_file_that_is_read_in_part_are_counted_from_the_file(archive: ArchiveStore) -> None:
    store_span(archive, (0, 20))  # the file of units 16 to 23 reaches beyond it, so that it is cut
    with OpenArchive(archive.root) as opened:
        assert not all(stored.is_file for stored in opened.archive.list_effective_ranges(RUN_ID))
        counts = [opened.sql(f"SELECT count(*) FROM {table}").item() for table in TABLE_SCHEMAS]
        assert counts == [opened.sql(f"SELECT count(run_id) FROM {table}").item() for table in TABLE_SCHEMAS]


def test_files_of_unknown_rows_are_checked_again(archive: ArchiveStore) -> None:
    with OpenArchive(archive.root) as opened:
        answer = opened.sql("SELECT count(*) FROM plies")
    memory = sound_stamps_path(archive.root)
    stamps = json.loads(memory.read_bytes())
    for forget in (lambda stamp: stamp[:-1], lambda stamp: [*stamp[:-1], None], lambda _stamp: []):
        memory.write_text(json.dumps({name: forget(stamp) for name, stamp in stamps.items()}))
        with OpenArchive(archive.root) as opened:
            assert opened.sql("SELECT count(*) FROM plies").equals(answer)
