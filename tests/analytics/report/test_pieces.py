"""A drawing tells each attribute by its form, and boards can repeat it by a symbol."""

from __future__ import annotations

import re

import pytest

from analytics.report.pieces import DARK, HEIGHTS, PLAIN, piece_shapes, piece_symbols
from analytics.report.style import piece_sheet
from tests.paths import ROOT


def forms(piece: int) -> list[str]:
    """The paths of a piece without its colours."""
    return re.findall(r' d="([^"]+)"', piece_shapes(piece))


def test_every_attribute_can_be_seen_without_colours() -> None:
    assert len({tuple(forms(piece)) for piece in range(16)}) == 16


@pytest.mark.parametrize("piece", range(16))
def test_each_attribute_changes_the_form_that_stands_for_it(piece: int) -> None:
    drawn = piece_shapes(piece)
    top = int(re.findall(r"M\d+ (\d+)", forms(piece)[0])[0])
    assert top == 50 - HEIGHTS[piece >> 3 & 1]
    assert drawn.count(DARK.band or "?") == (piece >> 2 & 1) * (1 + (piece >> 3 & 1))
    assert (PLAIN.hole in drawn or DARK.hole in drawn) == (not piece >> 1 & 1)
    assert all("A" not in path for path in forms(piece)) == bool(piece & 1)


def test_symbols_are_the_same_drawings() -> None:
    symbols = dict(re.findall(r'<symbol id="piece-(\d+)" viewBox="[^"]+">(.*?)</symbol>', piece_symbols()))
    assert symbols == {str(piece): piece_shapes(piece) for piece in range(16)}


def test_the_documents_show_the_same_drawings() -> None:
    assert (ROOT / "docs" / "pieces.svg").read_text() == piece_sheet()
    assert "](pieces.svg)" in (ROOT / "docs" / "rules.md").read_text()
