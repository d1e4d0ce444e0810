"""Sets of pair numbers as sorted, disjoint half-open ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Range = tuple[int, int]  # first, end: the numbers first, first + 1, ..., end - 1


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in as few ranges as possible, in ascending order."""
    result: list[Range] = []
    for first, end in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def overlaps(ranges: Sequence[Range], first: int, end: int) -> bool:
    """Whether any number in [first, end) is in ``ranges``, which ``merged`` returned."""
    after = bisect_right(ranges, first, key=lambda known: known[0])
    return (after > 0 and ranges[after - 1][1] > first) or (after < len(ranges) and ranges[after][0] < end)
