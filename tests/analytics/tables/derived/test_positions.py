from __future__ import annotations

import random

import polars as pl
import pytest

from analytics.tables.derived.positions import POSITIONS, derive_positions
from quarto.rules import NONE, Rules
from tests.analytics.naive_games import PAIRINGS, Game, frames, pack_games, random_game
from tests.naive import PRESETS
from tests.naive_turns import naive_counts
from tests.quarto.test_turns import form_of


def some_games(seed: int, pairs: int, rules: Rules, opening: int = 0) -> tuple[list[tuple[int, Game]], pl.DataFrame]:
    """Draw games of two pairings with their ids, and the stored plies of their shard."""
    dice = random.Random(seed)
    games = {pairing: [random_game(dice, rules) for _ in range(2 * pairs)] for pairing in (0, 2)}
    blocks = [
        pack_games(games_of_pairing, pairing, first_pair=3, opening=opening)
        for pairing, games_of_pairing in games.items()
    ]
    ids = [
        ((pairing << 32) + 6 + i, game)
        for pairing, games_of_pairing in games.items()
        for i, game in enumerate(games_of_pairing)
    ]
    return ids, frames(blocks, PAIRINGS)[1]


def counts_of(frame: pl.DataFrame, rules: Rules) -> dict[object, list[int]]:
    """Read the rows of a table as the twin counts them."""
    rows: dict[object, list[int]] = {}
    for row in frame.iter_rows(named=True):
        form = form_of(row["occupied"], row["board"], row["cell"], row["piece"], not rules.mover_chooses)
        key = row["ply"], row["pairing"], row["second"], form
        assert key not in rows, "one row a position, turn and player"
        rows[key] = [row["games"], row["wins"], row["draws"], (row["pairing"] << 32) + row["sample"]]
    return rows


@pytest.mark.parametrize("name", PRESETS)
def test_counts_are_those_of_a_naive_replay(name: str) -> None:
    rules = PRESETS[name]
    games, plies = some_games(1, 2, rules)
    frame = derive_positions(plies, rules, 0)
    assert frame.schema == POSITIONS
    assert counts_of(frame, rules) == dict(naive_counts(games, rules))
    assert frame.equals(frame.sort("ply", "occupied", "board", "pairing", "second", "cell", "piece"))


def test_games_that_transpose_or_are_symmetric_meet_in_one_row() -> None:
    plies = [(15, 3), (3, 5), (7, 8)]
    swapped = [(3, 5), (15, 3), (7, 8)]  # another order
    turned = [(piece ^ 15, cell // 4 + 4 * (cell % 4)) for piece, cell in plies]  # mirrored, all pieces opposite
    games: list[Game] = [
        {"plies": game_plies, "winner": NONE, "ending": 1} for game_plies in (plies, swapped, turned, plies)
    ]
    stored = frames([pack_games(games)], PAIRINGS)[1]
    last = derive_positions(stored, Rules(), 0).filter(ply=2)
    assert last.select("second", "games", "draws", "sample").sort("second").rows() == [(0, 2, 2, 1), (1, 2, 2, 0)]
    assert last.select("occupied", "board", "cell", "piece").n_unique() == 1


def test_imposed_plies_are_marked() -> None:
    for opening in (0, 1, 3):
        _, plies = some_games(4, 10, Rules(), opening)
        imposed = dict(derive_positions(plies, Rules(), opening).select("ply", "imposed").unique().rows())
        # The gift of the ply after the opening is chosen, though the placement that it came with was not.
        assert imposed == {ply: 2 if ply < opening - 1 else 1 if ply < opening else 0 for ply in range(16)}


def test_many_pairings_are_kept_apart() -> None:
    dice = random.Random(6)
    numbers = [0, 1, 2047, 2048, 70_000, 2**31 - 1]
    blocks = [pack_games([random_game(dice) for _ in range(4)], number) for number in numbers]
    labels = dict.fromkeys(numbers, ("random", "dumb"))
    stored = pl.concat([frames([block], labels)[1] for block in blocks])  # type: ignore[arg-type]
    frame = derive_positions(stored.sort("ply", "game_id"), Rules(), 0, range(1))
    assert sorted(frame["pairing"].unique().to_list()) == numbers
    assert frame["games"].sum() == 24


def test_rows_that_are_not_games_in_order_are_an_error() -> None:
    _, plies = some_games(7, 5, Rules())
    for column, value, complaint in (
        ("piece", 16, "holds a piece"),
        ("cell", -1, "holds a cell"),
        ("game_id", 2**40, "has a row of ply"),
    ):
        wrong = plies[column].to_numpy().copy()
        wrong[-1] = value
        with pytest.raises(ValueError, match=complaint):
            derive_positions(plies.with_columns(pl.Series(column, wrong)), Rules(), 0)


def test_equal_keys_stay_in_the_order_of_games() -> None:
    games: list[Game] = [{"plies": [(0, 0)], "winner": 1, "ending": 0} for _ in range(3000)]
    frame = derive_positions(frames([pack_games(games)], PAIRINGS)[1], Rules(), 0)
    assert frame.select("second", "games", "wins", "sample").rows() == [(0, 1500, 1500, 1), (1, 1500, 1500, 0)]
    assert frame["piece"].to_list() == [NONE, NONE]
