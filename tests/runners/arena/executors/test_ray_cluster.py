"""A Ray cluster of two nodes on this machine: rows, notes and errors are those of threads, whatever happens."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from runners.library.leagues import rank_league
from tests.paths import ROOT
from tests.runners.arena.executors import cluster
from tests.runners.experiments import assert_same_rows, read_archive_rows, run_qarena, start_qarena
from tests.runners.league.leagues import HERE, write_league

pytestmark = pytest.mark.extras

SLOW = """
import time

class Slow:
    def choose(self, position, rng):
        time.sleep(0.002)
        return int(rng.choice(position.free)), int(rng.choice(position.available or [-1]))
"""
RUN = ("run", "agents=[random,semi_random,rule_based]", "games=4000", "opening_plies=1", "archive.root=games")


class Nodes:
    """A running cluster."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._read_line()

    def lose_one(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()
        assert (self._read_line(), self._read_line()) == ("lost", "started")

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with cluster.start() as process:
        yield Nodes(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


@pytest.fixture
def on_ray(nodes: Nodes) -> tuple[str, str]:
    return "executor=ray", f"ray.address={nodes.address}"


def run_in_folder(folder: Path, *arguments: str) -> tuple[str, str]:
    """Return output and notes of a command that succeeds."""
    process = run_qarena(folder, *arguments)
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


def remove_times(text: str) -> str:
    return re.sub(r"in [\d.]+ s, [\d,]+", "in", text)


def test_a_run_on_a_cluster_prints_and_stores_what_one_thread_does(on_ray: tuple[str, str], tmp_path: Path) -> None:
    for folder in ("thread", "cluster"):
        (tmp_path / folder).mkdir()
    run_in_folder(tmp_path, *RUN, "threads=1")  # compiles, which prints a note
    run_in_folder(tmp_path / "thread", *RUN, "threads=1", "games=1000")
    expected = run_in_folder(tmp_path / "thread", *RUN, "threads=1")
    run_in_folder(tmp_path / "cluster", *RUN, *on_ray, "games=1000")
    printed = run_in_folder(tmp_path / "cluster", *RUN, *on_ray)  # which plays what is missing
    assert remove_times(printed[0]) == remove_times(expected[0])
    assert "9,000 games in" in printed[0]
    assert {printed[1], expected[1]} <= {"", "playing …\n"}  # said if it takes longer than half a second
    assert_same_rows(read_archive_rows(tmp_path / "cluster/games"), read_archive_rows(tmp_path / "thread/games"))
    archive = ArchiveStore.open(tmp_path / "cluster/games")
    assert verify_archive(archive).problems == []
    assert len(archive.list_effective_ranges(archive.list_ids_of_runs_with_games()[0])) > 2


def test_derived_tables_and_tablebases_are_the_same(nodes: Nodes, tmp_path: Path) -> None:
    local_root, cluster_root = tmp_path / "here", tmp_path / "there"
    shutil.copytree(
        ROOT / "data/sample",
        local_root,
        ignore=shutil.ignore_patterns("positions", "indexes", "decisions", "annotations"),
    )
    shutil.copytree(local_root, cluster_root)
    ray = ("--executor", "ray", "--ray-address", nodes.address)
    tables = ("tablebase", "build", "--rules", "torus_square", "--memory", "8MiB", "--pieces", "3", "--directory")
    for archive, executor in ((local_root, ()), (cluster_root, ray)):
        run_in_folder(tmp_path, "archive", "index", "--archive", str(archive), *executor)
        run_in_folder(
            tmp_path, "annotate", "--from-pieces", "11", "--memory", "8MiB", "--archive", str(archive), *executor
        )
        run_in_folder(tmp_path, *tables, f"{archive}-tables", *executor)
    with open_archive(local_root) as local_archive, open_archive(cluster_root) as cluster_archive:
        for view in ("decisions", "positions"):
            text = f"FROM {view} ORDER BY ALL"
            answer = cluster_archive.sql(text)
            assert len(answer)
            assert_frame_equal(answer, local_archive.sql(text))
    paths = [Path(f"{archive}-tables/torus_square-3.parquet") for archive in (local_root, cluster_root)]
    assert_frame_equal(*(pl.read_parquet(path) for path in paths))


def test_the_table_of_a_league_is_the_same(nodes: Nodes, tmp_path: Path) -> None:
    ray = ("--executor", "ray", "--ray-address", nodes.address)
    own = f"name: own, agent: league_first, {HERE}"
    agents = ("agent: random", "agent: rule_based", own)
    settings = "games: 20\nregret: true\nisolation: process\n"
    standings = []
    for name, executor in (("here", ()), ("there", ray)):
        league = write_league(tmp_path / name, *agents, settings=settings)
        assert "60 games played in 3 matches of 3." in run_in_folder(tmp_path, "league", "play", name, *executor)[0]
        standings.append(rank_league(league).frame.drop("milliseconds"))
    assert standings[0]["gift_regret"].null_count() == 0
    assert_frame_equal(*standings)


@pytest.fixture
def slow(tmp_path: Path) -> tuple[str, ...]:
    """Return the arguments of a run that takes a minute or two."""
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/slow.yaml").write_text("_target_: slow_player.Slow\n")
    (tmp_path / "own/slow_player.py").write_text(SLOW)
    return ("run", "--config-dir", "own", "agents=[slow,random]", "archive.root=games", "archive.shard_seconds=1")


def test_ctrl_c_keeps_what_is_finished(on_ray: tuple[str, str], slow: tuple[str, ...], tmp_path: Path) -> None:
    with start_qarena(tmp_path, *slow, *on_ray, "games=100000") as process:
        while not list(tmp_path.glob("games/games/*/*.parquet")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    match = re.search(r"holds ([\d,]+) games", out)
    assert match is not None
    assert verify_archive(ArchiveStore.open(tmp_path / "games")).problems == []
    assert int(match[1].replace(",", "")) == len(read_archive_rows(tmp_path / "games")["games"])
    assert len([line for line in err.splitlines() if line != "playing …"]) == 3  # what it is doing, and how to go on


def test_a_cluster_on_this_machine_is_started_and_ended(tmp_path: Path) -> None:
    local = ("executor=ray", "ray.address=local")
    run_in_folder(tmp_path, "run", "agent@a=random", "agent@b=random", "games=200", "archive.root=games", *local)
    assert len(read_archive_rows(tmp_path / "games")["games"]) == 200
    assert not list_ray_processes(tmp_path)


def list_ray_processes(folder: Path) -> list[int]:
    """List the processes of Ray that were started in a folder and still run."""
    process_ids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"ray" in (process / "cmdline").read_bytes() and (process / "cwd").readlink() == folder:
                process_ids.append(int(process.name))
    return process_ids


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["raylet", "gcs_server"], ids=["node of this machine", "head"])
def test_if_the_cluster_dies_one_line_says_so(dies: str, slow: tuple[str, ...], tmp_path: Path) -> None:
    with start_qarena(tmp_path, *slow, "executor=ray", "ray.address=local", "games=100000") as process:
        while not list(tmp_path.glob("games/games/*/*.parquet")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        (killed_process,) = (
            pid for pid in list_ray_processes(tmp_path) if Path(f"/proc/{pid}/comm").read_text() == f"{dies}\n"
        )
        os.kill(killed_process, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    (line,) = (text for text in err.splitlines() if not text.startswith("playing"))  # which a slow machine prints
    assert line.startswith("error: the Ray cluster at ray.address=local is gone")
    archive = ArchiveStore.open(tmp_path / "games")
    assert [record.status for record in archive.load_runs()] == ["interrupted"]
    assert verify_archive(archive).problems == []


@pytest.mark.parametrize(("address", "code"), [("127.0.0.1:1", 1), ("no.such.host.invalid", 1), ("127.0.0.1:port", 2)])
def test_an_address_that_does_not_answer_is_one_line(address: str, code: int, tmp_path: Path) -> None:
    done = run_qarena(tmp_path, "run", "games=2", "executor=ray", f"ray.address={address}")
    assert (done.returncode, done.stdout) == (code, "")
    assert f"ray.address={address}" in done.stderr
    assert (code == 2) != ("start one on this machine with ray.address=local" in done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_nodes_that_are_lost_at_ten_random_moments_lose_no_pair_and_double_none(
    nodes: Nodes, on_ray: tuple[str, str], slow: tuple[str, ...], tmp_path: Path
) -> None:
    dice, lost_nodes = random.Random(1), 0
    arguments = (*slow, "games=8000")
    while lost_nodes < 10:
        with start_qarena(tmp_path, *arguments, *on_ray) as process:
            while process.poll() is None and lost_nodes < 10:
                time.sleep(dice.uniform(1.0, 8.0))
                nodes.lose_one()
                lost_nodes += 1
            _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        arguments = (*slow, f"games={8000 + 4000 * lost_nodes}")  # if it was done before the tenth
    assert verify_archive(ArchiveStore.open(tmp_path / "games")).problems == []
    (tmp_path / "own threads").mkdir()
    run_in_folder(
        tmp_path, *arguments[:-1], f"games={len(read_archive_rows(tmp_path / 'games')['games'])}", "archive.root=again"
    )
    assert_same_rows(read_archive_rows(tmp_path / "games"), read_archive_rows(tmp_path / "again"))


@pytest.mark.slow
def test_a_cluster_with_a_token_lets_in_who_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token-of-this-test-0123456789abcdef")
    with cluster.start() as process:
        address = Nodes(process).address
        run = ("run", "agent@a=random", "agent@b=random", "games=200", "archive.root=games", "executor=ray")
        run_in_folder(tmp_path, *run, f"ray.address={address}")
        monkeypatch.setenv("RAY_ADDRESS", address)
        run_in_folder(tmp_path, *run, "games=400", "ray.address=auto")
        for name, value in (("RAY_AUTH_TOKEN", "another-token-0123456789abcdef"), ("RAY_AUTH_MODE", "disabled")):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                result = run_qarena(tmp_path, *run, "games=600", f"ray.address={address}")
            assert result.returncode == 1
            assert result.stderr.count("\n") == 1
            assert "one with another token, see RAY_AUTH_MODE" in result.stderr
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
    assert len(read_archive_rows(tmp_path / "games")["games"]) == 400
