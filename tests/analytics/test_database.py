import datetime as dt
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

import analytics
from analytics.archive import Archive
from analytics.database import OpenArchive
from analytics.questions import names, query
from analytics.records import SweepJob
from analytics.results import results
from analytics.schema import TABLES
from quarto.errors import FailureError, RequestError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, naive_rows, random_block, record

ROOT = Path(__file__).parents[2]
BLOCKS = [random_block(1, 0, 0), random_block(1, 1, 0), random_block(1, 0, 8, 4), random_block(1, 2, 0)]

WIDENED = {pl.Int8: pl.Int32, pl.Categorical: pl.String, pl.Enum: pl.String}


def test_the_views_hold_the_rows_stored(archive: Archive) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    with analytics.open_archive(archive.root) as opened:
        assert opened.sql("SELECT * EXCLUDE (run_id) FROM games ORDER BY game_id").rows() == games
        assert opened.sql("SELECT * EXCLUDE (run_id) FROM plies ORDER BY ply, game_id").rows() == plies
        assert opened.sql("SELECT DISTINCT run_id FROM games UNION FROM (SELECT run_id FROM plies)").rows() == [
            (RUN_ID,)
        ]


def test_the_lazy_frames_hold_the_rows_stored(archive: Archive) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    with analytics.open_archive(str(archive.root)) as opened:
        assert opened.games().sort("game_id").drop("run_id").collect().rows() == games
        assert opened.plies().sort("ply", "game_id").drop("run_id").collect().rows() == plies
        assert opened.plies().select(pl.col("run_id").unique()).collect().item() == RUN_ID


@pytest.mark.parametrize("run_id", [RUN_ID, "000000000000", "1234567890e1", "0000000000e5"])
def test_a_run_id_is_never_taken_for_a_number(tmp_path: Path, run_id: str) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    archive.commit(run_id, BLOCKS, PAIRINGS)
    with OpenArchive(archive.root) as opened:
        assert opened.sql(f"SELECT run_id FROM games WHERE run_id = '{run_id}' LIMIT 1").rows() == [(run_id,)]
        assert opened.games().filter(pl.col("run_id") == run_id).select("run_id").head(1).collect().rows() == [
            (run_id,)
        ]


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("table", list(TABLES))
def test_types_are_the_same_with_and_without_games(archive: Archive, tmp_path: Path, table: str, empty: bool) -> None:
    root = Archive.open(tmp_path / "empty", create=True).root if empty else archive.root
    expected = {"run_id": pl.String(), **TABLES[table]}
    with OpenArchive(root) as opened:
        in_sql = {name: WIDENED.get(type(kind), kind) for name, kind in expected.items()}
        assert opened.sql(f"FROM {table} LIMIT 0").schema == in_sql
        lazy = {name: pl.Int32 if kind == pl.Int8 else kind for name, kind in expected.items()}
        assert getattr(opened, table)().collect_schema() == lazy
        assert opened.sql(f"SELECT count(*) > 0 FROM {table}").item() != empty


def test_small_integers_are_widened(archive: Archive) -> None:
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT max(piece * 16 + cell) FROM plies").item() > 127
        assert opened.plies().select((pl.col("piece") * 16 + pl.col("cell")).max()).collect().item() > 127


def test_only_the_row_groups_of_a_ply_are_read(tmp_path: Path) -> None:
    """Over 180,000 rows: three row groups, the first of which holds all first plies."""
    archive = Archive.open(tmp_path / "archive", create=True)
    block = random_block(1, pairs=100)
    archive.commit(RUN_ID, [block._replace(first_pair=100 * i) for i in range(80)], PAIRINGS)
    with OpenArchive(archive.root) as opened:
        plan = opened.sql("EXPLAIN ANALYZE SELECT avg(outcome) FROM plies WHERE ply = 0")["explain_value"][0]
    assert "Row Groups Scanned: 1 / 3" in plan


