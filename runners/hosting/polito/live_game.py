"""A live game of a player: the ``Quarto`` that the player sees, kept up to date, and the player's answers.

A turn is what lies between two calls to the opponent in ``run()``: ``place_piece`` and then ``choose_piece``, or the
first ``choose_piece`` alone.
"""

from __future__ import annotations

from operator import index
from typing import Any, Sequence

from quarto.errors import AnswerError
from runners.hosting.polito.randomness import GameStreams

NONE = -1
FEATURES = [
    piece | (~piece & 15) << 4 for piece in range(16)
]  # four pieces match if the AND of their features is not 0


class BoardChangedError(Exception):
    """The error raised if the board of a live game differs from the plies that were played."""


class AnswerChecker:
    """What all live games share: the winning lines, the limit on illegal answers, and the counts of illegal answers."""

    def __init__(self, lines: Sequence[Sequence[int]], most_asks: int, current_player_attribute: str) -> None:
        """Set the counts to zero.

        Args:
            lines: The winning lines, each as its four cells.
            most_asks: The number of illegal answers in a row after which a game is given up.
            current_player_attribute: The Python attribute in which the game object holds the current player.

        """
        # By cell, the three other cells of each line through the cell.
        self.other_line_cells = [
            [[other for other in line if other != cell] for line in lines if cell in line] for cell in range(16)
        ]
        self.most_asks = most_asks
        self.current_player_attribute = current_player_attribute
        self.asked_again = 0
        self.given_up = ""  # the last answer because of which a game was given up

    def count_and_allow_retry(self, asks: int, call: str, answer: object) -> bool:
        """Count an illegal answer, and return whether the player may try again.

        ``asks`` is the number of illegal answers in a row, including this one; ``call`` is the name of the method that
        returned ``answer``.
        """
        if asks < self.most_asks:
            self.asked_again += 1
            return True
        self.given_up = f"{call}() = {repr(answer)[:100]}"
        return False

    def take_counts(self) -> dict[str, Any]:
        """Return the counts since the last call, and reset them."""
        counts = {"asked_again": self.asked_again, "given_up": self.given_up}
        self.asked_again, self.given_up = 0, ""
        return counts


class LiveGame:
    """One live game of a player.

    ``game`` is the player's own game object, of any class that the player uses. It must be new, and must have been told
    its players.
    """

    def __init__(self, game: Any, player: Any, seat: int, streams: GameStreams, answer_checker: AnswerChecker) -> None:
        self.game = game
        self.player = player
        self.streams = streams
        self.is_over = False  # set by a turn of this player that ends the game
        self._seat = seat
        self._answer_checker = answer_checker
        self._occupied = 0
        self._remaining = 0xFFFF  # pieces neither on the board nor in hand
        self._features = [0] * 16  # by cell; 0 for an empty cell

    def take_turn(self, lanes: int, occupied: int, hand: int) -> tuple[int, int]:
        """Return the player's cell and gift in a position; NONE stands for a cell or a gift that is not needed.

        ``game_server.QUESTION_FORMATS`` describes the arguments. The first turn of a game needs no cell, and a
        placement that ends the game needs no gift. Raises what the player raises, ``AnswerError`` if an answer is
        neither a cell nor a piece, and ``BoardChangedError``.
        """
        self.streams.activate()
        new_cells = occupied & ~self._occupied
        if new_cells:
            self._apply_opponent_placements(lanes, new_cells)
        setattr(self.game, self._answer_checker.current_player_attribute, self._seat)
        if hand == NONE:
            return NONE, self._request_gift()
        self._select(hand)
        cell, is_legal = self._request_cell_and_legality(hand)
        return cell, self._request_gift() if is_legal and not self.is_over else NONE

    def _apply_opponent_placements(self, lanes: int, new_cells: int) -> None:
        """Place on ``new_cells`` the pieces that were placed there since the player's last turn."""
        setattr(self.game, self._answer_checker.current_player_attribute, 1 - self._seat)
        while new_cells:
            cell = (new_cells & -new_cells).bit_length() - 1
            new_cells &= new_cells - 1
            cell_lanes = lanes >> cell
            piece = cell_lanes & 1 | cell_lanes >> 15 & 2 | cell_lanes >> 30 & 4 | cell_lanes >> 45 & 8
            if self._remaining >> piece & 1:  # pieces that this player gave are selected already
                self._select(piece)
            if not self.game.place(cell & 3, cell >> 2):
                raise BoardChangedError(
                    f"piece {piece} cannot be put on column {cell & 3}, row {cell >> 2}: {BOARD_CHANGED_MESSAGE}"
                )
            self._remember_placed_piece(piece, cell)

    def _select(self, piece: int) -> None:
        if not self.game.select(piece):
            raise BoardChangedError(f"piece {piece} cannot be selected: {BOARD_CHANGED_MESSAGE}")
        self._remaining &= ~(1 << piece)

    def _remember_placed_piece(self, piece: int, cell: int) -> None:
        self._occupied |= 1 << cell
        self._features[cell] = FEATURES[piece]

    def _request_cell_and_legality(self, piece: int) -> tuple[int, bool]:
        """Request a cell for the piece in hand until the answer is legal or the limit of illegal answers is reached.

        Returns the last cell that the player answered, and whether it is legal. If it is legal, the placement is
        recorded.
        """
        asks = 1
        while True:
            answer = self.player.place_piece()
            try:
                x, y = answer
            except (TypeError, ValueError):
                raise AnswerError.from_answer(self.player.place_piece, answer, "(x, y)") from None
            if self.game.place(x, y):
                break
            if not self._answer_checker.count_and_allow_retry(asks, "place_piece", answer):
                return (4 * index(y) + index(x) if 0 <= x < 4 and 0 <= y < 4 else NONE), False
            asks += 1
        cell = 4 * index(y) + index(x)
        if not 0 <= cell < 16 or self._occupied >> cell & 1:
            raise BoardChangedError(f"column {x}, row {y} is taken and was not refused: {BOARD_CHANGED_MESSAGE}")
        self._remember_placed_piece(piece, cell)
        self.is_over = self._occupied == 0xFFFF or self._is_win(cell)
        return cell, True

    def _is_win(self, cell: int) -> bool:
        features = self._features
        shared = features[cell]
        for one, two, three in self._answer_checker.other_line_cells[cell]:  # any() would take twice as long
            if shared & features[one] & features[two] & features[three]:
                return True
        return False

    def _request_gift(self) -> int:
        """Request a gift until the answer is legal or the limit of illegal answers is reached.

        Returns the piece that the player gives to the opponent, or an illegal piece if the player gave no legal one.
        """
        asks = 1
        while True:
            answer = self.player.choose_piece()
            try:
                piece = index(answer)
            except TypeError:
                raise AnswerError.from_answer(self.player.choose_piece, answer, "the number of a piece") from None
            legal = 0 <= piece < 16 and self._remaining >> piece & 1
            if legal and self.game.select(answer):
                self._remaining &= ~(1 << piece)
                return piece
            if not self._answer_checker.count_and_allow_retry(asks, "choose_piece", answer):
                return NONE if legal or not 0 <= piece < 16 else piece
            asks += 1


BOARD_CHANGED_MESSAGE = "the player has changed the board of its game, or its package has other rules"
