"""Background jobs: one for each key, limits of time and idleness, and no waiting for a thread that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from runners.web import background
from runners.web.archive.snapshots import BusyError
from runners.web.background import IDLE_REASON, BackgroundJob, BackgroundPool

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def check_limits_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the limits of jobs often, so that the tests are quick."""
    monkeypatch.setattr(background, "POLL_SECONDS", 0.005)


def build_stoppable_work(begun: threading.Event | None = None) -> Callable[[BackgroundJob], str]:
    """Build work that ends only when it is stopped."""

    def work(job: BackgroundJob) -> str:
        if begun:
            begun.set()
        end = threading.Event()
        job.add_stop_callback(end.set)
        assert end.wait(PATIENCE)
        return "stopped"

    return work


def test_a_key_is_one_job_and_its_result_is_remembered() -> None:
    calls: list[int] = []
    jobs = BackgroundPool(2)
    first = jobs.find_or_start("key", lambda _job: calls.append(1))
    assert first.wait(PATIENCE)
    assert jobs.find_or_start("key", lambda _job: 8) is first
    assert (first.get_result_or_raise_work_error(), first.stopped, calls) == (None, False, [1])
    assert jobs.find_and_count_request("other") is None
    jobs.close()


def test_what_the_work_raises_is_raised_where_the_result_is_asked_for() -> None:
    jobs = BackgroundPool(1)

    def fail(_job: BackgroundJob) -> None:
        raise ZeroDivisionError("half-way")

    job = jobs.find_or_start("key", fail)
    assert job.wait(PATIENCE)
    with pytest.raises(ZeroDivisionError, match="half-way"):
        job.get_result_or_raise_work_error()
    jobs.close()


def test_a_job_ends_when_its_time_is_up_and_may_then_work_longer() -> None:
    jobs = BackgroundPool(1)
    job = jobs.find_or_start("key", build_stoppable_work(), max_seconds=0.02)
    assert job.wait(PATIENCE)
    assert (job.ended, job.reason) == (True, "0.02 seconds were not enough")
    assert jobs.find_or_start("key", build_stoppable_work(), max_seconds=0.02) is job
    longer = jobs.find_or_start("key", lambda _job: "done", max_seconds=1)
    assert longer is not job
    assert longer.wait(PATIENCE)
    assert longer.get_result_or_raise_work_error() == "done"
    jobs.close()


def test_a_job_that_was_stopped_begins_again_when_that_is_wanted() -> None:
    jobs = BackgroundPool(1)
    job = jobs.find_or_start("key", build_stoppable_work(), max_seconds=60)
    job.stop("you stopped it")
    assert job.wait(PATIENCE)
    assert jobs.find_or_start("key", build_stoppable_work(), max_seconds=60) is job
    second = jobs.find_or_start("key", lambda _job: "done", max_seconds=60, restart_stopped=True)
    assert second.wait(PATIENCE)
    assert (
        jobs.find_or_start("key", build_stoppable_work(), max_seconds=60, restart_stopped=True) is second
    )  # it is done
    jobs.close()


def test_what_a_page_waits_for_is_answered_though_its_archive_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, go_on = BackgroundPool(1), threading.Event()

    def answer(text: str, version: int) -> BackgroundJob:
        return jobs.find_or_start("key", lambda _job: go_on.wait(PATIENCE) and text, version=version)

    first = answer("first", 1)
    assert not first.wait(0)
    assert answer("second", 2) is first
    go_on.set()
    while not first.ended:
        time.sleep(0.001)
    assert answer("second", 3) is first  # no page has seen its end yet
    assert first.wait(0)
    second = answer("second", 3)
    assert second is not first
    while not second.ended:
        time.sleep(0.001)
    monkeypatch.setattr(background, "FORGOTTEN_SECONDS", 0.0)
    time.sleep(0.001)
    assert answer("third", 4) is not second  # nobody came back for it
    jobs.close()


