"""A game in progress as an immutable value: its plies, the next decision, its ending, and texts for them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE
from quarto.errors import RequestError
from quarto.notation import ATTRIBUTE_WORDS, format_cell, format_piece
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Line, Rules, find_finished_lines

Ply = tuple[int, int]  # piece, cell


class NextDecision(StrEnum):
    """The kind of decision that the seat to act makes next."""

    GIFT = "gift"
    PLACEMENT = "placement"  # of the piece in hand; a gift follows
    PLY = "ply"  # a piece and its cell, where the mover chooses both
    NOTHING = "nothing"  # the game is over


@dataclass(frozen=True)
class Game:
    """A game so far, as an immutable value.

    ``give``, ``place``, ``play`` and ``with_forfeit`` return the game after that decision. If the rules forbid the
    decision, they raise ``RequestError``, which names the wrong value, the reason and the legal values.

    Args:
        rules: The rules of the game.
        plies: The plies so far, each a piece and its cell.
        hand: The piece in hand, or NONE (-1).
        forfeit: How the seat to act forfeited, as an index into ``quarto.batch.ENDINGS``, or None if it did not.
        setup_plies: The number of plies at the beginning that only set up a position, in an order that nobody knows.

    Examples:
        >>> from quarto import CLASSIC, Game
        >>> game = Game(CLASSIC).give(15).place(0)
        >>> game.plies, game.seat, game.winner
        (((15, 0),), 1, -1)

    """

    rules: Rules
    plies: tuple[Ply, ...] = ()
    hand: int = NONE
    forfeit: int | None = None  # index into ENDINGS if the seat to act forfeited
    setup_plies: int = 0  # plies at the beginning that only set up a position, in an order that nobody knows

    @cached_property
    def position(self) -> PackedPosition:
        return position_from_plies(self.plies, self.hand)

    @cached_property
    def board(self) -> list[int]:
        """The piece on each of the 16 cells, or ``NONE`` for an empty cell."""
        return board(self.position)

    @cached_property
    def lines(self) -> list[Line]:
        """The finished lines, each as four cells."""
        return find_finished_lines(self.board, self.rules)

    @property
    def last_cell(self) -> int:
        """The cell of the last placement, or ``NONE`` if there was none since the setup plies."""
        return self.plies[-1][1] if len(self.plies) > self.setup_plies else NONE

    @property
    def empty_cells(self) -> list[int]:
        return [cell for cell in range(CELLS) if self.board[cell] == NONE]

    @property
    def pieces_left(self) -> list[int]:
        """The pieces that are neither on the board nor in hand."""
        return [piece for piece in range(PIECES) if self.position.available >> piece & 1]

    @property
    def ending(self) -> int | None:
        """How the game ended, as an index into ``quarto.batch.ENDINGS``, or None while the game goes on."""
        if self.forfeit is not None:
            return self.forfeit
        if self.lines:
            return LINE
        return FULL_BOARD if len(self.plies) == CELLS else None

    @property
    def next_decision(self) -> NextDecision:
        """The kind of decision that the seat to act makes next."""
        if self.ending is not None:
            return NextDecision.NOTHING
        if self.rules.mover_chooses:
            return NextDecision.PLY
        return NextDecision.GIFT if self.hand == NONE else NextDecision.PLACEMENT

    @property
    def seat(self) -> int:
        """The seat to act, while the game goes on."""
        return self.turn & 1

    @property
    def turn(self) -> int:
        """The current turn's index in the game (0 to 16).

        Turn 0 gives the first piece, and turn ``k + 1`` places the piece of ply ``k``.
        """
        giving = self.hand == NONE and not self.rules.mover_chooses
        return len(self.plies) + (not giving)

    def position_before(self, turn: int) -> PackedPosition:
        """Return the position in which an earlier turn of this game was taken; ``turn`` is the number of this turn."""
        if turn == 0 or self.rules.mover_chooses:
            return position_from_plies(self.plies[: max(turn - 1, 0)])
        return position_from_plies(self.plies[: turn - 1], self.plies[turn - 1][0])

    @property
    def is_gift_due(self) -> bool:
        """Whether the seat to act has placed its piece in this turn and must still give the next one.

        This is false for the first gift of a game, which follows no placement.
        """
        return self.next_decision is NextDecision.GIFT and bool(self.plies)

    @property
    def winner(self) -> int:
        """The seat that won, or ``NONE`` if the game is a draw or goes on."""
        if self.forfeit is not None:
            return 1 - self.seat
        return len(self.plies) & 1 if self.lines else NONE  # ply k was placed by seat (k + 1) mod 2

    def give(self, piece: int) -> Game:
        """Return the game after ``piece`` is given.

        Raises ``RequestError`` if this gift is not legal.
        """
        self._check_next_decision(NextDecision.GIFT)
        self._check_piece(piece)
        return replace(self, hand=piece)

    def place(self, cell: int) -> Game:
        """Return the game after the piece in hand is placed on ``cell``.

        Raises ``RequestError`` if this placement is not legal.
        """
        self._check_next_decision(NextDecision.PLACEMENT)
        self._check_cell(cell)
        return replace(self, plies=(*self.plies, (self.hand, cell)), hand=NONE)

    def play(self, piece: int, cell: int) -> Game:
        """Return the game after ``piece`` is placed on ``cell``, under rules by which the mover chooses the piece.

        Raises ``RequestError`` if this ply is not legal.
        """
        self._check_next_decision(NextDecision.PLY)
        self._check_piece(piece)
        self._check_cell(cell)
        return replace(self, plies=(*self.plies, (piece, cell)))

    def with_forfeit(self, ending: int) -> Game:
        """Return the game after the seat to act forfeits.

        ``ending`` is an index into ``quarto.batch.ENDINGS`` that stands for a forfeit.
        """
        return replace(self, forfeit=ending)

    def _check_next_decision(self, decision: NextDecision) -> None:
        if self.next_decision is not decision:
            raise RequestError(f"the game expects {self.next_decision} now, not {decision}")

    def _check_piece(self, piece: int) -> None:
        if piece in self.pieces_left:
            return
        if not 0 <= piece < PIECES:
            raise RequestError(f"{piece} is not the number of a piece")
        where = f"piece {format_piece(piece)} is already on {format_cell(self.board.index(piece))}"
        raise RequestError(f"{where}; left: {format_pieces(self.pieces_left)}")

    def _check_cell(self, cell: int) -> None:
        if cell in self.empty_cells:
            return
        if not 0 <= cell < CELLS:
            raise RequestError(f"{cell} is not the number of a cell")
        taken = f"{format_cell(cell)} is taken by piece {format_piece(self.board[cell])}"
        raise RequestError(f"{taken}; free: {format_cells(self.empty_cells)}")


def game_from_position(position: PackedPosition, rules: Rules) -> Game:
    """Build a game that begins with the given position. The pieces on the board become its setup plies."""
    plies = tuple((piece, cell) for cell, piece in enumerate(board(position)) if piece != NONE)
    return Game(rules, plies, position.hand, setup_plies=len(plies))


def format_pieces(pieces: Iterable[int]) -> str:
    """Format pieces as people type them, separated by spaces."""
    return " ".join(format_piece(piece) for piece in pieces)


def format_cells(cells: Iterable[int]) -> str:
    """Format cells as people type them, separated by spaces."""
    return " ".join(format_cell(cell) for cell in cells)


class Participants(NamedTuple):
    """The two players of a game between a person and an agent: the person's seat and the agent's label."""

    seat: int
    agent: str


def list_attribute_words(piece: int) -> list[str]:
    """Return the four words for the attributes of a piece, such as ``high``, ``coloured``, ``solid`` and ``square``."""
    bits = (piece >> attribute & 1 for attribute in reversed(range(ATTRIBUTES)))
    return [words[0] if bit else words[1] for words, bit in zip(ATTRIBUTE_WORDS, bits, strict=True)]


def describe_turn(before: Game, after: Game, players: Participants) -> str:
    """Describe in one sentence what the seat to act in the game ``before`` did to reach the game ``after``.

    Returns an empty text if that seat did nothing.
    """
    you = before.seat == players.seat
    subject, places, gives = ("you", "place", "give") if you else (players.agent, "places", "gives you")
    actions = [
        f"{places} {format_piece(piece)} on {format_cell(cell)}" for piece, cell in after.plies[len(before.plies) :]
    ]
    if after.hand not in (NONE, before.hand):
        actions.append(f"{gives} {format_piece(after.hand)}")
    return _end_sentence_and_capitalise_you(f"{subject} {' and '.join(actions)}") if actions else ""


def describe_ending(game: Game, players: Participants, forfeit_reason: str = "") -> str:
    """Return a sentence about the end of a game.

    ``forfeit_reason`` says why the agent forfeited, if it did.
    """
    you_won = game.winner == players.seat
    wins = "you win" if you_won else f"{players.agent} wins"
    if game.ending == LINE:
        return _end_sentence_and_capitalise_you(
            f"{wins}: {'; '.join(describe_line(game, line) for line in game.lines)}"
        )
    if game.ending == FULL_BOARD:
        return "A draw: the board is full and no line is finished."
    if game.ending in (FORFEIT_ILLEGAL, FORFEIT_ERROR, FORFEIT_TIME):
        return _end_sentence_and_capitalise_you(f"{players.agent} forfeits the game, and {wins}: {forfeit_reason}")
    return _end_sentence_and_capitalise_you(f"you resign, and {wins}")


def describe_line(game: Game, line: Line) -> str:
    """Return a text with the cells of a finished line and the attributes that its pieces share."""
    words_of_pieces = [set(list_attribute_words(game.board[cell])) for cell in line]
    shared_words = set.intersection(*words_of_pieces)
    ordered_words = [word for words in ATTRIBUTE_WORDS for word in words if word in shared_words]
    return f"{format_cells(line)}, all {' and '.join(ordered_words)}"


def format_prompt(game: Game) -> str:
    """Return the prompt that asks a person for the next decision."""
    if game.next_decision is NextDecision.PLACEMENT:
        return f"place {format_piece(game.hand)}"
    return "give a piece" if game.next_decision is NextDecision.GIFT else "place piece@cell"


def _end_sentence_and_capitalise_you(text: str) -> str:
    """Return ``text`` with a full stop and, if it begins with ``you``, with a capital letter.

    A text that begins with an agent's label keeps the label as it is.
    """
    first = text[0].upper() if text.startswith("you") else text[0]
    return f"{first}{text[1:]}{'' if text.endswith('.') else '.'}"
