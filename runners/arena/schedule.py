"""Schedules: the pairings of a tournament, and the pairs still to be played as blocks. Pure functions and iterators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from analytics.store.ranges import Range
from runners.arena.engine import MAX_PAIRS, Order


def pairings(agents: int, schedule: str) -> tuple[tuple[int, int], ...]:
    """The pairings of a tournament as indices: all against all, or in a gauntlet the first against each other agent."""
    if schedule == "gauntlet":
        return tuple((0, other) for other in range(1, agents))
    return tuple(combinations(range(agents), 2))


def missing(pairs: int, covered: Sequence[Range]) -> list[Range]:
    """The ranges of [0, pairs) that are not in ``covered``, which is sorted and disjoint."""
    gaps, start = [], 0
    for first, end in covered:
        if start < min(first, pairs):
            gaps.append((start, min(first, pairs)))
        start = max(start, end)
    if start < pairs:
        gaps.append((start, pairs))
    return gaps


class Pace:
    """The number of pairs of each pairing that play for ``SECONDS``. It affects the time of writing, not the rows.

    It begins with a single pair, because an agent may take a second for a turn.
    """

    SECONDS = 0.25  # long against the overhead of a block, short for a user who pressed Ctrl-C
    GROWTH = 16
    FIRST = 1

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = max(1, min(most, MAX_PAIRS))
        self._pairs: dict[int, int] = {}

    def pairs(self, pairing: int) -> int:
        """The number of pairs to order next."""
        return self._pairs.get(pairing, min(self.FIRST, self._most))

    def update(self, pairing: int, pairs: int, seconds: float) -> None:
        """Take into account the time of a block that was played."""
        fitting = int(pairs * self.SECONDS / max(seconds, 1e-9))
        before = self.pairs(pairing)
        self._pairs[pairing] = max(1, min(fitting, before * self.GROWTH, self._most))


def orders(left: Mapping[int, Sequence[Range]], pace: Pace) -> Iterator[Order]:
    """Orders for all pairs in ``left`` (ranges by pairing), block by block, in turn for each pairing."""
    queue = deque((pairing, first, end) for pairing in sorted(left) for first, end in left[pairing])
    while queue:
        pairing, first, end = queue.popleft()
        pairs = min(pace.pairs(pairing), end - first)
        yield Order(pairing, first, pairs)
        if first + pairs < end:
            queue.append((pairing, first + pairs, end))


def parts(left: Mapping[int, Sequence[Range]], most: int) -> Iterator[list[list[int]]]:
    """All pairs in ``left`` (ranges by pairing) in parts of ``most``: lists of ``[pairing, first pair, end pair]``."""
    part: list[list[int]] = []
    room = most
    for pairing in sorted(left):
        for start, end in left[pairing]:
            first = start
            while first < end:
                pairs = min(room, end - first)
                part.append([pairing, first, first + pairs])
                first, room = first + pairs, room - pairs
                if not room:
                    yield part
                    part, room = [], most
    if part:
        yield part


def overlap(part: Sequence[Sequence[int]], left: Mapping[int, Sequence[Range]]) -> list[list[int]]:
    """Those pairs of a part that are in ``left`` too, in the form of a part."""
    return [
        [pairing, max(first, start), min(end, stop)]
        for pairing, first, end in part
        for start, stop in left.get(pairing, ())
        if max(first, start) < min(end, stop)
    ]
