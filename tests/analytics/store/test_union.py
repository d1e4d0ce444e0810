"""The archive's invariant, by random histories of two archives: the units that count are the union of those in files.

Writers ask for different numbers of games, have different sizes of files and old listings; files are copied from one
archive into the other, also forged ones; everything is stopped between any two writes. No unit counts twice, what a
reader has seen never becomes less, and no honest game is ever removed.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePath

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from analytics import open_archive
from analytics.statistics.tally import tally_by_pairing
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_games, read_tallies, write_slices
from analytics.store.ranges import StoredRange, split_into_files
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep.compaction import (
    STORED_TABLES,
    build_many_similar_files_condition,
    compact_run,
    compact_tables,
)
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_replaced_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError
from tests.analytics.naive_games import RUN_ID, build_random_blocks, record, select_pairs, store_span

PAIRS = 24
UNITS = 3 * PAIRS
HONEST, FORGED = 5, 6  # seeds of games
MODULUS = 1 << 64
INDEX_AGAIN = "or run 'qarena archive index"
TABLES = ("plies", "tallies", "games", "positions", "first_plies")


class StoppedError(Exception):
    """Ends a process of the model between two writes."""


@contextmanager
def stopped_after(archive: ArchiveStore, writes: int) -> Iterator[None]:
    """Let so many files be written or removed inside the context, and no more."""
    remaining, backend = itertools.count(writes, -1), archive.backend
    put, take = ArchiveStore.write_file, backend.remove

    def write(self: ArchiveStore, path: PurePath, content: bytes) -> None:
        if next(remaining) <= 0:
            raise StoppedError
        put(self, path, content)

    def take_away(path: PurePath) -> None:
        if next(remaining) <= 0:
            raise StoppedError
        take(path)

    with pytest.MonkeyPatch.context() as patch, suppress(StoppedError):
        patch.setattr(ArchiveStore, "write_file", write)
        patch.setattr(backend, "remove", take_away)
        yield


@cache
def fingerprint(unit: int, seed: int) -> int:
    """Compute the fingerprint of the games of one unit, of one seed."""
    from tests.analytics.store.test_game_tables import slow_fingerprint

    blocks = [select_pairs(block, record().unit_line, (unit, unit + 1)) for block in build_random_blocks(seed, PAIRS)]
    return sum(slow_fingerprint(block) for block in blocks) % MODULUS


@cache
def honest_units(name: str, first: int, end: int, total: int, files: Callable[[], ArchiveStore]) -> frozenset[int]:
    """Return the units of a file whose games are honest; a name says which games they are."""
    if total == sum(fingerprint(unit, HONEST) for unit in range(first, end)) % MODULUS:
        return frozenset(range(first, end))
    archive = files()
    stored = next(file for file in archive.list_files("games", RUN_ID) if file.name == name)
    games, line = read_games(archive, RUN_ID, stored), record().unit_line
    return frozenset(
        unit
        for unit in range(first, end)
        if games.select_units(line, unit, unit + 1).fingerprint == fingerprint(unit, HONEST)
    )


NUMBER = st.sampled_from([0, 1])
WRITES = st.one_of(st.just(10_000), st.integers(0, 12))
SEEDS = st.integers(0, 1 << 30)


class TwoArchives(RuleBasedStateMachine):
    """Two archives of one run."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.archives = [ArchiveStore.open(self.folder / name, create=True) for name in "ab"]
        self.listings = [[ArchiveStore(archive.root).list_effective_ranges(RUN_ID)] for archive in self.archives]
        self.counted, self.honest = [frozenset[int](), frozenset[int]()], [frozenset[int](), frozenset[int]()]
        self.is_forged = False
        for archive in self.archives:
            archive.write_run_and_unit_count(record(games=1))

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(number=NUMBER, pairs=st.integers(1, PAIRS), most=st.sampled_from([1, 2, 8, 64]), writes=WRITES, seed=SEEDS)
    def play(self, number: int, pairs: int, most: int, writes: int, seed: int) -> None:
        archive, dice, total = self.archives[number], random.Random(seed), 3 * pairs
        held = dice.choice(self.listings[number])
        spans = [span for gap in held.list_gaps(total) for span in split_into_files(*gap, total, most)]
        dice.shuffle(spans)
        with stopped_after(archive, writes):
            for span in spans:
                store_span(archive, span, build_random_blocks(HONEST, PAIRS))
            write_slices(archive, RUN_ID)

    @rule(number=NUMBER, seed=SEEDS, share=st.sampled_from([0.3, 1.0]))
    def copy(self, number: int, seed: int, share: float) -> None:
        """Copy files as rsync does: in any order, and not all of them."""
        source, target, dice = self.archives[1 - number], self.archives[number], random.Random(seed)
        games = [file for file in source.list_files("games", RUN_ID) if dice.random() < share]
        for stored in games:
            for table in TABLES:
                for file in source.list_files(table, RUN_ID):
                    path = source.folder(table, RUN_ID) / file.name
                    if file[:3] == stored[:3]:
                        target.write_file(target.folder(table, RUN_ID) / file.name, source.backend.read(path))

    @rule(number=NUMBER, writes=WRITES, most=st.sampled_from([8, 64, 1000]))
    def join_files(self, number: int, writes: int, most: int) -> None:
        archive = self.archives[number]
        with stopped_after(archive, writes):
            if most == 1000:
                compact_run(archive, RUN_ID)
            else:
                write_slices(archive, RUN_ID)
                compact_tables(
                    archive, archive.load_run(RUN_ID), STORED_TABLES, build_many_similar_files_condition(2, most)
                )

    @rule(number=NUMBER, writes=WRITES)
    def write_what_was_cut(self, number: int, writes: int) -> None:
        with stopped_after(self.archives[number], writes):
            write_slices(self.archives[number], RUN_ID)

    @rule(number=NUMBER, writes=WRITES)
    def index(self, number: int, writes: int) -> None:
        with stopped_after(self.archives[number], writes):
            index_runs(self.archives[number], [RUN_ID], 2)

    @rule(number=NUMBER, writes=WRITES, every=st.booleans())
    def remove_files(self, number: int, writes: int, every: bool) -> None:
        archive = self.archives[number]
        with stopped_after(archive, writes):
            if every:
                remove_unneeded_files(archive, list_unneeded_files(archive), 0)
            else:
                remove_replaced_files(archive, RUN_ID, 0)

    @rule(number=NUMBER)
    def list_files(self, number: int) -> None:
        self.listings[number].append(ArchiveStore(self.archives[number].root).list_effective_ranges(RUN_ID))

    @rule(number=NUMBER, first=st.integers(0, UNITS - 1), size=st.integers(1, 40))
    def forge(self, number: int, first: int, size: int) -> None:
        self.is_forged = True
        store_span(self.archives[number], (first, min(UNITS, first + size)), build_random_blocks(FORGED, PAIRS))

    @invariant()
    def units_that_count_are_those_in_files(self) -> None:
        for number in range(2) if hasattr(self, "archives") else ():
            self.archives[number].forget_cached_listings()
            self._look(number, ArchiveStore(self.archives[number].root))

    def _look(self, number: int, archive: ArchiveStore) -> None:
        files, ranges = archive.list_files("games", RUN_ID), archive.list_effective_ranges(RUN_ID)
        units = [unit for stored in ranges for unit in range(stored.first, stored.end)]
        assert units == sorted({unit for file in files for unit in range(file.first, file.end)})
        assert self.counted[number] <= frozenset(units)
        self.counted[number] = frozenset(units)
        honest = frozenset[int]()
        for file in files:
            archive.find_path_of_containing_file("plies", RUN_ID, file)  # raises if it was removed
            honest |= honest_units(file.name, file.first, file.end, file.fingerprint, lambda: archive)
        assert self.honest[number] <= honest
        self.honest[number] = honest
        if not self.is_forged:
            assert ranges.fingerprint == sum(fingerprint(unit, HONEST) for unit in units) % MODULUS

    @rule(number=NUMBER)
    def ask(self, number: int) -> None:
        """Check that everything that reads games reads each of them once."""
        archive = ArchiveStore(self.archives[number].root)
        ranges, line = archive.list_effective_ranges(RUN_ID), record().unit_line
        assert [read_games(archive, RUN_ID, stored).fingerprint for stored in ranges] == [
            stored.fingerprint for stored in ranges
        ]
        games = line.count_games(stored[:2] for stored in ranges)
        tallies = read_tallies(archive, [RUN_ID])[RUN_ID]
        assert sum(tally.games for tally in tallies.values()) == games
        with open_archive(archive.root, check=False) as opened:
            counts = opened.sql("SELECT count(*), count(DISTINCT game_id), (SELECT sum(plies) FROM games) FROM games")
            assert counts.row(0) == (games, games, sum(tally.plies for tally in tallies.values()) if games else None)
            assert opened.scan("games").collect().height == games
            assert opened.scan("plies").collect().height == opened.sql("SELECT count(*) FROM plies").item()
            assert opened.sql("SELECT sum(plies) FROM games").item() == (opened.scan("plies").collect().height or None)
        # A larger file of a writer with an old listing hides the index of its parts until that is made again.
        problems = [problem.fault for problem in verify_archive(archive).problems if INDEX_AGAIN not in problem.fault]
        if not self.is_forged:
            assert problems == []
            blocks = [
                part
                for stored in ranges
                for block in build_random_blocks(HONEST, PAIRS)
                if (part := select_pairs(block, line, stored[:2])).pairs
            ]
            assert tallies == tally_by_pairing(blocks)


def run(histories: int, steps: int) -> None:
    run_state_machine_as_test(
        TwoArchives,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_units_that_count_are_those_in_files_whatever_happens() -> None:
    run(8, 20)


@pytest.mark.slow
def test_units_that_count_are_those_in_files_in_a_thousand_histories() -> None:
    run(1000, 30)


def test_a_cut_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path, create=True)
    archive.write_run_and_unit_count(record())
    first, second = (store_span(archive, span, build_random_blocks(HONEST, PAIRS)) for span in ((0, 20), (16, 30)))
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [first[:2], (20, 30)]
    path = archive.find_path_of_containing_file("plies", RUN_ID, second)
    archive.backend.replace(path, archive.backend.read(path)[:-9] + b"123456789")
    with pytest.raises(FailureError, match="has other bytes"):
        ArchiveStore(tmp_path).list_effective_ranges(RUN_ID)
    assert any(str(path) in problem.fault for problem in verify_archive(ArchiveStore(tmp_path)).problems)
    assert StoredRange(*second) in archive.list_files("games", RUN_ID)
