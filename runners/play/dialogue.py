"""The dialogue: show the game, ask the person, let the agent answer, until the game is over or the person leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import RequestError
from runners.play.hints import hint
from runners.play.reading import Command, command_of, expected, game_after
from runners.play.screens import Screen
from runners.play.session import Session
from runners.play.wording import Players, request, result, turn_text

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
            self._write(_sentence_of(expected(game)), *HELP)
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


def _sentence_of(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
