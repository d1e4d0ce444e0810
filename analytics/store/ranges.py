"""Ranges of units: their arithmetic, the names of the files that hold them, and the choice of files for readers.

A unit is a pair of games of one pairing. The units of a run lie on a line: unit = pair * pairings + pairing. So more
games extend the line, and a tournament grows evenly. A file holds an aligned range of 2^k units: two such ranges are
disjoint, or one holds the other. Only the last file of a run may end before its aligned range does.

A name says what a file holds: FIRST-END-SUM.CHECK.parquet, or FIRST-END-SUM-EXTENT.CHECK.parquet.

- FIRST and END are a range of units.
- SUM is the fingerprint of its games.
- EXTENT says how much a derived table holds of them.
- CHECK is the beginning of the SHA-256 of the file's bytes.

The first three parts are the same in every table.

Readers use the union of the units in the files, whatever the set of files: see ``select_effective_slices``. So a reader
lists, sorts and sweeps, and writers need no order among them.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import GAME_BITS

Range = tuple[int, int]  # first, end: the units first, first + 1, ..., end - 1

MAX_UNITS = 10**12 - 1  # of a run: file names have twelve digits
LARGEST_RANGE = 1 << 39  # units of the largest aligned range


def first_game_id(pairing: int, pair: int) -> int:
    """Return the ``game_id`` of the first game of a pair; the second game has the next id."""
    return (pairing << GAME_BITS) | (2 * pair)


def compute_game_ids(pairing: int, first_pair: int, pairs: int, both_games: bool) -> NDArray[np.int64]:
    """Return the ids of the games of ``pairs`` consecutive pairs, of which ``first_pair`` is the first.

    Without ``both_games``, only the first game of each pair is included.
    """
    first = first_game_id(pairing, first_pair)
    return np.arange(first, first + 2 * pairs, 1 if both_games else 2)


class UnitLine(NamedTuple):
    """The numbering of a run's units: unit = pair · pairings + pairing.

    Imported games are numbered regardless of their pairings, as if there were only one. For them, ``pairings`` is 1,
    and a unit is the number of a pair.
    """

    pairings: int
    games_a_pair: int  # 2, or 1 where seats are fixed

    def pair_range(self, pairing: int, first: int, end: int) -> Range:
        """Return the first pair of a pairing whose unit is in a range, and the pair after the last such pair.

        The range of units goes from ``first`` up to but not including ``end``. If units are numbered across all
        pairings, ``pairing`` is ignored: the pairs then belong to various pairings, and only the game ids tell to
        which.
        """
        if self.pairings == 1:
            return first, end
        return -(-(first - pairing) // self.pairings), -(-(end - pairing) // self.pairings)

    def compute_units(self, game_id: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute the unit of each game, [G], from the game's id."""
        pair = (game_id & ((1 << GAME_BITS) - 1)) >> 1
        return pair if self.pairings == 1 else pair * self.pairings + (game_id >> GAME_BITS)

    def count_units_of_all_pairings(self, games_per_pairing: int) -> int:
        """Count the units that a run has if each pairing plays ``games_per_pairing`` games."""
        return games_per_pairing // self.games_a_pair * self.pairings

    def count_games(self, ranges: Iterable[Range]) -> int:
        """Count the games in disjoint ranges of units."""
        return self.games_a_pair * sum(end - first for first, end in ranges)


def split_aligned(first: int, end: int) -> Iterator[Range]:
    """Split a range into the fewest aligned ranges, in ascending order.

    An aligned range has 2^k units and begins at a multiple of 2^k.
    """
    while first < end:
        size = min(first & -first or LARGEST_RANGE, LARGEST_RANGE)
        while size > end - first:
            size >>= 1
        yield first, first + size
        first += size


