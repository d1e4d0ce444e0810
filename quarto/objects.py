"""The interface of the ``quarto`` package of the Politecnico di Torino (2022-23), for players that are written for it.

``from quarto import Quarto, Player, Piece`` gives these classes. They are our own implementation of the members that
players of that package use, private names included. Names and conventions are those of that package: x is the column
and y the row. A piece's number is 8 HIGH + 4 COLOURED + 2 SOLID + SQUARE. Players that are part of a run see them in a
process of their own (``runners/hosting/polito/``). This module uses the standard library of Python 3.7 only, because
such an interpreter may import it. Boards are arrays of NumPy where it is installed, and ``ListBoard`` elsewhere.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
except ImportError:  # players that need NumPy say so themselves
    np = None  # type: ignore[assignment]
if TYPE_CHECKING:
    from numpy.typing import NDArray

# The star import of that package gives the last three as well, and some players use them without an import.
__all__ = ["Piece", "Player", "Quarto", "abstractmethod", "copy", "np"]

NO_PIECE = -1
NO_PLAYER = -1


class Player:
    """A player of one game. A subclass implements ``choose_piece`` and ``place_piece``."""

    def __init__(self, quarto: Quarto) -> None:
        self.__quarto = quarto

    def choose_piece(self) -> int:
        """Return the number of the piece that the opponent places next."""
        raise NotImplementedError(f"{type(self).__name__} has no choose_piece()")

    def place_piece(self) -> tuple[int, int]:
        """Return the column and the row, each 0 to 3, of the cell for the piece in hand."""
        raise NotImplementedError(f"{type(self).__name__} has no place_piece()")

    def get_game(self) -> Quarto:
        return self.__quarto


class Piece:
    """A piece with its four attributes. ``binary`` lists them as four integers."""

    def __init__(self, high: bool, coloured: bool, solid: bool, square: bool) -> None:
        self.HIGH = high
        self.COLOURED = coloured
        self.SOLID = solid
        self.SQUARE = square
        self.binary = [int(high), int(coloured), int(solid), int(square)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Piece:
        """Copy the piece quickly, because players copy games at every node of their searches."""
        piece = copy.copy(self)
        piece.binary = self.binary.copy()
        return piece


class ListBoard(list):  # type: ignore[type-arg]  # ``list[Any]`` cannot be subclassed before Python 3.9
    """A board where NumPy is not installed: a list of rows in which ``board[y, x]`` means ``board[y][x]``."""

    def __getitem__(self, at: Any) -> Any:
        return list.__getitem__(self, at[0])[at[1]] if isinstance(at, tuple) else list.__getitem__(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(at, tuple):
            self[at[0]][at[1]] = value
        else:
            list.__setitem__(self, at, value)

    def __contains__(self, number: object) -> bool:
        return list.__contains__(self.ravel(), number)

    def copy(self) -> ListBoard:
        """Return an independent copy of the board."""
        return copy.deepcopy(self)

    def ravel(self) -> ListBoard:
        """Return all numbers of the board in one row."""
        return ListBoard(cell for row in self for cell in row).ravel() if isinstance(self[0], list) else self

    def tolist(self) -> list[Any]:
        """Return the board as a plain list of its rows."""
        return [*self]


class Quarto:
    """A game with its board, its selected piece and its players.

    ``_board`` is [4, 4] int64, indexed by row and column, with -1 for an empty cell. ``_binary_board`` is [4, 4, 4]
    float64: the attributes of the piece on each cell, or NaN for an empty cell. Players read and write both boards and
    ``_current_player``.
    """

    MAX_PLAYERS = 2
    BOARD_SIDE = 4

    def __init__(self) -> None:
        self.__players: tuple[Player, ...] = ()
        self.__pieces = PIECES.copy()
        self.reset()

    def reset(self) -> None:
        """Begin a new game on an empty board, with the same players."""
        self._board = EMPTY_BOARD.copy()
        self._binary_board = EMPTY_BINARY_BOARD.copy()
        self._current_player = 0
        self.__selected_piece_index = NO_PIECE

    def set_players(self, players: tuple[Player, Player]) -> None:
        """Set players 0 and 1. Player 0 chooses the first piece, and player 1 places it."""
        self.__players = players

    def get_current_player(self) -> int:
        return self._current_player

    def select(self, pieceIndex: int) -> bool:  # noqa: N803  (that package's name)
        """Select a piece for the next placement and return True.

        Returns False, and changes nothing, if the piece is on the board.
        """
        if pieceIndex in self._board.ravel().tolist():
            return False
        self.__selected_piece_index = pieceIndex
        return True

    def place(self, x: int, y: int) -> bool:
        """Put the selected piece on column ``x`` and row ``y`` and return True, or return False if that is impossible.

        It is impossible if the cell is outside the board or taken; nothing changes then. The piece stays selected in
        either case. Raises ``IndexError`` if the number of the selected piece is greater than 15.
        """
        if not self.__placeable(x, y):
            return False
        piece = self.__selected_piece_index
        self._binary_board[y, x] = self.__pieces[piece].binary.copy()
        self._board[y, x] = piece
        return True

    def __placeable(self, x: int, y: int) -> bool:
        return 0 <= x < self.BOARD_SIDE and 0 <= y < self.BOARD_SIDE and bool(self._board[y, x] < 0)

    def get_board_status(self) -> NDArray[np.int64]:
        """Return a copy of the board: [4, 4] int64, rows first, with -1 for an empty cell."""
        return self._board.copy()

    def get_selected_piece(self) -> int:
        """Return the number of the selected piece, or -1 before the first selection."""
        return self.__selected_piece_index  # as it was given: a NumPy integer stays one

    def get_piece_charachteristics(self, index: int) -> Piece:
        """Return a copy of the piece with the number ``index``.

        The misspelt name is that of the ``quarto`` package of the Politecnico di Torino, whose players can use this
        class.
        """
        return copy.deepcopy(self.__pieces[index])

    def check_winner(self) -> int:
        """Return the number of the current player if some row, column or diagonal is finished, else -1."""
        return self.__winner_of(MATCHES)

    def __check_horizontal(self) -> int:
        """Return the number of the current player if the pieces on any row share an attribute, else -1."""
        return self.__winner_of(MATCHES[0:16])

    def __check_vertical(self) -> int:
        """Return the number of the current player if the pieces on any column share an attribute, else -1."""
        return self.__winner_of(MATCHES[16:32])

    def __check_diagonal(self) -> int:
        """Return the number of the current player if the pieces on a diagonal share an attribute, else -1."""
        return self.__winner_of(MATCHES[32:40])

    def __winner_of(self, matches: list[list[int]]) -> int:
        """Return the number of the current player if four entries of the binary board are all 0 or all 1, else -1.

        Each element of ``matches`` lists the indices of four such entries in the flat board, one for each piece of a
        line.
        """
        has = self._binary_board.ravel().tolist()  # NaN where a cell is empty
        for a, b, c, d in matches:
            if has[a] + has[b] + has[c] + has[d] in (0, 4):
                return self._current_player
        return NO_PLAYER

    def check_finished(self) -> bool:
        """Return whether the board is full, regardless of its lines."""
        return NO_PIECE not in self._board.ravel().tolist()

    def print(self) -> None:
        """Print the board, the selected piece and the number of the current player."""
        for row in self._board.tolist():
            print(" ".join(f"{piece:2}" if piece >= 0 else " ." for piece in row))  # noqa: T201  (what it is for)
        selected = self.__selected_piece_index
        print(f"selected piece: {selected}, current player: {self._current_player}")  # noqa: T201

    def run(self) -> int:
        """Play the game to its end and return the number of the winner, or -1 for a draw.

        After an illegal answer the same player is asked again.
        """
        winner = NO_PLAYER
        while winner == NO_PLAYER and not self.check_finished():
            while not self.select(self.__players[self._current_player].choose_piece()):
                pass
            self._current_player = (self._current_player + 1) % self.MAX_PLAYERS
            while not self.place(*self.__players[self._current_player].place_piece()):
                pass
            winner = self.check_winner()
        return winner

    # The names of an older version, for players that were written for it.

    @property
    def __board(self) -> NDArray[np.int64]:
        return self._board

    @__board.setter
    def __board(self, board: NDArray[np.int64]) -> None:
        self._board = board

    @property
    def __binary_board(self) -> NDArray[np.float64]:
        return self._binary_board

    @__binary_board.setter
    def __binary_board(self, board: NDArray[np.float64]) -> None:
        self._binary_board = board

    @property
    def __current_player(self) -> int:
        return self._current_player

    @__current_player.setter
    def __current_player(self, player: int) -> None:
        self._current_player = player


PIECES = [Piece(*(bool(piece & bit) for bit in (8, 4, 2, 1))) for piece in range(16)]  # players are given copies
_build_array: Any = ListBoard if np is None else np.array
EMPTY_BOARD: NDArray[np.int64] = _build_array([[NO_PIECE] * 4 for _ in range(4)])
EMPTY_BINARY_BOARD: NDArray[np.float64] = _build_array([[[float("nan")] * 4 for _ in range(4)] for _ in range(4)])
_ROWS = [[4 * y + x for x in range(4)] for y in range(4)]
_LINES = [*_ROWS, *zip(*_ROWS), [0, 5, 10, 15], [3, 6, 9, 12]]
# Four numbers of the flat binary board for each line, rows first, then columns, then diagonals, and each attribute.
MATCHES = [[4 * cell + attribute for cell in line] for line in _LINES for attribute in range(4)]
