"""`qarena bench --names N`: the store's own work on the names of N files, without any games behind the names.

An archive of a trillion games has millions of files, and names alone decide what readers use. So this part of such an
archive can be measured on one machine. The simulated run looks like a real one: most files hold neighbouring ranges,
some are duplicates, parents and their children, or have a damaged name, and some ranges are missing. In each period of
1,000 ranges the same happens, so that the right answers are known; any other answer is an error.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from analytics.store.archive import GAMES_FOLDER, ArchiveStore
from analytics.store.files.local_files import LOCAL
from analytics.store.ranges import MAX_UNITS, Ranges, StoredRange, parse_file_names, select_effective_derived
from analytics.tables.upkeep.compaction import list_compaction_groups
from analytics.tables.upkeep.replacement_proof import select_replaced_files
from quarto.errors import FailureError, RequestError
from runners.arena.executors.base import MEBIBYTE, read_peak_bytes
from runners.bench.timing import Figures

T = TypeVar("T")

PERIOD = 1000  # ranges, after which the same irregularities occur again
UNITS = 1 << 16  # in a file: 131,072 games in pairs, so that ten million files hold more than a trillion games
SUMMED_FILES = 8  # files of games for which a derived table has one file
# In each period: the range with two files of different games, the one whose only file has a damaged name, the one
# without a file, the group of ranges that also has a parent, and the groups that have not been derived yet.
DUPLICATE, DAMAGED, ABSENT = 10, 20, 30
PARENT_GROUP, UNDERIVED_GROUP = 50, 124
NAMES_IN_PERIOD = PERIOD + 1  # of games: a duplicate and a parent more, and one less
MAX_NAMES = MAX_UNITS // (PERIOD * UNITS) * NAMES_IN_PERIOD  # more games than a run may have otherwise
MERGED_FILES = 64  # files of games that would be merged into one: some 128 MiB, as `qarena archive compact` does
LISTED_NAMES = 100_000  # in a real folder; more names take minutes to write, and as long for each to list
LINKS = 60_000  # to one file: file systems allow some 65,000
RUN_ID = "0123456789ab"


class _Stage(NamedTuple):
    """The processor time of one stage."""

    seconds: float
    names: int

    def to_figures(self) -> Figures:
        return {"seconds": self.seconds, "microseconds_a_name": 1e6 * self.seconds / self.names}


def bench_file_names(names: float) -> Figures:
    """Measure the store's work on about ``names`` names of files, and on a tenth and a hundredth of them.

    Returns the figures as nested dictionaries, by number of names: seconds of processor time of each stage, and the
    peak of memory. The memory is that of this process at the end of the stage, so the smallest number comes first.
    Raises ``RequestError`` if there would be less than one period of names, or more than a run may have, and
    ``FailureError`` if the store gives a wrong answer.
    """
    if not NAMES_IN_PERIOD <= names <= MAX_NAMES:
        raise RequestError(f"--names {names:g} is out of range: it must be from {NAMES_IN_PERIOD} to {MAX_NAMES}")
    period_counts = sorted({max(1, int(names) // share // NAMES_IN_PERIOD) for share in (100, 10, 1)})
    return {f"{periods * NAMES_IN_PERIOD}_names": _measure_names(periods) for periods in period_counts}


def _measure_names(periods: int) -> Figures:
    """Measure all stages for the names of ``periods`` periods."""
    count, end_unit = periods * NAMES_IN_PERIOD, periods * PERIOD * UNITS
    archive, stages, before = ArchiveStore(Path("names-only")), dict[str, _Stage](), read_peak_bytes()

    def measure(stage: str, work: Callable[[], T]) -> T:
        gc.collect()
        started = time.process_time()
        result = work()
        stages[stage] = _Stage(time.process_time() - started, count)
        return result

    if count <= LISTED_NAMES:
        with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
            _link_names(Path(folder), generate_game_names(periods))
            listed = measure("list_folder", partial(LOCAL.list_names, Path(folder)))
            _check_count("names in the folder", len(listed), count)
            del listed
    names = [*generate_game_names(periods)]
    files = measure("parse", partial(parse_file_names, names))
    del names
    games = measure("select", partial(archive.select_effective, RUN_ID, GAMES_FOLDER, frozenset([""]), files))
    gaps = measure("list_gaps", partial(games.list_gaps, end_unit))
    replaced = measure("prove_replaced", partial(select_replaced_files, archive, RUN_ID, files, games))
    _check_count("files", len(files), count - periods)
    _check_count("ranges in use", len(games), periods * (PERIOD - 2 - SUMMED_FILES + 1))
    _check_count("gaps", len(gaps), 2 * periods)
    _check_count("replaced files", len(replaced), periods * SUMMED_FILES)
    del files, replaced
    sums = [*generate_sum_names(periods)]
    derived = measure("match_derived", lambda: select_effective_derived(parse_file_names(sums), games))
    missing = measure("list_missing", partial(games.select_beginning_outside, derived))
    _check_count("derived ranges in use", len(derived), len(sums))
    _check_count("missing derived ranges", len(missing), periods * SUMMED_FILES)
    groups = measure("list_groups_to_merge", partial(_count_groups_to_merge, games, end_unit))
    memory = read_peak_bytes() - before
    return {
        "games": 2 * end_unit,
        **{stage: measured.to_figures() for stage, measured in stages.items()},
        "open": _Stage(sum(stages[name].seconds for name in ("parse", "select", "match_derived")), count).to_figures(),
        "groups_to_merge": groups,
        "memory_mib": memory / MEBIBYTE,
        "memory_bytes_a_name": memory / count,
    }


def _count_groups_to_merge(games: Ranges, end_unit: int) -> int:
    most_units = MERGED_FILES * UNITS
    groups = list_compaction_groups(games, end_unit, lambda files: files.units <= most_units, MERGED_FILES)
    return sum(1 for _ in groups)


def generate_game_names(periods: int) -> Iterator[str]:
    """Yield the names of files of games in ``periods`` periods, in a random order, as folders list them."""
    yield from _shuffle_periods(periods, _list_game_names_of_period)


def generate_sum_names(periods: int) -> Iterator[str]:
    """Yield the names of files of a derived table of the same games, in a random order.

    A file sums eight files of games, or one if some of the eight are missing.
    """
    yield from _shuffle_periods(periods, _list_sum_names_of_period)


def _shuffle_periods(periods: int, list_names: Callable[[int], list[str]]) -> Iterator[str]:
    dice, order = random.Random(1), list(range(periods))
    dice.shuffle(order)
    for period in order:
        names = list_names(period)
        dice.shuffle(names)
        yield from names


def _list_game_names_of_period(period: int) -> list[str]:
    names, ranges = list[str](), _list_ranges_of_period(period)
    for index, stored in enumerate(ranges):
        if index != ABSENT:
            names.append(f"{stored.name}.part" if index == DAMAGED else stored.name)
    names.append(ranges[DUPLICATE]._replace(fingerprint=ranges[DUPLICATE].fingerprint + 1).name)
    names.append(_build_parent(ranges[PARENT_GROUP * SUMMED_FILES : (PARENT_GROUP + 1) * SUMMED_FILES]).name)
    return names


def _list_sum_names_of_period(period: int) -> list[str]:
    names, ranges = list[str](), _list_ranges_of_period(period)
    for group in range(UNDERIVED_GROUP):
        indices = range(group * SUMMED_FILES, (group + 1) * SUMMED_FILES)
        held = [ranges[index] for index in indices if index not in (DAMAGED, ABSENT)]
        names += [_build_parent(held).name] if len(held) == SUMMED_FILES else [stored.name for stored in held]
    return names


def _list_ranges_of_period(period: int) -> list[StoredRange]:
    return [_build_range(number) for number in range(period * PERIOD, (period + 1) * PERIOD)]


def _build_range(number: int) -> StoredRange:
    """Build the range of a file of games, with a fingerprint and a checksum that look random."""
    mixed = number * 0x9E3779B97F4A7C15 % (1 << 64)
    return StoredRange(number * UNITS, (number + 1) * UNITS, mixed >> 1, f"{mixed >> 32:08x}")


def _build_parent(children: list[StoredRange]) -> StoredRange:
    return StoredRange(children[0].first, children[-1].end, Ranges(children).fingerprint, children[0].checksum)


def _link_names(folder: Path, names: Iterable[str]) -> None:
    """Create entries with these names in a folder. All are links to few empty files, because only names matter."""
    for index, name in enumerate(names):
        if index % LINKS == 0:
            source = folder / name
            source.touch()
        else:
            os.link(source, folder / name)


def _check_count(noun: str, count: int, expected: int) -> None:
    """Raise ``FailureError`` if the store counts something else than the simulated run has."""
    if count != expected:
        raise FailureError(f"the store finds {count:,} {noun} of the simulated run, which has {expected:,}")
