"""Screens that show a game and prompt the person: pictures on a terminal, plain lines in a pipe."""

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
READ_BYTES = 1 << 16
MAX_ECHO = 200  # characters of a piped line that the output repeats


class InputReader:
    """A reader of lines from standard input, which Ctrl-C can interrupt while it waits for a line."""

    def __init__(self) -> None:
        self._unread_bytes = b""  # received, but not yet returned as lines
        self._at_end = False

    def read_line(self) -> str:
        """Return the next line without its line break; bytes that cannot be decoded become question marks.

        Raises ``EOFError`` at the end of the input.
        """
        try:
            descriptor = sys.stdin.fileno()
        except io.UnsupportedOperation:  # a program has replaced standard input by a text
            if line := sys.stdin.readline():
                return line.rstrip("\r\n")
            raise EOFError from None
        # A blocking read is interrupted only if the system delivers the signal to this thread, and it may deliver it to
        # a thread of a library instead. Between short waits Python handles a signal that came to any thread.
        while b"\n" not in self._unread_bytes and not self._at_end:
            if select.select([descriptor], [], [], POLL_SECONDS)[0]:
                received = os.read(descriptor, READ_BYTES)
                self._unread_bytes += received
                self._at_end = not received
        line, _, self._unread_bytes = self._unread_bytes.partition(b"\n")
        if self._at_end and not line and not self._unread_bytes:
            raise EOFError
        return line.decode(sys.stdin.encoding, "replace").rstrip("\r")


