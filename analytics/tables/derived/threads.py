"""Carries out independent jobs on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

POLL_SECONDS = 0.1


class StoppedError(Exception):
    """The error that a callback or a job raises if no further results are needed."""


def run_on_threads(
    jobs: Iterable[Callable[[], ResultT]],
    threads: int,
    on_result: Callable[[ResultT], None],
    stop_running_jobs: Callable[[], None] = lambda: None,
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """Run jobs on threads, and pass each result to ``on_result`` on the calling thread, in the order of completion.

    ``on_wait`` is called on the calling thread at least every ``POLL_SECONDS``. If a job fails, if ``on_result`` or
    ``on_wait`` raises an exception, or if the user presses Ctrl-C, no further job begins, and ``stop_running_jobs`` is
    called to make the running jobs end sooner. Once these jobs have ended, the exception is passed on.
    """
    waiting = iter(jobs)
    pending: set[Future[ResultT]] = set()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                # As many wait as are carried out, so that no thread is idle while a result is dealt with.
                pending |= {pool.submit(job) for job in islice(waiting, 2 * threads - len(pending))}
                if not pending:
                    break
                ended, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)  # in short steps: Ctrl-C comes between
                on_wait()
                for future in ended:
                    on_result(future.result())
        except BaseException:
            stop_running_jobs()
            for future in pending:
                future.cancel()
            raise


def map_in_order_on_threads(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
) -> Iterator[ResultT]:
    """Yield ``function(item)`` for each item, in the order of the items; several are computed at the same time.

    Items are taken on the calling thread, and at most ``threads`` of them are in memory at a time. With one thread,
    the function is called on the calling thread. An exception of the function or of ``items`` is passed on.
    """
    if threads == 1:
        yield from map(function, items)
        return
    pending = deque[Future[ResultT]]()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) == threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