def test_a_snapshot_is_kept_until_the_archive_is_opened_again(archive: Archive) -> None:
    with OpenArchive(archive.root) as opened:
        archive.commit(RUN_ID, [random_block(1, 0, 50)], PAIRINGS)
        assert opened.sql("SELECT count(*) FROM games").item() == 56
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == 72


def test_closing_is_not_the_end(archive: Archive) -> None:
    opened = OpenArchive(archive.root)
    opened.sql("SELECT 1")
    opened.close()
    opened.close()
    assert opened.sql("SELECT count(*) FROM games").item() == 56
    opened.close()


def test_a_path_with_quotes_is_only_a_path(tmp_path: Path) -> None:
    archive = Archive.open(tmp_path / "it's; DROP [all] *", create=True)
    archive.commit(RUN_ID, BLOCKS, PAIRINGS)
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == opened.games().collect().height == 56


# Runs and sweeps.


def test_the_view_runs(archive: Archive) -> None:
    created = "2026-11-21T05:07:00+00:00"
    archive.save_run(record(created=created, games=20, status="complete", seconds=1.5, spec={"opening_plies": 2}))
    archive.save_run(record("ffffffffffff", created=created, pairings=[("it's", "b")]))
    with OpenArchive(archive.root) as opened:
        rows = opened.sql("SELECT * FROM runs ORDER BY run_id").rows(named=True)
    assert rows[0] == {
        "run_id": RUN_ID,
        "created": dt.datetime(2026, 11, 21, 5, 7),  # noqa: DTZ001 - as TIMESTAMP is: UTC, and it does not say so
        "status": "complete",
        "rules": "classic",
        "agents": ["dumb(depth=2)", "random", "rule_based"],
        "pairings": 3,
        "seed": 7,
        "opening_plies": 2,
        "games_asked": 20,
        "games": 56,
        "shards": 2,
        "code_version": "0.1.0",
        "fingerprint": "ab" * 32,
        "command": "qarena run",
        "seconds": 1.5,
    }
    assert (rows[1]["agents"], rows[1]["games"], rows[1]["shards"]) == (["b", "it's"], 0, 0)


