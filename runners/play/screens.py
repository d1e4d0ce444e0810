"""Screens that show a game and ask the person: pictures on a terminal, or plain lines for pipes."""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import zip_longest
from typing import NamedTuple

from rich.console import Console, ConsoleDimensions
from rich.text import Text

from quarto.game import Game, NextDecision, list_attribute_words
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_cell, format_piece
from quarto.rules import NONE, PIECES, SIDE
from runners.play import plain_boards

POLL_SECONDS = 0.1
READ_BYTES = 1 << 16  # bytes
MAX_ECHO = 200  # characters of a piped line that are repeated in the output


class InputReader:
    """Reads standard input that is no terminal line by line. A wait for a line hears Ctrl-C at once."""

    def __init__(self) -> None:
        self._unread_bytes = b""  # what was read of the lines that follow
        self._at_end = False

    def read_line(self) -> str:
        """The next line without its end; text that cannot be decoded has question marks.

        Raises ``EOFError`` at the end of the input.
        """
        try:
            descriptor = sys.stdin.fileno()
        except io.UnsupportedOperation:  # a program replaced the input by a text
            if line := sys.stdin.readline():
                return line.rstrip("\r\n")
            raise EOFError from None
        # Python's own reading is interrupted only if the system delivers the signal to this thread, and libraries that
        # play have threads too. Between these short waits Python looks whether a signal came to any thread.
        while b"\n" not in self._unread_bytes and not self._at_end:
            if select.select([descriptor], [], [], POLL_SECONDS)[0]:
                piece = os.read(descriptor, READ_BYTES)
                self._unread_bytes += piece
                self._at_end = not piece
        line, _, self._unread_bytes = self._unread_bytes.partition(b"\n")
        if self._at_end and not line and not self._unread_bytes:
            raise EOFError
        return line.decode(sys.stdin.encoding, "replace").rstrip("\r")


class Screen:
    """The output and the input of a dialogue: line by line, without colours and cursor movements."""

    def __init__(self) -> None:
        self._input = InputReader()

    def print_heading(self, heading: str) -> None:
        """Print the heading at the start: players, rules and seed."""
        self.print_text(heading)
        self.print_text(plain_boards.LEGEND)
        self.print_text("'help' explains what can be typed.")

    def show_game(self, game: Game, news: Sequence[str]) -> None:
        """Show the news and then the game."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else plain_boards.WIDTH
        self.print_text("\n".join([*news, "", plain_boards.render_game(game, width), ""]))

    def print_text(self, text: str, unwrapped: bool = False) -> None:
        """Print a text; ``unwrapped``, it can be copied as one line."""
        del unwrapped  # no line is ever wrapped
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def prompt(self, request: str) -> str:
        """Read a line from the person. Raises ``EOFError`` at the end of the input."""
        if sys.stdin.isatty() and sys.stdout.isatty():
            return input(f"{request}> ")
        sys.stdout.write(f"{request}> ")
        sys.stdout.flush()
        typed = self._input.read_line()
        if not sys.stdin.isatty():  # the transcript then reads like that of a terminal
            seen = "".join(character if character.isprintable() else "?" for character in typed[:MAX_ECHO])
            self.print_text(seen + ("…" if len(typed) > MAX_ECHO else ""))
        return typed

    def show_waiting(self, activity: str) -> AbstractContextManager[object]:
        """A context during which ``activity``, a sentence without its stop, goes on."""
        if sys.stdout.isatty():  # a transcript does not depend on how fast the machine is
            self.print_text(f"{activity}.")
        return nullcontext()


class PictureScreen(Screen):
    """A terminal that is cleared and drawn again for every turn."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        self._heading = ""
        with suppress(ImportError):  # line editing and history, where Python has them
            import readline  # noqa: F401

    def print_heading(self, heading: str) -> None:
        self._heading = heading

    def show_game(self, game: Game, news: Sequence[str]) -> None:
        self._console.clear()
        self._console.print(Text(self._heading, "bold"))
        for row in render_game(game, self._console.size):
            self._console.print(row, no_wrap=True, crop=True)
        for text in news:
            self._console.print(Text(text, "bold" if game.next_decision is NextDecision.NOTHING else ""))

    def print_text(self, text: str, unwrapped: bool = False) -> None:
        self._console.print(Text(text), soft_wrap=unwrapped)

    def prompt(self, request: str) -> str:
        return input(f"{request}> ")

    @contextmanager
    def show_waiting(self, activity: str) -> Iterator[None]:
        with self._console.status(Text(activity), spinner="dots"):
            yield


