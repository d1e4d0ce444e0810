"""Folders of players as students have them, written for the tests."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

# A player that checks what it sees at each call, and whose answers depend on every call before in its game.
HISTORY = '''
"""A player that remembers."""
import copy
import quarto
from utility import digest, board_of

LOG = []

class HistoryPlayer(quarto.Player):
    def __init__(self, quarto, salt=0):
        super().__init__(quarto)
        self.log, self.gift, self.seat = [salt], None, None

    def note(self, call):
        game = self.get_game()
        board, own = board_of(game), game.get_current_player()
        assert self.seat in (None, own), (self.seat, own)
        self.seat = own
        assert game._Quarto__players[own] is self
        if self.gift is not None and call == "place":  # the opponent has placed what was given
            assert self.gift in board
        copied = copy.deepcopy(game)
        assert copied.get_board_status().tolist() == game.get_board_status().tolist()
        copied._current_player = 5
        self.log.append((call, board, game.get_selected_piece(), own))
        return board

    def choose_piece(self):
        board = self.note("choose")
        left = [piece for piece in range(16) if piece not in board]
        self.gift = left[digest(self.log) % len(left)]
        self.log.append(self.gift)
        return self.gift

    def place_piece(self):
        board = self.note("place")
        assert self.get_game().get_selected_piece() not in board
        empty = [cell for cell in range(16) if board[cell] < 0]
        cell = empty[digest(self.log) % len(empty)]
        self.log.append(cell)
        return cell % 4, cell // 4
'''
UTILITY = """
import zlib

def digest(log):
    return zlib.crc32(repr(log).encode())

def board_of(game):
    return [int(piece) for row in game.get_board_status() for piece in row]
"""
FLAT = {
    "players.py": HISTORY,
    "utility.py": UTILITY,
    "lazy.py": '''
import json, os, sys
from quarto import Quarto, Player, Piece
from players import HistoryPlayer

class Thing:
    pass

class LazyPlayer(HistoryPlayer):
    """Reads its files, and imports, when it needs them."""
    def choose_piece(self):
        import late
        import pickle
        assert late.VALUE == 7
        assert os.path.basename(os.getcwd()) == "flat"
        with open("weights.bin", "rb") as file:
            assert type(pickle.load(file)) is Thing
        return super().choose_piece()
''',
    "late.py": "VALUE = 7\n",
    "README.md": "nothing that it reads",
}
# Two folders side by side, one of which is added to the path as '../quarto'; both have modules named as in FLAT.
BESIDE = {
    "agents/players.py": """
import sys
sys.path.append('../quarto')
from objects import *
from utility import Counter

class BesidePlayer(Player):
    def __init__(self, game: Quarto) -> None:
        super().__init__(game)
        assert type(game).MARK == "beside"
        self.counter = Counter()

    def choose_piece(self):
        self.counter.count += 1
        return np.int64(max(set(range(16)) - set(self.get_game().get_board_status().ravel().tolist())))

    def place_piece(self):
        self.counter.count += 1
        rows, columns = np.nonzero(self.get_game()._Quarto__board < 0)
        return columns[-1], rows[-1]
""",
    "agents/utility.py": "class Counter:\n    count = 0\n",
    "quarto/objects.py": "beside",
}
# Players within the folder's own package.
INSIDE = {
    "quarto/__init__.py": "from .objects import *\n",
    "quarto/objects.py": "inside",
    "quarto/players.py": """
from .objects import Player, Quarto
import quarto

class InsidePlayer(Player):
    def choose_piece(self):
        assert quarto.Quarto.MARK == "inside" == self.get_game().MARK
        return min(set(range(16)) - set(self.get_game().get_board_status().ravel().tolist()))

    def place_piece(self):
        return next((x, y) for y in range(4) for x in range(4) if self.get_game()._board[y, x] < 0)
""",
}
# What the piece in hand says decides what it does.
MOODY = {
    "moody.py": """
import os, sys, time
from quarto import Player

class MoodyPlayer(Player):
    def __init__(self, game, weight=0):
        super().__init__(game)
        self.ballast = bytearray(os.urandom(1000)) * (1000 * weight)
        print("made")

    def choose_piece(self):
        hand = self.get_game().get_selected_piece()
        if hand == 8:
            return self.get_game()._board[0, 0] if self.get_game()._board[0, 0] >= 0 else hand
        if hand == 9:
            return None
        board = self.get_game().get_board_status()
        return next(piece for piece in range(16) if piece != hand and piece not in board)

    def place_piece(self):
        hand = self.get_game().get_selected_piece()
        if hand == 1:
            raise ValueError("for once")
        if hand == 2:
            return 7, 1
        if hand == 3:
            sys.exit(1)
        if hand == 4:
            os._exit(3)
        if hand == 5:
            time.sleep(20)
        if hand == 6:
            while True:
                try:
                    time.sleep(20)
                except BaseException:
                    pass
        if hand == 7:
            print("x" * 200_000)
            sys.stderr.write("to standard error")
        return next((x, y) for y in range(4) for x in range(4) if self.get_game()._board[y, x] < 0)
"""
}
# Draws from everything that is called random.
DICE = {
    "dice.py": """
import random
from random import choice, gauss
import numpy as np
from quarto import Player

