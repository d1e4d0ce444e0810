"""Commands on an archive in a bucket: the same answers as from a folder, and wrong requests in one line."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import ObjectUrl
from analytics.tables.verification.archive import verify_archive
from tests.object_storage import SECRET, build_s3_environment, find_free_port
from tests.runners.conftest import Qarena, Result
from tests.runners.experiments import run_qarena, start_qarena

GAMES = ("run", "agent@a=random", "agent@b=semi_random", "games=200", "opening_plies=2", "seed=3", "threads=2")
ROWS = (
    "SELECT count(*) AS plies, bit_xor(hash(run_id, game_id, ply, piece, cell, outcome)) AS rows FROM plies "
    "UNION ALL SELECT count(*), bit_xor(hash(run_id, game_id, agent_0, winner, ending)) FROM games"
)

EACH_STORE = pytest.mark.parametrize("store", ["bucket", "google_bucket"])


def assert_one_line(result: Result, code: int, *texts: str) -> None:
    assert result.code == code
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    for text in texts:
        assert text in result.err
    assert SECRET not in result.err + result.out


@pytest.mark.extras
@EACH_STORE
def test_rows_and_tables_are_those_of_a_folder(
    store: str, qarena: Qarena, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root = f"{request.getfixturevalue(store)}/a/b"
    answers = []
    for place in (root, "folder"):
        first = qarena(*GAMES, f"--archive={place}", "archive.shard_games=50")
        assert (first.code, first.err) == (0, "")
        assert f"in {place} holds 200 games" in first.out
        assert "Nothing to play" in qarena(*GAMES, f"--archive={place}").out
        results = [qarena("sql", ROWS, "--archive", place), qarena("crosstable", f"--archive={place}")]
        results.append(qarena("archive", "verify", "--archive", place))
        assert [(result.code, result.err) for result in results] == [(0, "")] * 3
        answers.append([result.out for result in results])
    assert answers[0] == answers[1]
    assert "1 run, 7 ranges, 200 games" in answers[0][2]
    assert "no files would be removed" in qarena("archive", "compact", "--dry-run", "--archive", root).out
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "outputs"}


@pytest.mark.extras
@EACH_STORE
def test_names_of_runs_go_to_a_bucket_and_back(store: str, qarena: Qarena, request: pytest.FixtureRequest) -> None:
    root = f"{request.getfixturevalue(store)}/a"
    assert qarena(*GAMES, f"--archive={root}", "--name", "first try", "--note", "two\nlines").code == 0
    (run_id,) = qarena("sql", "SELECT run_id FROM runs", "--format", "csv", "--archive", root).out.split()[1:]
    assert qarena("archive", "name", run_id[:4], "--name", "second try", "--archive", root).code == 0
    assert qarena("archive", "verify", "--archive", root).code == 0
    for source, target in ((root, "folder"), ("folder", f"{root}/copy")):
        assert "1 name or note of a run" in qarena("archive", "merge", source, target).out
    named = qarena("archive", "name", run_id, "--archive", f"{root}/copy")
    assert named.out == f"Run {run_id}: second try\n  two\n  lines\n"


@pytest.mark.extras
def test_processes_write_into_a_bucket_what_threads_write_into_a_folder(qarena: Qarena, bucket: ObjectUrl) -> None:
    answers = []
    for place, executor in ((f"{bucket}/a", "processes"), ("folder", "threads")):
        done = qarena(*GAMES, f"--archive={place}", f"executor={executor}", "threads=2")
        assert (done.code, done.err) == (0, "")
        answers.append(qarena("sql", ROWS, "--archive", place).out)
    assert answers[0] == answers[1] != ""


@pytest.mark.extras
def test_what_is_not_there_is_one_line(qarena: Qarena, bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_line(qarena("sql", "SELECT 1", "--archive", f"{bucket}/a"), 2, f"there is no archive at {bucket}/a")
    assert_one_line(qarena(*GAMES, "--archive=s3://no-such-bucket/a"), 2, "has no bucket no-such-bucket")
    monkeypatch.setenv("QARENA_STORE_PATIENCE", "0.2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", build_s3_environment(find_free_port())["AWS_ENDPOINT_URL"])
    assert_one_line(qarena("sql", "SELECT 1", "--archive", f"{bucket}/a"), 1, "does not answer", str(bucket))


@pytest.mark.slow
@pytest.mark.extras
@EACH_STORE
def test_every_command_works_on_a_bucket(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bucket = request.getfixturevalue(store)
    root = f"{bucket}/archive"
    for arguments in (
        "sweep agent@a=random agent@b=random,rule_based games=100",
        "train trainer=q_placement trainer.games=60 policy.name=learned",
        "policy build kind=mc_afterstate name=built",
        "policy rebuild built",
        "policy ls",
        "policy show learned",
        "run agent@a=policy a.policy=built agent@b=q_placement b.policy=learned games=10",
        "sprt agent@a=rule_based agent@b=random elo0=0 elo1=100 opening_plies=2",
        "rate",
        "crosstable",
        "openings",
        "annotate",
        "archive index",
        "archive ls",
        "archive export --format text --output games.txt",
        "report --output report.html",
        "archive verify",
    ):
        spelled = f"--archive={root}"
        result = run_qarena(tmp_path, *arguments.split(), spelled)
        assert result.returncode == 0, (arguments, result.stderr)
        assert "nanobind" not in result.stderr
    result = run_qarena(tmp_path, "archive", "import", "games.txt", "--archive", f"{bucket}/imported")
    assert result.returncode == 0, result.stderr
    for view in ("positions", "decisions", "verdicts", "sweeps", "policy('built')"):
        result = run_qarena(
            tmp_path, "sql", f"SELECT count(*) AS rows FROM {view}", "--format", "csv", f"--archive={root}"
        )
        assert int(result.stdout.split()[1]) > 0, (view, result.stderr)


@pytest.mark.extras
@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_beside_a_bucket_ends_with_the_same_games(
    bucket: ObjectUrl, tmp_path: Path
) -> None:
    generator, kills, root = random.Random(4), 0, bucket / "archive"
    run_arguments = (*GAMES[:3], "games=20000", *GAMES[4:], "archive.shard_games=256")
    while kills < 6:
        with start_qarena(tmp_path, *run_arguments, f"archive.root={root}") as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(generator.uniform(1.5, 6.0))
                break  # it ended by itself
            process.kill()
            kills += 1
    for place in (root, "folder"):
        done = run_qarena(tmp_path, *run_arguments, f"archive.root={place}")
        assert done.returncode == 0, done.stderr
    assert kills > 0
    assert verify_archive(ArchiveStore.open(root)).problems == []
    (run_id,) = ArchiveStore.open(root).list_ids_of_runs_with_games()
    bucket_ranges, folder_ranges = (
        ArchiveStore.open(place).list_effective_ranges(run_id) for place in (root, tmp_path / "folder")
    )
    assert (bucket_ranges.covered_ranges, bucket_ranges.fingerprint) == (
        folder_ranges.covered_ranges,
        folder_ranges.fingerprint,
    )
