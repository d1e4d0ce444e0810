"""Processes of this machine: the same rows, files and errors as threads, whatever happens to a process."""

from __future__ import annotations

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.store.archive import Archive
from analytics.verify.archive import verify
from quarto.errors import FailureError, RequestError
from runners.arena.playing import Outcome, execute
from runners.executors.processes import Processes
from runners.executors.workers import MOST_LOSSES
from tests.runners.conftest import Qarena
from tests.runners.executors.mortal import CUP
from tests.runners.executors.numbers_work import Numbers
from tests.runners.experiments import assert_same_rows, play, request, rows, stored_at

WORKERS = 2


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Two processes, which all tests share: starting one takes a second."""
    made = Processes()
    yield made
    made.close()


def carried_out(processes: Processes, folder: Path, *parts: list[Any]) -> list[int]:
    work = Numbers(folder, list(parts))
    processes.carry_out(work, WORKERS, threading.Event())
    return sorted(work.taken)


def test_every_part_is_answered_once(processes: Processes, tmp_path: Path) -> None:
    assert carried_out(processes, tmp_path, *([number, ""] for number in range(20))) == list(range(0, 40, 2))
    assert len(processes._idle) == WORKERS
    before = {process._process.pid for process in processes._idle}
    assert carried_out(processes, tmp_path, [1, ""], [2, ""]) == [2, 4]
    assert {process._process.pid for process in processes._idle} == before  # which are used again


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("refuse", RequestError, r"^7 is not even$"),
        ("fail", FailureError, r"^7 is too much$"),
        ("break", FailureError, r"^a worker raised KeyError: 7 \(unexpected; --debug shows where\)$"),
    ],
)
def test_what_a_worker_raises_is_raised_here(
    what: str, kind: type[Exception], text: str, processes: Processes, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text) as caught:
        carried_out(processes, tmp_path, [7, what])
    assert "in carry_out" in str(caught.value.__cause__)  # where it was raised


def test_a_part_whose_worker_is_killed_is_handed_out_again(processes: Processes, tmp_path: Path) -> None:
    parts = ([number, "die once" if number in {1, 4} else ""] for number in range(6))
    assert carried_out(processes, tmp_path, *parts) == [0, 2, 4, 6, 8, 10]
    assert len(list(tmp_path.glob("died-*"))) == 2


def test_a_part_that_kills_every_worker_ends_the_work_with_one_line(tmp_path: Path) -> None:
    text = rf"^{MOST_LOSSES} workers were lost .* its process was ended by signal 9 \(SIGKILL\)"
    with pytest.raises(FailureError, match=text) as caught:
        carried_out(Processes(), tmp_path, [3, "die"])
    assert "\n" not in str(caught.value)


def test_workers_that_are_asked_to_stop_end_their_parts_and_begin_no_other(
    processes: Processes, tmp_path: Path
) -> None:
    work, stop = Numbers(tmp_path, [[number, "wait"] for number in range(9)]), threading.Event()
    threading.Timer(0.3, stop.set).start()
    processes.carry_out(work, WORKERS, stop)
    assert sorted(work.taken) == [0, 2]


# Games.

DICE = "{agent:random,_target_:tests.runners.experiments.Dice,name:dice}"
CHEAT = "{agent:random,_target_:tests.runners.experiments.Cheat,name:cheat}"
RAISING = "{agent:random,_target_:tests.runners.experiments.Hot,name:hot}"
TOURNAMENT = (f"agents=[random,semi_random,{DICE},{CHEAT},{RAISING}]", "games=60", "opening_plies=1", "seed=5")


def played(root: Path, processes: Processes, *overrides: str, stop: threading.Event | None = None) -> Outcome:
    """The outcome of a request that is carried out by processes."""
    asked = replace(stored_at(root, request(f"threads={WORKERS}", *overrides)), executor=processes)
    return execute(asked, "qarena run", stop or threading.Event())


def wait_for_a_commit(root: Path) -> None:
    while not list(root.glob("commits/*/*.json")):
        time.sleep(0.001)


def test_rows_and_misbehaviour_do_not_depend_on_the_executor(processes: Processes, tmp_path: Path) -> None:
    expected = play(tmp_path / "threads", *TOURNAMENT, "threads=1")
    first = played(tmp_path / "processes", processes, *TOURNAMENT, "games=20")
    found = played(tmp_path / "processes", processes, *TOURNAMENT)  # which plays what is missing
    assert (first.played, found.played, expected.played) == (200, 400, 600)
    assert_same_rows(rows(tmp_path / "processes"), rows(tmp_path / "threads"))
    archive = Archive.open(tmp_path / "processes")
    assert verify(archive).problems == []
    assert len(archive.commits(found.run_id)) > 2
    assert found.results == expected.results
    assert {line.partition(":")[0] for line in found.misbehaviour} == {
        line.partition(":")[0] for line in expected.misbehaviour
    }
    again = played(tmp_path / "again", processes, *TOURNAMENT, "threads=1")  # nothing is counted twice
    assert sorted(again.misbehaviour) == sorted(expected.misbehaviour)


def test_a_process_that_is_killed_while_it_plays_loses_no_pair_and_doubles_none(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_folder", tmp_path)
    (tmp_path / CUP).touch()
    mortal = ("agents=[{agent:random,_target_:tests.runners.executors.mortal.Mortal,name:mortal},random]", "games=400")
    outcome = played(tmp_path / "archive", processes, *mortal, "threads=1")  # by the one process, then by the other
    assert not (tmp_path / CUP).exists()
    assert "a worker was lost (its process was ended by signal 9 (SIGKILL))" in caplog.text
    assert (outcome.interrupted, outcome.misbehaviour) == (False, [])
    play(tmp_path / "threads", *mortal, "threads=1")
    assert_same_rows(rows(tmp_path / "archive"), rows(tmp_path / "threads"))
    assert verify(Archive.open(tmp_path / "archive")).problems == []


def test_ctrl_c_commits_what_is_finished(processes: Processes, tmp_path: Path) -> None:
    slow = (f"agents=[{DICE},random]", "games=100_000", "seed=2", "archive.shard_seconds=0.1", "threads=1")
    stop = threading.Event()

    def interrupt() -> None:
        wait_for_a_commit(tmp_path)
        stop.set()

    threading.Thread(target=interrupt, daemon=True).start()
    outcome = played(tmp_path, processes, *slow, stop=stop)
    assert (outcome.stopped, outcome.interrupted) == (True, True)
    assert outcome.played == len(rows(tmp_path)["games"]) > 0
    assert verify(Archive.open(tmp_path)).problems == []


# The command line.


@pytest.mark.slow
def test_agents_files_policies_and_archives_are_found_where_the_command_was_typed(
    qarena: Qarena, tmp_path: Path
) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/reader.yaml").write_text("_target_: reader_player.Reader\nfile: piece.txt\nfiles: [data]\n")
    (tmp_path / "own/data").write_text("known to the fingerprint")
    (tmp_path / "piece.txt").write_text("3")
    (tmp_path / "own/reader_player.py").write_text(
        "from pathlib import Path\n"
        "class Reader:\n"
        "    def __init__(self, file):\n"
        "        self.first = int(Path(file).read_text())\n"
        "    def choose(self, position, rng):\n"
        "        wanted = [p for p in position.available if p == self.first] or [*position.available, -1]\n"
        "        return position.free[0], wanted[0]\n"
    )
    assert qarena("run", "agent@a=random", "games=200", "archive=one").code == 0
    assert qarena("policy", "build", "kind=gift", "name=g", "archive=one").code == 0
    shutil.copytree("one", "two")
    agents = "agents=[reader,'policy(policy=g)',random]"
    run = ("run", "--config-dir", "own", agents, "games=20", "threads=1", "hydra.job.chdir=true")
    for archive, executor in (("one", "threads"), ("two", "processes")):
        found = qarena(*run, f"executor={executor}", f"archive={archive}")
        assert (found.code, "forfeits" in found.out) == (0, False), found.err
    assert_same_rows(rows(tmp_path / "two"), rows(tmp_path / "one"))
    assert verify(Archive.open(tmp_path / "two")).problems == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("run executor=proceses", 2, "executor 'proceses' does not exist; did you mean 'processes'?"),
        ("run ray.address=node7", 2, "ray.address=node7 has no effect: choose executor=ray too"),
        ("run ray.adress=node7", 2, "key 'ray.adress' does not exist; did you mean 'ray.address'?"),
        ("annotate --executor thread", 2, "--executor thread does not exist; did you mean 'threads'?"),
        ("archive index --ray-address node7", 2, "ray.address=node7 has no effect: choose executor=ray too"),
    ],
)
def test_wrong_requests(arguments: str, code: int, text: str, qarena: Qarena) -> None:
    found = qarena(*shlex.split(arguments))
    assert (found.code, found.out) == (code, "")
    assert text in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.slow
def test_without_ray_one_line_says_how_to_install_it(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    found = qarena("run", "executor=ray")
    assert found.code == 2
    assert found.err.startswith("error: executor=ray needs ray: pip install 'quarto-arena[ray]'")
    assert len(found.err.splitlines()) == 1