def test_a_job_for_which_nobody_asks_ends_and_begins_again_when_somebody_does() -> None:
    jobs = BackgroundPool(1, idle_seconds=0.05)
    begun = threading.Event()
    job = jobs.find_or_start("key", build_stoppable_work(begun))
    assert begun.wait(PATIENCE)
    for _ in range(20):
        time.sleep(0.01)
        assert jobs.find_or_start("key", build_stoppable_work()) is job
    assert not job.ended
    assert job.wait(PATIENCE)
    assert job.reason == IDLE_REASON
    assert jobs.find_or_start("key", build_stoppable_work()) is not job
    jobs.close()


def test_preparation_does_not_count() -> None:
    jobs = BackgroundPool(1)

    def work(job: BackgroundJob) -> str:
        job.is_preparing = True
        time.sleep(0.7)
        assert job.elapsed_without_preparation == 0
        job.restart_clock()
        assert job.elapsed_without_preparation < 0.5
        return "done"

    job = jobs.find_or_start("key", work, max_seconds=0.5)
    assert job.wait(PATIENCE)
    assert job.get_result_or_raise_work_error() == "done"
    jobs.close()


def test_at_most_so_many_work_and_so_many_wait() -> None:
    jobs = BackgroundPool(2, max_waiting=1)
    begun = [threading.Event() for _ in range(3)]
    running = []
    for number in range(2):
        running.append(jobs.find_or_start(number, build_stoppable_work(begun[number])))
        assert begun[number].wait(PATIENCE)
    third = jobs.find_or_start(2, build_stoppable_work(begun[2]))
    assert third.queued
    with pytest.raises(BusyError, match=r"busy \(requests that wait: 1\)"):
        jobs.find_or_start(3, build_stoppable_work())
    running[0].stop("enough")
    assert begun[2].wait(PATIENCE)
    assert running[0].wait(PATIENCE)
    third.stop("enough")
    running[1].stop("enough")
    assert all(job.wait(PATIENCE) for job in (*running, third))
    jobs.close()


def test_of_an_owner_one_job_works_at_a_time() -> None:
    jobs = BackgroundPool(3)
    begun = [threading.Event() for _ in range(3)]
    first = jobs.find_or_start("first", build_stoppable_work(begun[0]), owner="ada")
    assert begun[0].wait(PATIENCE)
    second = jobs.find_or_start("second", build_stoppable_work(begun[1]), owner="ada")
    third = jobs.find_or_start("third", build_stoppable_work(begun[2]), owner="bob")
    assert begun[2].wait(PATIENCE)
    assert second.queued
    first.stop("enough")
    assert begun[1].wait(PATIENCE)
    jobs.close()
    assert all(job.wait(PATIENCE) for job in (first, second, third))


def test_work_that_cannot_be_ended_is_left_alone_and_its_result_still_taken() -> None:
    jobs, go_on = BackgroundPool(1, unstoppable=True), threading.Event()
    abandoned: list[BackgroundJob] = []
    while len(abandoned) < background.MAX_ABANDONED_THREADS:
        abandoned.append(jobs.find_or_start(len(abandoned), lambda _job: go_on.wait(PATIENCE), owner="ada"))
        while abandoned[-1].started is None:
            time.sleep(0.001)
        jobs._idle_seconds = 0.0  # nobody asks for it
        while len(jobs._abandoned_jobs) < len(abandoned):
            time.sleep(0.001)
        jobs._idle_seconds = None
    waiting = jobs.find_or_start("waiting", lambda _job: "ada", owner="ada")  # two are enough for one owner
    other = jobs.find_or_start("other", lambda _job: "bob", owner="bob")
    assert other.wait(PATIENCE)
    assert waiting.queued
    assert jobs.find_or_start(0, lambda _job: "again") is abandoned[0]
    go_on.set()
    assert waiting.wait(PATIENCE)
    assert [job.wait(PATIENCE) and job.get_result_or_raise_work_error() for job in abandoned] == [True, True]
    jobs.close()
