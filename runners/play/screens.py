"""Where a game is shown and a person is asked: a terminal with pictures, or plain lines that a pipe can carry."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Protocol

from rich.console import Console
from rich.text import Text

from runners.play import plain
from runners.play.game import Asked, Game
from runners.play.pictures import Room, pictured

ECHOED = 200  # characters of a line that came through a pipe


class Screen(Protocol):
    """What the dialogue needs of whatever it is held on."""

    def greet(self, heading: str) -> None:
        """Say who plays what."""
        ...

    def show(self, game: Game, news: Sequence[str]) -> None:
        """Show what has happened and the game as it is now."""
        ...

    def say(self, text: str, whole: bool = False) -> None:
        """Tell the person something; ``whole`` in one piece, to be copied."""
        ...

    def ask(self, request: str) -> str:
        """The line that the person types. Raises ``EOFError`` when there will be no more."""
        ...

    def waiting(self, who: str) -> AbstractContextManager[object]:
        """A context in which ``who`` takes a while."""
        ...


class PlainScreen:
    """Standard input and output, a line at a time: no colours, nothing is ever drawn over."""

    def greet(self, heading: str) -> None:
        self.say(heading)
        self.say(plain.LEGEND)
        self.say("'help' explains what can be typed.")

    def show(self, game: Game, news: Sequence[str]) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else plain.WIDTH
        self.say("\n".join([*news, "", plain.drawn(game, width), ""]))

    def say(self, text: str, whole: bool = False) -> None:
        del whole  # nothing is ever folded
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def ask(self, request: str) -> str:
        if sys.stdin.isatty() and sys.stdout.isatty():
            return input(f"{request}> ")
        sys.stdout.write(f"{request}> ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        typed = line.rstrip("\r\n")
        if not sys.stdin.isatty():  # whoever reads the transcript sees what a terminal would have shown
            seen = "".join(character if character.isprintable() else "?" for character in typed[:ECHOED])
            self.say(seen + ("…" if len(typed) > ECHOED else ""))
        return typed

    def waiting(self, who: str) -> AbstractContextManager[object]:
        if sys.stdout.isatty():  # a transcript does not depend on how fast the machine is
            self.say(f"{who} is thinking.")
        return nullcontext()


class PictureScreen:
    """A terminal: it is cleared and drawn anew for every turn."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._heading = ""
        with suppress(ImportError):  # line editing and history, where Python has them
            import readline  # noqa: F401

    def greet(self, heading: str) -> None:
        self._heading = heading

    def show(self, game: Game, news: Sequence[str]) -> None:
        self._console.clear()
        self._console.print(Text(self._heading, "bold"))
        for row in pictured(game, Room(*self._console.size)):
            self._console.print(row, no_wrap=True, crop=True)
        for text in news:
            self._console.print(Text(text, "bold" if game.asked is Asked.NOTHING else ""))

    def say(self, text: str, whole: bool = False) -> None:
        self._console.print(Text(text), soft_wrap=whole)

    def ask(self, request: str) -> str:
        return input(f"{request}> ")

    @contextmanager
    def waiting(self, who: str) -> Iterator[None]:
        with self._console.status(Text(f"{who} is thinking"), spinner="dots"):
            yield


def screen_for(plain_wanted: bool) -> Screen:
    """Pictures at a terminal that has the characters, plain lines everywhere else and where they are wanted."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if plain_wanted or not at_terminal or Console().is_dumb_terminal or not _has_blocks(sys.stdout.encoding):
        return PlainScreen()
    return PictureScreen()


def _has_blocks(encoding: str | None) -> bool:
    """Whether what pieces are drawn with can be written at all."""
    try:
        "▞█•▸│".encode(encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
