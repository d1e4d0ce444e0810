"""The line of a run's units: arithmetic of pairs, units and aligned ranges. Pure functions.

A unit is a pair of games of one pairing. The units of a run lie on a line: unit = pair * pairings + pairing. So more
games extend the line, and a tournament grows evenly. A file holds an aligned range of 2^k units: two such ranges are
disjoint, or one holds the other. Only the last file of a run may end before its aligned range does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import GAME_BITS

Range = tuple[int, int]  # first, end: the units first, first + 1, ..., end - 1

MOST_UNITS = 10**12 - 1  # of a run: file names have twelve digits
LARGEST = 1 << 39  # units of the largest aligned range


class UnitLine(NamedTuple):
    """The form of a run's line of units.

    Imported games are numbered through all pairings: their line has one pairing, and a unit is a pair's number.
    """

    pairings: int
    games_a_pair: int  # 2, or 1 where seats are fixed

    def pairs(self, pairing: int, first: int, end: int) -> Range:
        """The pairs of a pairing in a range of units: the first one, and the one after the last.

        Where units are numbered through all pairings, the pairs may be of any pairing. Their ids say of which one.
        """
        if self.pairings == 1:
            return first, end
        return -(-(first - pairing) // self.pairings), -(-(end - pairing) // self.pairings)

    def units_of(self, game_id: NDArray[np.int64]) -> NDArray[np.int64]:
        """[G] the unit of each game by its id."""
        pair = (game_id & ((1 << GAME_BITS) - 1)) >> 1
        return pair if self.pairings == 1 else pair * self.pairings + (game_id >> GAME_BITS)

    def end_of(self, games: int) -> int:
        """The number of units in which each pairing has ``games`` games."""
        return games // self.games_a_pair * self.pairings

    def games_in(self, ranges: Iterable[Range]) -> int:
        """The number of games in disjoint ranges of units."""
        return self.games_a_pair * sum(end - first for first, end in ranges)


def aligned(first: int, end: int) -> Iterator[Range]:
    """The fewest aligned ranges that make up a range, in order."""
    while first < end:
        size = min(first & -first or LARGEST, LARGEST)
        while size > end - first:
            size >>= 1
        yield first, first + size
        first += size


def parts(first: int, end: int, total: int, most: int) -> Iterator[Range]:
    """A range as parts that each become one file: aligned, at most ``most`` units, the greatest that fit.

    The last one ends at ``total``, the run's last unit, whatever its size is.
    """
    largest = 1 << (max(1, most).bit_length() - 1)
    while first < end:
        size = min(first & -first or largest, largest)
        while first + size > end and end != total:
            size >>= 1
        yield first, min(first + size, end)
        first += size


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same units in as few ranges as possible, in ascending order."""
    result: list[Range] = []
    for first, end in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def missing(held: Iterable[Range], total: int, first: int = 0) -> list[Range]:
    """The ranges of the units from ``first`` to before ``total`` that are not in ``held``, which ascends."""
    gaps, reached = [], first
    for start, end in held:
        if reached < min(start, total):
            gaps.append((reached, min(start, total)))
        reached = max(reached, end)
    if reached < total:
        gaps.append((reached, total))
    return gaps
