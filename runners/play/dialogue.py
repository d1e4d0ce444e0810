"""The dialogue with a person: show the game, parse the input, let the agent take its turn, until the game ends."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Callable
from enum import StrEnum

from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import RequestError
from quarto.game import (
    Game,
    NextDecision,
    Participants,
    describe_ending,
    describe_turn,
    format_cells,
    format_pieces,
    format_prompt,
)
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_cell, format_piece, parse_cell, parse_piece
from runners.play.hints import find_hint
from runners.play.screens import Screen
from runners.play.session import Session

THINKING_SECONDS = 0.3  # if a turn takes longer, the screen says that the agent is thinking

HELP = (
    "A cell is a column letter and a row digit, a1 to d4; a piece is one digit 0 to F.",
    "hint    what finishes a line now, which gifts are safe, and what keeps the exact value",
    "undo    go back to your last turn; the agent's answer is taken back too",
    "board   show the game again",
    "resign  lose the game: it is logged as lost",
    "quit    leave: an unfinished game is not logged",
)


class Dialogue:
    """The dialogue through which a person plays the game of a session on a screen."""

    def __init__(self, session: Session, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._players = Participants(session.seat, session.opponent.label)
        self._news: list[str] = []  # sentences about what happened since the game was shown
        self._is_game_shown = False
        self._has_person_left = False

    def play_to_end(self) -> bool:
        """Play until the game is over or the person leaves; return whether the game is over.

        Raises ``EOFError`` if the input ends, and ``KeyboardInterrupt`` if the person presses Ctrl-C.
        """
        while not self._session.is_over and not self._has_person_left:
            if self._session.is_agent_to_act:
                self._play_agent_turn()
            else:
                self._read_and_apply_input()
        if self._session.is_over:
            self._news.append(describe_ending(self._session.game, self._players, self._session.reason))
            self._show_game()
        return self._session.is_over

    def _show_game(self) -> None:
        self._screen.show_game(self._session.game, self._news)
        self._news, self._is_game_shown = [], True

    def _play_agent_turn(self) -> None:
        before = self._session.game
        self._run_in_thread(self._session.play_agent_turn)
        self._news += filter(None, [describe_turn(before, self._session.game, self._players)])
        self._is_game_shown = False

    def _run_in_thread(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a new thread and wait for it, so that Ctrl-C ends the wait at once.

        Raises what ``work`` raises.
        """
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
            with self._screen.show_waiting(f"{self._session.opponent.label} is thinking"):
                thread.join()
        if failures:
            raise failures[0]

    def _read_and_apply_input(self) -> None:
        if not self._is_game_shown:
            self._show_game()
        line = self._screen.prompt(format_prompt(self._session.game))
        command = parse_command(line)
        if command is not None:
            self._run_command(command)
            return
        before = self._session.game
        try:
            after = parse_and_play_decision(line, before)
        except RequestError as error:
            self._screen.print_text(f"{error}.")
            return
        self._session.advance_to(after)
        self._news.append(describe_turn(before, after, self._players))
        self._is_game_shown = False

    def _run_command(self, command: DialogueCommand) -> None:
        game = self._session.game
        if command is DialogueCommand.HINT:
            self._session.aids.add("hint")
            self._print_lines(*find_hint(game).lines)
        elif command is DialogueCommand.HELP:
            text = describe_expected_input(game)
            self._print_lines(f"{text[0].upper()}{text[1:]}.", *HELP)
        elif command is DialogueCommand.BOARD:
            self._show_game()
        elif command is DialogueCommand.UNDO:
            self._undo()
        elif command is DialogueCommand.RESIGN:
            self._session.advance_to(game.with_forfeit(FORFEIT_RESIGNED))
        else:
            self._has_person_left = True

    def _undo(self) -> None:
        plies = len(self._session.game.plies)
        if not self._session.undo():
            self._screen.print_text("There is nothing to undo: you have not played yet.")
            return
        undone_plies = plies - len(self._session.game.plies)
        self._news = [f"Taken back: {undone_plies} {'ply' if undone_plies == 1 else 'plies'}. It is your turn again."]
        self._is_game_shown = False

    def _print_lines(self, *lines: str) -> None:
        for line in lines:
            self._screen.print_text(line)


# The person's input.

QUOTED_CHARACTERS = 40  # characters of the input that a message repeats


class DialogueCommand(StrEnum):
    """A command that the person can type in place of a decision."""

    HINT = "hint"
    UNDO = "undo"
    RESIGN = "resign"
    BOARD = "board"
    HELP = "help"
    QUIT = "quit"


COMMANDS = {command.value: command for command in DialogueCommand} | {
    "?": DialogueCommand.HELP,
    "exit": DialogueCommand.QUIT,
}


def parse_command(line: str) -> DialogueCommand | None:
    """Parse a command, such as ``undo`` or ``quit``; return None for any other input."""
    name = line.strip().lower()
    return COMMANDS.get(name)