def split_into_files(first: int, end: int, end_unit: int, max_units: int) -> Iterator[Range]:
    """Split a range into parts, each of which is stored in a file of its own.

    A part is aligned (see ``split_aligned``) and as large as possible, but has at most ``max_units`` units. Only a part
    that ends at ``end_unit``, the end of the run, need not be aligned: it may be cut short there.
    """
    largest = 1 << (max(1, max_units).bit_length() - 1)
    while first < end:
        size = min(first & -first or largest, largest)
        while first + size > end and end != end_unit:
            size >>= 1
        yield first, min(first + size, end)
        first += size


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Merge ranges into the fewest ranges with the same units, in ascending order."""
    result: list[Range] = []
    for first, end in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def list_gaps(ranges: Iterable[Range], end_unit: int, first: int = 0) -> list[Range]:
    """List the gaps in ``ranges``, that is, the ranges of the units that are in none of them.

    Only the units from ``first`` up to but not including ``end_unit`` are considered. ``ranges`` must be in ascending
    order.
    """
    gaps, reached = [], first
    for start, end in ranges:
        if reached < min(start, end_unit):
            gaps.append((reached, min(start, end_unit)))
        reached = max(reached, end)
    if reached < end_unit:
        gaps.append((reached, end_unit))
    return gaps


# Names of files.

FILE_NAME = re.compile(r"([0-9]{12})-([0-9]{12})-([0-9a-f]{16})(?:-([0-9a-z]{1,16}))?\.([0-9a-f]{8})\.parquet")
ROWS_A_UNIT = 64  # of any table, at most: two games of 16 plies with two decisions each
MODULUS = 1 << 64  # of fingerprints
MAX_SUMS = 64  # of fingerprints that reach one unit: more are ignored


class StoredRange(NamedTuple):
    """A range of units in a file, as the file's name describes it."""

    first: int
    end: int
    fingerprint: int  # of its games, uint64
    checksum: str = ""  # 8 hex digits; empty: not stored yet
    extent: str = ""  # of a derived table: a file whose extent is a greater text holds more

    @property
    def is_file(self) -> bool:
        """Whether a file holds exactly this range.

        If not, the range is a slice of a file (see ``select_effective_slices``) or is not stored yet, and has no
        checksum.
        """
        return bool(self.checksum)

    @property
    def units(self) -> int:
        return self.end - self.first

    @property
    def max_rows(self) -> int:
        """The largest number of rows that a file of any table can have for this range."""
        return ROWS_A_UNIT * self.units

    @property
    def games_stem(self) -> str:
        """The parts of the file's name that are the same in every table."""
        return f"{self.first:012d}-{self.end:012d}-{self.fingerprint:016x}"

    @property
    def name(self) -> str:
        """The name of the file."""
        extent = f"-{self.extent}" if self.extent else ""
        return f"{self.games_stem}{extent}.{self.checksum}.parquet"


def compute_checksum(content: bytes | bytearray | memoryview) -> str:
    """Compute the checksum of a file's bytes: the first 8 hex digits of their SHA-256."""
    return hashlib.sha256(content).hexdigest()[:8]


def parse_file_name(name: str) -> StoredRange | None:
    """Parse the name of a file into the range that the file holds.

    Returns None if the name does not look like that of a table's file.
    """
    match = FILE_NAME.fullmatch(name)
    if match is None:
        return None
    first, end, fingerprint, extent, checksum = match.groups("")
    if not first < end:  # of equally many digits
        return None
    return StoredRange(int(first), int(end), int(fingerprint, 16), checksum, extent)


def parse_file_names(names: Iterable[str]) -> list[StoredRange]:
    """Parse the names of files into the ranges that the files hold, sorted by name.

    Names that do not look like those of a table's files are skipped. Folders list names in any order. If there are
    millions, sorting them first makes all that follows several times as fast, because neighbouring ranges are then
    neighbours in memory too.
    """
    return [stored for name in sorted(names) if (stored := parse_file_name(name)) is not None]