def test_the_view_sweeps_has_a_row_for_each_pairing_of_a_job(archive: Archive) -> None:
    archive.save_sweep_job(SweepJob("s", 0, {"rules": "classic", "opening_plies": "0"}, RUN_ID, games=20))
    archive.save_sweep_job(SweepJob("s", 1, {"rules": "round"}, None, "failed", "no such rules"))
    archive.save_sweep_job(SweepJob("s", 2, {}, "ffffffffffff", "interrupted"))
    with OpenArchive(archive.root) as opened:
        rows = opened.sql("SELECT * FROM sweeps ORDER BY job, agent_a, agent_b").rows(named=True)
        assert opened.sql("SELECT overrides['rules'] FROM sweeps WHERE job = 1").item() == "round"
    by_pairing = {(result.first, result.second): result for result in results(archive, RUN_ID)}
    assert [row["job"] for row in rows] == [0, 0, 0, 1, 2]
    for row in rows[:3]:
        result = by_pairing[row["agent_a"], row["agent_b"]]
        assert [row[name] for name in ("games", "wins", "draws", "losses")] == [
            result.games,
            result.wins,
            result.draws,
            result.losses,
        ]
        assert (row["win_rate"], row["win_low"], row["win_high"]) == result.win_rate
        assert (row["run_id"], row["status"], row["error"]) == (RUN_ID, "complete", None)
    assert (rows[3]["status"], rows[3]["error"], rows[3]["agent_a"]) == ("failed", "no such rules", None)
    assert (rows[4]["status"], rows[4]["run_id"], rows[4]["games"]) == ("interrupted", "ffffffffffff", None)


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
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_nothing_but_a_question_is_answered(archive: Archive, tmp_path: Path, text: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nsesame\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with OpenArchive(archive.root) as opened:
        with pytest.raises(RequestError) as caught:
            opened.sql(text.format(tmp=tmp_path, secret=secret, file=archive.committed_files("plies")[0]))
        assert "\n" not in str(caught.value)
        assert "sesame" not in str(caught.value)
        assert opened.sql("SELECT count(*) FROM runs").item() == 1  # and the next question is answered
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "text", ["EXPLAIN SELECT 1", "explain analyze\nFROM games", "DESCRIBE games", "FROM runs", "VALUES (1)"]
)
def test_every_form_of_a_question_is_answered(archive: Archive, text: str) -> None:
    with OpenArchive(archive.root) as opened:
        assert len(opened.sql(text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("selec 1", 'SQL: Parser Error: syntax error at or near "selec"'),
        ("SELECT pice FROM plies", '"pice" not found in FROM clause! Candidate bindings: "piece"'),
        (
            "SELECT * FROM plyes",
            "SQL: there is no table 'plyes'; did you mean 'plies'? valid: games, plies, runs, sweeps",
        ),
        ("SELECT 'x'::INT", "Could not convert string 'x' to INT32"),
    ],
)
def test_a_mistake_is_explained_in_one_line(archive: Archive, text: str, complaint: str) -> None:
    with OpenArchive(archive.root) as opened, pytest.raises(RequestError) as caught:
        opened.sql(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no archive at"):
        analytics.open_archive(tmp_path / "nowhere")


def test_a_damaged_commit_is_not_passed_over(archive: Archive) -> None:
    (archive.folder("commits", RUN_ID) / "000001.json").write_text("{")
    with pytest.raises(FailureError, match=r"000001\.json is damaged"):
        analytics.open_archive(archive.root)


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("close", ["opened.close()", "pass"])
def test_a_script_leaves_nothing_on_the_standard_error(archive: Archive, close: str) -> None:
    done = in_a_process(
        f"""
        import analytics
        from quarto.errors import RequestError
        opened = analytics.open_archive({str(archive.root)!r})
        print(opened.sql("SELECT count(*) FROM games").item())
        for wrong in ("selec", "SELECT pice FROM plies", "SELECT 'x'::INT", "DROP VIEW games"):
            try:
                opened.sql(wrong)
            except RequestError as error:
                kept = error
        print(opened.plies().collect().height > 0)
        {close}
        """
    )
    assert (done.stdout, done.stderr) == ("56\nTrue\n", "")


def test_importing_analytics_is_cheap() -> None:
    done = in_a_process(
        "import sys, analytics; print(sorted({'duckdb', 'numba', 'numpy', 'polars'} & set(sys.modules)))"
    )
    assert done.stdout == "[]\n"


# Named questions.


@pytest.mark.parametrize("name", names())
def test_every_question_has_a_header_and_an_answer(archive: Archive, name: str) -> None:
    assert query(name).startswith("-- ")
    with OpenArchive(archive.root) as opened:
        assert len(opened.sql(query(name)))


def test_the_named_questions_answer_what_the_rows_say(archive: Archive) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    with OpenArchive(archive.root) as opened:
        lengths = opened.sql(query("game_length"))
        firsts = opened.sql(query("first_plies"))
        rates = opened.sql(query("win_rates"))
    assert lengths.select(pl.col("plies") * pl.col("games")).to_series().sum() == len(plies)
    assert lengths["share"].sum() == pytest.approx(1)
    assert firsts["games"].sum() == sum(row[2] == 0 for row in plies)
    assert rates["games"].sum() == 2 * len(games)
    wins = rates.select(pl.col("win_rate") * pl.col("games")).to_series().sum()
    assert wins == pytest.approx(sum(row[5] != -1 for row in games))


def test_an_unknown_question_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'win_rates'"):
        query("win_rate")
    with pytest.raises(RequestError):
        query("../schema")
