from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from analytics.derived_tables.jobs import run_jobs


def test_every_result_is_handed_over_on_the_calling_thread() -> None:
    here, found = threading.get_ident(), []

    def done(result: int) -> None:
        assert threading.get_ident() == here
        found.append(result)

    run_jobs((partial(pow, number, 2) for number in range(50)), 3, done)
    assert sorted(found) == [number**2 for number in range(50)]


def test_jobs_are_taken_as_they_are_needed_and_not_all_at_once() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[Callable[[], int]]:
        for number in range(20):
            taken.append(number)
            yield partial(int, number)

    run_jobs(jobs(), 2, lambda result: pytest.fail("too early") if len(taken) > result + 8 else None)
    assert len(taken) == 20


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_in_the_callback_stops_what_runs_and_begins_nothing_more(error: type[BaseException]) -> None:
    stopped, begun = threading.Event(), []

    def job(number: int) -> int:
        begun.append(number)
        if number:
            assert stopped.wait(60)
        return number

    def done(_result: int) -> None:
        raise error

    with pytest.raises(error):
        run_jobs((partial(job, number) for number in range(100)), 2, done, stopped.set)
    assert stopped.is_set()
    assert len(begun) <= 4


def test_an_error_in_a_job_is_raised() -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_jobs([fail], 1, lambda _result: None)
