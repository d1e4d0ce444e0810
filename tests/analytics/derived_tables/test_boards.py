"""The replay of plies against plain Python: boards before each ply, and the least image among all symmetries."""

from __future__ import annotations

from itertools import permutations

import polars as pl
import pytest

from analytics.derived_tables.boards import BOARDS, ORDERED_PLIES, ORDERS, boards_of, orders_of
from analytics.store.archive import Archive
from analytics.store.range_files import read_rows
from quarto.symmetry import symmetries
from tests.analytics.naive_games import RUN_ID, random_block, store
from tests.naive import PRESETS


def rows_of(archive: Archive) -> pl.DataFrame:
    return read_rows(archive, RUN_ID, archive.ranges(RUN_ID)[0], "plies")


def games_in(plies: pl.DataFrame) -> dict[int, list[tuple[int, int]]]:
    games: dict[int, list[tuple[int, int]]] = {}
    for game_id, piece, cell in plies.sort("ply").select("game_id", "piece", "cell").iter_rows():
        games.setdefault(game_id, []).append((piece, cell))
    return games


def test_the_board_before_each_ply(archive: Archive) -> None:
    plies = rows_of(archive)
    games, found = games_in(plies), boards_of(plies)
    assert found.schema == BOARDS
    assert found.select(plies.columns).equals(plies)
    for game_id, ply, before, occupied in found.select("game_id", "ply", "before", "occupied").iter_rows():
        earlier = games[game_id][:ply]
        assert before == sum(1 << piece for piece, _ in earlier)
        assert occupied == sum(1 << cell for _, cell in earlier)


@pytest.mark.parametrize("name", ["classic", "square", "torus_square"])
def test_the_order_of_play_is_the_least_among_all_symmetries(archive: Archive, name: str) -> None:
    plies = rows_of(archive)
    found = orders_of(plies, PRESETS[name])
    assert found.schema == ORDERS
    cell_maps = symmetries(PRESETS[name]).cells.tolist()
    for row in found.iter_rows(named=True):
        game = games_in(plies)[row["game_id"]][:ORDERED_PLIES]
        pieces = [piece ^ game[0][0] for piece, _ in game]
        least_pieces = min(
            tuple(sum((piece >> bit & 1) << place for place, bit in enumerate(order)) for piece in pieces)
            for order in permutations(range(4))
        )
        least_cells = min(tuple(moved[cell] for _, cell in game) for moved in cell_maps)
        assert row["ordered"] == len(game)
        assert words(row["pieces"], len(game)) == least_pieces
        assert words(row["cells"], len(game)) == least_cells


def words(word: int, plies: int) -> tuple[int, ...]:
    return tuple(word >> 4 * (ORDERED_PLIES - 1 - ply) & 15 for ply in range(plies))


def test_rows_that_are_not_games_in_order_are_refused(archive: Archive) -> None:
    plies = rows_of(archive)
    lost = plies.filter(~((pl.col("ply") == 2) & (pl.col("game_id") == plies["game_id"][0])))
    for replay in (boards_of, lambda rows: orders_of(rows, PRESETS["classic"])):
        with pytest.raises(ValueError, match="has a row of ply 3 whose game has none of ply 2"):
            replay(lost)


def test_a_game_without_plies_has_no_order(archive: Archive) -> None:
    made = store(archive, RUN_ID, [random_block(4, pairing, 8, 40, forfeits=0.9) for pairing in range(3)])
    stored = max(made, key=lambda each: each.units)
    plies = read_rows(archive, RUN_ID, stored, "plies")
    assert 0 < len(orders_of(plies, PRESETS["classic"])) < 2 * stored.units