def parse_and_play_decision(line: str, game: Game) -> Game:
    """Parse a decision, such as ``b2 7``, and return the game after it.

    Raises ``RequestError`` for text that is not a decision, and for an illegal decision; the message says what can be
    typed.
    """
    words = line.replace(",", " ").split()
    if game.next_decision is NextDecision.NOTHING:
        raise RequestError(f"the game is over, and {quote_input(line)} comes after its end")
    if not words:
        raise RequestError(f"Nothing was typed: {describe_expected_input(game)}")
    if len(words) == 1 and not re.search(r"[\d@]", words[0]) and len(words[0]) > 1:
        raise RequestError(
            f"{quote_input(words[0])} is not a command{_suggest_command_or_list_all(words[0])}; "
            f"{describe_expected_input(game)}"
        )
    readers = {
        NextDecision.GIFT: _apply_gift,
        NextDecision.PLACEMENT: _apply_placement_and_optional_gift,
        NextDecision.PLY: _apply_ply,
    }
    return readers[game.next_decision](words, game)


def describe_expected_input(game: Game) -> str:
    """Describe what can be typed now, as a clause that can follow a colon."""
    if game.next_decision is NextDecision.GIFT:
        return f"give one of the pieces {format_pieces(game.pieces_left)}"
    cell = format_cell(game.empty_cells[0])
    if game.next_decision is NextDecision.PLY:
        return f"type a piece and its cell, such as {format_piece(game.pieces_left[0])}@{cell}"
    at_once = (
        f", with the gift at once if you like, such as {cell} {format_piece(game.pieces_left[0])}"
        if game.pieces_left
        else ""
    )
    return f"place {format_piece(game.hand)} on one of {format_cells(game.empty_cells)}{at_once}"


def quote_input(text: str) -> str:
    """Quote input for a message: escape unprintable characters, and cut the text after ``QUOTED_CHARACTERS``."""
    return repr(text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…")


def _apply_gift(words: list[str], game: Game) -> Game:
    if len(words) > 1:
        raise RequestError(
            f"{quote_input(' '.join(words))} is {len(words)} words instead of one: {describe_expected_input(game)}"
        )
    (word,) = words
    if _looks_like_cell(word):
        reminder = f" ({format_piece(game.plies[-1][0])} is placed: undo takes it back)" if game.is_gift_due else ""
        raise RequestError(f"{quote_input(word)} is a cell{reminder}: {describe_expected_input(game)}")
    return game.give(_parse_piece_or_explain_input(word, game))


def _apply_placement_and_optional_gift(words: list[str], game: Game) -> Game:
    if len(words) > 2:
        raise RequestError(
            f"{quote_input(' '.join(words))} is {len(words)} words instead of one or two: "
            f"{describe_expected_input(game)}"
        )
    if "@" in words[0]:
        raise RequestError(
            f"{quote_input(words[0])}: the piece is in your hand, so type its cell alone; "
            f"{describe_expected_input(game)}"
        )
    if len(words[0]) == 1:
        raise RequestError(f"{quote_input(words[0])} is not a cell a1 to d4: {describe_expected_input(game)}")
    after = game.place(_parse_cell_or_explain_input(words[0], game))
    if after.next_decision is not NextDecision.GIFT or len(words) == 1:
        return after  # a gift once the game is over does not matter
    if _looks_like_cell(words[1]):
        raise RequestError(
            f"{quote_input(words[1])} is a second cell, where a gift is expected: {describe_expected_input(game)}"
        )
    return after.give(_parse_piece_or_explain_input(words[1], game))


def _apply_ply(words: list[str], game: Game) -> Game:
    piece, at, cell = "".join(words).partition("@")
    if not at:
        raise RequestError(f"{quote_input(' '.join(words))} is not piece@cell: {describe_expected_input(game)}")
    return game.play(_parse_piece_or_explain_input(piece, game), _parse_cell_or_explain_input(cell, game))


def _parse_piece_or_explain_input(word: str, game: Game) -> int:
    try:
        return parse_piece(word)
    except RequestError:
        raise RequestError(f"{quote_input(word)} is not a piece 0 to F: {describe_expected_input(game)}") from None


def _parse_cell_or_explain_input(word: str, game: Game) -> int:
    try:
        return parse_cell(word)
    except RequestError:
        reversed_word = word[::-1].lower()
        hint = f"; did you mean {reversed_word}?" if _looks_like_cell(reversed_word) else ""
        raise RequestError(
            f"{quote_input(word)} is not a cell a1 to d4{hint or ': ' + describe_expected_input(game)}"
        ) from None


def _looks_like_cell(word: str) -> bool:
    return len(word) == 2 and word[0].lower() in COLUMN_LETTERS and word[1] in ROW_DIGITS


def _suggest_command_or_list_all(word: str) -> str:
    similar = difflib.get_close_matches(word.lower(), list(DialogueCommand), n=1)
    return f"; did you mean {similar[0]}?" if similar else f" ({', '.join(DialogueCommand)})"
