"""The promises of every executor: each chunk is answered once, whatever happens to workers, and rows are the same."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from runners.arena.execution import RunOutcome, execute_request
from runners.arena.executors import base
from runners.arena.executors.base import THREADS, Executor
from runners.arena.executors.processes import MAX_LOSSES, Processes
from runners.arena.experiment import open_experiment, save_run_start
from runners.arena.play_task import PlayTask
from runners.arena.spec import RunSpec
from runners.hosting.interruption import has_abandoned_threads
from tests.paths import ROOT
from tests.runners.arena.executors.doubling import Doubling, Item
from tests.runners.conftest import Qarena
from tests.runners.experiments import (
    assert_same_rows,
    build_run_request,
    play,
    read_archive_rows,
    start_qarena,
    store_at,
)
from tests.runners.players import CUP

WORKERS = 2


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Start two processes, which all tests of a file share, because starting one takes a second."""
    pool_executor = Processes()
    yield pool_executor
    pool_executor.close()


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest, processes: Processes) -> Executor:
    return THREADS if request.param == "threads" else processes


def map_items(executor: Executor, folder: Path, *items: Item) -> list[int]:
    return sorted(executor.map(Doubling(str(folder)), items, WORKERS, threading.Event()))


def test_workers_end_with_the_last_reference_to_their_pool(tmp_path: Path) -> None:
    pool = Processes().open_pool(Doubling(str(tmp_path)), 1, threading.Event())
    pool.submit((3, ""))
    while not (answers := [*pool.wait_for_results()]):
        pass
    assert answers == [6]
    (file,) = tmp_path.glob("made-*")
    worker = int(file.name.split("-")[1])
    os.kill(worker, 0)
    del pool
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_every_part_is_answered_once_and_what_takes_long_is_made_once_by_each_process(
    executor: Executor, tmp_path: Path
) -> None:
    for _ in range(2):
        assert map_items(executor, tmp_path, *((number, "") for number in range(20))) == list(range(0, 40, 2))
    process_ids = [path.name.split("-")[1] for path in tmp_path.glob("made-*")]
    if executor is THREADS:
        assert len(process_ids) == 2  # a task each
    else:
        assert 1 <= len(process_ids) == len(set(process_ids)) <= WORKERS


def test_a_part_is_taken_when_a_worker_is_about_to_be_free_and_more_may_come_after_the_end(
    executor: Executor, tmp_path: Path
) -> None:
    class Returning:
        """Yields each number once, and later ones that were put back."""

        def __init__(self) -> None:
            self.remaining = [(number, "") for number in range(6)]
            self.taken = 0

        def __iter__(self) -> Iterator[Item]:
            return self

        def __next__(self) -> Item:
            if not self.remaining:
                raise StopIteration
            self.taken += 1
            return self.remaining.pop()

    items, answers = Returning(), []
    for answer in executor.map(Doubling(str(tmp_path)), items, WORKERS, threading.Event()):
        answers.append(answer)
        assert items.taken <= len(answers) + WORKERS + 1
        if answer < 100:
            items.remaining.append((answer // 2 + 100, ""))
    assert sorted(answers) == [*range(0, 12, 2), *range(200, 212, 2)]


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        ("refuse", RequestError, r"^7 is not even$"),
        ("fail", FailureError, r"^7 is too much$"),
        ("break", (FailureError, KeyError), r"^(a worker raised KeyError: )?7( \(unexpected; --debug shows where\))?$"),
    ],
)
def test_what_a_task_raises_is_raised_here(
    event: str, kind: type[Exception], text: str, executor: Executor, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text) as caught:
        map_items(executor, tmp_path, (7, event), (8, "wait"))  # which is told to stop
    if executor is not THREADS:
        assert "in __call__" in str(caught.value.__cause__)  # where it was raised
    assert map_items(executor, tmp_path, (1, "")) == [2]


