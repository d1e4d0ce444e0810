"""What every executor promises: each part is answered once, whatever happens to those who work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quarto.errors import FailureError, RequestError
from runners.executors import base
from runners.executors.base import THREADS, Executor
from runners.executors.processes import MOST_LOSSES, Processes
from runners.hosting.interruption import still_working
from tests.runners.executors.doubling import Doubling, Part

WORKERS = 2


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest, processes: Processes) -> Executor:
    return THREADS if request.param == "threads" else processes


def mapped(executor: Executor, folder: Path, *parts: Part) -> list[int]:
    return sorted(executor.map(Doubling(str(folder)), parts, WORKERS, threading.Event()))


def test_every_part_is_answered_once_and_what_takes_long_is_made_once_by_each_process(
    executor: Executor, tmp_path: Path
) -> None:
    for _ in range(2):
        assert mapped(executor, tmp_path, *((number, "") for number in range(20))) == list(range(0, 40, 2))
    made = [path.name.split("-")[1] for path in tmp_path.glob("made-*")]
    if executor is THREADS:
        assert len(made) == 2  # a task each
    else:
        assert 1 <= len(made) == len(set(made)) <= WORKERS


def test_a_part_is_taken_when_a_worker_is_about_to_be_free_and_more_may_come_after_the_end(
    executor: Executor, tmp_path: Path
) -> None:
    class Returning:
        """Gives back each number once."""

        def __init__(self) -> None:
            self.left = [(number, "") for number in range(6)]
            self.given = 0

        def __iter__(self) -> Iterator[Part]:
            return self

        def __next__(self) -> Part:
            if not self.left:
                raise StopIteration
            self.given += 1
            return self.left.pop()

    parts, found = Returning(), []
    for answer in executor.map(Doubling(str(tmp_path)), parts, WORKERS, threading.Event()):
        found.append(answer)
        assert parts.given <= len(found) + WORKERS + 1
        if answer < 100:
            parts.left.append((answer // 2 + 100, ""))
    assert sorted(found) == [*range(0, 12, 2), *range(200, 212, 2)]


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("refuse", RequestError, r"^7 is not even$"),
        ("fail", FailureError, r"^7 is too much$"),
        ("break", (FailureError, KeyError), r"^(a worker raised KeyError: )?7( \(unexpected; --debug shows where\))?$"),
    ],
)
def test_what_a_task_raises_is_raised_here(
    what: str, kind: type[Exception], text: str, executor: Executor, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text) as caught:
        mapped(executor, tmp_path, (7, what), (8, "wait"))  # which is told to stop
    if executor is not THREADS:
        assert "in __call__" in str(caught.value.__cause__)  # where it was raised
    assert mapped(executor, tmp_path, (1, "")) == [2]


def test_once_it_is_to_stop_parts_in_progress_end_and_no_other_begins(executor: Executor, tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    found = executor.map(Doubling(str(tmp_path)), [(number, "wait") for number in range(9)], WORKERS, stop)
    assert sorted(found) == [0, 2]


def test_while_there_is_no_answer_it_calls_idle(executor: Executor, tmp_path: Path) -> None:
    stop = threading.Event()
    assert [*executor.map(Doubling(str(tmp_path)), [(1, "wait")], WORKERS, stop, stop.set)] == [2]


def test_what_never_ends_is_given_up(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "GIVE_UP_SECONDS", 0.2)
    stop, over = threading.Event(), threading.Event()

    def waiting(part: Part, stop: object) -> int:
        return 2 if part[1] == "" or over.wait(20) else 0

    task: Any = waiting if executor is THREADS else Doubling(str(tmp_path))
    for answer in executor.map(task, [(1, ""), (2, "hang")], WORKERS, stop):
        assert answer == 2
        stop.set()
    assert stop.is_set()
    assert still_working() is (executor is THREADS)
    over.set()
    while still_working():
        time.sleep(0.001)
    assert mapped(executor, tmp_path, (1, "")) == [2]


# Python's own pool loses a thread, which nobody waits for, if a worker dies while the pool starts another one.
@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_is_killed_costs_nothing_but_time(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [(number, "die once" if number in {1, 4} else "") for number in range(6)]
    assert mapped(processes, tmp_path, *parts) == [0, 2, 4, 6, 8, 10]
    assert len(list(tmp_path.glob("died-*"))) == 2
    assert "a worker was lost (its process was ended by signal 9 (SIGKILL))" in caplog.text


def test_a_part_that_kills_every_worker_ends_the_work_with_one_line(processes: Processes, tmp_path: Path) -> None:
    text = rf"^{MOST_LOSSES} workers were lost .* its process was ended by signal 9 \(SIGKILL\)"
    with pytest.raises(FailureError, match=text) as caught:
        mapped(processes, tmp_path, (3, "die"))
    assert "\n" not in str(caught.value)


def test_what_workers_log_is_logged_here_once(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mapped(processes, tmp_path, *((number, "warn") for number in range(6)))
    assert [(record.name, record.message) for record in caplog.records] == [("tests.numbers", "this is a number")]
