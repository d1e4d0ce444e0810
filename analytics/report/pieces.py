"""Pieces as SVG, which look the same in reports, in charts, in the browser and in the documents.

Each attribute has a form of its own, so that a piece can be recognised without its colour. High pieces are tall,
coloured ones are dark and have light bands, square ones have edges, and hollow ones have a hole.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from quarto.rules import PIECES

HIGH, COLOURED, SOLID, SQUARE = 8, 4, 2, 1

VIEW_BOX = "5 6 54 54"  # the part of a picture of 64 by 64 that the pieces fill
MIDDLE, FLOOR = 32, 50  # x of the axis of the piece, y of the middle of its foot
HEIGHTS = (15, 33)  # low, high


class PieceColours(NamedTuple):
    """The colours of the parts of a piece in its picture."""

    top: str
    left: str
    right: str
    line: str
    hole: str
    band: str


PLAIN = PieceColours("#fff7e3", "#f0dfb8", "#d9c190", "#5a4826", "#4a3a1d", "")
DARK = PieceColours("#a57be6", "#8150c8", "#6638ab", "#2c1357", "#210d42", "#e6d6ff")


def render_piece_from_symbols(piece: int) -> str:
    """Render a piece as a reference to its symbol; the page must contain ``piece_symbols``.

    Screen readers skip the picture, because the text beside it names the piece.
    """
    return f'<svg class="piece" viewBox="0 0 54 54" aria-hidden="true"><use href="#piece-{piece}"/></svg>'


def piece_symbols() -> str:
    """Render all pieces as hidden SVG symbols, from ``piece-0`` to ``piece-15``.

    In a page that contains the symbols, ``<use href="#piece-0"/>`` shows one of them.
    """
    symbols = "".join(
        f'<symbol id="piece-{piece}" viewBox="{VIEW_BOX}">{piece_shapes(piece)}</symbol>' for piece in range(PIECES)
    )
    return f'<svg width="0" height="0" class="symbols" aria-hidden="true">{symbols}</svg>'


@cache
def piece_shapes(piece: int) -> str:
    """Render the shapes that draw a piece, in a picture of 64 by 64 units."""
    paint = DARK if piece & COLOURED else PLAIN
    top = FLOOR - HEIGHTS[bool(piece & HIGH)]
    bands = [top + (FLOOR - top) * (number + 1) // 3 for number in range(2)] if piece & HIGH else [(top + FLOOR) // 2]
    draw = _render_prism if piece & SQUARE else _render_cylinder
    return draw(top, paint, bands if piece & COLOURED else [], hollow=not piece & SOLID)


def _render_cylinder(top: int, paint: PieceColours, bands: list[int], hollow: bool) -> str:
    """Render a round piece.

    ``top`` is the y coordinate of the upper face, and ``bands`` has the y coordinates of the bands. With ``hollow``,
    the upper face has a hole.
    """
    left, right, arc = MIDDLE - 16, MIDDLE + 16, "A16 7 0 0 0"
    shapes = [
        _render_filled_path(f"M{left} {top}V{FLOOR}{arc} {right} {FLOOR}V{top}Z", paint.left),
        _render_filled_path(f"M{MIDDLE + 4} {top}V56.8{arc} {right} {FLOOR}V{top}Z", paint.right),
        *(_render_band(f"M{left + 1} {y}A15 6.6 0 0 0 {right - 1} {y}", paint) for y in bands),
        _render_outlined_path(f"M{left} {top}V{FLOOR}{arc} {right} {FLOOR}V{top}", "none", paint),
        _render_outlined_path(_ring_path(top, 16, 7), paint.top, paint),
    ]
    return "".join([*shapes, _render_filled_path(_ring_path(top, 9, 4), paint.hole)] if hollow else shapes)


def _render_prism(top: int, paint: PieceColours, bands: list[int], hollow: bool) -> str:
    """Render a square piece.

    ``top`` is the y coordinate of the upper face, and ``bands`` has the y coordinates of the bands. With ``hollow``,
    the upper face has a hole.
    """
    left, right, foot = MIDDLE - 19, MIDDLE + 19, FLOOR + 8
    edges = f"M{left} {top}V{FLOOR}L{MIDDLE} {foot}L{right} {FLOOR}V{top}M{MIDDLE} {top + 8}V{foot}"
    shapes = [
        _render_filled_path(f"M{left} {top}L{MIDDLE} {top + 8}V{foot}L{left} {FLOOR}Z", paint.left),
        _render_filled_path(f"M{right} {top}L{MIDDLE} {top + 8}V{foot}L{right} {FLOOR}Z", paint.right),
        *(_render_band(f"M{left} {y}L{MIDDLE} {y + 8}L{right} {y}", paint) for y in bands),
        _render_outlined_path(edges, "none", paint),
        _render_outlined_path(_diamond_path(top, 19, 8), paint.top, paint),
    ]
    return "".join([*shapes, _render_filled_path(_diamond_path(top, 9, 4), paint.hole)] if hollow else shapes)


def _ring_path(y: int, width: int, depth: int) -> str:
    """Return the SVG path of an ellipse whose centre is on the piece's axis at ``y``.

    ``width`` and ``depth`` are the semi-axes.
    """
    left, right = MIDDLE - width, MIDDLE + width
    return f"M{left} {y}A{width} {depth} 0 0 1 {right} {y}A{width} {depth} 0 0 1 {left} {y}Z"


def _diamond_path(y: int, width: int, depth: int) -> str:
    """Return the SVG path of a rhombus whose centre is on the piece's axis at ``y``.

    ``width`` and ``depth`` are half the lengths of the diagonals.
    """
    return f"M{MIDDLE} {y - depth}L{MIDDLE + width} {y}L{MIDDLE} {y + depth}L{MIDDLE - width} {y}Z"


def _render_filled_path(path: str, colour: str) -> str:
    return f'<path d="{path}" fill="{colour}"/>'


def _render_band(path: str, paint: PieceColours) -> str:
    return f'<path d="{path}" fill="none" stroke="{paint.band}" stroke-width="3.2"/>'


def _render_outlined_path(path: str, fill: str, paint: PieceColours) -> str:
    return f'<path d="{path}" fill="{fill}" stroke="{paint.line}" stroke-width="1.6" stroke-linejoin="round"/>'
