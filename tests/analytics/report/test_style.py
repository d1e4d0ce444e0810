"""Pictures say what they show, and show all of it."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from analytics.questions.columns import format_signed
from analytics.report.pieces import DARK, HEIGHTS, PLAIN, piece_shapes, piece_symbols
from analytics.report.style import (
    MAX_MARKED_POINTS,
    MAX_POINTS,
    render_curve_svg,
    render_inline_svg,
    render_piece_sheet,
    render_svg,
)
from analytics.report.vega import inline_data, layer, ordinal
from tests.paths import ROOT


def by_games(rows: int, block: int = 100) -> pl.DataFrame:
    """Return a curve that rises from a third to two thirds."""
    wins = [block // 3 + row * block // 3 // rows for row in range(rows)]
    return pl.DataFrame(
        {
            "first_game": [row * block for row in range(rows)],
            "games": [block] * rows,
            "wins": wins,
            "draws": [1] * rows,
            "losses": [block - won - 1 for won in wins],
            "win_rate": [won / block for won in wins],
        }
    )


def texts(picture: bytes) -> list[str]:
    return re.findall(r">([^<>]+)</t(?:ext|span)>", picture.decode())


@pytest.mark.parametrize("rows", [1, 5, MAX_MARKED_POINTS, MAX_MARKED_POINTS + 1, MAX_POINTS])
def test_a_learning_curve_has_a_point_for_each_row_in_its_interval(rows: int) -> None:
    picture = render_curve_svg(by_games(rows), "How it learned", ["against itself", "seed 3"])
    words = texts(picture)
    assert {"How it learned", "against itself", "seed 3", "games learned from", "games won, of each 100"} <= {*words}
    assert "0" in words
    svg = picture.decode()
    points = svg.count('aria-roledescription="point"')
    assert points == (rows if rows <= MAX_MARKED_POINTS else 0)
    assert svg.count('aria-roledescription="line mark"') == 1
    assert svg.count('aria-roledescription="area mark"') == 1


def test_a_last_row_of_few_games_is_left_out() -> None:
    curve = by_games(5)
    few = pl.DataFrame({"first_game": [500], "games": [2], "wins": [2], "draws": [0], "losses": [0], "win_rate": [1.0]})
    assert render_curve_svg(pl.concat([curve, few]), "a", ["b"]) == render_curve_svg(curve, "a", ["b"])
    assert "100%" in texts(render_curve_svg(few, "a", ["b"]))


def test_more_rows_than_can_be_told_apart_are_joined() -> None:
    fine, coarse = by_games(2 * MAX_POINTS, 100), by_games(MAX_POINTS, 200)
    picture = render_curve_svg(fine, "a", ["b"])
    assert "games won, of each 200" in texts(picture)
    wins = [sum(fine["wins"][2 * row : 2 * row + 2]) for row in range(MAX_POINTS)]
    same = coarse.with_columns(wins=pl.Series(wins), win_rate=pl.Series(wins) / 200)
    assert picture == render_curve_svg(same, "a", ["b"])


def test_generations_have_a_line_for_each_fitness() -> None:
    rows = {"generation": [0, 1, 2], "games": [10, 20, 30], "best": [0.5, 0.6, 0.75], "mean": [0.25, 0.5, 0.6]}
    picture = render_curve_svg(pl.DataFrame(rows), "How it was bred", [])
    assert {"How it was bred", "generation", "fitness", "best", "mean"} <= {*texts(picture)}
    assert "games" not in texts(picture)
    assert picture.decode().count('aria-roledescription="line mark"') == 2


def test_a_curve_by_passes_has_the_errors_on_held_out_boards_or_else_on_those_learned_from() -> None:
    errors = {"not_lost": [0.4] * 4, "won": [0.3] * 4, "held_out_not_lost": [0.2, 0.1] * 2, "held_out_won": [0.1] * 4}
    curve = pl.DataFrame({"pieces": [9, 9, 8, 8], "pass": [1, 2, 1, 2], "boards": [5] * 4} | errors)
    none = curve.with_columns(pl.lit(None, pl.Float64).alias(f"held_out_{name}") for name in ("not_lost", "won"))
    held_out, plain = (texts(render_curve_svg(errors, "a", ["b"])) for errors in (curve, none))
    assert {"not lost", "won", "pass", "mean squared error of a chance"} <= set(held_out)
    assert "0.40" in plain
    assert "0.40" not in held_out


def test_ids_are_the_same_in_every_drawing_and_differ_between_the_panels_of_a_page() -> None:
    clipped = {"data": inline_data([{"x": 1}]), **layer("rect", {"x": ordinal("x")}, clip=True)}
    drawings = [render_inline_svg(clipped, "a-"), render_inline_svg(clipped, "a-"), render_inline_svg(clipped, "b-")]
    assert drawings[0] == drawings[1] != drawings[2]
    assert render_svg(clipped) == render_svg(clipped)
    for drawing, name in zip(drawings[1:], "ab", strict=True):
        ids = re.findall(r' id="([^"]*)"', drawing)
        assert ids == [f"mark-{name}-{number}" for number in range(len(ids))]
        assert ids
        assert {*re.findall(r"url\(#([^)]*)\)", drawing)} <= {*ids}
        assert "url(#" in drawing
    assert "//" not in "".join(drawings)


PICTURES = sorted((Path(__file__).parents[3] / "docs").glob("*.svg"))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_in_the_docs_are_legible_on_a_telephone_and_in_the_dark(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    box = re.search(r'viewBox="0 0 ([\d.]+) ', text)
    assert box
    letters = [float(size) for size in re.findall(r'font-size="([\d.]+)', text)]
    assert 358 / max(358, float(box[1])) * min(letters) >= 9  # pixels on a screen that is 390 wide, with margins
    assert "prefers-color-scheme: dark" in text or 'rx="8" fill="#181818"' in text  # a terminal is dark always


def test_a_sign_is_shown_unless_the_number_rounds_to_nothing() -> None:
    values = (1.25, -1.25, 0.0, -0.0, 0.004, -0.004, -0.006, 10.0)
    minus = "\N{MINUS SIGN}"
    shown = ["+1.25", f"{minus}1.25", "0.00", "0.00", "0.00", "0.00", f"{minus}0.01", "+10.00"]
    assert [format_signed(value, 2) for value in values] == shown


def forms(piece: int) -> list[str]:
    """Return the paths of a piece without its colours."""
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
    assert (ROOT / "docs" / "pieces.svg").read_text() == render_piece_sheet()
    assert "](pieces.svg)" in (ROOT / "docs" / "rules.md").read_text()
