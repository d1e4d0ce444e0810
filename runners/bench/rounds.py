"""Measurements in rounds, of which the best time counts, since noise only ever adds."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(measure: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        measure()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def scaling(what: str, count: int, seconds_on: Callable[[int], float], rounds: int) -> dict[str, float]:
    """The speed on one thread and on two, which take turns; ``seconds_on`` so many threads it takes for ``count``."""
    one, two = map(min, zip(*((seconds_on(1), seconds_on(2)) for _ in range(rounds)), strict=True))
    return {
        f"one_thread_{what}_per_second": count / one,
        f"two_threads_{what}_per_second": count / two,
        "speedup": one / two,
    }
