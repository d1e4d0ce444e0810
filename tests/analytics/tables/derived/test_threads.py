from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from analytics.tables.derived.threads import map_in_order_on_threads, run_on_threads
from quarto.errors import FailureError


def test_jobs_are_taken_as_they_are_needed_and_results_handed_over_on_the_calling_thread() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[Callable[[], int]]:
        for number in range(20):
            taken.append(number)
            yield partial(int, number)

    def done(result: int) -> None:
        assert threading.get_ident() == here
        assert len(taken) <= result + 8

    here = threading.get_ident()
    run_on_threads(jobs(), 2, done)
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
        run_on_threads((partial(job, number) for number in range(100)), 2, done, stopped.set)
    assert stopped.is_set()
    assert len(begun) <= 4


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    begun = list[int]()

    def items() -> Iterator[int]:
        for item in range(20):
            begun.append(item)
            yield item

    results = map_in_order_on_threads(lambda item: item * item, items(), threads)
    for number, result in enumerate(results):
        assert result == number * number
        assert len(begun) <= number + threads  # no more items are in memory
    assert len(begun) == 20


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_function_or_of_the_items_is_passed_on(threads: int) -> None:
    def items() -> Iterator[int]:
        yield from (2, 1)
        raise FailureError("no third item")

    results = map_in_order_on_threads(lambda item: 2 // item, items(), threads)
    assert next(results) == 1
    with pytest.raises(FailureError, match="no third item"):
        list(results)
    with pytest.raises(ZeroDivisionError):
        [*map_in_order_on_threads(lambda item: 2 // item, [1, 0, 1, 1], threads)]