class DicePlayer(Player):
    def __init__(self, game):
        super().__init__(game)
        random.seed()
        np.random.seed()
        self.generator = np.random.default_rng()
        self.words = {f"word {i}" for i in range(9)}

    def draw(self, count):
        number = random.random() + gauss(0, 1) + np.random.random() + np.random.normal() + self.generator.random()
        return int((abs(number) * 1e6 + len(next(iter(self.words))) + hash(next(iter(self.words))) % 97) % count)

    def choose_piece(self):
        return self.draw(16)

    def place_piece(self):
        return self.draw(4), choice(range(4))
"""
}
# Counts its games.
LEARNER = {
    "learner.py": """
from quarto import Player

class Learner(Player):
    games = 0

    def place_piece(self):
        board = self.get_game().get_board_status()
        if (board >= 0).sum() < 2:
            self.games += 1
            print(f"game {self.games} of {len(made)}")
        return next((x, y) for y in range(4) for x in range(4) if board[y, x] < 0)

    def choose_piece(self):
        return next(piece for piece in range(16) if piece not in self.get_game().get_board_status())

    def __init__(self, game):
        super().__init__(game)
        made.append(self)

made = []
"""
}


def build_own_package(mark: str) -> str:
    """Return a ``quarto/objects.py`` of a folder's own, whose ``Quarto`` has a mark."""
    text = (ROOT / "quarto/objects.py").read_text()
    return text.replace("    MAX_PLAYERS = 2\n", f"    MAX_PLAYERS = 2\n    MARK = {mark!r}\n")


# Players that need no library, and two that need NumPy.
PLAIN = {
    "plain.py": """
import copy
import random
from quarto import Player

class Plain(Player):
    def choose_piece(self):
        board = copy.deepcopy(self.get_game()).get_board_status()
        left = [piece for piece in range(16) if all(piece not in row for row in board)]
        assert left == [piece for piece in range(16) if piece not in board]
        return random.choice(left)

    def place_piece(self):
        for x, y in random.sample([(x, y) for x in range(4) for y in range(4)], 16):
            game = copy.deepcopy(self.get_game())
            if game.place(x, y):
                assert game._board[y, x] == game._board[y][x] == game.get_selected_piece()
                if game.check_winner() >= 0:
                    return x, y
        return random.randrange(4), random.randrange(4)

class Late(Plain):
    def __init__(self, game):
        import numpy
        super().__init__(game)
""",
    "numeric.py": """
import numpy

class Numeric:
    pass
""",
}
# Players whose program makes games of a class of its own, in folders with no ``__init__.py`` and names of ours.
OWN_GAME = {
    "quarto/quarto/__init__.py": "from .objects import *\n",
    "quarto/quarto/objects.py": "inside",
    "agents/quinto.py": """
from quarto import quarto

class Quinto(quarto.Quarto):
    def __init__(self, order):
        super().__init__()
        self.order = order

    def set_players(self, players):
        super().set_players(players)
        for seat, player in enumerate(players):
            player.sit(seat)

    def remaining(self):
        board = self.get_board_status().ravel().tolist()
        left = [piece for piece in range(16) if piece not in board and piece != self.get_selected_piece()]
        return left[:: self.order]
""",
    "needy.py": """
import os
from agents import quinto
from quarto.quarto import Player

class Needy(Player):
    choices = 0

    def sit(self, seat):
        self.seat = seat

    def choose_piece(self):
        Needy.choices += 1
        print(f"choice {self.choices}")
        return self.get_game().remaining()[0]

    def place_piece(self):
        free = [cell for cell, piece in enumerate(self.get_game().get_board_status().ravel()) if piece < 0]
        return free[0] % 4, free[0] // 4

class Old(Needy):
    def __init__(self, game):
        super().__init__(game)
        assert os.environ["OLD_LIBRARIES"] == "yes"
        assert not os.environ["PYTHONPATH"]
""",
}


# Its package's players have a name, and its own player takes a genome before the game.
NAMED = {
    "quarto/__init__.py": """
from .objects import Piece, Quarto
from .objects import Player as Unnamed

class Player(Unnamed):
    def __init__(self, quarto, name):
        super().__init__(quarto)
        self.name = name
""",
    "quarto/objects.py": "inside",
    "ga.py": """
from quarto import Player

class GAPlayer(Player):
    def __init__(self, genome, quarto, depth=1):
        super().__init__(quarto, "ga")
        self.genome, self.depth = genome, depth

    def choose_piece(self):
        assert (self.genome, self.depth, self.name) == ([0.5, -1], 3, "ga")
        board = self.get_game().get_board_status().ravel().tolist()
        return max(piece for piece in range(16) if piece not in board)

    def place_piece(self):
        free = [cell for cell, piece in enumerate(self.get_game().get_board_status().ravel()) if piece < 0]
        return free[-1] % 4, free[-1] // 4
""",
}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a folder of a player."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(build_own_package(text) if path.name == "objects.py" else text)
    return folder


def write_pickle(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Write an object of a class ``Thing`` that was defined in the program that pickled it."""
    thing: type[Any] = type("Thing", (), {"__module__": "__main__"})
    patch.setattr(sys.modules["__main__"], "Thing", thing, raising=False)
    path.write_bytes(pickle.dumps(thing()))
