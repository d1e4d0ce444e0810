"""``qarena archive compact``, ``merge`` and ``to-delta`` as a person uses them."""

import shutil
from pathlib import Path

import pytest

from analytics.store.archive import Archive
from analytics.store.range_files import store_games
from runners.speed.timing import process
from tests.analytics.naive_games import random_block
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play


def test_runs_are_listed_as_data(qarena: Qarena) -> None:
    found = qarena("archive", "ls", "--archive", str(SAMPLE), "--format", "csv")
    heading, *rows = found.out.splitlines()
    assert heading.startswith("run_id,games,agents,rules,status,created,")
    assert len(rows) == len(Archive.open(SAMPLE).run_ids())


@pytest.mark.slow
def test_a_policy_is_derived_again_bit_for_bit_after_compaction(tmp_path: Path, qarena: Qarena) -> None:
    where = ("--archive", str(tmp_path / "archive"))
    play(tmp_path / "archive", "agent@a=random", "agent@b=random", "games=100", "archive.shard_games=20")
    assert qarena("policy", "build", "kind=gift", f"archive.root={tmp_path / 'archive'}").code == 0
    question = "SELECT run_id, games FROM runs ORDER BY ALL"
    asked = qarena("sql", question, "--format", "csv", *where).out
    files = len(list(tmp_path.glob("archive/games/*/*")))
    assert files > 4
    done = qarena("archive", "compact", *where)
    assert done.code == 0
    assert done.out.startswith(f"{files} files of games are now 1; 'qarena archive gc --remove' removes the old files")
    assert qarena("sql", question, "--format", "csv", *where).out == asked
    assert f"0 of {3 * files} files removed" in qarena("archive", "gc", "--remove", *where).out
    assert qarena("archive", "gc", "--remove", "--age", "0", *where).code == 0
    rebuilt = qarena("policy", "rebuild", "gift", *where)
    assert rebuilt.code == 0, rebuilt.err
    assert "identical" in rebuilt.out
    assert qarena("archive", "verify", *where).out.endswith(": no problems\n")
    nothing = qarena("archive", "compact", *where)
    assert nothing.out.startswith("Nothing to compact")


@pytest.mark.slow
def test_memory_of_compaction_grows_no_faster_than_the_files_it_makes(tmp_path: Path) -> None:
    small, many = ("archive.shard_games=65536", "archive.shard_seconds=60"), "games=10_000_000"
    process(["run", "agent@a=random", "agent@b=random", many, *small, "--archive=many"], tmp_path)
    process(["archive", "index", "--archive", "many"], tmp_path)
    peaks = {}
    for size in (16, 64):  # megabytes of a file; all at once would be 330
        shutil.copytree(tmp_path / "many", tmp_path / "compacted")
        peaks[size] = process(["archive", "compact", "--archive", "compacted", "--size", f"{size}MiB"], tmp_path).peak
        shutil.rmtree(tmp_path / "compacted")
    assert peaks[64] - peaks[16] < 2 * (64 - 16) * 1_000_000


def test_archives_are_merged_and_again_there_is_nothing_to_do(tmp_path: Path, qarena: Qarena) -> None:
    play(tmp_path / "one", "agent@a=random", "agent@b=dumb", "games=20")
    play(tmp_path / "two", "agent@a=random", "agent@b=dumb", "games=40")
    places = [str(tmp_path / name) for name in ("one", "two", "both")]
    done = qarena("archive", "merge", *places)
    assert (done.code, "Added to" in done.out, "40 games, 1 new run" in " ".join(done.out.split())) == (
        0,
        True,
        True,
    )
    (run,) = Archive.open(tmp_path / "both").runs()
    assert (run.games, run.status) == (40, "complete")
    assert qarena("archive", "merge", *places).out.startswith("Nothing to add")
    assert qarena("archive", "verify", "--archive", places[2]).code == 0


def test_archives_that_contradict_each_other_are_refused_and_nothing_is_written(tmp_path: Path, qarena: Qarena) -> None:
    for name in ("one", "two"):
        play(tmp_path / name, "agent@a=random", "agent@b=dumb", "games=20")
    other = Archive.open(tmp_path / "two")
    (run,) = other.runs()
    for table in ("games", "plies", "tallies"):
        shutil.rmtree(other.folder(table, run.run_id))
    store_games(other, run.run_id, run.line, run.pairings, (0, 10), [random_block(1, 0, 0, 10)])
    for order in (("one", "two", "both"), ("two", "one", "both")):
        done = qarena("archive", "merge", *(str(tmp_path / name) for name in order))
        assert done.code == 2
        assert f"error: run {run.run_id} has different games of units 0 to 9" in " ".join(done.err.split())
        assert not [*(tmp_path / "both").glob("games/*")]
    assert qarena("archive", "gc", "--archive", str(tmp_path / "two")).out == "0 files, 0 to remove with --remove\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compact", "--size", "much"), "'much' is not a size: write a number and a unit, such as 128MiB"),
        (("compact", "--size", "1B"), "--size 1 bytes is not the size of a file: write 1KiB to 4GiB"),
        (("compact", "--run", "ffffffffffff"), "run 'ffffffffffff' is not in archive"),
        (("merge", str(SAMPLE)), "name at least two archives"),
        (("merge", str(SAMPLE), str(SAMPLE)), "an archive is named twice"),
        (("merge", "data/nowhere", str(SAMPLE)), "there is no archive at data/nowhere"),
    ],
)
def test_wrong_requests_cost_one_line(words: tuple[str, ...], message: str, qarena: Qarena) -> None:
    command, *rest = words
    where = () if command == "merge" else ("--archive", str(SAMPLE))
    done = qarena("archive", command, *rest, *where)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err


@pytest.mark.extras
def test_delta_tables_are_written_and_kept_up_to_date(tmp_path: Path, qarena: Qarena) -> None:
    words = ("archive", "to-delta", str(tmp_path / "delta"), "--archive", str(SAMPLE))
    done = qarena(*words)
    assert done.code == 0, done.err
    assert "games" in done.out
    assert qarena(*words).out.startswith("Nothing to add")
    wrong = qarena("archive", "to-delta", str(SAMPLE / "games"), "--archive", str(SAMPLE))
    assert (wrong.code, "where only runs write" in " ".join(wrong.err.split())) == (2, True)
