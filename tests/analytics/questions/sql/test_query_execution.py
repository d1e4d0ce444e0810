"""Questions in SQL, wrong questions, the form of answers, limits, the temporary folder, and answers in parts."""

import os
import shutil
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from threading import Event, Timer

import duckdb
import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.sql.connection import SCRATCH_PREFIX, ScratchFolder, remove_abandoned_folders
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.query_execution import QueryLimits
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from tests.analytics.folders import list_table_files
from tests.analytics.naive_games import RUN_ID

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


def test_nothing_but_a_question_is_answered(shared: ArchiveStore, opened: OpenArchive) -> None:
    folder = Path(shared.root).parent
    secret = folder / "secret.csv"
    secret.write_text("word\nsesame\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for text in FORBIDDEN:
        with pytest.raises(RequestError) as caught:
            opened.sql(text.format(tmp=folder, secret=secret, file=list_table_files(shared, RUN_ID, "plies")[0]))
        assert "\n" not in str(caught.value)
        assert "sesame" not in str(caught.value)
        assert opened.sql("SELECT count(*) FROM runs").item() == 1  # and the next question is answered
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, text
    for text in ("EXPLAIN SELECT 1", "explain analyze\nFROM games", "DESCRIBE games", "FROM runs", "VALUES (1)"):
        assert len(opened.sql(text))


MISTAKES = (
    ("selec 1", 'SQL: Parser Error: syntax error at or near "selec"'),
    ("SELECT pice FROM plies", '"pice" not found in FROM clause! Candidate bindings: "piece"'),
    (
        "SELECT agent FROM games",
        "; column agent is in the views results, seats, decisions, evaluations, positions, first_plies",
    ),
    (
        "SELECT * FROM plyes",
        "SQL: there is no table 'plyes'; did you mean 'plies'? valid: agents, boards, decisions, ",
    ),
    ("SELECT cel_name(3)", 'Did you mean "cell_name"?'),
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
)


def test_a_mistake_is_explained_in_one_line(opened: OpenArchive) -> None:
    for text, complaint in MISTAKES:
        with pytest.raises(RequestError) as caught:
            opened.sql(text)
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)


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


def test_a_pivot_is_a_question(opened: OpenArchive) -> None:
    counts, pivot = (
        opened.sql("SELECT winner::VARCHAR, count(*) FROM games GROUP BY ALL"),
        "PIVOT (SELECT winner FROM games)",
    )
    for text in (
        f"{pivot} ON winner USING count(*)",
        f"FROM ({pivot} ON winner USING count(*)) -- a comment",
        f"WITH p AS ({pivot} ON winner USING count(*)) FROM p",
        f"{pivot} ON winner IN (-1, 0, 1) USING count(*)",
    ):
        for _ in range(2):  # nothing of it stays
            assert opened.sql(text).to_dicts() == [dict(counts.rows())]


# Whole numbers.


def test_sums_are_integers(opened: OpenArchive) -> None:
    answer = opened.sql("SELECT sum(plies) AS plies, [sum(plies)] AS list, {'x': sum(plies)} AS struct FROM games")
    plies = opened.sql("SELECT count(*) FROM plies").item()
    assert opened.sql("SELECT sum(plies) AS plies FROM games WHERE false").schema == {"plies": pl.Int64}
    assert answer.schema == {"plies": pl.Int64, "list": pl.List(pl.Int64), "struct": pl.Struct({"x": pl.Int64})}
    assert answer.rows() == [(plies, [plies], {"x": plies})]


def test_the_widest_integer_fits_and_a_wider_one_is_not_lost(opened: OpenArchive) -> None:
    for number in (2**63 - 1, -(2**63)):
        answer = opened.sql(f"SELECT ({number})::HUGEINT AS a, 1.5::DECIMAL(4, 1) AS b")
        assert answer.schema == {"a": pl.Int64, "b": pl.Decimal(4, 1)}
        assert answer["a"].item() == number
    answer = opened.sql(f"SELECT {2**63}::HUGEINT AS a, 1::HUGEINT AS b")
    assert answer.row(0) == (Decimal(2**63), 1)
    assert answer.schema["b"] == pl.Int64


ENDLESS = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"
LARGE = "SELECT sum(x) FROM (SELECT row_number() OVER (ORDER BY hash(i)) * hash(i) % 7 AS x FROM range(20000000) t(i))"


