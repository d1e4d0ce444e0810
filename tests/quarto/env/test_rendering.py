from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quarto.notation import parse_position

pytestmark = pytest.mark.extras

POSITION, _ = parse_position("...F/.3../..../.... 7")
TEXT = """\
  a b c d
1 . . . F
2 . 3 . .
3 . . . .
4 . . . .
in hand: 7
left: 0 1 2 4 5 6 8 9 A B C D E"""


def rendering() -> Any:
    import quarto.env.rendering

    return quarto.env.rendering


def test_the_text_of_a_position() -> None:
    assert rendering().render_position_and_left_as_text(POSITION) == TEXT


def test_the_picture_shows_each_piece_in_its_place() -> None:
    side, gap = rendering().SQUARE_SIDE, rendering().GAP
    image = rendering().render_position_and_left_as_image(POSITION)
    assert image.shape == (rendering().HEIGHT, rendering().WIDTH, 3)

    def at(top: int, left: int) -> np.ndarray:
        tile: np.ndarray = image[top : top + side, left : left + side]
        return tile

    def list_pictured_pieces(tile: np.ndarray) -> list[int]:
        return [piece for piece in range(16) if np.array_equal(tile, rendering()._render_piece(piece))]

    for place in range(16):
        row, column = divmod(place, 4)
        assert list_pictured_pieces(at(side * row, side * column)) == {3: [15], 5: [3]}.get(place, [])
        pieces_left = list_pictured_pieces(at(side * row, 4 * side + gap + side * column))
        assert pieces_left == ([] if place in (15, 3, 7) else [place])
    assert list_pictured_pieces(at(4 * side + gap, 0)) == [7]


def test_a_window_is_opened_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(rendering(), "FRAMES_PER_SECOND", 10_000)
    for mode, shown in (("rgb_array", False), ("human", True)):
        renderer = rendering().Renderer(mode)
        renderer.show_position_if_windowed(POSITION)
        assert pygame.display.get_init() == shown
        if shown:
            pixels = pygame.surfarray.array3d(pygame.display.get_surface()).transpose(1, 0, 2)
            assert np.array_equal(pixels, rendering().render_position_and_left_as_image(POSITION))
        renderer.close()
        assert not pygame.display.get_init()
