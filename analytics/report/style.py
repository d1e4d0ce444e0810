"""The style of all pictures, and the rendering of pictures as SVG."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

import polars as pl

from analytics.report import pieces
from analytics.report.vega import Spec, inline_data, layer, nominal, ordinal, quantitative, range_end
from analytics.statistics.tally import wilson_bounds
from quarto.rules import CELLS, PIECES

WIDTH, HEIGHT = 340, 220  # pixels of a picture that stands alone: legible on a telephone
LINE_LETTERS = 42  # letters of a line above a picture that stands alone
SPACING = 28  # pixels between two panels
PANEL_WIDTH, PANEL_HEIGHT = 260, 150  # pixels; with its axes a panel is as wide as a telephone's screen
WIDEST_PANEL = 500  # pixels of a picture that stands beside others
FEW_PANELS, COLUMNS = 4, 2  # up to four panels stand below each other, to be read on a telephone; more in two columns
MAX_MARKED_POINTS = 40  # a line of at most as many points has a mark on each
MAX_POINTS = 200  # points of a longer line are merged
INK, FAINT, GRID, FIRST_COLOUR, SECOND_COLOUR = "#222222", "#666666", "#e6e6e6", "#0072b2", "#d55e00"
ON_TILE = "#1b1b1b"  # text on a tile, which is light on every background
PAPER = "white"
DARK = {
    INK: "#e4e6e8",
    FAINT: "#a0a6ac",
    GRID: "#31363b",
    PAPER: "#14171a",
}  # the colours that replace these on a dark screen
WORST, MIDDLE, BEST = ("#f2a365", "#f4f4f4", "#7db8e8")  # distinct for colour-blind readers, light enough for dark text

# Colours of agents on light and on dark paper. All readers can distinguish them: M. Okabe and K. Ito, "Color universal
# design" (2008), without its yellow; then P. Tol, "Colour schemes" (2021), muted.
AGENT_COLOURS = (
    ("#0072b2", "#4aa8e0"),
    ("#d55e00", "#f08030"),
    ("#009e73", "#20c090"),
    ("#cc79a7", "#dd90bb"),
    ("#56b4e9", "#7cc8f2"),
    ("#e69f00", "#f0b030"),
    ("#332288", "#9a8cf0"),
    ("#882255", "#d0689c"),
    ("#117733", "#4cb070"),
    ("#999933", "#b8b850"),
    ("#aa4499", "#d47cc6"),
    ("#44aa99", "#66c8b8"),
)

# Results of an agent on light and on dark paper: blue, orange and grey, which all readers can distinguish.
RESULT_COLOURS = {"won": ("#0072b2", "#4aa8e0"), "lost": ("#d55e00", "#f08030"), "drawn": ("#949494", "#949494")}

PANEL = {"width": PANEL_WIDTH, "height": PANEL_HEIGHT}
PLAIN_AXIS = {"domain": False, "ticks": False}  # an axis of labels alone
SHARE_AXIS = {"format": ".0%", "tickCount": 4, **PLAIN_AXIS}
CATEGORY_AXIS = {"labelAngle": 0, "grid": False, **PLAIN_AXIS}

_TICKS: dict[str, Any] = {"tickCount": 6, "labelFlush": False, "grid": False}


@dataclass(frozen=True)
class SvgPicture:
    """An SVG picture that this program writes itself.

    That saves the time of a renderer, about a tenth of a second. Notebooks display it as a picture.
    """

    shapes: str  # elements of SVG; pieces are uses of their symbols
    width: float  # pixels
    height: float

    def _repr_svg_(self) -> str:
        return render_svg(self)


def render_text(x: float, y: float, text: str, size: float, colour: str = INK, attributes: str = "") -> str:
    """Render a text as an SVG element whose baseline begins at (``x``, ``y``); ``size`` is in pixels.

    ``attributes`` are further attributes of the element, with a space in front.
    """
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}px" fill="{colour}"{attributes}>{escape(text)}</text>'


Picture = SvgPicture | Spec


@dataclass(frozen=True)
class Figure:
    """A picture with its title.

    It is rendered only when it is first shown, because rendering most pictures takes a twentieth of a second.
    """

    title: str
    picture: Picture
    name: str = ""  # the beginning of the ids in the page
    note: str = ""
    colour: int | None = None  # the number of the agent's colour, if the figure is about one agent

    @property
    def is_wide(self) -> bool:
        """Whether the picture is too wide to stand beside others; on a telephone it scrolls."""
        return isinstance(self.picture, SvgPicture) and self.picture.width > WIDEST_PANEL

    @cached_property
    def svg(self) -> str:
        """The picture as SVG to be embedded in a page."""
        return render_inline_svg(self.picture, self.name)


def ply_axis(first_ply: int) -> Spec:
    """Return the Vega-Lite channel of plies, with an axis from ``first_ply`` to the last ply."""
    scale = {"domain": [first_ply, CELLS - 1], "nice": False, "padding": 6}
    return quantitative("ply", title="ply", axis={**CATEGORY_AXIS, "values": [*range(0, CELLS, 3)]}, scale=scale)


def combine_figures(figures: Sequence[Figure], title: str, note: str) -> Picture:
    """Combine figures into one picture, each under its own title; ``note`` explains how to read the picture."""
    columns = 1 if len(figures) <= FEW_PANELS else COLUMNS
    lines = wrap_text(note, LINE_LETTERS * columns)
    drawings = [(figure.title, figure.picture) for figure in figures if isinstance(figure.picture, SvgPicture)]
    if drawings:
        return _lay_out_pictures(drawings, columns, title, lines)
    charts = [
        figure.picture | {"title": {"text": figure.title, "fontSize": 12, "offset": 8}}
        for figure in figures
        if not isinstance(figure.picture, SvgPicture)
    ]
    return style_chart({"concat": charts, "columns": columns, "spacing": SPACING}, title, lines)


def _lay_out_pictures(
    drawings: Sequence[tuple[str, SvgPicture]], columns: int, title: str, lines: Sequence[str]
) -> SvgPicture:
    """Arrange pictures of equal size in columns, each below its title.

    ``drawings`` has the title and the picture of each. ``title`` and ``lines`` stand above all of them.
    """
    bold, margin, line = ' font-weight="bold"', 16, 16
    shapes = [render_text(margin, margin + 14, title, 16, attributes=bold)]
    shapes += [render_text(margin, margin + 36 + line * row, text, 12, FAINT) for row, text in enumerate(lines)]
    (_, size), top = drawings[0], margin + 44 + line * len(lines)
    column_pitch, row_pitch = size.width + SPACING, size.height + SPACING + line
    for number, (name, drawing) in enumerate(drawings):
        x, y = margin + number % columns * column_pitch, top + number // columns * row_pitch
        shapes.append(render_text(x, y, name, 12, attributes=bold))
        shapes.append(f'<g transform="translate({x:g} {y + 8:g})">{drawing.shapes}</g>')
    return SvgPicture(
        "".join(shapes), 2 * margin + columns * column_pitch - SPACING, top + -(-len(drawings) // columns) * row_pitch
    )


def style_chart(chart: Spec, title: str, subtitle: Sequence[str] = ()) -> Spec:
    """Return a chart with a title, a subtitle and the common style, so that it can stand alone."""
    heading = {
        "text": title,
        "subtitle": list(subtitle),
        "anchor": "start",
        "frame": "group",
        "offset": 14,
        "fontSize": 16,
        "subtitleFontSize": 12,
        "color": INK,
        "subtitleColor": FAINT,
        "subtitlePadding": 6,
        "fontWeight": "bold",
    }
    return {**chart, "title": heading, "background": PAPER, "padding": 16, "config": _build_config(12)}


def _build_config(font_size: int) -> dict[str, Any]:
    """Build the configuration that all charts share; ``font_size`` is in pixels."""
    return {
        "view": {"stroke": None},
        "axis": {
            "gridColor": GRID,
            "domainColor": FAINT,
            "tickColor": FAINT,
            "labelColor": INK,
            "titleColor": INK,
            "labelFontSize": font_size,
            "titleFontSize": font_size,
            "titleFontWeight": "normal",
            "titlePadding": font_size - 2,
        },
        "title": {"color": INK},
        "legend": {
            "labelColor": INK,
            "labelFontSize": font_size,
            "title": None,
            "orient": "top",
            "symbolType": "stroke",
        },
    }


def render_svg(picture: Picture) -> str:
    """Render a picture as the text of an SVG file, in light or dark colours as the reader prefers.

    Rendering needs no network, and the same picture always gives the same text.
    """
    if isinstance(picture, SvgPicture):
        paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        text = _render_svg_element(picture, 0, ' xmlns="http://www.w3.org/2000/svg"', paper)
    else:
        text = _renumber_ids(_render_spec(picture), "")
    symbols = pieces.piece_symbols() if '<use href="#piece-' in text else ""
    return re.sub(r"<svg[^>]*>", lambda tag: tag[0] + _render_dark_style_element() + symbols, text, count=1)


def _render_svg_element(drawing: SvgPicture, margin: int, attributes: str = "", background: str = "") -> str:
    """Render a picture as an SVG element with a margin in pixels on each side."""
    width, height = drawing.width + 2 * margin, drawing.height + 2 * margin
    box = f'width="{width:g}" height="{height:g}" viewBox="{-margin} {-margin} {width:g} {height:g}"'
    return f'<svg{attributes} {box} font-family="sans-serif">{background}{drawing.shapes}</svg>'


def _render_dark_style_element() -> str:
    """Render the ``<style>`` element that replaces the colours of a picture for readers who prefer dark mode."""
    colours = DARK | dict(AGENT_COLOURS) | dict(RESULT_COLOURS.values())
    rules = "".join(
        f'[{name}="{light}"]{{{name}:{dark}}}' for light, dark in colours.items() for name in ("fill", "stroke")
    )
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


def render_piece_sheet() -> str:
    """Render a picture of all pieces with their hexadecimal digits and attributes."""
    labelled_pieces = "".join(_render_labelled_piece(piece) for piece in range(PIECES))
    width, height = 4 * _LABELLED_PIECE_SIZE[0], 4 * _LABELLED_PIECE_SIZE[1]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{_render_dark_style_element()}{labelled_pieces}</svg>\n'


_LABELLED_PIECE_SIZE = (88, 112)  # pixels of a piece with its labels


def _render_labelled_piece(piece: int) -> str:
    """Render one piece of the sheet at its place, with its digit and attributes below it."""
    left, top = piece % 4 * _LABELLED_PIECE_SIZE[0], piece // 4 * _LABELLED_PIECE_SIZE[1]
    attributes = [
        names[bool(piece & bit)]
        for bit, names in (
            (pieces.HIGH, ("low", "high")),
            (pieces.COLOURED, ("uncoloured", "coloured")),
            (pieces.SOLID, ("hollow", "solid")),
            (pieces.SQUARE, ("round", "square")),
        )
    ]
    lines = (
        (f"{piece:X}", 76, 14, INK),
        (" ".join(attributes[:2]), 90, 9.5, FAINT),
        (" ".join(attributes[2:]), 102, 9.5, FAINT),
    )
    middle = left + _LABELLED_PIECE_SIZE[0] // 2
    texts = [
        f'<text x="{middle}" y="{top + offset}" font-family="sans-serif" font-size="{size}" text-anchor="middle" '
        f'fill="{colour}">{text}</text>'
        for text, offset, size, colour in lines
    ]
    box = f'x="{left + 14}" y="{top + 2}" width="60" height="60" viewBox="{pieces.VIEW_BOX}"'
    return f"<svg {box}>{pieces.piece_shapes(piece)}</svg>{''.join(texts)}"


def wrap_text(text: str, width: int) -> list[str]:
    """Wrap a text into lines of at most ``width`` characters; a longer word is divided. There is at least one line."""
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def render_inline_svg(picture: Picture, id_prefix: str) -> str:
    """Render a picture as SVG to be embedded in a page, beside a text that describes it.

    The SVG is transparent. The ids in a chart begin with ``mark-`` and ``id_prefix``, and attributes for namespaces,
    classes and ARIA roles are removed. If the picture shows pieces, the page must contain ``piece_symbols``.
    """
    if isinstance(picture, SvgPicture):
        return _render_svg_element(picture, 2)
    panel_style = {"background": "transparent", "padding": 2, "config": _build_config(11)}
    text = _renumber_ids(_render_spec(picture | panel_style), id_prefix)
    return re.sub(r"<[^>]+>", lambda tag: _REMOVED_ATTRIBUTES.sub("", tag[0]), text)


_REMOVED_ATTRIBUTES = re.compile(r' (xmlns(:\w+)?|version|class|role|aria-[a-z]+)="[^"]*"')


def _render_spec(spec: dict[str, Any]) -> str:
    """Render a chart as the text of an SVG file."""
    from vl_convert import vegalite_to_svg

    text: str = vegalite_to_svg(spec, allowed_base_urls=[])
    return text


def _renumber_ids(text: str, id_prefix: str) -> str:
    """Replace the ids in a picture with ``mark-``, ``id_prefix`` and a number from 0.

    The renderer continues its numbers from one picture to the next, so its own ids depend on earlier pictures.
    """
    ids = dict.fromkeys(re.findall(r'<\w+ id="([\w-]+)"', text))
    numbered = {old_id: f"{id_prefix}{number}" for number, old_id in enumerate(ids)}
    return re.sub(
        r'(<\w+ id="|url\(#|href="#)([\w-]+)',
        lambda match: match[1] + (f"mark-{numbered[match[2]]}" if match[2] in numbered else match[2]),
        text,
    )


def render_curve_svg(curve: pl.DataFrame, title: str, subtitle: Sequence[str]) -> bytes:
    """Render a learning curve as SVG: win rate by games, fitness or strength by generation, or errors by pass.

    The columns of ``curve`` determine what is drawn:

    - With ``win_rate``, as in a frame from ``analytics.policies.relearning.compute_learning_curve``, there is one line
      with its 95 % interval.
    - With ``generation``, each column of type Float64 is a line.
    - With ``generation`` and ``strength`` (the mean score against all opponents, which is not drawn), the lines are the
      columns ``v OPPONENT``: the points per game against each opponent. The columns
      ``v OPPONENT low`` and ``v OPPONENT high`` hold the ends of each line's 95 % interval.
    - With ``pass``, the number of a pass over the games, the lines are the errors ``held_out_not_lost`` and
      ``held_out_won``, for each number of pieces on the board (column ``pieces``). Where these errors are missing,
      ``not_lost`` and ``won`` replace them.
    """
    lines = [line for text in subtitle for line in wrap_text(text, LINE_LETTERS)]
    return render_svg(style_chart(build_curve_chart(curve, WIDTH, HEIGHT), title, lines)).encode()


def build_curve_chart(curve: pl.DataFrame, width: int, height: int) -> Spec:
    """Build the chart for ``render_curve_svg``, without title and style; ``width`` and ``height`` are in pixels."""
    kinds = {"strength": _build_strength_chart, "pass": _build_passes_chart, "win_rate": _build_win_rate_by_games_chart}
    draw = next((kinds[name] for name in kinds if name in curve.columns), _build_fitness_chart)
    return {"width": width, "height": height, **draw(curve)}


def _build_win_rate_by_games_chart(curve: pl.DataFrame) -> Spec:
    """Build the chart of the win rate in each block of games, with its 95 % interval.

    Each point is plotted at the block's last game.
    """
    curve = sum_curve_into_equal_rows(curve)
    low, high = wilson_bounds(curve["wins"], curve["games"])
    rows = curve.select(
        "win_rate", end=pl.col("first_game") + pl.col("games"), low=pl.Series(low), high=pl.Series(high)
    )
    block_games = int(curve["games"][0])
    games = quantitative("end", title="games learned from", axis={"format": ",d", **_TICKS}, scale={"domainMin": 0})
    share, scale = {"format": ".0%", "tickCount": 6}, {"zero": False}
    win_rate = quantitative("win_rate", title=f"games won, of each {block_games:,}", axis=share, scale=scale)
    point = {"color": FIRST_COLOUR, "size": 30} if len(rows) <= MAX_MARKED_POINTS else False
    return {
        "data": inline_data(rows),
        "encoding": {"x": games},
        "layer": [
            layer("area", {"y": quantitative("low"), "y2": range_end("high")}, color=FIRST_COLOUR, opacity=0.18),
            layer("line", {"y": win_rate}, color=FIRST_COLOUR, strokeWidth=2, point=point),
        ],
    }


def _build_strength_chart(curve: pl.DataFrame) -> Spec:
    """Build the chart of points per game against each opponent, by generation, with 95 % intervals."""
    opponents = [name for name in curve.columns if name.startswith("v ") and f"{name} low" in curve.columns]
    rows = pl.concat(
        curve.select("generation", "games", opponent=pl.lit(name), score=name, low=f"{name} low", high=f"{name} high")
        for name in opponents
    )
    colours = {"range": [light for light, _ in AGENT_COLOURS]}
    colour = nominal("opponent", sort=opponents, scale=colours, legend={"symbolOpacity": 1})
    title, scale = "points a game, a draw counting half", {"domain": [0, 1]}
    band = {"y": quantitative("low", title=title, scale=scale), "y2": range_end("high")}
    return {
        "data": inline_data(rows),
        "encoding": {"x": ordinal("generation", title="generation", axis={"labelAngle": 0}), "color": colour},
        "layer": [
            layer("area", band, opacity=0.18),
            layer(
                "line", {"y": quantitative("score", title=title)}, strokeWidth=2, point=len(curve) <= MAX_MARKED_POINTS
            ),
        ],
    }


def _build_passes_chart(curve: pl.DataFrame) -> Spec:
    """Build the chart of the mean squared errors by pass, with a line for each number of pieces on the board.

    The errors are those of two predicted probabilities: not losing, and winning.
    """
    chances = {"not_lost": "not lost", "won": "won"}
    rows = pl.concat(
        curve.select(
            "pieces",
            pl.col("pass"),
            chance=pl.lit(text),
            error=pl.coalesce(pl.col(f"held_out_{name}").fill_nan(None), name),
        )
        for name, text in chances.items()
    )
    encoding = {
        "x": ordinal("pass", title="pass", axis={"labelAngle": 0}),
        "y": quantitative("error", title="mean squared error of a chance"),
        "color": quantitative("pieces", title="pieces", scale={"scheme": "viridis"}),
        "detail": nominal("pieces"),
        "strokeDash": nominal("chance", title="chance", legend={"symbolStrokeColor": "black"}),
    }
    return {"data": inline_data(rows), **layer("line", encoding, strokeWidth=2, point=True)}


def sum_curve_into_equal_rows(curve: pl.DataFrame) -> pl.DataFrame:
    """Sum adjacent rows of a curve, so that at most ``MAX_POINTS`` rows with equal numbers of games remain.

    If the last row has fewer games, it is dropped.
    """
    row_number = pl.int_range(pl.len()) // (-(-len(curve) // MAX_POINTS))
    counts = pl.col("games", "wins").sum()
    summed_rows = curve.group_by(row=row_number, maintain_order=True).agg(pl.col("first_game").first(), counts)
    full_rows = summed_rows.filter(pl.col("games") == pl.first("games"))
    return full_rows.select("first_game", "games", "wins", win_rate=pl.col("wins") / pl.col("games"))


def _build_fitness_chart(curve: pl.DataFrame) -> Spec:
    """Build the chart of fitness by generation, with a line for each column of fitness."""
    names = [name for name, kind in curve.schema.items() if kind == pl.Float64]
    rows = curve.select("generation", *names).unpivot(index="generation", variable_name="fitness")
    colours = {"domain": names, "range": [light for light, _ in AGENT_COLOURS][: len(names)]}
    encoding = {
        "x": quantitative("generation", title="generation", axis={"format": "d", **_TICKS}),
        "y": quantitative("value", title="fitness", scale={"zero": False}),
        "color": nominal("fitness", sort=names, scale=colours),
    }
    return {"data": inline_data(rows), **layer("line", encoding, strokeWidth=2, point=len(curve) <= MAX_MARKED_POINTS)}
