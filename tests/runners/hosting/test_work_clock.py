"""Every command leaves the time of compiling and of starting workers out of the speeds that it prints."""

from __future__ import annotations

import json
import pkgutil
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quarto.sources import CompilationProgress
from runners.arena.executors import processes, ray_cluster
from runners.arena.executors.ray_cluster import OnRay
from runners.hosting import work_clock
from runners.hosting.work_clock import WorkClock, WorkerStarts, exclude_from_work_clocks
from tests.runners.arena.executors.doubling import Doubling
from tests.runners.conftest import Qarena
from tests.runners.experiments import play


@dataclass
class FakeTime:
    """A wall clock that moves only when a test says so."""

    now: float = 1000.0
    compilation: CompilationProgress = None  # type: ignore[assignment]  # set at once

    def perf_counter(self) -> float:
        return self.now

    def compile(self, seconds: float) -> None:
        self.now += seconds
        self.compilation.seconds += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds

    start = work


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime(compilation=CompilationProgress())
    monkeypatch.setattr(work_clock, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    monkeypatch.setattr(work_clock, "compilation_progress", clock.compilation)
    return clock


def resolve_target(target: str) -> tuple[Any, str]:
    """Return the module or class of a dotted path, and the name in it."""
    path, _, name = target.rpartition(".")
    return pkgutil.resolve_name(path), name


def delay_first_call(
    monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime, target: str, begin: Callable[[], None]
) -> None:
    """Let the first call of ``target`` compile for 20 s, and then work for 2 s."""
    owner, name = resolve_target(target)
    original, waiting = getattr(owner, name), [begin]

    def call(*arguments: Any, **keywords: Any) -> Any:
        if waiting:
            waiting.pop()()
            fake_time.work(2.0)
        return original(*arguments, **keywords)

    monkeypatch.setattr(owner, name, call)


def test_a_clock_counts_neither_compiling_nor_starting(fake_time: FakeTime) -> None:
    clock = WorkClock()
    fake_time.work(2.0)
    fake_time.compile(20.0)
    assert clock.seconds == 2.0
    with exclude_from_work_clocks():
        fake_time.start(5.0)
        with exclude_from_work_clocks():  # no second is taken off twice
            fake_time.compile(20.0)
            fake_time.start(1.0)
    fake_time.work(1.0)
    assert clock.seconds == 3.0


def test_the_mean_start_of_the_workers_is_no_work(fake_time: FakeTime) -> None:
    clock, starts = WorkClock(), WorkerStarts(2)
    fake_time.work(10.0)
    starts.exclude_start("first", 4.0)  # whose first result has arrived
    assert clock.seconds == 6.0
    starts.exclude_start("second", 8.0)  # for four of these seconds, one of two workers worked
    assert clock.seconds == 4.0
    starts.exclude_start("first", 5.0)  # which waited for a chunk, but did not start again
    assert clock.seconds == 4.0
    fake_time.work(10.0)
    starts.exclude_start("in place of the second", 6.0)  # while the first one went on
    assert clock.seconds == 11.0


def test_a_worker_says_how_long_it_worked(tmp_path: Path, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(_part: Any, _stop: Any) -> int:
        fake_time.compile(20.0)
        fake_time.work(2.0)
        return 6

    def build(_task: Doubling) -> Any:
        fake_time.start(3.0)
        return work

    monkeypatch.setattr(processes, "_worker_cache", {})
    monkeypatch.setattr(Doubling, "build_worker", build)
    data = processes.build_task_data(Doubling(str(tmp_path)), tmp_path)
    monkeypatch.chdir(tmp_path)
    task_result = processes.run_task(data, (3, ""), threading.Event())
    assert (task_result.result, task_result.failure, task_result.seconds) == (6, None, 2.0)


@pytest.mark.extras
def test_starting_a_cluster_is_no_work(fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_driver(_address: str) -> SimpleNamespace:
        fake_time.start(15.0)
        return SimpleNamespace(cores=2, stop=lambda: None)

    monkeypatch.setattr(ray_cluster, "_RayDriver", start_driver)
    clock = WorkClock()
    assert OnRay("local").count_workers(1) == 2
    assert clock.seconds == 0.0


def test_a_run_took_as_long_as_its_work_wherever_that_is_shown(
    qarena: Qarena, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    delay_first_call(
        monkeypatch, fake_time, "runners.arena.batch_engine.BatchEngine.play_block", lambda: fake_time.compile(20.0)
    )
    printed = qarena("run", "random", "dumb", "games=20", "threads=1", "--archive", "games")
    assert "20 games in 2.0 s, 10 games a second" in printed.out
    listed = json.loads(qarena("archive", "ls", "--archive", "games", "--format", "json").out)
    assert [row["seconds"] for row in listed] == [2.0]
    rows = json.loads(qarena("sql", "SELECT seconds FROM runs", "--archive", "games", "--format", "json").out)
    assert rows == [{"seconds": 2.0}]


SMALL_EVOLUTION = (
    "trainer=ga2",
    "trainer.population=4",
    "trainer.generations=1",
    "trainer.games=2",
    "trainer.offspring=2",
)

COMMANDS = {
    "index": (
        "runners.arena.indexing.index_chunks_as_sum",
        ["archive", "index"],
        r"games indexed in 2\.0 s, 8 a second",
    ),
    "annotate": (
        "analytics.exact.annotation.Annotator.annotate",
        ["annotate", "--from-pieces", "11"],
        r"(\d+) decisions of 16 games judged in 2\.0 s, (\d+) a second",
    ),
    "policy": (
        "runners.learning.training.policy_build.derive_from_selection",
        ["policy", "build", "name=taught", "kind=gift"],
        r"from 16 games of run \w+ in 2\.0 s",
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_compiling_is_no_part_of_what_a_command_prints(
    qarena: Qarena, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    play(tmp_path / "games", "agents=[random,semi_random]", "games=16", "threads=1")
    target, words, pattern = COMMANDS[command]
    delay_first_call(monkeypatch, fake_time, target, lambda: fake_time.compile(20.0))
    printed = qarena(*words, "--archive", "games")
    assert printed.code == 0, printed.err
    figures = re.search(pattern, printed.out)
    assert figures, printed.out
    if figures.groups():
        assert abs(int(figures[1]) / 2 - int(figures[2])) <= 0.5


def test_a_search_takes_as_long_as_it_searches(
    qarena: Qarena, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    delay_first_call(monkeypatch, fake_time, "runners.exact.solutions.solve", lambda: fake_time.compile(20.0))
    assert "positions searched in 2.00 s" in qarena("solve", "0.6F/.3A./..5./C..9 7").err


@pytest.mark.parametrize(
    ("trainer", "target"),
    [
        (("trainer=q_table", "trainer.games=64"), "runners.learning.training.online._OnlineTraining.run"),
        (SMALL_EVOLUTION, "runners.arena.batch_engine.BatchEngine.play_block"),
    ],
)
def test_a_training_took_as_long_as_its_work(
    qarena: Qarena, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch, trainer: tuple[str, ...], target: str
) -> None:
    delay_first_call(monkeypatch, fake_time, target, lambda: fake_time.compile(20.0))
    printed = qarena("train", *trainer, "--archive", "games")
    games, a_second = re.findall(r"([\d,]+) games in 2\.0 s, ([\d,]+) games a second", printed.out)[0]
    assert int(games.replace(",", "")) == 2 * int(a_second.replace(",", ""))