def test_once_it_is_to_stop_parts_in_progress_end_and_no_other_begins(executor: Executor, tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    answers = executor.map(Doubling(str(tmp_path)), [(number, "wait") for number in range(9)], WORKERS, stop)
    assert sorted(answers) == [0, 2]


def test_while_there_is_no_answer_it_calls_idle(executor: Executor, tmp_path: Path) -> None:
    stop = threading.Event()
    assert [*executor.map(Doubling(str(tmp_path)), [(1, "wait")], WORKERS, stop, stop.set)] == [2]


def test_what_never_ends_is_given_up(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "GIVE_UP_SECONDS", 0.2)
    stop, over = threading.Event(), threading.Event()

    def waiting(item: Item, stop: object) -> int:
        return 2 if item[1] == "" or over.wait(20) else 0

    task: Any = waiting if executor is THREADS else Doubling(str(tmp_path))
    for answer in executor.map(task, [(1, ""), (2, "hang")], WORKERS, stop):
        assert answer == 2
        stop.set()
    assert stop.is_set()
    assert has_abandoned_threads() is (executor is THREADS)
    over.set()
    while has_abandoned_threads():
        time.sleep(0.001)
    assert map_items(executor, tmp_path, (1, "")) == [2]


def test_a_worker_that_is_killed_costs_nothing_but_time(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = [(number, "die once" if number in {1, 4} else "") for number in range(6)]
    assert map_items(processes, tmp_path, *items) == [0, 2, 4, 6, 8, 10]
    assert len(list(tmp_path.glob("died-*"))) == 2
    assert "a worker was lost (its process was ended by signal 9 (SIGKILL))" in caplog.text


def test_workers_leave_signals_to_the_run(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert map_items(processes, tmp_path, (1, "signal"), (2, "signal"), (3, "")) == [2, 4, 6]
    assert caplog.records == []


def test_a_part_that_kills_every_worker_ends_the_work_with_one_line(processes: Processes, tmp_path: Path) -> None:
    text = rf"^{MAX_LOSSES} workers lost .* its process was ended by signal 9 \(SIGKILL\)"
    with pytest.raises(FailureError, match=text) as caught:
        map_items(processes, tmp_path, (3, "die"))
    assert "\n" not in str(caught.value)


def test_what_workers_log_is_logged_here_once(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    map_items(processes, tmp_path, *((number, "warn") for number in range(6)))
    assert [(record.name, record.message) for record in caplog.records] == [("tests.numbers", "this is a number")]


DICE = "{agent:random,_target_:tests.runners.players.Dice,name:dice}"
CHEAT = "{agent:random,_target_:tests.runners.players.Cheat,name:cheat}"
RAISING = "{agent:random,_target_:tests.runners.players.Hot,name:hot}"
TROUBLED = "{agent:random,_target_:tests.runners.players.Troubled,name:troubled}"
AGENTS = f"agents=[random,semi_random,{DICE},{CHEAT},{RAISING}]"
TOURNAMENT = (AGENTS, "games=12", "opening_plies=1", "seed=5", "keep_going=true")


def play_by_processes(
    root: Path, processes: Processes, *overrides: str, stop: threading.Event | None = None
) -> RunOutcome:
    """Play the games of a request by processes."""
    run_request = replace(store_at(root, build_run_request(f"threads={WORKERS}", *overrides)), executor=processes)
    return execute_request(run_request, "qarena run", stop or threading.Event())


def wait_for_a_file(root: Path) -> None:
    while not list(root.glob("games/*/*.parquet")):
        time.sleep(0.001)


def test_rows_and_misbehaviour_do_not_depend_on_the_executor(processes: Processes, tmp_path: Path) -> None:
    expected = play(tmp_path / "threads", *TOURNAMENT, "threads=1")
    first = play_by_processes(tmp_path / "processes", processes, *TOURNAMENT, "games=4")
    outcome = play_by_processes(tmp_path / "processes", processes, *TOURNAMENT)  # which plays what is missing
    assert (first.played, outcome.played, expected.played) == (40, 80, 120)
    assert_same_rows(read_archive_rows(tmp_path / "processes"), read_archive_rows(tmp_path / "threads"))
    archive = ArchiveStore.open(tmp_path / "processes")
    assert verify_archive(archive).problems == []
    assert len(archive.list_effective_ranges(outcome.run_id)) > 2
    assert outcome.results == expected.results
    assert {line.partition(" (")[0] for line in outcome.misbehaviour} == {
        line.partition(" (")[0] for line in expected.misbehaviour
    }


@pytest.mark.slow  # workers of quick tasks are killed above
def test_a_process_that_is_killed_while_it_plays_loses_no_pair_and_doubles_none(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_folder", tmp_path)
    (tmp_path / CUP).touch()
    mortal = (f"agents=[{TROUBLED},random]", "games=400")
    outcome = play_by_processes(tmp_path / "archive", processes, *mortal)  # by one process, then by others
    assert not (tmp_path / CUP).exists()
    assert "a worker was lost (its process was ended by signal 9 (SIGKILL))" in caplog.text
    assert (outcome.interrupted, outcome.misbehaviour) == (False, [])
    play(tmp_path / "threads", *mortal, "threads=1")
    assert_same_rows(read_archive_rows(tmp_path / "archive"), read_archive_rows(tmp_path / "threads"))
    assert verify_archive(ArchiveStore.open(tmp_path / "archive")).problems == []


@pytest.mark.slow
def test_processes_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    arguments = ("run", f"agents=[{DICE},random]", "games=1000000", "archive.root=games", "archive.shard_seconds=0.1")
    with start_qarena(tmp_path, *arguments, "executor=processes", "threads=2", PYTHONPATH=str(ROOT)) as run:
        wait_for_a_file(tmp_path / "games")
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        assert len(children) >= 2
        run.kill()
        run.communicate(timeout=10)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
    assert qarena("run", "agent@a=random", "games=200", "--archive", "one").code == 0
    assert qarena("policy", "build", "kind=gift", "name=g", "--archive", "one").code == 0
    shutil.copytree("one", "two")
    agents = "agents=[reader,'policy(policy=g)',random]"
    run = ("run", "--config-dir", "own", agents, "games=20", "threads=1", "hydra.job.chdir=true")
    for archive, executor in (("one", "threads"), ("two", "processes")):
        result = qarena(*run, f"executor={executor}", "--archive", archive)
        assert (result.code, "forfeits" in result.out) == (0, False), result.err
    assert_same_rows(read_archive_rows(tmp_path / "two"), read_archive_rows(tmp_path / "one"))
    assert verify_archive(ArchiveStore.open(tmp_path / "two")).problems == []


# A task of a run elsewhere.

AGENTS = "agents=[random,{agent:random,_target_:tests.runners.players.Dice,name:dice,turn_seconds:9}]"


@pytest.fixture
def task(tmp_path: Path) -> PlayTask:
    """Return the task of a run that has begun, as it arrives elsewhere."""
    experiment = open_experiment(store_at(tmp_path / "archive", build_run_request(AGENTS, "games=6", "seats=fixed")))
    save_run_start(experiment.archive, experiment.request.spec, experiment.code, 6, "qarena run")
    return PlayTask(**PlayTask.from_experiment(experiment).to_dict())


def test_a_task_of_plain_data_plays_parts_of_the_same_run(task: PlayTask) -> None:
    archive = ArchiveStore.open(Path(task.root))
    run, spec = RunSpec.from_dict(task.run, archive), build_run_request(AGENTS, "games=6", "seats=fixed").spec
    assert (run, run.run_id) == (spec, spec.run_id)
    assert run.agents[1].limits.turn_seconds == 9
    worker = task.build_worker()
    results = [worker(chunk, threading.Event()) for chunk in ((2, 4), (4, 6))]
    assert [(result.reached, result.written) for result in results] == [(4, ((2, 4),)), (6, ((4, 6),))]
    assert archive.list_effective_ranges(run.run_id).covered_ranges == [(2, 6)]


def test_a_task_refuses_another_archive_and_other_code(task: PlayTask, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"elsewhere"):
        replace(task, root=str(tmp_path / "elsewhere")).build_worker()
    play(tmp_path / "other", "games=2")
    with pytest.raises(FailureError, match="all machines must see the same archive under the same path"):
        replace(task, root=str(tmp_path / "other")).build_worker()
    with pytest.raises(FailureError, match=r"has fingerprint [0-9a-f]{16}, and the run is played by 0123"):
        replace(task, fingerprint="0123").build_worker()


@pytest.mark.slow
def test_without_ray_one_line_says_how_to_install_it(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.arena.executors.ray_cluster.find_spec", lambda _name: None)
    result = qarena("run", "executor=ray")
    assert result.code == 2
    assert result.err.startswith(
        "error: executor=ray needs ray: install its extra: in a clone, .venv/bin/pip install -e '.[ray]'"
    )
    assert len(result.err.splitlines()) == 1
