"""The interface of the Politecnico di Torino's package: its answers as recorded from the original, and private names.

``politecnico_calls.json`` has calls and answers of the original: the attributes of its pieces, twelve games with
illegal calls among the legal ones and the state after each ply, and forty games of its ``run()`` of random players.
"""

from __future__ import annotations

import copy
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quarto
from quarto import Piece, Player, Quarto

RECORDED = json.loads(Path(__file__).with_name("politecnico_calls.json").read_text())


class RandomPlayer(Player):
    def choose_piece(self) -> int:
        return random.randrange(16)

    def place_piece(self) -> tuple[int, int]:
        return random.randrange(4), random.randrange(4)


def private(game: Quarto, name: str) -> Any:
    return getattr(game, f"_Quarto__{name}")


def binary(game: Any) -> list[Any]:
    cells = [cell for row in game._binary_board.tolist() for cell in row]
    plain = [[None if math.isnan(value) else int(value) for value in cell] for cell in cells]
    return [plain[row : row + 4] for row in range(0, 16, 4)]


def state(game: Any) -> list[Any]:
    lines = [private(game, f"check_{name}")() for name in ("horizontal", "vertical", "diagonal")]
    board = game.get_board_status().tolist()
    turn = [game.get_current_player(), game.get_selected_piece(), board]
    return [*turn, game.check_winner(), game.check_finished(), *lines]


def test_pieces_are_those_of_the_original() -> None:
    game = Quarto()
    pieces = [game.get_piece_charachteristics(i) for i in range(16)]
    fields = [[piece.HIGH, piece.COLOURED, piece.SOLID, piece.SQUARE, piece.binary] for piece in pieces]
    assert fields == RECORDED["pieces"]
    assert all(i == 8 * p.HIGH + 4 * p.COLOURED + 2 * p.SOLID + p.SQUARE for i, p in enumerate(pieces))
    assert Piece(True, False, True, True).binary == [1, 0, 1, 1]


@pytest.mark.parametrize("number", range(len(RECORDED["games"])))
def test_calls_answer_as_those_of_the_original(number: int) -> None:
    game: Any = Quarto()
    for name, arguments, expected in RECORDED["games"][number]:
        match name:
            case "flip":  # what run() does between the two calls
                game._current_player = 1 - game._current_player
            case "state":
                assert state(game) == expected
            case "binary":
                assert binary(game) == expected
            case _:
                assert getattr(game, name)(*arguments) == expected


def test_run_plays_and_ends_as_that_of_the_original() -> None:
    for seed, expected in enumerate(RECORDED["runs"]):
        random.seed(seed)
        game = Quarto()
        game.set_players((RandomPlayer(game), RandomPlayer(game)))
        assert [game.run(), game.get_current_player(), game.get_board_status().tolist()] == expected


def test_copies_are_deep_and_players_may_write_boards() -> None:
    game: Any = Quarto()
    game.set_players((RandomPlayer(game), RandomPlayer(game)))
    assert game.select(np.int64(5))
    assert game.place(np.int64(2), np.int8(1))
    copied = copy.deepcopy(game)
    assert copied.select(6)
    assert copied.place(0, 0)
    copied._current_player = 1
    copied.get_piece_charachteristics(5).binary[0] = 7
    assert game.get_board_status().tolist()[0] == [-1] * 4
    assert (game.get_selected_piece(), game.get_current_player()) == (5, 0)
    assert game.get_piece_charachteristics(5).binary == [0, 1, 0, 1]
    assert private(copied, "players")[0].get_game() is copied
    game.get_board_status()[1, 2] = -1
    assert game._board[1, 2] == 5
    game._binary_board[3] = np.nan
    game._binary_board[3, :, 2] = 1.0
    game._binary_board[3, :, :2] = game._binary_board[3, :, 3:] = np.eye(4)[:, :1]
    assert game.check_winner() == 0


def test_names_of_the_older_version_are_the_same_things() -> None:
    game: Any = Quarto()
    assert game._Quarto__board is game._board
    assert game._Quarto__binary_board is game._binary_board
    game._Quarto__current_player = 1
    game._Quarto__board = np.full((4, 4), 3)
    assert (game.get_current_player(), game.get_board_status().tolist()) == (1, [[3] * 4] * 4)
    assert private(game, "placeable")(0, 0) is False
    assert len(private(game, "pieces")) == 16
    assert private(game, "selected_piece_index") == -1
    assert (Quarto.MAX_PLAYERS, Quarto.BOARD_SIDE) == (2, 4)


def test_a_player_knows_its_game_and_reset_keeps_the_players() -> None:
    game = Quarto()
    pair = RandomPlayer(game), RandomPlayer(game)
    game.set_players(pair)
    game.select(3)
    game.place(0, 0)
    game.reset()
    assert pair[0].get_game() is game
    assert private(game, "players") == pair
    assert state(game)[:3] == [0, -1, [[-1] * 4] * 4]
    with pytest.raises(NotImplementedError, match="Player has no choose_piece"):
        Player(game).choose_piece()


def test_every_way_to_import_it_works_without_numba() -> None:
    program = """
import sys
import quarto
assert quarto.Quarto is quarto.objects.Quarto
from quarto import Quarto, Player, Piece
from quarto.objects import *
assert copy.deepcopy(Quarto()).get_board_status().sum() == np.int64(-16)
from quarto import *
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with pytest.raises(AttributeError, match="module 'quarto' has no attribute 'Quatro'"):
        quarto.Quatro  # type: ignore[attr-defined]  # noqa: B018