def build_screen(plain: bool) -> Screen:
    """Pictures on a terminal whose encoding has the characters; else, and if asked for, plain lines."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if plain or not at_terminal or Console().is_dumb_terminal or not _can_encode_pictures(sys.stdout.encoding):
        return Screen()
    return PictureScreen()


def _can_encode_pictures(encoding: str | None) -> bool:
    """Whether an encoding has the characters of the pictures."""
    try:
        "▞█•▸│".encode(encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# Pictures of three rows, laid out for the size of the terminal.

# Colours that can be read on black and on white. Coloured pieces also have spots, for those who cannot see colours.
PIECE_COLOUR = "dark_orange3"
SPOT = "•"
WIN_STYLE, LAST_STYLE = "green", "bold"
FAINT_STYLE = "dim"

SPARE_ROWS = 5  # of a terminal: heading, news in two lines, prompt, and an answer to what was typed
PICTURE_WIDTH, PICTURE_HEIGHT = 5, 3
CELL_WIDTH = PICTURE_WIDTH + 2  # a column on either side for marks
HIGH, COLOURED, SOLID, SQUARE = 8, 4, 2, 1


class Shape(NamedTuple):
    """The characters that draw a piece, which depend on whether it is solid and square."""

    top: str
    sides: tuple[str, str]
    bottom: str
    base: tuple[str, str]  # the corners of the lower row of a low piece
    floor: str  # between them


SHAPES = {
    (False, False): Shape("▞▀▀▀▚", ("▌", "▐"), "▚▄▄▄▞", ("▚", "▞"), "▄"),
    (False, True): Shape("▛▀▀▀▜", ("▌", "▐"), "▙▄▄▄▟", ("▙", "▟"), "▄"),
    (True, False): Shape("▟███▙", ("█", "█"), "▜███▛", ("▜", "▛"), " "),
    (True, True): Shape("█████", ("█", "█"), "█████", ("█", "█"), " "),
}


def render_piece(piece: int) -> list[Text]:
    """A piece in three rows of five characters. High pieces fill them; low pieces fill the lower two.

    Round pieces have cut corners, hollow pieces are rings, coloured pieces have spots.
    """
    shape = SHAPES[bool(piece & SOLID), bool(piece & SQUARE)]
    colour = PIECE_COLOUR if piece & COLOURED else ""
    inside = f"{colour} reverse" if piece & SOLID else colour  # cut out of what is solid
    (left, right), floor = (shape.sides, " ") if piece & HIGH else (shape.base, shape.floor)
    fill = SPOT if piece & COLOURED else floor
    digit = _concat_text((fill, inside), (format_piece(piece), f"{inside} bold"), (fill, inside))
    middle = _concat_text((left, colour), digit, (right, colour))
    top = _concat_text((shape.top, colour))
    return (
        [top, middle, _concat_text((shape.bottom, colour))]
        if piece & HIGH
        else [_concat_text((" " * 5, "")), top, middle]
    )


def render_board(game: Game) -> list[Text]:
    """The board with its coordinates. Finished lines are framed, and arrows point at the last piece."""
    won = {cell for line in game.lines for cell in line}
    indent = " " * 3
    letters = "".join(f" {letter:^{CELL_WIDTH}}" for letter in COLUMN_LETTERS)
    rows = [_concat_text((indent + letters, FAINT_STYLE))]
    for row, digit in enumerate(ROW_DIGITS):
        rows.append(Text(indent + _render_grid_line(*("├┼┤" if row else "┌┬┐")), FAINT_STYLE))
        cells = [_render_cell(game, SIDE * row + column, won, game.last_cell) for column in range(SIDE)]
        for height in range(PICTURE_HEIGHT):
            line = _concat_text((f" {digit if height == 1 else ' '} ", FAINT_STYLE))
            for cell in cells:
                line.append("│", FAINT_STYLE).append_text(cell[height])
            rows.append(line.append("│", FAINT_STYLE))
    return [*rows, Text(indent + _render_grid_line(*"└┴┘"), FAINT_STYLE)]


def _render_grid_line(left: str, middle: str, right: str) -> str:
    return left + middle.join(["─" * CELL_WIDTH] * SIDE) + right


def _render_cell(game: Game, cell: int, line_cells: Iterable[int], last_cell: int) -> list[Text]:
    """A cell in three rows of seven characters."""
    piece = game.board[cell]
    if piece == NONE:
        return [Text(text.center(CELL_WIDTH), FAINT_STYLE) for text in ("", format_cell(cell), "")]
    if cell in line_cells:
        left, right, style = "▌▌▌", "▐▐▐", WIN_STYLE
    else:
        left, right, style = (" ▸ ", " ◂ ", LAST_STYLE) if cell == last_cell else ("   ", "   ", "")
    sides = zip(left, render_piece(piece), right, strict=True)
    return [_concat_text((before, style), row, (after, style)) for before, row, after in sides]


def render_pieces_left(game: Game) -> list[Text]:
    """The pieces left; each piece has a fixed position, so that the pieces of a row or column share attributes."""
    rows = [Text("pieces left", FAINT_STYLE)]
    for first in range(0, PIECES, SIDE):
        rows.append(Text())
        pictures = [
            render_piece(piece) if piece in game.pieces_left else _render_used_piece()
            for piece in range(first, first + SIDE)
        ]
        rows += [Text(" ").join(parts) for parts in zip(*pictures, strict=True)]
    return rows


def _render_used_piece() -> list[Text]:
    return [Text(text.center(PICTURE_WIDTH), FAINT_STYLE) for text in ("", "·", "")]


def render_hand(game: Game) -> list[Text]:
    """The piece in hand, with its attributes in words."""
    if game.hand == NONE:
        return []
    words = [Text(word) for word in list_attribute_words(game.hand)]
    return [Text("in hand", FAINT_STYLE), Text(), *render_piece(game.hand), Text(), *words]


def render_side_by_side(blocks: Sequence[Sequence[Text]], gap: int = 3) -> list[Text]:
    """Blocks of rows side by side."""
    widths = [max((row.cell_len for row in block), default=0) for block in blocks]
    rows = []
    for parts in zip_longest(*blocks, fillvalue=Text()):
        row = Text()
        for part, width in zip(parts, widths, strict=True):
            row.append(" " * gap if row else "").append_text(part).append(" " * (width - part.cell_len))
        row.rstrip()
        rows.append(row)
    return rows


def render_tokens_left(game: Game) -> list[Text]:
    """The pieces left in four lines of characters, where pictures do not fit."""
    rows = [Text("pieces left", FAINT_STYLE)]
    for first in range(0, PIECES, SIDE):
        row = range(first, first + SIDE)
        tokens = (
            _render_token(piece) if piece in game.pieces_left else Text(" " * plain_boards.PIECE_WIDTH) for piece in row
        )
        rows.append(Text("  ").join(tokens))
    return rows


def _render_token(piece: int) -> Text:
    return _concat_text((plain_boards.render_token(piece), PIECE_COLOUR if piece & COLOURED else ""))


def render_game(game: Game, size: ConsoleDimensions) -> list[Text]:
    """The game in the largest layout that fits: all beside the board, some below it, or in plain characters."""
    board, left = render_board(game), render_pieces_left(game)
    in_words = [Text(row) for row in plain_boards.render_hand(game, size.width)]
    layouts = (
        render_side_by_side([board, left, render_hand(game)]),
        [*render_side_by_side([board, left]), *in_words],
        [*board, *render_tokens_left(game), *in_words],
    )
    in_characters = [Text(row) for row in plain_boards.render_game(game, size.width).splitlines()]
    for rows in layouts:
        if max(row.cell_len for row in rows) <= size.width and len(rows) + SPARE_ROWS <= size.height:
            return rows
    return in_characters


def _concat_text(*parts: tuple[str, str] | Text) -> Text:
    """Concatenated parts; a blank style is no style."""
    text = Text()
    for part in parts:
        if isinstance(part, Text):
            text.append_text(part)
        else:
            text.append(part[0], part[1].strip() or None)
    return text