def test_a_question_ends_in_time_and_the_next_one_is_answered(shared: ArchiveStore) -> None:
    with open_archive(shared.root, seconds=0.2) as opened:
        opened.sql("SELECT 1")
        started = time.monotonic()
        with pytest.raises(RequestError, match=r"took longer than 0\.2 seconds: allow more \(--timeout\)"):
            opened.sql(ENDLESS)
        with pytest.raises(RequestError, match=r"took longer than 0\.2 seconds"):
            opened.stream("SELECT range FROM range(10000000000)", lambda rows, _: rows.sink_csv(os.devnull))
        assert time.monotonic() - started < 5
        assert opened.sql("SELECT count(*) FROM games").item() == 48


def test_a_question_is_stopped_from_another_thread_and_so_is_what_follows(shared: ArchiveStore) -> None:
    stopped = Event()
    with OpenArchive(shared.root, QueryLimits(stop_event=stopped)) as opened:
        opened.sql("SELECT 1")
        started = time.monotonic()
        Timer(0.1, stopped.set).start()
        for _ in range(2):
            with pytest.raises(RequestError, match="the question was stopped"):
                opened.sql(ENDLESS)
        assert 0.1 < time.monotonic() - started < 5


def test_a_question_spills_no_more_than_it_may(shared: ArchiveStore) -> None:
    with open_archive(shared.root, "60MiB", spill="5MiB") as opened:
        with pytest.raises(RequestError, match=r"spills more than 5MiB to the disk: allow more \(--spill\)"):
            opened.sql(LARGE)
        assert opened.sql("SELECT count(*) FROM games").item() == 48


def test_a_wrong_limit_is_refused(shared: ArchiveStore) -> None:
    for spill, seconds, complaint in (
        ("much", None, "spill 'much' is not a size: write a number and KiB, MiB, GiB or TiB, such as 1GiB"),
        ("50%", None, "spill '50%' is not a size"),
        (None, 0.0, "timeout 0 is not a time"),
        (None, float("nan"), "timeout nan is not a time"),
        (None, float("inf"), "timeout inf is not a time"),
    ):
        with pytest.raises(RequestError, match=complaint):
            open_archive(shared.root, spill=spill, seconds=seconds)
    for memory in ("", "lots", "0MiB", "-1GiB", "1", "12 pounds", "512MB", "0%"):
        with pytest.raises(
            RequestError, match=r"is not a size: write .*, such as 1GiB, or a share of the machine's, 70%"
        ):
            open_archive(shared.root, memory)


