"""Limits of questions, the temporary folder, and answers in parts."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer

import duckdb
import polars as pl
import pytest

from analytics import open_archive
from analytics.sql.answers import Limits
from analytics.sql.connection import PREFIX, Scratch, remove_abandoned
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from quarto.errors import RequestError
from tests.analytics.folders import files_of
from tests.analytics.naive_games import RUN_ID

ENDLESS = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"
LARGE = "SELECT sum(x) FROM (SELECT row_number() OVER (ORDER BY hash(i)) * hash(i) % 7 AS x FROM range(20000000) t(i))"


def test_a_question_ends_in_time_and_the_next_one_is_answered(archive: Archive) -> None:
    with open_archive(archive.root, seconds=0.2) as opened:
        opened.sql("SELECT 1")
        started = time.monotonic()
        with pytest.raises(RequestError, match=r"took longer than 0\.2 seconds: allow more \(--timeout\)"):
            opened.sql(ENDLESS)
        with pytest.raises(RequestError, match=r"took longer than 0\.2 seconds"):
            opened.stream("SELECT range FROM range(10000000000)", lambda rows, _: rows.sink_csv(os.devnull))
        assert time.monotonic() - started < 5
        assert opened.sql("SELECT count(*) FROM games").item() == 48


def test_a_question_is_stopped_from_another_thread_and_so_is_what_follows(archive: Archive) -> None:
    stopped = Event()
    with OpenArchive(archive.root, Limits(stopped=stopped)) as opened:
        opened.sql("SELECT 1")
        started = time.monotonic()
        Timer(0.1, stopped.set).start()
        for _ in range(2):
            with pytest.raises(RequestError, match="the question was stopped"):
                opened.sql(ENDLESS)
        assert 0.1 < time.monotonic() - started < 5


def test_a_question_spills_no_more_than_it_may(archive: Archive) -> None:
    with open_archive(archive.root, "60MB", spill="5MB") as opened:
        with pytest.raises(RequestError, match=r"spills more than 5MB to the disk: allow more \(--spill\)"):
            opened.sql(LARGE)
        assert opened.sql("SELECT count(*) FROM games").item() == 48


@pytest.mark.parametrize(
    ("spill", "seconds", "complaint"),
    [
        ("much", None, "spill 'much' is not an amount of memory: write 10GiB or 500MB"),
        ("50%", None, "spill '50%' is a share, not an amount"),
        (None, 0.0, "timeout 0 is not a time"),
        (None, float("nan"), "timeout nan is not a time"),
        (None, float("inf"), "timeout inf is not a time"),
    ],
)
def test_a_wrong_limit_is_refused(archive: Archive, spill: str | None, seconds: float | None, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        open_archive(archive.root, spill=spill, seconds=seconds)


# The temporary folder.


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_what_a_killed_process_spilled_is_removed_by_the_next_question(archive: Archive, temporary: Path) -> None:
    code = (
        "import os, signal; from analytics.sql.connection import Scratch; it = Scratch(); it.spill.mkdir(); "
        "(it.spill / 'x').write_bytes(b'x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(temporary)}, check=False)
    (left,) = temporary.iterdir()
    assert (left / "spill" / "x").exists()
    with open_archive(archive.root) as running:
        assert running.sql("SELECT 1 AS x").item() == 1
        (own,) = temporary.iterdir()
        assert own != left
        with open_archive(archive.root) as second:  # the folder of a process that runs stays
            second.sql("SELECT 1")
            assert len(list(temporary.iterdir())) == 2
        assert list(temporary.iterdir()) == [own]
    assert list(temporary.iterdir()) == []


def test_only_own_folders_of_that_name_are_removed(temporary: Path) -> None:
    (temporary / f"{PREFIX}file").write_bytes(b"")
    (temporary / "other").mkdir()
    (temporary / f"{PREFIX}link").symlink_to("other")
    (temporary / f"{PREFIX}young").mkdir()  # its process may be about to lock it
    old = temporary / f"{PREFIX}old"
    old.mkdir()
    os.utime(old, (1, 1))
    used = Scratch()
    remove_abandoned(temporary)
    left = {path.name for path in temporary.iterdir()}
    assert left == {f"{PREFIX}file", "other", f"{PREFIX}link", f"{PREFIX}young", used.folder.name}
    used.remove()


# Names of folders.


@pytest.mark.parametrize("name", [b"ar*", b"a[rb]x", b"ar?", b"**", b"na\xefve"])
def test_an_archive_is_read_under_any_name(archive: Archive, tmp_path: Path, name: bytes) -> None:
    root = tmp_path / os.fsdecode(name)
    for each in (root, tmp_path / "arx"):  # the name of the first matches the second as a pattern
        shutil.copytree(archive.root, each)
    with open_archive(root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == 48
        assert opened.games().collect().height == 48
        assert opened.sql("SELECT count(DISTINCT run_id) FROM plies").item() == 1


def test_a_damaged_file_is_named_by_its_own_path(archive: Archive, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"na\xefve*")
    shutil.copytree(archive.root, root)
    path = files_of(Archive.open(root), RUN_ID, "plies")[0]
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
def test_an_answer_in_parts_is_the_answer(archive: Archive, tmp_path: Path, question: str) -> None:
    path = tmp_path / "parts.parquet"
    with open_archive(archive.root) as opened:
        opened.stream(question, lambda rows, _: rows.sink_parquet(path))
        assert pl.read_parquet(path).equals(opened.sql(question))


def test_an_error_in_the_middle_of_an_answer_is_explained(archive: Archive) -> None:
    late = "SELECT CASE WHEN range = 999999 THEN error('late') ELSE 1 END AS x FROM range(1000000)"
    with open_archive(archive.root) as opened:
        with pytest.raises(RequestError, match="late"):
            opened.stream(late, lambda rows, _: rows.sink_csv(os.devnull))
        with pytest.raises(KeyError):  # of the one who takes the rows
            opened.stream("FROM plies", lambda rows, _: {}["x"])  # type: ignore[index]
        assert opened.sql("SELECT count(*) FROM games").item() == 48


# Memory.


@pytest.mark.parametrize("memory", ["", "lots", "0MB", "-1GB", "1", "12 pounds"])
def test_memory_is_an_amount(archive: Archive, memory: str) -> None:
    with pytest.raises(RequestError, match="is not an amount of memory: write 1GiB, 500MB or 70%"):
        open_archive(archive.root, memory)


def test_a_question_that_needs_more_memory_than_it_may_take_spills(archive: Archive) -> None:
    distinct = "SELECT DISTINCT i, hash(i), hash(i + 1) FROM range(3000000) t(i)"
    question, memory = f"SELECT count(*) AS n FROM ({distinct})", "64MiB"
    with open_archive(archive.root, memory) as opened:
        assert opened.sql("SELECT current_setting('memory_limit') AS memory")["memory"].item() == "64.0 MiB"
        assert opened.sql(question)["n"].item() == 3_000_000
    with (
        duckdb.connect(config={"memory_limit": memory, "temp_directory": ""}) as nowhere_to_spill,
        pytest.raises(duckdb.OutOfMemoryException),
    ):
        nowhere_to_spill.execute(question)
