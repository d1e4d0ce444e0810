"""Sorted tables become one, whatever of them is in memory: compared with Polars."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.tables.derived import range_table
from analytics.tables.derived.definitions import POSITIONS_TABLE, derive_stored_positions
from analytics.tables.derived.range_table import merge_sorted_tables
from tests.analytics.naive_games import RUN_ID, random_block, record, store
from tests.marks import seldom

KEY = ["ply", "occupied", "board", "pairing", "second", "cell", "piece", "imposed"]


@pytest.fixture(scope="module")
def positions(tmp_path_factory: pytest.TempPathFactory) -> list[pl.DataFrame]:
    """Derive the positions of five ranges of 32 units, and of none."""
    archive = ArchiveStore.open(tmp_path_factory.mktemp("merged") / "archive", create=True)
    archive.write_run_and_unit_count(record())
    store(archive, RUN_ID, [random_block(7, pairing, 0, 54, forfeits=0.0) for pairing in range(3)], most=32)
    counted = [
        derive_stored_positions(archive, record(), stored, range(6)) for stored in archive.list_effective_ranges(RUN_ID)
    ]
    return [*counted[:5], counted[0][:0]]


def in_parts(table: pl.DataFrame, rows: int) -> Iterator[pl.DataFrame]:
    return (table[first : first + rows] for first in range(0, len(table), rows))


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step merge five rows of each table, though more are in memory."""
    monkeypatch.setattr(range_table, "MIN_STEP_ROWS", 5)
    monkeypatch.setattr(range_table, "STEP_ROWS", 5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [7, 1 << 16, *seldom(1, 40)])
def test_sums_are_those_of_polars(positions: list[pl.DataFrame], rows: int, threads: int) -> None:
    check_sums(positions, rows, threads)


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("rows", [7, 1 << 16])
def test_sums_do_not_depend_on_the_rows_of_a_step(positions: list[pl.DataFrame], rows: int) -> None:
    check_sums(positions, rows, 1)


def check_sums(positions: list[pl.DataFrame], rows: int, threads: int) -> None:
    totals, tables = POSITIONS_TABLE.totals, [in_parts(table, rows) for table in positions]
    merged = [*merge_sorted_tables(tables, POSITIONS_TABLE.key, 64, totals, threads)]
    assert {len(part) for part in merged[:-1]} == {64}
    every = pl.concat(positions)
    summed = every.group_by(KEY).agg(pl.sum("games", "wins", "draws"), pl.min("sample")).sort(KEY)
    assert pl.concat(merged).equals(summed.select(every.columns))
    assert summed.height < every.height


@pytest.mark.parametrize("key", [("game_id",), ("ply", "game_id")])
@pytest.mark.parametrize("rows", [7, 1 << 16, *seldom(1)])
def test_rows_of_different_games_are_put_in_order(archive: ArchiveStore, key: tuple[str, ...], rows: int) -> None:
    store(archive, RUN_ID, [random_block(1, pairing, 8) for pairing in range(3)], most=4)
    table = "plies" if len(key) > 1 else "games"
    tables = [read_rows(archive, RUN_ID, stored, table).select(key) for stored in archive.list_effective_ranges(RUN_ID)]
    random.Random(1).shuffle(tables)
    merged = [*merge_sorted_tables([in_parts(frame, rows) for frame in tables], key, 50)]
    assert {len(part) for part in merged[:-1]} == {50}
    assert pl.concat(merged).equals(pl.concat(tables).sort(key))


@pytest.mark.parametrize("rows", [1, 500])
def test_columns_in_one_word_are_merged_as_columns_by_themselves(rows: int) -> None:
    draw = np.random.default_rng(rows)
    widest = draw.integers(-(1 << 63), (1 << 63) - 1, rows)
    narrow = {name: draw.integers(low, 9, rows).astype(np.int8) for name, low in (("a", 0), ("d", -9), ("e", 8))}
    table = pl.DataFrame(
        {"b": draw.integers(0, 1 << 16, rows), "c": widest, "f": draw.integers(0, 1 << 62, rows)} | narrow
    )
    for columns in map(list, ("abcdef", "fabd", "c", "ae")):
        runs = [table[number::3].sort(columns) for number in range(3)]
        merged = pl.concat(merge_sorted_tables([iter([run]) for run in runs], columns, 64))
        assert merged.select(columns).equals(table.sort(columns).select(columns))
