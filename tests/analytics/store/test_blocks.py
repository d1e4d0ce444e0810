from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.blocks import ROW_GROUP_ROWS, table_content, tables
from analytics.store.schema import GAMES, MAX_PAIRS, PLIES, first_game_id
from quarto.batch import Block
from tests.analytics.naive_games import PAIRINGS, block_of, naive_rows, random_block, single_games

PLACES = st.lists(st.tuples(st.sampled_from(range(3)), st.integers(0, 30)), unique=True, max_size=6)


@given(places=PLACES, seed=st.integers(0, 1000), pairs=st.integers(1, 5))
def test_rows_equal_those_of_the_naive_builder(places: list[tuple[int, int]], seed: int, pairs: int) -> None:
    blocks = [random_block(seed, pairing, first * pairs, pairs) for pairing, first in places]
    games, plies = tables(blocks, PAIRINGS)
    expected_games, expected_plies = naive_rows(blocks, PAIRINGS)
    assert games.rows() == expected_games
    assert plies.rows() == expected_plies
    assert games.schema == GAMES
    assert plies.schema == PLIES


@given(places=PLACES, seed=st.integers(0, 1000), pairs=st.integers(1, 5))
def test_rows_of_single_games_equal_those_of_the_naive_builder(
    places: list[tuple[int, int]], seed: int, pairs: int
) -> None:
    blocks = [single_games(seed, pairing, first * pairs, pairs) for pairing, first in places]
    assert tuple(table.rows() for table in tables(blocks, PAIRINGS)) == naive_rows(blocks, PAIRINGS)


def test_the_largest_numbers_fit() -> None:
    games, plies = tables([random_block(1, 2, MAX_PAIRS - 1, 1)], PAIRINGS)
    assert games["game_id"].to_list() == [3 * 2**32 - 2, 3 * 2**32 - 1]
    assert plies["pairing"].unique().to_list() == [2]
    assert first_game_id(2**31 - 1, MAX_PAIRS - 1) == 2**63 - 2


def test_an_imposed_opening_is_noted() -> None:
    block = random_block(1)._replace(opening=3)
    assert tables([block], PAIRINGS)[0]["opening"].to_list() == [3] * 16


def test_a_game_forfeited_before_its_first_ply_has_no_plies() -> None:
    forfeit = {"plies": [], "winner": 1, "ending": 3}
    games, plies = tables([block_of([forfeit, forfeit])], PAIRINGS)
    assert games["plies"].to_list() == [0, 0]
    assert plies.is_empty()


@pytest.mark.parametrize("blocks", [[], [random_block(3)], [random_block(3), random_block(3, 1)]], ids=len)
def test_a_file_reads_back_as_it_was_written(blocks: list[Block], tmp_path: Path) -> None:
    for name, frame in zip(("games", "plies"), tables(blocks, PAIRINGS), strict=True):
        path = tmp_path / f"{name}.parquet"
        content, written = table_content(frame, path.name)
        path.write_bytes(content)
        assert pl.read_parquet(path).equals(frame)
        assert pl.read_parquet(path).schema == frame.schema
        assert (written.rows, written.bytes) == (len(frame), path.stat().st_size)


def test_a_stored_ply_costs_little_disk() -> None:
    blocks = [random_block(5, first_pair=64 * i, pairs=64, forfeits=0) for i in range(30)]
    games, plies = tables(blocks, PAIRINGS)
    size = sum(table_content(frame, "part")[1].bytes for frame in (games, plies))
    assert size / len(plies) < 3.2
    assert len(plies) < ROW_GROUP_ROWS  # that is: also in a small shard, where headers weigh most
