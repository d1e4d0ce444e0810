"""The dialogue with a person: show the game, parse what is typed, let the agent answer, until the game is over."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Callable
from enum import StrEnum

from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import RequestError
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_cell, format_piece, parse_cell, parse_piece
from runners.play.game import Game, NextDecision, Players, cells_text, pieces_text, request, result, turn_text
from runners.play.hints import hint
from runners.play.screens import Screen
from runners.play.session import Session

THINKING_SECONDS = 0.3  # after these the screen says that the agent is thinking

HELP = (
    "A cell is a column letter and a row digit, a1 to d4; a piece is one digit 0 to F.",
    "hint    what finishes a line now, and which gifts are safe (no search)",
    "undo    go back to your last turn; the agent's answer is taken back too",
    "board   show the game again",
    "resign  lose the game: it is logged as lost",
    "quit    leave: an unfinished game is not logged",
)


class Dialogue:
    """Plays a session with a person at a screen."""

    def __init__(self, session: Session, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._players = Players(session.seat, session.opponent.label)
        self._news: list[str] = []  # sentences about what happened since the game was shown
        self._shown = False
        self._left = False

    def run(self) -> bool:
        """Play until the game is over (true) or the person leaves (false).

        Raises ``EOFError`` at the end of the input, ``KeyboardInterrupt`` at Ctrl-C.
        """
        while not self._session.over and not self._left:
            if self._session.agent_to_act:
                self._answer()
            else:
                self._ask()
        if self._session.over:
            self._news.append(result(self._session.game, self._players, self._session.reason))
            self._show()
        return self._session.over

    def _show(self) -> None:
        self._screen.show(self._session.game, self._news)
        self._news, self._shown = [], True

    def _answer(self) -> None:
        before = self._session.game
        self._wait_for(self._session.answer)
        self._news += filter(None, [turn_text(before, self._session.game, self._players)])
        self._shown = False

    def _wait_for(self, work: Callable[[], None]) -> None:
        """Call ``work`` in a thread of its own, so that Ctrl-C ends the wait at once."""
        failures: list[BaseException] = []

        def attempt() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  (raised again below, in the waiting thread)
                failures.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(THINKING_SECONDS)
        if thread.is_alive():
            with self._screen.waiting(f"{self._session.opponent.label} is thinking"):
                thread.join()
        if failures:
            raise failures[0]

    def _ask(self) -> None:
        if not self._shown:
            self._show()
        line = self._screen.ask(request(self._session.game))
        command = command_of(line)
        if command is not None:
            self._obey(command)
            return
        before = self._session.game
        try:
            after = game_after(line, before)
        except RequestError as error:
            self._screen.write(f"{error}.")
            return
        self._session.act(after)
        self._news.append(turn_text(before, after, self._players))
        self._shown = False

    def _obey(self, command: Command) -> None:
        game = self._session.game
        if command is Command.HINT:
            self._session.aids.add("hint")
            self._write(*hint(game).lines)
        elif command is Command.HELP:
            text = expected(game)
            self._write(f"{text[0].upper()}{text[1:]}.", *HELP)
        elif command is Command.BOARD:
            self._show()
        elif command is Command.UNDO:
            self._undo()
        elif command is Command.RESIGN:
            self._session.act(game.forfeited(FORFEIT_RESIGNED))
        else:
            self._left = True

    def _undo(self) -> None:
        plies = len(self._session.game.plies)
        if not self._session.undo():
            self._screen.write("There is nothing to undo: you have not played yet.")
            return
        gone = plies - len(self._session.game.plies)
        self._news = [f"Taken back: {gone} {'ply' if gone == 1 else 'plies'}. It is your turn again."]
        self._shown = False

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._screen.write(line)


# What is typed.

SHOWN = 40  # characters of the input that a message repeats


class Command(StrEnum):
    """Input that is not a decision."""

    HINT = "hint"
    UNDO = "undo"
    RESIGN = "resign"
    BOARD = "board"
    HELP = "help"
    QUIT = "quit"


COMMANDS = {command.value: command for command in Command} | {"?": Command.HELP, "exit": Command.QUIT}


def command_of(line: str) -> Command | None:
    """The command in a line, None for any other input."""
    word = line.strip().lower()
    return COMMANDS.get(word)


def game_after(line: str, game: Game) -> Game:
    """The game after the decision in a line. Raises ``RequestError`` if it cannot be parsed or is illegal."""
    words = line.replace(",", " ").split()
    if game.asked is NextDecision.NOTHING:
        raise RequestError(f"the game is over, and {shown(line)} comes after its end")
    if not words:
        raise RequestError(f"Nothing was typed: {expected(game)}")
    if len(words) == 1 and not re.search(r"[\d@]", words[0]) and len(words[0]) > 1:
        raise RequestError(f"{shown(words[0])} is not a command{_nearest(words[0])}; {expected(game)}")
    readers = {NextDecision.GIFT: _gift, NextDecision.PLACEMENT: _placement, NextDecision.PLY: _ply}
    return readers[game.asked](words, game)


def expected(game: Game) -> str:
    """The input that is possible now, as a part of a sentence."""
    if game.asked is NextDecision.GIFT:
        return f"give one of the pieces {pieces_text(game.left)}"
    cell = format_cell(game.empty_cells[0])
    if game.asked is NextDecision.PLY:
        return f"type a piece and its cell, such as {format_piece(game.left[0])}@{cell}"
    at_once = f", with the gift at once if you like, such as {cell} {format_piece(game.left[0])}" if game.left else ""
    return f"place {format_piece(game.hand)} on one of {cells_text(game.empty_cells)}{at_once}"


def shown(text: str) -> str:
    """Input as a message repeats it: quoted, printable, shortened."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _gift(words: list[str], game: Game) -> Game:
    if len(words) > 1:
        raise RequestError(f"{shown(' '.join(words))} is {len(words)} words instead of one: {expected(game)}")
    (word,) = words
    if _looks_like_cell(word):
        done = f" ({format_piece(game.plies[-1][0])} is placed: undo takes it back)" if game.halfway else ""
        raise RequestError(f"{shown(word)} is a cell{done}: {expected(game)}")
    return game.give(_piece(word, game))


