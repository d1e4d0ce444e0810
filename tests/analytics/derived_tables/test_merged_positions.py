"""The sums of tables of positions, compared with the sums of their rows."""

from __future__ import annotations

import polars as pl
import pytest

from analytics.derived_tables import merged_positions
from analytics.derived_tables.position_index import count_positions
from analytics.store.archive import Archive
from tests.analytics.naive_games import RUN_ID, random_block, record, store

GROUP_ROWS = 64  # of what is merged here: so it comes in several parts


def tables_of(archive: Archive) -> list[pl.DataFrame]:
    """The positions of five ranges of games, and a table without rows."""
    archive.save_run(record(games=160))
    store(archive, RUN_ID, [random_block(1, pairing, 8, 72) for pairing in range(3)], most=64)
    ranges = [*archive.ranges(RUN_ID)][:5]
    made = [count_positions(archive, archive.known_run(RUN_ID), each, range(6)) for each in ranges]
    assert len(made) == 5
    return [*made, made[0][:0]]


def twin_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The sum of the rows of tables of positions, by Polars."""
    key = ["ply", "occupied", "board", "pairing", "second", "cell", "piece", "imposed"]
    return rows.group_by(key).agg(pl.sum("games", "wins", "draws"), pl.min("sample")).sort(key)


@pytest.mark.parametrize("in_memory", [1 << 20, 60, 7])
def test_tables_are_merged_whatever_of_them_is_in_memory(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    tables = tables_of(archive)
    monkeypatch.setattr(merged_positions, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(merged_positions, "ROWS_IN_MEMORY", in_memory)
    rows = merged_positions.rows_at_once(len(tables))
    parts = [merged_positions.row_groups([each], rows) for each in tables]
    found = [*merged_positions.merged(parts, record().rules, 0)]
    assert {len(part) for part in found[:-1]} == {GROUP_ROWS}
    assert 0 < len(found[-1]) <= GROUP_ROWS
    assert pl.concat(found).equals(twin_of(pl.concat(tables)))


@pytest.mark.parametrize("tables", [0, 1])
def test_nothing_has_no_sum(archive: Archive, tables: int) -> None:
    nothing = [iter([tables_of(archive)[-1]])] * tables
    assert [*merged_positions.merged(nothing or [iter(())], record().rules, 0)] == []


def test_sums_add_up(archive: Archive) -> None:
    """The sum of sums is the sum of all."""

    def merged(*tables: pl.DataFrame) -> pl.DataFrame:
        return pl.concat(merged_positions.merged([iter([each]) for each in tables], record().rules, 0))

    one, two, three, four, five, _ = tables_of(archive)
    whole = merged(one, two, three, four, five)
    assert merged(merged(one, two), merged(three, merged(four, five))).equals(whole)
    assert merged(five, three, one, two, four).equals(whole)
    assert whole.height < sum(map(len, (one, two, three, four, five)))
