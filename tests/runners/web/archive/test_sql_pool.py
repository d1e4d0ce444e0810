"""A subprocess answers SQL queries of untrusted visitors within limits, whatever they contain."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.store.marker import remember_archive
from quarto.errors import RequestError
from runners.web.archive import sql_pool as module
from runners.web.archive.snapshots import BusyError, read_archive_stamp
from runners.web.archive.sql_pool import QuestionLimits, SqlProcessPool
from tests.paths import SAMPLE
from tests.runners.experiments import run_qarena

LIMITS = QuestionLimits(
    rows=5, bytes=1_000_000, seconds=1.0, memory="200MiB", spill="20MiB", processes=1, waiting_seconds=0.1
)
UNSTOPPABLE = "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000)) AS m"  # DuckDB does not interrupt it


@pytest.fixture(scope="module")
def asking() -> Iterator[SqlProcessPool]:
    pool = SqlProcessPool(SAMPLE, LIMITS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GRACE_SECONDS", 0.3)
        yield pool
    pool.close()


def test_answers_are_cut_at_the_limit_of_rows(asking: SqlProcessPool) -> None:
    answer = asking.request_answer("SELECT agent, count(*) AS games FROM seats GROUP BY agent ORDER BY agent")
    assert answer.frame.rows() == [("dumb", 6000), ("random", 10000), ("rule_based", 6000), ("semi_random", 10000)]
    assert not answer.cut
    endless = asking.request_answer("SELECT * FROM range(1000000000000)")
    assert (endless.frame.height, endless.cut) == (5, True)


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ("SELECT len(range(1000000000)) AS n", "more memory|took longer"),
        ("SELECT repeat('x', 3000000) AS s", "larger than 1 MB"),
        ("COPY games TO 'x.csv'", "one SELECT that only reads"),
        ("SELECT * FROM read_text('/etc/passwd')", "not allowed here"),
        ("SELEC 1", "Parser Error"),
        ("  ", "there is no question"),
        ("SELECT '\0'", "number 0"),
        (f"SELECT '{'x' * 30_000}'", "more than 20,000"),
    ],
)
def test_what_goes_too_far_is_one_line(asking: SqlProcessPool, question: str, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint) as refused:
        asking.request_answer(question)
    assert "\n" not in str(refused.value)
    assert "--" not in str(refused.value)  # nobody here can set options


def test_what_cannot_be_interrupted_is_ended_and_the_next_question_answered(asking: SqlProcessPool) -> None:
    asking.request_answer("SELECT 1 AS x")  # the archive is open
    scratch = asking._all[0].scratch.folder
    assert len([*scratch.iterdir()]) == 2  # its own lock, and the folder of the process
    refused: list[str] = []

    def ask_for_much() -> None:
        with pytest.raises(RequestError) as caught:
            asking.request_answer(UNSTOPPABLE)
        refused.append(str(caught.value))

    thread = threading.Thread(target=ask_for_much)
    thread.start()
    time.sleep(0.1)
    with pytest.raises(BusyError, match="answering other SQL queries: try again"):  # there is one process
        asking.request_answer("SELECT 1 AS x")
    thread.join()
    assert not scratch.exists()
    assert refused == ["SQL: the question took longer than 1 seconds: ask about fewer games"]
    assert asking._all[0].process is not None  # the next question does not wait for a process to start
    assert asking.request_answer("SELECT 1 AS x").frame.item() == 1


def test_the_command_ends_too_and_leaves_nothing(tmp_path: Path) -> None:
    remember_archive(SAMPLE)
    result = run_qarena(
        tmp_path, "sql", UNSTOPPABLE, "--timeout", "0.5", "--archive", str(SAMPLE), TMPDIR=str(tmp_path)
    )
    complaint = (
        "error: SQL: the question took longer than 0.5 seconds: allow more (--timeout), or ask about fewer games"
    )
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"{complaint}\n")
    assert [*tmp_path.iterdir()] == []


def test_the_marks_of_an_archive_are_its_own(tmp_path: Path) -> None:
    """Ignore links, which may lead to the folders of another archive or to a file system that hangs."""
    root, other = tmp_path / "archive", tmp_path / "other"
    for folder in (root / "games/run=1", other / "run=1"):
        folder.mkdir(parents=True)
    (root / "plies").touch()
    (root / "positions").symlink_to(other)
    before = read_archive_stamp(root)
    (other / "run=1/file").touch()
    assert read_archive_stamp(root) == before
    (root / "games/run=1/file").touch()
    assert read_archive_stamp(root) != before