class Screen:
    """The input and output of a dialogue as plain lines, without colours or cursor movements."""

    def __init__(self) -> None:
        self._input = InputReader()

    def begin_game_with_heading(self, heading: str) -> None:
        """Print the heading (players, rules and seed), the legend of the pieces, and how to get help."""
        self.print_text(heading)
        self.print_text(plain_boards.LEGEND)
        self.print_text("'help' explains what can be typed.")

    def show_game(self, game: Game, news: Sequence[str]) -> None:
        """Print ``news``, which are lines on what has happened, and then the game."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else plain_boards.WIDTH
        self.print_text("\n".join([*news, "", plain_boards.render_game(game, width), ""]))

    def print_text(self, text: str, unwrapped: bool = False) -> None:
        """Print a text; if ``unwrapped``, keep it on one line so that it can be copied."""
        del unwrapped  # no line is ever wrapped
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def prompt(self, request: str) -> str:
        """Ask the person for ``request`` and return the line that is typed.

        Raises ``EOFError`` at the end of the input.
        """
        if sys.stdin.isatty() and sys.stdout.isatty():
            return input(f"{request}> ")
        sys.stdout.write(f"{request}> ")
        sys.stdout.flush()
        line = self._input.read_line()
        if not sys.stdin.isatty():  # so that the transcript reads like that of a terminal session
            echo = "".join(character if character.isprintable() else "?" for character in line[:MAX_ECHO])
            self.print_text(echo + ("…" if len(line) > MAX_ECHO else ""))
        return line

    def show_waiting(self, activity: str) -> AbstractContextManager[object]:
        """Return a context manager that shows ``activity`` while its body is executed.

        ``activity`` is a sentence without its full stop.
        """
        if sys.stdout.isatty():  # a transcript does not depend on how fast the machine is
            self.print_text(f"{activity}.")
        return nullcontext()


class PictureScreen(Screen):
    """A terminal that is cleared and redrawn at every turn."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        self._heading = ""
        with suppress(ImportError):  # line editing and history, where Python has them
            import readline  # noqa: F401

    def begin_game_with_heading(self, heading: str) -> None:
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
    """Build a screen with pictures if the terminal can show them and ``plain`` is false, or else with plain lines."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if plain or not at_terminal or Console().is_dumb_terminal or not _can_encode_pictures(sys.stdout.encoding):
        return Screen()
    return PictureScreen()


def _can_encode_pictures(encoding: str | None) -> bool:
    """Return whether a character encoding has all the characters with which pieces and boards are drawn."""
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

SPARE_ROWS = 5  # rows of a terminal for the heading, two lines of news, the prompt and an answer
PICTURE_WIDTH, PICTURE_HEIGHT = 5, 3
CELL_WIDTH = PICTURE_WIDTH + 2  # a column on either side for marks
HIGH, COLOURED, SOLID, SQUARE = 8, 4, 2, 1


class Shape(NamedTuple):
    """The characters with which a piece is drawn, which depend on whether it is solid and whether it is square."""

    top: str
    sides: tuple[str, str]
    bottom: str
    base: tuple[str, str]  # the corners of the lower row of a low piece
    floor: str  # between the corners


SHAPES = {
    (False, False): Shape("▞▀▀▀▚", ("▌", "▐"), "▚▄▄▄▞", ("▚", "▞"), "▄"),
    (False, True): Shape("▛▀▀▀▜", ("▌", "▐"), "▙▄▄▄▟", ("▙", "▟"), "▄"),
    (True, False): Shape("▟███▙", ("█", "█"), "▜███▛", ("▜", "▛"), " "),
    (True, True): Shape("█████", ("█", "█"), "█████", ("█", "█"), " "),
}


def render_piece(piece: int) -> list[Text]:
    """Render a piece as three rows of five characters; a high piece fills all rows, a low piece only the lower two.

    Round pieces have cut corners, hollow pieces are rings, and coloured pieces have spots.
    """
    shape = SHAPES[bool(piece & SOLID), bool(piece & SQUARE)]
    colour = PIECE_COLOUR if piece & COLOURED else ""
    inside = f"{colour} reverse" if piece & SOLID else colour  # cut out of what is solid
    (left_side, right_side), floor = (shape.sides, " ") if piece & HIGH else (shape.base, shape.floor)
    fill = SPOT if piece & COLOURED else floor
    digit = _concat_text((fill, inside), (format_piece(piece), f"{inside} bold"), (fill, inside))
    middle = _concat_text((left_side, colour), digit, (right_side, colour))
    top = _concat_text((shape.top, colour))
    return (
        [top, middle, _concat_text((shape.bottom, colour))]
        if piece & HIGH
        else [_concat_text((" " * 5, "")), top, middle]
    )


def render_board(game: Game) -> list[Text]:
    """Render the board with its coordinates; frames mark finished lines, and arrows point at the last piece."""
    line_cells = {cell for line in game.lines for cell in line}
    indent = " " * 3
    letters = "".join(f" {letter:^{CELL_WIDTH}}" for letter in COLUMN_LETTERS)
    rows = [_concat_text((indent + letters, FAINT_STYLE))]
    for row, digit in enumerate(ROW_DIGITS):
        rows.append(Text(indent + _render_grid_line(*("├┼┤" if row else "┌┬┐")), FAINT_STYLE))
        cells = [_render_cell(game, SIDE * row + column, line_cells, game.last_cell) for column in range(SIDE)]
        for height in range(PICTURE_HEIGHT):
            line = _concat_text((f" {digit if height == 1 else ' '} ", FAINT_STYLE))
            for cell in cells:
                line.append("│", FAINT_STYLE).append_text(cell[height])
            rows.append(line.append("│", FAINT_STYLE))
    return [*rows, Text(indent + _render_grid_line(*"└┴┘"), FAINT_STYLE)]


def _render_grid_line(left_end: str, middle: str, right_end: str) -> str:
    return left_end + middle.join(["─" * CELL_WIDTH] * SIDE) + right_end


def _render_cell(game: Game, cell: int, line_cells: Iterable[int], last_cell: int) -> list[Text]:
    """Render a cell as three rows of seven characters."""
    piece = game.board[cell]
    if piece == NONE:
        return [Text(text.center(CELL_WIDTH), FAINT_STYLE) for text in ("", format_cell(cell), "")]
    if cell in line_cells:
        left_marks, right_marks, style = "▌▌▌", "▐▐▐", WIN_STYLE
    else:
        left_marks, right_marks, style = (" ▸ ", " ◂ ", LAST_STYLE) if cell == last_cell else ("   ", "   ", "")
    sides = zip(left_marks, render_piece(piece), right_marks, strict=True)
    return [_concat_text((before, style), row, (after, style)) for before, row, after in sides]


def render_pieces_left(game: Game) -> list[Text]:
    """Render the remaining pieces in a fixed grid, in which the pieces of each row and column share attributes."""
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
    """Render the piece in hand, with its attributes in words below it; return no rows if the hand is empty."""
    if game.hand == NONE:
        return []
    words = [Text(word) for word in list_attribute_words(game.hand)]
    return [Text("in hand", FAINT_STYLE), Text(), *render_piece(game.hand), Text(), *words]


def render_side_by_side(blocks: Sequence[Sequence[Text]], gap: int = 3) -> list[Text]:
    """Render blocks of rows side by side, ``gap`` columns apart."""
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
    """Render the pieces that are left as four lines of characters, for screens on which pictures do not fit."""
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
    """Render the game in the largest layout that fits the screen.

    In the largest layout, the remaining pieces and the piece in hand are beside the board. In smaller layouts, one or
    both of them are below the board, and plain characters may replace pictures.
    """
    board, pieces_left = render_board(game), render_pieces_left(game)
    hand_lines = [Text(row) for row in plain_boards.render_hand_with_words_if_room(game, size.width)]
    layouts = (
        render_side_by_side([board, pieces_left, render_hand(game)]),
        [*render_side_by_side([board, pieces_left]), *hand_lines],
        [*board, *render_tokens_left(game), *hand_lines],
    )
    plain_rows = [Text(row) for row in plain_boards.render_game(game, size.width).splitlines()]
    for rows in layouts:
        if max(row.cell_len for row in rows) <= size.width and len(rows) + SPARE_ROWS <= size.height:
            return rows
    return plain_rows


def _concat_text(*parts: tuple[str, str] | Text) -> Text:
    """Concatenate texts and pairs of text and style; an empty style means none."""
    text = Text()
    for part in parts:
        if isinstance(part, Text):
            text.append_text(part)
        else:
            text.append(part[0], part[1].strip() or None)
    return text
