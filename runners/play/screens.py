"""Screens that show a game and ask the person: pictures on a terminal, or plain lines for pipes."""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from rich.console import Console
from rich.text import Text

from runners.play import plain
from runners.play.game import Game, NextDecision
from runners.play.pictures import TerminalSize, pictured

POLL_SECONDS = 0.1
CHUNK = 1 << 16  # bytes
MAX_ECHO = 200  # characters of a piped line that are repeated in the output


class TypedLines:
    """Reads standard input that is no terminal line by line. A wait for a line hears Ctrl-C at once."""

    def __init__(self) -> None:
        self._read = b""  # what was read of the lines that follow
        self._ended = False

    def next(self) -> str:
        """The next line without its end; text that cannot be decoded has question marks.

        Raises ``EOFError`` at the end of the input.
        """
        try:
            descriptor = sys.stdin.fileno()
        except io.UnsupportedOperation:  # a program replaced the input by a text
            return self._of_text()
        # Python's own reading is interrupted only if the system delivers the signal to this thread, and libraries that
        # play have threads too. Between these short waits Python looks whether a signal came to any thread.
        while b"\n" not in self._read and not self._ended:
            if select.select([descriptor], [], [], POLL_SECONDS)[0]:
                piece = os.read(descriptor, CHUNK)
                self._read += piece
                self._ended = not piece
        line, _, self._read = self._read.partition(b"\n")
        if self._ended and not line and not self._read:
            raise EOFError
        return line.decode(sys.stdin.encoding, "replace").rstrip("\r")

    @staticmethod
    def _of_text() -> str:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")


class Screen:
    """The output and the input of a dialogue: line by line, without colours and cursor movements."""

    def __init__(self) -> None:
        self._typed_lines = TypedLines()

    def greet(self, heading: str) -> None:
        """Print the heading at the start: players, rules and seed."""
        self.write(heading)
        self.write(plain.LEGEND)
        self.write("'help' explains what can be typed.")

    def show(self, game: Game, news: Sequence[str]) -> None:
        """Show the news and then the game."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else plain.WIDTH
        self.write("\n".join([*news, "", plain.drawn(game, width), ""]))

    def write(self, text: str, unwrapped: bool = False) -> None:
        """Print a text; ``unwrapped``, it can be copied as one line."""
        del unwrapped  # no line is ever wrapped
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def ask(self, request: str) -> str:
        """Read a line from the person. Raises ``EOFError`` at the end of the input."""
        if sys.stdin.isatty() and sys.stdout.isatty():
            return input(f"{request}> ")
        sys.stdout.write(f"{request}> ")
        sys.stdout.flush()
        typed = self._typed_lines.next()
        if not sys.stdin.isatty():  # the transcript then reads like that of a terminal
            seen = "".join(character if character.isprintable() else "?" for character in typed[:MAX_ECHO])
            self.write(seen + ("…" if len(typed) > MAX_ECHO else ""))
        return typed

    def waiting(self, work: str) -> AbstractContextManager[object]:
        """A context during which ``work``, a sentence without its stop, goes on."""
        if sys.stdout.isatty():  # a transcript does not depend on how fast the machine is
            self.write(f"{work}.")
        return nullcontext()


class PictureScreen(Screen):
    """A terminal that is cleared and drawn again for every turn."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        self._heading = ""
        with suppress(ImportError):  # line editing and history, where Python has them
            import readline  # noqa: F401

    def greet(self, heading: str) -> None:
        self._heading = heading

    def show(self, game: Game, news: Sequence[str]) -> None:
        self._console.clear()
        self._console.print(Text(self._heading, "bold"))
        for row in pictured(game, TerminalSize(*self._console.size)):
            self._console.print(row, no_wrap=True, crop=True)
        for text in news:
            self._console.print(Text(text, "bold" if game.asked is NextDecision.NOTHING else ""))

    def write(self, text: str, unwrapped: bool = False) -> None:
        self._console.print(Text(text), soft_wrap=unwrapped)

    def ask(self, request: str) -> str:
        return input(f"{request}> ")

    @contextmanager
    def waiting(self, work: str) -> Iterator[None]:
        with self._console.status(Text(work), spinner="dots"):
            yield


def screen_for(plain_wanted: bool) -> Screen:
    """Pictures on a terminal whose encoding has the characters; else, and if asked for, plain lines."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if plain_wanted or not at_terminal or Console().is_dumb_terminal or not _has_blocks(sys.stdout.encoding):
        return Screen()
    return PictureScreen()


def _has_blocks(encoding: str | None) -> bool:
    """Whether an encoding has the characters of the pictures."""
    try:
        "▞█•▸│".encode(encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