def _placement(words: list[str], game: Game) -> Game:
    if len(words) > 2:
        raise RequestError(f"{shown(' '.join(words))} is {len(words)} words instead of one or two: {expected(game)}")
    if "@" in words[0]:
        raise RequestError(f"{shown(words[0])}: the piece is in your hand, so type its cell alone; {expected(game)}")
    if len(words[0]) == 1:
        raise RequestError(f"{shown(words[0])} is not a cell a1 to d4: {expected(game)}")
    placed = game.place(_cell(words[0], game))
    if placed.asked is not NextDecision.GIFT or len(words) == 1:
        return placed  # a gift once the game is over does not matter
    if _looks_like_cell(words[1]):
        raise RequestError(f"{shown(words[1])} is a second cell, where a gift is expected: {expected(game)}")
    return placed.give(_piece(words[1], game))


def _ply(words: list[str], game: Game) -> Game:
    piece, at, cell = "".join(words).partition("@")
    if not at:
        raise RequestError(f"{shown(' '.join(words))} is not piece@cell: {expected(game)}")
    return game.play(_piece(piece, game), _cell(cell, game))


def _piece(word: str, game: Game) -> int:
    try:
        return parse_piece(word)
    except RequestError:
        raise RequestError(f"{shown(word)} is not a piece 0 to F: {expected(game)}") from None


def _cell(word: str, game: Game) -> int:
    try:
        return parse_cell(word)
    except RequestError:
        turned = word[::-1].lower()
        hint = f"; did you mean {turned}?" if _looks_like_cell(turned) else ""
        raise RequestError(f"{shown(word)} is not a cell a1 to d4{hint or ': ' + expected(game)}") from None


def _looks_like_cell(word: str) -> bool:
    return len(word) == 2 and word[0].lower() in COLUMN_LETTERS and word[1] in ROW_DIGITS


def _nearest(word: str) -> str:
    close = difflib.get_close_matches(word.lower(), list(Command), n=1)
    return f"; did you mean {close[0]}?" if close else f" ({', '.join(Command)})"