# The temporary folder.


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_what_a_killed_process_spilled_is_removed_by_the_next_question(shared: ArchiveStore, temporary: Path) -> None:
    code = (
        "import os, signal; from analytics.questions.sql.connection import ScratchFolder; "
        "scratch = ScratchFolder(); scratch.spill_folder.mkdir(); (scratch.spill_folder / 'x').write_bytes(b'x'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(temporary)}, check=False)
    (abandoned_folder,) = temporary.iterdir()
    assert (abandoned_folder / "spill" / "x").exists()
    with open_archive(shared.root) as running:
        assert running.sql("SELECT 1 AS x").item() == 1
        (own_folder,) = temporary.iterdir()
        assert own_folder != abandoned_folder
        with open_archive(shared.root) as second:  # the folder of a process that runs stays
            second.sql("SELECT 1")
            assert len(list(temporary.iterdir())) == 2
        assert list(temporary.iterdir()) == [own_folder]
    assert list(temporary.iterdir()) == []


def test_archives_that_nobody_closes_leave_neither_descriptors_nor_folders(
    shared: ArchiveStore, temporary: Path
) -> None:
    code = (
        "import os, resource, sys, tempfile; from pathlib import Path; from analytics import open_archive\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "for _ in range(300):\n"
        "    opened = open_archive(Path(sys.argv[1]))\n"
        "    assert opened.sql('SELECT 1 AS one').item() == 1\n"
        "    assert len(os.listdir(tempfile.gettempdir())) <= 3\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(shared.root)], env={**os.environ, "TMPDIR": str(temporary)}, check=True
    )
    assert list(temporary.iterdir()) == []


def test_a_frame_of_an_archive_with_an_odd_name_outlives_it(shared: ArchiveStore, tmp_path: Path) -> None:
    shutil.copytree(shared.root, tmp_path / "a[rb]?")
    assert open_archive(tmp_path / "a[rb]?").scan("games").collect().height == 48


def test_a_fork_leaves_the_folder_of_its_parent(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = ScratchFolder()
    with monkeypatch.context() as in_fork:
        in_fork.setattr(os, "getpid", lambda: -1)
        scratch.remove()
    assert [*temporary.iterdir()] == [scratch.folder]


def test_only_own_folders_of_that_name_are_removed(temporary: Path) -> None:
    (temporary / f"{SCRATCH_PREFIX}file").write_bytes(b"")
    (temporary / "other").mkdir()
    (temporary / f"{SCRATCH_PREFIX}link").symlink_to("other")
    (temporary / f"{SCRATCH_PREFIX}young").mkdir()  # its process may be about to lock it
    old = temporary / f"{SCRATCH_PREFIX}old"
    old.mkdir()
    os.utime(old, (1, 1))
    used = ScratchFolder()
    remove_abandoned_folders(temporary)
    remaining_names = {path.name for path in temporary.iterdir()}
    assert remaining_names == {
        f"{SCRATCH_PREFIX}file",
        "other",
        f"{SCRATCH_PREFIX}link",
        f"{SCRATCH_PREFIX}young",
        used.folder.name,
    }
    used.remove()


# Names of folders.


@pytest.mark.parametrize("name", [b"a[rb]?", b"**\xef"])
def test_an_archive_is_read_under_any_name(shared: ArchiveStore, tmp_path: Path, name: bytes) -> None:
    root = tmp_path / os.fsdecode(name)
    for folder in (root, tmp_path / "arx"):  # the name of the first matches the second as a pattern
        shutil.copytree(shared.root, folder)
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == 48
        assert opened.scan("games").collect().height == 48
        assert opened.sql("SELECT count(DISTINCT run_id) FROM plies").item() == 1


def test_a_damaged_file_is_named_by_its_own_path(shared: ArchiveStore, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"na\xefve*")
    shutil.copytree(shared.root, root)
    path = list_table_files(ArchiveStore.open(root), RUN_ID, "plies")[0]
    Path(path).write_bytes(Path(path).read_bytes()[::-1])
    with open_archive(root) as opened, pytest.raises(Exception, match="is missing or damaged") as caught:
        opened.sql("SELECT sum(cell) FROM plies")
    assert str(path) in str(caught.value)
    Path(path).unlink()
    with open_archive(root) as opened, pytest.raises(Exception, match="is missing or damaged"):
        opened.sql("SELECT sum(cell) FROM plies")


# Answers in parts.


@pytest.mark.parametrize(
    "question",
    [
        "FROM plies ORDER BY game_id, ply",
        "FROM plies WHERE false",
        "SELECT sum(plies) AS s, [sum(plies)] AS list, 2::HUGEINT ** 100 AS wide FROM games",
        "SELECT DATE '2020-01-01' AS d, [TIMESTAMP '2020-01-01'] AS t",
        "SELECT range, 'agent' || range AS agent FROM range(200000)",
    ],
)
def test_an_answer_in_parts_is_the_answer(opened: OpenArchive, tmp_path: Path, question: str) -> None:
    path = tmp_path / "parts.parquet"
    opened.stream(question, lambda rows, _: rows.sink_parquet(path))
    assert pl.read_parquet(path).equals(opened.sql(question))


def test_an_error_in_the_middle_of_an_answer_is_explained(opened: OpenArchive) -> None:
    late = "SELECT CASE WHEN range = 999999 THEN error('late') ELSE 1 END AS x FROM range(1000000)"
    with pytest.raises(RequestError, match="late"):
        opened.stream(late, lambda rows, _: rows.sink_csv(os.devnull))
    with pytest.raises(KeyError):  # of the one who takes the rows
        opened.stream("FROM plies", lambda rows, _: {}["x"])  # type: ignore[index]
    assert opened.sql("SELECT count(*) FROM games").item() == 48


# Memory.


def test_a_question_that_needs_more_memory_than_it_may_take_spills(shared: ArchiveStore) -> None:
    distinct = "SELECT DISTINCT i, hash(i), hash(i + 1) FROM range(3000000) t(i)"
    question, memory = f"SELECT count(*) AS n FROM ({distinct})", "64MiB"
    with open_archive(shared.root, memory) as opened:
        assert opened.sql("SELECT current_setting('memory_limit') AS memory")["memory"].item() == "64.0 MiB"
        assert opened.sql(question)["n"].item() == 3_000_000
    with (
        duckdb.connect(config={"memory_limit": memory, "temp_directory": ""}) as nowhere_to_spill,
        pytest.raises(duckdb.OutOfMemoryException),
    ):
        nowhere_to_spill.execute(question)
