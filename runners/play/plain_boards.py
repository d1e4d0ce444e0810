"""Pieces and boards in plain characters, for pipes, transcripts and small terminals. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from quarto.game import Game, list_attribute_words
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_piece
from quarto.rules import NONE, PIECES, SIDE

PIECE_WIDTH = 7
CELL_WIDTH = PIECE_WIDTH + 2
WIDTH = 79  # of a board beside the pieces left

LEGEND = (
    "Pieces: [ ] square, ( ) round; [[ ]] or (( )) high, single low; * coloured; # solid.\n"
    "So [[*F#]] is high, coloured, solid and square, and ( 0 ) is none of these."
)


def render_token(piece: int) -> str:
    """Render a piece in seven characters, such as ``[[*F#]]`` or `` ( 0 ) ``."""
    high, coloured, solid, square = (piece >> bit & 1 for bit in (3, 2, 1, 0))
    inside = f"{'*' if coloured else ' '}{format_piece(piece)}{'#' if solid else ' '}"
    opening, closing = "[]" if square else "()"
    return f"{opening * (1 + high)}{inside}{closing * (1 + high)}".center(PIECE_WIDTH)


def render_board(game: Game) -> list[str]:
    """Render the board, with ``>`` and ``<`` around the last piece, and ``=`` around each piece of a finished line."""
    line_cells = {cell for line in game.lines for cell in line}
    rows = ["  " + "".join(letter.center(CELL_WIDTH) for letter in COLUMN_LETTERS)]
    for row, digit in enumerate(ROW_DIGITS):
        cells = range(SIDE * row, SIDE * row + SIDE)
        rows.append(
            f"{digit} "
            + "".join(_render_cell(game.board[cell], cell in line_cells, cell == game.last_cell) for cell in cells)
        )
    return [row.rstrip() for row in rows]


def _render_cell(piece: int, in_finished_line: bool, is_last_cell: bool) -> str:
    if piece == NONE:
        return ".".center(CELL_WIDTH)
    left_mark, right_mark = "==" if in_finished_line else "><" if is_last_cell else "  "
    return left_mark + render_token(piece) + right_mark


def render_pieces_left(game: Game) -> list[str]:
    """Render the pieces that are left, each in its fixed place; the places of used pieces are blank."""
    texts = [render_token(piece) if piece in game.pieces_left else " " * PIECE_WIDTH for piece in range(PIECES)]
    rows = ("  ".join(texts[first : first + SIDE]).rstrip() for first in range(0, PIECES, SIDE))
    return ["pieces left:", *rows]


def render_hand_with_words_if_room(game: Game, width: int) -> list[str]:
    """Render the piece in hand, with its attributes in words if there is room; return no line if the hand is empty."""
    if game.hand == NONE:
        return []
    row = f"in hand: {render_token(game.hand).strip()}"
    words = f" {', '.join(list_attribute_words(game.hand))}"
    return [row + words if len(row + words) <= width else row]


def render_game(game: Game, width: int) -> str:
    """Render the board, the pieces that are left, and the piece in hand, for a screen of ``width`` columns.

    The pieces that are left are beside the board or, on a narrow screen, below it.
    """
    board, pieces_left = render_board(game), render_pieces_left(game)
    rows = _render_side_by_side(board, pieces_left) if width >= WIDTH else [*board, "", *pieces_left]
    return "\n".join([*rows, *render_hand_with_words_if_room(game, width)])


def _render_side_by_side(first: Sequence[str], second: Iterable[str]) -> list[str]:
    width = 2 + SIDE * CELL_WIDTH + 3
    return [
        f"{left_row:<{width}}{right_row}".rstrip() for left_row, right_row in zip_longest(first, second, fillvalue="")
    ]
