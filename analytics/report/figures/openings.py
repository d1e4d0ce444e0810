"""First plies of games: the cells of placements, the pieces given, and the score of the agent that chose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from analytics.report import style
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.pieces import piece_address
from analytics.report.style import Panel, Picture
from analytics.sql.database import OpenArchive
from analytics.statistics.intervals import quantile
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece
from quarto.rules import PIECES, SIDE

PLIES = 3  # the first ones: later, positions differ too much to compare a cell or a piece alone
TILE = 38  # pixels: the widest number, five letters, leaves a margin
PIECE = 20  # pixels of its picture
GAP, HEADING = 0.4, 0.6  # tiles between two boards and above them
MOST_SHADE = 0.5  # opacity of a tile: its number can be read on it, on light and on dark paper
ENOUGH = 100  # games that a tile needs for its score to set the scale of the colours
OFTEN = 0.25  # the share that has the full colour, unless a tile has more: equal shares stay pale
EVERYBODY = ""  # stands for all agents together


HOW = (
    "All agents together by ply, then the first ply of each agent. Scores are those of the agent that chose, a draw "
    "counting half."
)


class Kind(NamedTuple):
    """The kind of choice: cells or pieces."""

    question: str
    column: str
    what: str


PLACEMENTS = Kind("first_placements", "cell", "placement")
GIFTS = Kind("first_gifts", "piece", "gift")


def openings_frame(chosen: ReportedGames, kind: Kind) -> pl.DataFrame:
    """The choices at the first plies with their outcomes for the agent that chose; imposed plies are left out.

    There is a row for each rules, agent that is shown, ply and choice. The agent ``EVERYBODY`` is all agents together,
    shown or not. Columns: ``rules``, ``agent`` (String); ``ply``, ``cell`` or ``piece``, ``games``, ``wins``,
    ``draws``, ``losses`` of the agent that chose (Int64); ``share`` of the choices at that ply (Float64);
    ``score`` (1 won, 1/2 drawn, 0 lost) with ``low``, ``high`` (95 %, as in ``mean_score``; Float64).
    """
    found = chosen.ask(kind.question).join(chosen.players(), on=("run_id", "pairing", "game"))
    placing = (pl.col("ply") + 1) % 2
    gave = pl.col("mover_chooses").not_() if kind is GIFTS else pl.lit(value=False)
    chose = pl.when(gave).then(1 - placing).otherwise(placing)
    choices = found.filter(pl.col("ply") >= pl.col("imposed")).select(
        "rules",
        "ply",
        kind.column,
        "games",
        "draws",
        agent=pl.when(chose == 0).then("agent_0").otherwise("agent_1"),
        wins=pl.when(gave).then("losses").otherwise("wins"),
        losses=pl.when(gave).then("wins").otherwise("losses"),
    )
    shown = choices.filter(pl.col("agent").is_in(chosen.agents))
    together = choices.with_columns(agent=pl.lit(EVERYBODY)).select(shown.columns)
    counted = (
        pl.concat([together, shown])
        .group_by("rules", "agent", "ply", kind.column)
        .agg(pl.col("games", "wins", "draws", "losses").sum())
        .cast(dict.fromkeys(("ply", kind.column, "games", "wins", "draws", "losses"), pl.Int64()))
        .sort("rules", "agent", "ply", kind.column)
    )
    return _with_means(chosen.by_rank(counted, "rules"))


def _with_means(counted: pl.DataFrame) -> pl.DataFrame:
    mean = (pl.col("wins") - pl.col("losses")) / pl.col("games")
    spread = ((pl.col("wins") + pl.col("losses")) / pl.col("games") - mean**2).clip(0)
    reach = quantile() * (spread / pl.col("games")).sqrt()
    wilson = 2 * quantile() ** 2 / (pl.col("games") + quantile() ** 2)  # where all won or all lost, as in mean_score
    reach = pl.when(mean.abs() == 1).then(wilson).otherwise(reach)
    return counted.with_columns(
        share=pl.col("games") / pl.col("games").sum().over("rules", "agent", "ply"),
        score=(mean + 1) / 2,
        low=((mean - reach + 1) / 2).clip(0),
        high=((mean + reach + 1) / 2).clip(upper_bound=1),
    )


def openings_panels(frame: pl.DataFrame, kind: Kind) -> list[Panel]:
    """The first plies of all agents together, then the first ply of each agent; per panel two 4 x 4 boards."""
    import altair as alt

    frequent = (2 * frame.filter(pl.col("games") >= ENOUGH)["score"] - 1).abs().max()
    reach = float(frequent) if isinstance(frequent, float) and frequent > 0 else 1.0
    several = frame["rules"].n_unique() > 1
    panels = []
    for (rules, agent, ply), rows in frame.group_by("rules", "agent", "ply", maintain_order=True):
        if agent == EVERYBODY or ply == 0:
            what = f"all agents, {kind.what} of ply {ply}" if agent == EVERYBODY else f"{agent}"
            titled = f"{what}, {rules}" if several else what
            panels.append(Panel(titled, _boards(alt, rows, kind, reach), str(agent) or None))
    return panels


def _boards(alt: Any, rows: pl.DataFrame, kind: Kind, reach: float) -> Picture:
    """The shares of the cells or pieces that were chosen and, beside them, the scores."""
    tiles = [tile for board in _tiles(rows, kind, reach) for tile in board]
    headings = [{"x": 0, "text": "how often, %"}, {"x": SIDE + GAP, "text": "score, %"}]
    # Quantities instead of a chart a board: a picture of one chart is drawn in half the time of one of two.
    across = alt.Scale(domain=[0, 2 * SIDE + GAP], nice=False)
    down = alt.Scale(domain=[SIDE, -HEADING], nice=False)
    x, y = alt.X("x:Q", axis=None, scale=across), alt.Y("y:Q", axis=None, scale=down)
    base = alt.Chart(alt.Data(values=tiles)).encode(x=x, y=y)
    squares = base.mark_rect(stroke=style.FAINT, strokeWidth=0.5).encode(
        x2="right:Q",
        y2="bottom:Q",
        fill=alt.Fill("colour:N", scale=None),
        fillOpacity=alt.FillOpacity("shade:Q", scale=None),
    )
    names = base.mark_text(dx=3, dy=8, align="left", fontSize=9, color=style.INK).encode(text="name:N")
    values = base.mark_text(dx=TILE / 2, dy=0.72 * TILE, fontSize=10, color=style.INK).encode(text="text:N")
    title = (
        alt.Chart(alt.Data(values=headings))
        .mark_text(align="left", fontSize=11, color=style.INK)
        .encode(x=x, y=alt.datum(-HEADING / 2, scale=down), text="text:N")
    )
    pieces = [_pieces(alt, x, y)] if kind is GIFTS else []
    layers = alt.layer(squares, *pieces, names, values, title)
    return layers.properties(width=(2 * SIDE + GAP) * TILE, height=(SIDE + HEADING) * TILE)


def _pieces(alt: Any, x: Any, y: Any) -> Picture:
    """The pieces, each in the corner of its tile."""
    images = [
        {
            "x": each % SIDE + board * (SIDE + GAP) + 0.72,
            "y": each // SIDE + 0.28,
            "picture": piece_address(each),
        }
        for board in range(2)
        for each in range(PIECES)
    ]
    base = alt.Chart(alt.Data(values=images)).mark_image(width=PIECE, height=PIECE, aria=False)
    return base.encode(x=x, y=y, url=alt.Url("picture:N"))


def _tiles(rows: pl.DataFrame, kind: Kind, reach: float) -> Iterator[list[dict[str, Any]]]:
    """The tiles of both boards: edges, name, text, colour and its opacity."""
    named = format_cell if kind is PLACEMENTS else format_piece
    found = {row[kind.column]: row for row in rows.iter_rows(named=True)}
    most = max(OFTEN, *(row["share"] for row in found.values()))
    for board in range(2):
        tiles = []
        for each in range(SIDE * SIDE):
            row, column = divmod(each, SIDE)
            left, known = column + board * (SIDE + GAP), found.get(each)
            text, shade = "" if board else "0", 0.0
            if known and board:
                text, shade = _percent(known["score"]), (2 * known["score"] - 1) / reach
            elif known:
                text, shade = _percent(known["share"]), known["share"] / most
            edges = {"x": left, "right": left + 1, "y": row, "bottom": row + 1}
            colour = {"colour": style.SECOND if shade < 0 else style.FIRST, "shade": MOST_SHADE * min(1.0, abs(shade))}
            tiles.append({**edges, **colour, "name": named(each), "text": text})
        yield tiles


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.9995 else "100"


def _figure(opened: OpenArchive, where: str | None, kind: Kind, title: str) -> Picture:
    frame = openings_frame(reported_games(opened, where), kind)
    if frame.is_empty():
        raise RequestError(f"the first {PLIES} plies of all chosen games were imposed, not chosen by agents")
    return style.beside(openings_panels(frame, kind), title, HOW)


def openings_board(opened: OpenArchive, where: str | None = None) -> Picture:
    """The cells of the first placements, with the score of the mover, in the games that ``where`` chooses.

    Raises ``RequestError`` for an invalid condition or one that no game meets, and when all first plies were imposed.
    """
    return _figure(opened, where, PLACEMENTS, "Where the first pieces go")


def gifts(opened: OpenArchive, where: str | None = None) -> Picture:
    """The pieces given first, with the score of the giver; raises as ``openings_board`` does."""
    return _figure(opened, where, GIFTS, "Which pieces are given first")
