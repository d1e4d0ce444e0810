"""Who meets whom, and what is left to play: pure iterators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from runners.arena.engine import MAX_PAIRS, Order

Range = tuple[int, int]  # first pair, end pair

SCHEDULES = ("round_robin", "gauntlet")


def pairings(agents: int, schedule: str) -> tuple[tuple[int, int], ...]:
    """The pairings of a tournament, as indices: everybody against everybody, or the first against each other one."""
    if schedule == "gauntlet":
        return tuple((0, other) for other in range(1, agents))
    return tuple(combinations(range(agents), 2))


def missing(pairs: int, covered: Sequence[Range]) -> list[Range]:
    """What ``covered`` (sorted, disjoint) leaves of [0, pairs)."""
    gaps, start = [], 0
    for first, end in covered:
        if start < min(first, pairs):
            gaps.append((start, min(first, pairs)))
        start = max(start, end)
    if start < pairs:
        gaps.append((start, pairs))
    return gaps


class Pace:
    """How many pairs of a pairing play for a fraction of a second. It affects when rows are written, never which."""

    SECONDS = 0.25  # long against the overhead of a block, short for somebody who presses Ctrl-C
    GROWTH = 16
    FIRST = 16

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = most
        self._pairs: dict[int, int] = {}

    def pairs(self, pairing: int) -> int:
        """How many to order next."""
        return self._pairs.get(pairing, min(self.FIRST, self._most))

    def update(self, pairing: int, pairs: int, seconds: float) -> None:
        """Learn from a block that was played."""
        fitting = int(pairs * self.SECONDS / max(seconds, 1e-9))
        before = self.pairs(pairing)
        self._pairs[pairing] = max(1, min(fitting, before * self.GROWTH, self._most))


def orders(left: Mapping[int, Sequence[Range]], pace: Pace) -> Iterator[Order]:
    """Everything in ``left`` (ranges of pairs by pairing), block by block, taking turns among the pairings."""
    queue = deque((pairing, first, end) for pairing in sorted(left) for first, end in left[pairing])
    while queue:
        pairing, first, end = queue.popleft()
        pairs = min(pace.pairs(pairing), end - first)
        yield Order(pairing, first, pairs)
        if first + pairs < end:
            queue.append((pairing, first + pairs, end))
