"""A position as text, as an image, or in a window, for ``render`` of the environments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.errors import RequestError, require_extra, suggest_valid_names
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_piece
from quarto.position import PackedPosition, board
from quarto.rules import NONE, PIECES, SIDE

ImageArray = NDArray[np.uint8]  # [height, width, 3]

RENDER_MODES = ["human", "ansi", "rgb_array"]
FRAMES_PER_SECOND = 2

SQUARE_SIDE = 64  # pixels of a cell
GAP = 16  # between the board and the pieces left
HEIGHT, WIDTH = (SIDE + 1) * SQUARE_SIDE + GAP, 2 * SIDE * SQUARE_SIDE + GAP
PAPER_COLOUR, CELL_COLOUR, EDGE_COLOUR = (250, 248, 242), (235, 229, 214), (120, 110, 95)
# Okabe and Ito's orange and blue, which colour-blind people can distinguish too.
COLOURED_PIECE_COLOUR, UNCOLOURED_PIECE_COLOUR = (230, 159, 0), (0, 114, 178)
HIGH_REACH, LOW_REACH, HOLE_REACH = 26, 17, 8  # half widths in pixels


def render_position_and_left_as_text(position: PackedPosition) -> str:
    """Render a position as lines of text: the board with its coordinates, the piece in hand and the pieces left.

    Each piece is written as its hex digit.
    """
    pieces = ["." if piece == NONE else format_piece(piece) for piece in board(position)]
    rows = [f"{digit} {' '.join(pieces[SIDE * row : SIDE * row + SIDE])}" for row, digit in enumerate(ROW_DIGITS)]
    pieces_left = " ".join(format_piece(piece) for piece in range(PIECES) if position.available >> piece & 1)
    hand = "-" if position.hand == NONE else format_piece(position.hand)
    return "\n".join([f"  {' '.join(COLUMN_LETTERS)}", *rows, f"in hand: {hand}", f"left: {pieces_left or '-'}"])


@functools.cache
def _render_piece(piece: int) -> ImageArray:
    """Render a cell with a piece on it: [64, 64, 3] uint8.

    High pieces are larger than low ones, hollow pieces have a hole, and square pieces have corners.
    """
    across = np.abs(np.arange(SQUARE_SIDE) - (SQUARE_SIDE - 1) / 2)
    square = np.maximum(across[:, None], across)
    distance = square if piece & 1 else np.hypot(across[:, None], across)
    inside = distance <= (HIGH_REACH if piece & 8 else LOW_REACH)
    if not piece & 2:
        inside &= distance > HOLE_REACH
    picture = np.full((SQUARE_SIDE, SQUARE_SIDE, 3), CELL_COLOUR, np.uint8)
    picture[inside] = COLOURED_PIECE_COLOUR if piece & 4 else UNCOLOURED_PIECE_COLOUR
    return _draw_edge_in_place(picture)


def _draw_edge_in_place(picture: ImageArray) -> ImageArray:
    for edge in (0, -1):
        picture[edge] = picture[:, edge] = EDGE_COLOUR
    return picture


def render_position_and_left_as_image(position: PackedPosition) -> ImageArray:
    """Render a position as an image: [336, 528, 3] uint8.

    The pieces left are to the right of the board, and the piece in hand is below it.
    """
    image = np.full((HEIGHT, WIDTH, 3), PAPER_COLOUR, np.uint8)
    empty = _draw_edge_in_place(np.full((SQUARE_SIDE, SQUARE_SIDE, 3), CELL_COLOUR, np.uint8))

    def draw_square(piece: int, top: int, left: int) -> None:
        image[top : top + SQUARE_SIDE, left : left + SQUARE_SIDE] = empty if piece == NONE else _render_piece(piece)

    first_left = SIDE * SQUARE_SIDE + GAP
    for index, piece in enumerate(board(position)):
        top, left = SQUARE_SIDE * (index // SIDE), SQUARE_SIDE * (index % SIDE)
        draw_square(piece, top, left)
        if position.available >> index & 1:
            draw_square(index, top, first_left + left)
    draw_square(position.hand, SIDE * SQUARE_SIDE + GAP, 0)
    return image


class Renderer:
    """A renderer of positions in one of ``RENDER_MODES``. If ``mode`` is None, it renders nothing.

    Raises ``RequestError`` for any other mode.
    """

    def __init__(self, mode: str | None) -> None:
        if mode is not None and mode not in RENDER_MODES:
            raise RequestError(f"render_mode {mode!r} does not exist{suggest_valid_names(mode, RENDER_MODES)}")
        self.mode = mode
        self._window: Any = None
        self._clock: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the window, because a copy opens its own window."""
        return {"mode": self.mode, "_window": None, "_clock": None}

    def show_position_if_windowed(self, position: PackedPosition) -> None:
        """Show a new position in the window if the mode is ``human``; do nothing in other modes."""
        if self.mode == "human":
            self._show_image(render_position_and_left_as_image(position))

    def render_unless_windowed(self, position: PackedPosition) -> str | ImageArray | None:
        """Return the position as text (``ansi``) or as an image (``rgb_array``).

        Returns None if ``mode`` is None or ``human``. In the mode ``human`` the window already shows the position.
        """
        if self.mode == "ansi":
            return render_position_and_left_as_text(position)
        return render_position_and_left_as_image(position) if self.mode == "rgb_array" else None

    def _show_image(self, image: ImageArray) -> None:
        with require_extra("rl", "render_mode 'human'"):
            import pygame
        if self._window is None:
            pygame.display.init()
            pygame.display.set_caption("Quarto")
            self._window = pygame.display.set_mode((WIDTH, HEIGHT))
            self._clock = pygame.time.Clock()
        self._window.blit(pygame.image.frombuffer(image.tobytes(), (WIDTH, HEIGHT), "RGB"), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)

    def close(self) -> None:
        """Close the window, if one is open."""
        if self._window is not None:
            import pygame

            pygame.display.quit()
            self._window = self._clock = None
