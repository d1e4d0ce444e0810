"""The replay of plies against plain Python: boards before each ply, and the least image among all symmetries."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest

from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.tables.derived.boards import ORDERED_OPENINGS, ORDERED_PLIES, derive_canonical_first_plies, replay_plies
from quarto.game import list_attribute_words
from quarto.notation import format_cell
from quarto.symmetry import build_symmetries
from tests import naive
from tests.analytics.naive_games import PAIRINGS, RUN_ID, build_spec, random_block, record, store
from tests.naive import PRESETS


def rows_of(archive: ArchiveStore) -> pl.DataFrame:
    return read_rows(archive, RUN_ID, archive.list_effective_ranges(RUN_ID)[0], "plies")


def games_in(plies: pl.DataFrame) -> dict[int, list[tuple[int, int]]]:
    games: dict[int, list[tuple[int, int]]] = {}
    for game_id, piece, cell in plies.sort("ply").select("game_id", "piece", "cell").iter_rows():
        games.setdefault(game_id, []).append((piece, cell))
    return games


@pytest.mark.parametrize("name", PRESETS)
def test_more_columns_say_who_acted_in_which_position_and_what_was_open(tmp_path: Path, name: str) -> None:
    rules = PRESETS[name]
    run = record(build_spec(rules, opening_plies=2))
    archive = ArchiveStore.open(tmp_path, create=True)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(5, pairing, pairs=6, rules=rules) for pairing in range(3)])
    with OpenArchive(tmp_path) as opened:
        rows, games = opened.sql("FROM boards").rows(named=True), games_in(opened.scan("plies").collect())
    for row in rows:
        game, ply = games[row["game_id"]], row["ply"]
        board = [naive.NONE] * 16
        for piece, cell in game[:ply]:
            board[cell] = piece
        assert members(row["filled"]) == sorted(cell for _, cell in game[:ply])
        assert members(row["before"]) == sorted(piece for piece, _ in game[:ply])
        piece, cell = game[ply]
        available = [available_piece for available_piece in range(16) if available_piece not in board]
        agents = PAIRINGS[row["game_id"] >> 32][:: 1 if row["game_id"] % 2 == 0 else -1]
        assert row["mover"] == (agents[row["seat"]] if ply >= 2 else None)
        assert row["giver"] == (agents[1 - row["seat"]] if ply >= 2 and not rules.mover_chooses else None)
        playable = available if rules.mover_chooses else [piece]
        won = {cell for available_piece in playable for cell in naive.winning_cells(board, available_piece, rules)}
        assert members(row["winning_cells"]) == sorted(won)
        safe = None if rules.mover_chooses else naive.safe_pieces(board, available, rules)
        assert (None if row["safe_gifts"] is None else members(row["safe_gifts"])) == safe
        after = naive.with_piece(board, piece, cell)
        lines = [line for line in naive.lines(rules) if naive.is_finished(after, line)]
        shared = {
            word for line in lines for word in set.intersection(*(set(list_attribute_words(after[at])) for at in line))
        }
        assert sorted(row["lines"] or []) == sorted(" ".join(map(format_cell, line)) for line in lines)
        assert set(row["attributes"] or []) == shared
        assert (row["lines"] is None) == (row["attributes"] is None) == (not lines)
    assert sum(row["lines"] is not None for row in rows) > 20


def members(mask: int) -> list[int]:
    return [bit for bit in range(16) if mask >> bit & 1]


@pytest.mark.parametrize("name", ["classic", "square", "torus_square"])
def test_the_order_of_play_is_the_least_among_all_symmetries(archive: ArchiveStore, name: str) -> None:
    plies = rows_of(archive)
    ordered = derive_canonical_first_plies(plies, PRESETS[name])
    assert ordered.schema == ORDERED_OPENINGS
    cell_maps = build_symmetries(PRESETS[name]).cells.tolist()
    for row in ordered.iter_rows(named=True):
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


def test_rows_that_are_not_games_in_order_are_refused(archive: ArchiveStore) -> None:
    plies = rows_of(archive)
    lost = plies.filter(~((pl.col("ply") == 2) & (pl.col("game_id") == plies["game_id"][0])))
    for replay in (
        partial(replay_plies, record=record()),
        partial(derive_canonical_first_plies, rules=PRESETS["classic"]),
    ):
        with pytest.raises(ValueError, match="has a row of ply 3 whose game has none of ply 2"):
            replay(lost)