class Ranges(tuple[StoredRange, ...]):  # noqa: SLOT001  (its sums are kept)
    """The ranges of one table of one run that readers use. They are disjoint and in ascending order.

    ``select_effective_slices`` selects them for games, ``select_effective_derived`` for tables computed from games.
    """

    @cached_property
    def units(self) -> int:
        """The number of units in the ranges."""
        return int((self.ends - self.firsts).sum())

    @cached_property
    def fingerprint(self) -> int:
        """The fingerprint of all games in the ranges, a uint64."""
        return sum(stored.fingerprint for stored in self) % MODULUS

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first unit of each range, [N]."""
        return np.fromiter((stored.first for stored in self), np.int64, len(self))

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The unit after the last unit of each range, [N]."""
        return np.fromiter((stored.end for stored in self), np.int64, len(self))

    @cached_property
    def cumulative_fingerprint_sums(self) -> NDArray[np.uint64]:
        """The summed fingerprints of the first 0, 1, ..., N ranges, [N + 1]."""
        fingerprints = np.fromiter((stored.fingerprint for stored in self), np.uint64, len(self))
        return np.concatenate([np.zeros(1, np.uint64), np.cumsum(fingerprints, dtype=np.uint64)])

    @property
    def covered_ranges(self) -> list[Range]:
        """The fewest ranges that have the same units as these ranges."""
        return merge_ranges((stored.first, stored.end) for stored in self)

    def list_gaps(self, end_unit: int, first: int = 0) -> list[Range]:
        """List the gaps in these ranges, that is, the ranges of the units that are in none of them.

        Only the units from ``first`` up to but not including ``end_unit`` are considered.
        """
        overlapping = self.select_overlapping(first, end_unit)  # of millions of ranges, callers often ask about few
        return list_gaps(((stored.first, stored.end) for stored in overlapping), end_unit, first)

    def select_overlapping(self, first: int, end: int) -> Ranges:
        """Select the ranges that hold any unit from ``first`` up to but not including ``end``."""
        low, high = np.searchsorted(self.ends, first, "right"), np.searchsorted(self.firsts, end)
        return Ranges(self[int(low) : int(high)])

    def has_all_units(self, first: int, end: int) -> bool:
        """Return whether the ranges hold all units from ``first`` up to but not including ``end``."""
        return not self.list_gaps(end, first)

    def find_range(self, unit: int) -> StoredRange | None:
        """Return the range that holds a unit, or None if no range does."""
        index = int(np.searchsorted(self.ends, unit, "right"))
        return self[index] if index < len(self) and self[index].first <= unit else None

    def mark_held_units(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each of ``units``, whether any of the ranges holds it. The result has the shape of ``units``."""
        if not self:
            return np.zeros(units.shape, np.bool_)
        index = np.minimum(np.searchsorted(self.ends, units, "right"), len(self) - 1)
        held: NDArray[np.bool_] = (self.firsts[index] <= units) & (units < self.ends[index])
        return held

    def select_beginning_outside(self, excluded: Ranges) -> list[StoredRange]:
        """Select the ranges whose first unit is in none of the ranges ``excluded``."""
        return [
            stored
            for stored, held in zip(self, excluded.mark_held_units(self.firsts).tolist(), strict=True)
            if not held
        ]

    def find_fingerprint(self, first: int, end: int) -> int | None:
        """Return the fingerprint of the games from unit ``first`` up to but not including unit ``end``.

        Returns None unless these units are exactly the units of one or more whole ranges.
        """
        low, high = int(np.searchsorted(self.firsts, first)), int(np.searchsorted(self.ends, end))
        if max(low, high) >= len(self) or self.firsts[low] != first or self.ends[high] != end:
            return None
        if int((self.ends[low : high + 1] - self.firsts[low : high + 1]).sum()) != end - first:
            return None
        return (int(self.cumulative_fingerprint_sums[high + 1]) - int(self.cumulative_fingerprint_sums[low])) % MODULUS


class FileSlice(NamedTuple):
    """The part of the units of a file of games that readers use, or that a task works on.

    Readers use each unit from one file only (see ``select_effective_slices``).
    """

    file: StoredRange
    first: int
    end: int

    @staticmethod
    def whole(file: StoredRange) -> FileSlice:
        """Return the slice with all units of a file."""
        return FileSlice(file, file.first, file.end)

    @property
    def units(self) -> int:
        return self.end - self.first

    @property
    def is_whole(self) -> bool:
        """Whether the slice has all units of the file."""
        return (self.first, self.end) == self.file[:2]


def select_effective_slices(files: Iterable[StoredRange]) -> list[FileSlice]:
    """Select the slices of files of games that readers use, in ascending order; each stored unit is in one slice.

    From left to right, the next file is the one that begins at the first unit not yet covered. If several files begin
    there, the longest is taken; of equally long files, the one with the smallest fingerprint. If no file begins there,
    the file that reaches furthest among those that began earlier is cut. Its units are used from there on: until the
    next file begins if the next file reaches at least as far as the cut one, and otherwise until the end of the cut
    one.

    Files overlap like this in two cases: writers requested different numbers of games (the last file of a run may end
    anywhere), or archives were copied into one another.
    """
    slices = list[FileSlice]()
    for group in _group_overlapping(files):
        slices += [FileSlice.whole(group[0])] if len(group) == 1 else _slice_group(group)
    return slices


def _group_overlapping(files: Iterable[StoredRange]) -> Iterator[list[StoredRange]]:
    """Yield groups of files in ascending order, so that files overlap only within a group.

    Nearly every group is a single file. So of millions of files, only a few need a comparison with others.
    """
    group, reached = list[StoredRange](), 0
    for file in sorted(files):
        if group and file.first >= reached:
            yield group
            group = []
        group.append(file)
        reached = max(reached, file.end)
    if group:
        yield group


def _slice_group(group: Sequence[StoredRange]) -> list[FileSlice]:
    """Select the slices that readers use of files that overlap, as ``select_effective_slices`` describes."""
    ordered = sorted(_sort_largest_extent_first(group), key=lambda file: (file.first, -file.end, file.fingerprint))
    slices, reached, index = list[FileSlice](), 0, 0
    begun = list[tuple[int, int, int, StoredRange]]()  # a heap of files that began before; furthest end first
    while index < len(ordered) or begun:
        following = ordered[index] if index < len(ordered) else None
        if following is not None and following.first < reached:
            heapq.heappush(begun, (-following.end, following.fingerprint, index, following))
            index += 1
        elif following is not None and following.first == reached:
            slices.append(FileSlice(following, reached, following.end))
            reached, index = following.end, index + 1
        elif begun and begun[0][3].end > reached:
            furthest = begun[0][3]
            meets = following is not None and following.first < furthest.end <= following.end
            end = following.first if following is not None and meets else furthest.end
            slices.append(FileSlice(furthest, reached, end))
            reached = end
        else:  # the files that began before are covered
            begun.clear()
            reached = reached if following is None else following.first
    return slices


def select_disjoint_ranges(files: Iterable[StoredRange]) -> Ranges:
    """Select ranges from left to right, each of which overlaps no range selected before it.

    This is for files that are never cut, such as those of a table that is computed from the games.
    """
    kept = list[StoredRange]()
    for group in _group_overlapping(files):
        kept += group if len(group) == 1 else _select_disjoint_of_group(group)
    return Ranges(kept)


def _select_disjoint_of_group(group: Sequence[StoredRange]) -> Iterator[StoredRange]:
    reached = 0
    for file in sorted(_sort_largest_extent_first(group), key=lambda file: (file.first, -file.end, file.fingerprint)):
        if file.first >= reached:
            yield file
            reached = file.end


def select_effective_derived(files: Iterable[StoredRange], games: Ranges) -> Ranges:
    """Select the ranges that readers use from the files of a derived table, which is computed from the games.

    A file is used only if it matches ``games``, the ranges of games that readers use: it spans whole ranges of games,
    and their fingerprints add up to its own. Several files match together if they span one range of games and their
    fingerprints add up to that of the range; this happens, for example, after only the games were compacted.
    """
    coarse, finer = [], []
    same = {stored[:3] for stored in games}  # the usual case: a file for each file of games
    for file in files:
        games_fingerprint = file.fingerprint if file[:3] in same else games.find_fingerprint(file.first, file.end)
        if games_fingerprint is None:
            finer.append(file)
        elif games_fingerprint == file.fingerprint:
            coarse.append(file)
    kept = select_disjoint_ranges(coarse)
    return select_disjoint_ranges([*kept, *_select_tilings(finer, games, kept)]) if finer else kept


def _select_tilings(finer: Sequence[StoredRange], games: Ranges, effective_ranges: Ranges) -> Iterator[StoredRange]:
    """For each range of ``games`` that ``effective_ranges`` lack, yield files of ``finer`` that together make it up.

    ``finer`` are the files that do not span whole ranges of games.
    """
    if not len(games):
        return
    firsts = np.fromiter((file.first for file in finer), np.int64, len(finer))
    index = np.minimum(np.searchsorted(games.ends, firsts, "right"), len(games) - 1)
    inside: dict[StoredRange, list[StoredRange]] = {}
    for file, number in zip(finer, index.tolist(), strict=True):
        if games[number].first <= file.first and file.end <= games[number].end:
            inside.setdefault(games[number], []).append(file)
    for target, files in inside.items():
        if effective_ranges.find_range(target.first) is None:
            yield from _find_tiling(files, target)


def _find_tiling(files: Iterable[StoredRange], target: StoredRange) -> Iterator[StoredRange]:
    """Yield neighbouring files that together have the units and the fingerprint of ``target``, if there are any.

    Simply taking the largest files can fail, because some of them may hold other games.
    """
    # By unit: the sums of fingerprints of files that end there, each with the last of the files and the sum before it.
    reached: dict[int, dict[int, tuple[StoredRange, int] | None]] = {target.first: {0: None}}
    for file in sorted(_sort_largest_extent_first(files), key=lambda file: (file.first, -file.end)):
        for total in [*reached.get(file.first, ())][:MAX_SUMS]:
            reached.setdefault(file.end, {}).setdefault((total + file.fingerprint) % MODULUS, (file, total))
    step, kept = reached.get(target.end, {}).get(target.fingerprint), list[StoredRange]()
    while step is not None:
        kept.append(step[0])
        step = reached[step[0].first][step[1]]
    yield from reversed(kept)


def _sort_largest_extent_first(files: Iterable[StoredRange]) -> list[StoredRange]:
    """Sort files by extent, greatest first, then by checksum, smallest first.

    A file with a greater extent holds more of the same games, so it is preferred.
    """
    return sorted(sorted(files, key=lambda file: file.checksum), key=lambda file: file.extent, reverse=True)
