"""Schedules: the pairings of a tournament, and what is played next. Pure functions and iterators."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from analytics.store.ranges import Range, UnitLine, parts
from runners.arena.engine import MAX_PAIRS, Order

LEAST_SECONDS = 1.0  # of work in a part, if there is so much


class Pace:
    """The number of pairs of each pairing that play for ``SECONDS``. It affects the time of writing, not the rows.

    It begins with a single pair, because an agent may take a second for a turn. Threads may share it.
    """

    SECONDS = 0.25  # long against the overhead of a block, short for a user who pressed Ctrl-C
    GROWTH = 16
    FIRST = 1

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = max(1, min(most, MAX_PAIRS))
        self._pairs: dict[int, int] = {}

    def pairs(self, pairing: int) -> int:
        """The number of pairs to order next."""
        return min(self._pairs.get(pairing, self.FIRST), self._most)

    def units(self, line: UnitLine) -> int:
        """The number of units of all pairings to play next."""
        a_unit = sum(1 / self._pairs.get(pairing, self.FIRST) for pairing in range(line.pairings)) / line.pairings
        return max(1, min(int(1 / a_unit), self._most * line.pairings))

    def update(self, pairing: int, pairs: int, seconds: float) -> None:
        """Take into account the time of a block that was played."""
        fitting = int(pairs * self.SECONDS / max(seconds, 1e-9))
        before = self._pairs.get(pairing, self.FIRST)
        self._pairs[pairing] = max(1, min(fitting, max(before, pairs * self.GROWTH)))


def orders(left: Mapping[int, Sequence[Range]], pace: Pace) -> Iterator[Order]:
    """Orders for all pairs in ``left`` (ranges by pairing), block by block, in turn for each pairing."""
    queue = deque((pairing, first, end) for pairing in sorted(left) for first, end in left[pairing])
    while queue:
        pairing, first, end = queue.popleft()
        pairs = min(pace.pairs(pairing), end - first)
        yield Order(pairing, first, pairs)
        if first + pairs < end:
            queue.append((pairing, first + pairs, end))


def orders_of(line: UnitLine, first: int, end: int) -> Iterator[Order]:
    """The pairs of each pairing in a range of units, in blocks of at most ``MAX_PAIRS``."""
    every = (
        range(line.pairings) if end - first >= line.pairings else sorted({u % line.pairings for u in range(first, end)})
    )
    for pairing in every:
        pair, end_pair = line.pairs(pairing, first, end)
        for start in range(pair, end_pair, MAX_PAIRS):
            yield Order(pairing, start, min(MAX_PAIRS, end_pair - start))


class Parts:
    """The parts of what a run lacks, each of which becomes one file; the first units come first.

    Its end is not final: a task that finds that its part takes too long plays its beginning and gives back the rest.
    """

    def __init__(self, missing: Iterable[Range], total: int, most: int, workers: int, seconds: float) -> None:
        """``most``: units in a part; ``seconds``: that a part takes at most."""
        self._left = [*missing]
        heapq.heapify(self._left)
        self._total, self._most, self._workers, self._seconds = total, most, workers, seconds
        self._share = -(-self._units() // workers)
        self._a_unit: float | None = None  # seconds, once that is known

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Range:
        if not self._left:
            raise StopIteration
        first, end = self._left[0]
        part = next(parts(first, end, self._total, self._size()))
        if part[1] < end:
            heapq.heapreplace(self._left, (part[1], end))
        else:
            heapq.heappop(self._left)
        return part

    def played(self, part: Range, reached: int, seconds: float) -> None:
        """Take back what is left of a part that was played up to before ``reached`` in so many seconds."""
        if reached > part[0]:
            self._a_unit = max(seconds / (reached - part[0]), 1e-9)
        if reached < part[1]:
            heapq.heappush(self._left, (reached, part[1]))

    def _size(self) -> int:
        """The units in the next part: small enough for all to have work, and for the time that it may take."""
        if self._a_unit is None:
            return min(self._most, 1 << (self._share - 1).bit_length())
        share = self._units() // (2 * self._workers)  # so that the last ones end at about one time
        return max(
            1, min(self._most, fitting(self._seconds, self._a_unit), max(share, int(LEAST_SECONDS / self._a_unit)))
        )

    def _units(self) -> int:
        return sum(end - first for first, end in self._left)


def fitting(seconds: float, a_unit: float) -> int:
    """The units that play for so many seconds: a power of two."""
    return 1 << (max(1, int(min(seconds / max(a_unit, 1e-9), 1e12))).bit_length() - 1)
