"""Games as the files of a range, against the naive builder; and their fingerprint, against plain Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.files.local_files import LOCAL
from analytics.store.game_tables import ROW_GROUP_ROWS, GameRows, RangeGames, encode_games_table
from analytics.store.parquet.encoder import allocate_buffer, encode_parquet
from analytics.store.ranges import StoredRange, UnitLine, compute_checksum, compute_game_ids, first_game_id
from analytics.store.schema import GAMES_SCHEMA, MAX_PAIRS, PLIES_SCHEMA
from analytics.store.table_files import read_parts_or_raise_value_error
from quarto.batch import Block, Games
from tests.analytics.naive_games import PAIRINGS, frames, naive_rows, random_block, single_games, tables

PLACES = st.lists(st.tuples(st.sampled_from(range(3)), st.integers(0, 30)), unique=True, max_size=6)


@given(
    make=st.sampled_from([random_block, single_games]),
    places=PLACES,
    pairs=st.integers(1, 5),
    part_games=st.integers(1, 40),
    group_rows=st.integers(1, 400),
)
def test_rows_are_those_of_the_naive_builder_whatever_the_parts_and_row_groups(
    make: Callable[..., Block], places: list[tuple[int, int]], pairs: int, part_games: int, group_rows: int
) -> None:
    blocks = [make(first, pairing, first * pairs, pairs) for pairing, first in places]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analytics.store.game_tables.MIN_ENCODED_GAMES", part_games)
        patch.setattr("analytics.store.game_tables.ROW_GROUP_ROWS", group_rows)
        built = frames(blocks, PAIRINGS)
    assert tuple(table.rows() for table in built) == naive_rows(blocks, PAIRINGS)


@given(groups=st.integers(0, 30), group_rows=st.sampled_from([1, 7, 130]), pairing=st.sampled_from([0, 2]))
def test_the_kernel_writes_row_groups_as_python_does(groups: int, group_rows: int, pairing: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analytics.store.game_tables.ROW_GROUP_ROWS", group_rows)
        plies = tables([random_block(1, pairing, 9, groups)], PAIRINGS)[1]
    frame = pl.read_parquet(bytes(plies))
    assert plies == encode_parquet(frame.iter_slices(group_rows), PLIES_SCHEMA)


def test_statistics_are_those_of_each_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.store.game_tables.MIN_ENCODED_GAMES", 7)
    monkeypatch.setattr("analytics.store.game_tables.ROW_GROUP_ROWS", 16)
    path, (games, plies) = (
        tmp_path / "plies.parquet",
        tables([random_block(4, pairing) for pairing in range(3)], PAIRINGS),
    )
    path.write_bytes(plies)
    (tmp_path / "games.parquet").write_bytes(games)
    rows = pl.read_parquet(path)
    statistics = duckdb.execute(
        "SELECT row_group_id, path_in_schema, stats_min_value::BIGINT, stats_max_value::BIGINT "
        f"FROM parquet_metadata('{path}')"
    ).fetchall()
    assert len(statistics) == len(PLIES_SCHEMA) * -(-len(rows) // 16)
    for group, name, least, largest in statistics:
        values = rows[name][16 * group : 16 * (group + 1)]
        assert (values.min(), values.max()) == (least, largest)
    labels = duckdb.execute(
        "SELECT stats_min_value, stats_max_value "
        f"FROM parquet_metadata('{tmp_path / 'games.parquet'}') WHERE path_in_schema = 'agent_0' ORDER BY row_group_id"
    ).fetchall()
    assert labels == [("random", "rule_based"), ("dumb(depth=2)", "random"), ("dumb(depth=2)", "rule_based")]


def test_a_block_without_games_leaves_no_trace() -> None:
    block, empty = random_block(1), random_block(1, 2)._replace(games=Games.allocate(0))
    assert tables([block, empty], PAIRINGS) == tables([block], PAIRINGS)
    assert tables([empty], PAIRINGS) == tables([], PAIRINGS)


def test_a_game_of_an_unnamed_pairing_is_refused() -> None:
    rows = GameRows(np.array([3 << 32]), *(np.zeros(1, np.int8) for _ in range(4)))
    with pytest.raises(ValueError, match="a pairing that is not named"):
        encode_games_table([rows], [0, 1], PAIRINGS, allocate_buffer(1))


def test_a_table_is_read_in_parts_after_all_its_bytes_were_checked(tmp_path: Path) -> None:
    _, table = tables([random_block(1)], PAIRINGS)
    path = tmp_path / StoredRange(0, 8, 7, compute_checksum(table)).name
    path.write_bytes(table)
    parts = [*read_parts_or_raise_value_error(LOCAL, path, PLIES_SCHEMA, 20)]
    rows = len(pl.concat(parts))
    assert [len(part) for part in parts] == [20] * (rows // 20) + [rows % 20]
    assert pl.concat(parts).equals(*read_parts_or_raise_value_error(LOCAL, path, PLIES_SCHEMA))
    reading = read_parts_or_raise_value_error(LOCAL, path, PLIES_SCHEMA, 20)
    next(reading)
    path.unlink()
    assert sum(map(len, reading)) == rows - 20  # a file that is removed meanwhile is read to its end
    with pytest.raises(FileNotFoundError):
        next(read_parts_or_raise_value_error(LOCAL, path, PLIES_SCHEMA, 20))
    for content in (table[:-1], b"X" + table[1:], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="other bytes than its name says"):
            next(read_parts_or_raise_value_error(LOCAL, path, PLIES_SCHEMA, 20))
    path.write_bytes(table)
    with pytest.raises(ValueError, match="of the right types"):
        next(read_parts_or_raise_value_error(LOCAL, path, GAMES_SCHEMA, 20))
    with pytest.raises(ValueError, match="does not have the name of a table's file"):
        next(read_parts_or_raise_value_error(LOCAL, path.rename(tmp_path / "table.parquet"), PLIES_SCHEMA, 20))


def test_the_largest_numbers_fit() -> None:
    games, plies = frames([random_block(1, 2, MAX_PAIRS - 1, 1)], PAIRINGS)
    assert games["game_id"].to_list() == [3 * 2**32 - 2, 3 * 2**32 - 1]
    assert plies["pairing"].unique().to_list() == [2]
    assert first_game_id(2**31 - 1, MAX_PAIRS - 1) == 2**63 - 2


def test_a_stored_ply_costs_little_disk() -> None:
    blocks = [random_block(5, first_pair=64 * i, pairs=64, forfeits=0) for i in range(8)]
    games, plies = tables(blocks, PAIRINGS)
    rows = sum(int(block.games.plies.sum()) for block in blocks)
    assert (len(games) + len(plies)) / rows < 2.2
    assert rows < ROW_GROUP_ROWS  # that is: also in a small shard, where headers weigh most


WORD = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def slow_mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def slow_fingerprint(block: Block) -> int:
    """Compute a block's fingerprint game by game, as data/README.md describes it."""
    total = 0
    for i in range(len(block.games.plies)):
        pair, swapped = divmod(i, 2) if block.swapped else (i, 0)
        game_id = block.pairing << 32 | 2 * (block.first_pair + pair) + swapped
        plies, words = int(block.games.plies[i]), [0, 0]
        for ply in range(plies):
            byte = int(block.games.pieces[ply, i]) << 4 | int(block.games.cells[ply, i])
            words[ply // 8] |= byte << 8 * (ply % 8)
        end = plies | int(block.games.winner[i]) + 1 << 8 | block.opening << 16 | int(block.games.ending[i]) << 24
        word = slow_mix(game_id + GAMMA & WORD)
        word = slow_mix(word ^ (end + GAMMA & WORD))
        word = slow_mix(word ^ words[0])
        total += slow_mix((word + GAMMA & WORD) ^ words[1])
    return total & WORD


def games_of(block: Block) -> RangeGames:
    ids = compute_game_ids(block.pairing, block.first_pair, block.pairs, block.swapped)
    return RangeGames(ids, np.full(len(ids), block.opening, np.int8), block.games)


@pytest.mark.parametrize("pairs", [0, 1, 7, 600])  # more games than are packed at a time
def test_it_is_that_of_its_slow_twin(pairs: int) -> None:
    for block in (random_block(1, 2, 5, pairs), single_games(3, 1, 9, pairs), random_block(4, 0, 0, pairs, forfeits=1)):
        assert games_of(block).fingerprint == slow_fingerprint(block)


def test_it_adds_up_in_any_order_and_over_any_parts() -> None:
    block, dice = random_block(7, 1, 40, 30), random.Random(3)
    games, line = games_of(block), UnitLine(3, 2)
    for _ in range(10):
        ends = sorted({120, 213, *(dice.randrange(120, 214) for _ in range(5))})
        parts = [games.select_units(line, first, end) for first, end in itertools.pairwise(ends)]
        assert sum(len(part.game_id) for part in parts) == 60
        assert sum(part.fingerprint for part in parts) & WORD == games.fingerprint
    order = np.array(dice.sample(range(60), 60))
    assert games.select_rows(order).select_as_contiguous_arrays(slice(None)).fingerprint == games.fingerprint


def test_every_change_of_a_game_changes_it_and_rubbish_beyond_its_end_does_not() -> None:
    games = games_of(random_block(2, 0, 0, 3))
    fingerprint = games.fingerprint
    for row, plies in enumerate(games.games.plies.tolist()):
        for matrix in (games.games.pieces, games.games.cells):
            for ply in range(16):
                matrix[ply, row] ^= 1
                assert (games.fingerprint != fingerprint) == (ply < plies)
                matrix[ply, row] ^= 1
        for column in (games.games.plies, games.games.winner, games.games.ending, games.opening, games.game_id):
            column[row] += 1
            assert games.fingerprint != fingerprint
            column[row] -= 1
    assert games.fingerprint == fingerprint
