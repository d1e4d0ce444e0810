"""The slow, obvious twins: the game, its randomness, its built-in players, written from their descriptions.

Nothing here is fast and nothing here calls what it checks: of the project's own code only ``Rules``, for its fields, is
read. A board is a list of 16 pieces, ``NONE`` where empty; lists of pieces and cells are ascending.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, count
from typing import NamedTuple, Protocol

from quarto.rules import Rules

NONE = -1
WORD = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
OPENING = 2  # the "game" of a pair whose words draw its opening

PRESETS = {
    "classic": Rules(),
    "square": Rules("square", squares="plain"),
    "torus": Rules("torus", diagonals="broken"),
    "torus_square": Rules("torus_square", diagonals="broken", squares="wrapped"),
    "own_piece": Rules("own_piece", chooser="mover"),
}
LINE_COUNTS = {"classic": 10, "square": 19, "torus": 16, "torus_square": 32, "own_piece": 10}

Board = list[int]


# Randomness


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def stream(seed: int, pair: int, game: int) -> int:
    word = mix((seed + GAMMA) & WORD)
    word = mix(word ^ ((pair * GAMMA + 1) & WORD))
    return mix((word + (game + 1) * GAMMA) & WORD)


def turn_seed(stream: int, turn: int) -> int:
    return (stream + (turn << 40) * GAMMA) & WORD


def draw(seed: int, index: int) -> int:
    return mix((seed + index * GAMMA) & WORD)


def below(word: int, count: int) -> int:
    return (word >> 32) * count >> 32


def below_again(word: int, count: int) -> int:
    return (word & 0xFFFFFFFF) * count >> 32


# Rules


def is_line(cells: Sequence[int], rules: Rules) -> bool:
    """Return whether four different cells form one of the rules' lines."""
    rows, columns = [cell // 4 for cell in cells], [cell % 4 for cell in cells]
    falling = {(column - row) % 4 for row, column in zip(rows, columns, strict=True)}
    rising = {(column + row) % 4 for row, column in zip(rows, columns, strict=True)}
    straight = len(set(rows)) == 1 or len(set(columns)) == 1
    main = falling == {0} or rising == {3}
    broken = len(falling) == 1 or len(rising) == 1
    return (
        (rules.rows_and_columns and straight)
        or {"none": False, "main": main, "broken": broken}[rules.diagonals]
        or {"none": False, "plain": set(cells) in SQUARES[:9], "wrapped": set(cells) in SQUARES}[rules.squares]
    )


def square_at(row: int, column: int) -> set[int]:
    """Return the 2 x 2 square with this upper left corner, over the edges if need be."""
    return {4 * ((row + down) % 4) + (column + right) % 4 for down in (0, 1) for right in (0, 1)}


INSIDE = [(row, column) for row in range(3) for column in range(3)]
OVER_AN_EDGE = [(3, other) for other in range(4)] + [(other, 3) for other in range(3)]
SQUARES = [square_at(row, column) for row, column in INSIDE + OVER_AN_EDGE]


@cache
def lines(rules: Rules) -> list[tuple[int, ...]]:
    return [cells for cells in combinations(range(16), 4) if is_line(cells, rules)]


@cache
def lines_through(cell: int, rules: Rules) -> list[tuple[int, ...]]:
    return [line for line in lines(rules) if cell in line]


@cache
def others_on_lines(cell: int, rules: Rules) -> list[list[int]]:
    """Return the three other cells of each line through a cell."""
    return [[other for other in line if other != cell] for line in lines_through(cell, rules)]


@cache
def share_a_value(*pieces: int) -> bool:
    """Return whether all these have an attribute or all lack it."""
    return any(len({piece >> bit & 1 for piece in pieces}) == 1 for bit in range(4))


def is_finished(board: Board, line: tuple[int, ...]) -> bool:
    """Return whether four pieces stand on the line and share the value of an attribute."""
    a, b, c, d = line
    pieces = board[a], board[b], board[c], board[d]
    return NONE not in pieces and share_a_value(*pieces)


def has_line(board: Board, rules: Rules) -> bool:
    return any(is_finished(board, line) for line in lines(rules))


def with_piece(board: Board, piece: int, cell: int) -> Board:
    return [*board[:cell], piece, *board[cell + 1 :]]


def finishes_line(board: Board, piece: int, cell: int, rules: Rules) -> bool:
    """Return whether ``piece``, put on the empty ``cell``, stands in a finished line."""
    for a, b, c in others_on_lines(cell, rules):  # a loop: twins spend half of their time here
        others = board[a], board[b], board[c]
        if NONE not in others and share_a_value(piece, *others):
            return True
    return False


def empty_cells(board: Board) -> list[int]:
    return [cell for cell in range(16) if board[cell] == NONE]


def winning_cells(board: Board, piece: int, rules: Rules) -> list[int]:
    return [cell for cell in empty_cells(board) if finishes_line(board, piece, cell, rules)]


def safe_pieces(board: Board, available: list[int], rules: Rules) -> list[int]:
    """Return the pieces that finish a line on no empty cell."""
    threes = [(board[a], board[b], board[c]) for cell in empty_cells(board) for a, b, c in others_on_lines(cell, rules)]
    full = [three for three in threes if NONE not in three]
    return [piece for piece in available if not any(share_a_value(piece, *three) for three in full)]


# Players


class View(NamedTuple):
    """The position before a decision: without a hand, of a gift or, where the mover chooses, of cell and piece."""

    board: Board
    available: list[int]  # neither on the board nor in hand
    hand: int
    last_cell: int  # filled by the ply before, or NONE
    rules: Rules


class Player(Protocol):
    def turn(self, view: View, seed: int) -> tuple[int, int]:
        """Return a cell and a gift; ``seed`` is the turn's."""
        ...


def any_cell(word: int, cells: list[int]) -> int:
    return cells[below(word, len(cells))]


def any_piece(word: int, pieces: list[int]) -> int:
    return pieces[below_again(word, len(pieces))] if pieces else NONE


class Random:
    def turn(self, view: View, seed: int) -> tuple[int, int]:
        word = draw(seed, 0)
        return any_cell(word, empty_cells(view.board)), any_piece(word, view.available)


class Dumb:
    def turn(self, view: View, seed: int) -> tuple[int, int]:
        return min(empty_cells(view.board)), min(view.available, default=NONE)


class SemiRandom:
    def turn(self, view: View, seed: int) -> tuple[int, int]:
        word = draw(seed, 0)
        if view.rules.mover_chooses:
            return self.own_piece(view, word)
        cell, board = NONE, view.board
        if view.hand != NONE:
            wins = winning_cells(board, view.hand, view.rules)
            cell = wins[0] if wins else any_cell(word, empty_cells(board))
            board = with_piece(board, view.hand, cell)
        return cell, any_piece(word, safe_pieces(board, view.available, view.rules) or view.available)

    def own_piece(self, view: View, word: int) -> tuple[int, int]:
        for piece in view.available:
            for cell in winning_cells(view.board, piece, view.rules):
                return cell, piece
        return any_cell(word, empty_cells(view.board)), any_piece(word, view.available)


class RuleBased:
    def turn(self, view: View, seed: int) -> tuple[int, int]:
        word = draw(seed, 0)
        if view.hand == NONE:
            return NONE, any_piece(word, view.available)
        cell = self.cell(view, word)
        safe = safe_pieces(with_piece(view.board, view.hand, cell), view.available, view.rules)
        if len(safe) in (1, 2):
            return cell, safe[0]
        return cell, max(view.available, key=lambda piece: (piece ^ view.hand).bit_count(), default=NONE)

    def cell(self, view: View, word: int) -> int:
        empty = empty_cells(view.board)
        wins = winning_cells(view.board, view.hand, view.rules)
        if wins:
            return wins[0]
        if view.last_cell == NONE:
            return any_cell(word, empty)
        row, column = divmod(view.last_cell, 4)
        mirror = 4 * (3 - row) + 3 - column
        if mirror in empty:
            return mirror
        return max(empty, key=lambda cell: abs(cell // 4 - row) + abs(cell % 4 - column))


# Games


def pair_key(pairing: int, pair: int) -> int:
    return pairing << 31 | pair


def board_after(plies: Sequence[tuple[int, int]]) -> Board:
    """Return the board that (piece, cell) plies make."""
    board = [NONE] * 16
    for piece, cell in plies:
        board[cell] = piece
    return board


def opening(seed: int, pair: int, plies: int, rules: Rules) -> list[tuple[int, int]]:
    """Draw the (piece, cell) plies imposed on both games of each pairing's ``pair``-th pair; none finishes a line."""
    words = stream(seed, pair, OPENING)
    for attempt in count():
        available, drawn = list(range(16)), list[tuple[int, int]]()
        for ply in range(plies):
            word = draw(words, 16 * attempt + ply)
            piece, cell = any_piece(word, available), any_cell(word, empty_cells(board_after(drawn)))
            available.remove(piece)
            drawn.append((piece, cell))
        if not has_line(board_after(drawn), rules):  # pieces stay: a line that any ply finished would still be there
            return drawn
    raise AssertionError("unreachable: attempts are counted without end")


class Outcome(NamedTuple):
    """A finished game."""

    pieces: list[int]
    cells: list[int]
    winner: int  # seat, or NONE for a draw
    ending: str

    @property
    def plies(self) -> int:
        return len(self.cells)


class ForfeitError(Exception):
    """A seat raised, or answered with what the rules forbid."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


class NaiveGame:
    """One game between two seats, from an opening to its end."""

    def __init__(self, rules: Rules, seats: tuple[Player, Player], stream: int) -> None:
        self.rules = rules
        self.seats = seats
        self.stream = stream
        self.board = [NONE] * 16
        self.available = list(range(16))
        self.hand = NONE
        self.plies: list[tuple[int, int]] = []  # (piece, cell)

    def ask(self, seat: int, turn: int) -> tuple[int, int]:
        """Return the answer of a seat as the game's ``turn``-th turn. Raises ``ForfeitError`` if it raises.

        Turn 0 is the first gift, turn k + 1 places ply k; after an opening of k plies the first gift is turn k. So each
        turn belongs to one seat, and no seat's draws touch the other's.
        """
        last_cell = self.plies[-1][1] if self.plies else NONE
        view = View(list(self.board), list(self.available), self.hand, last_cell, self.rules)
        try:
            return self.seats[seat].turn(view, turn_seed(self.stream, turn))
        except Exception as error:
            raise ForfeitError("forfeit_error") from error

    def take(self, piece: int) -> None:
        """Move the piece from those available into the hand."""
        if piece not in self.available:
            raise ForfeitError("forfeit_illegal")
        self.available.remove(piece)
        self.hand = piece

    def put(self, cell: int) -> None:
        """Move the piece from the hand onto the board."""
        self.board[cell] = self.hand
        self.plies.append((self.hand, cell))
        self.hand = NONE

    def place(self, seat: int) -> None:
        """Play one ply, then give a piece for the next if the game goes on. Raises ``ForfeitError``."""
        cell, piece = self.ask(seat, len(self.plies) + 1)
        if cell not in empty_cells(self.board):
            raise ForfeitError("forfeit_illegal")
        if self.rules.mover_chooses:
            self.take(piece)
            self.put(cell)
        else:
            self.put(cell)
            if not self.over():
                self.take(piece)

    def over(self) -> bool:
        return has_line(self.board, self.rules) or len(self.plies) == 16

    def play(self, opening: Sequence[tuple[int, int]]) -> Outcome:
        for piece, cell in opening:
            self.take(piece)
            self.put(cell)
        seat = len(opening) % 2
        try:
            if not self.rules.mover_chooses:
                self.take(self.ask(seat, len(opening))[1])
            while not self.over():
                seat = 1 - seat
                self.place(seat)
        except ForfeitError as forfeit:
            return self.outcome(1 - seat, forfeit.ending)
        if has_line(self.board, self.rules):
            return self.outcome(seat, "line")
        return self.outcome(NONE, "full_board")

    def outcome(self, winner: int, ending: str) -> Outcome:
        return Outcome([piece for piece, _ in self.plies], [cell for _, cell in self.plies], winner, ending)


def play_game(
    rules: Rules,
    players: tuple[Player, Player],
    run: int,
    pair: int,
    game: int,
    *,
    seed: int = 0,
    pairing: int = 0,
    opening_plies: int = 0,
) -> Outcome:
    """Play game 0 or 1 of a pair; in game 0 the pairing's first player holds seat 0."""
    seats = players if game == 0 else (players[1], players[0])
    words = stream(run, pair_key(pairing, pair), game)
    return NaiveGame(rules, seats, words).play(opening(seed, pair, opening_plies, rules))
