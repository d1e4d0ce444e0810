"""Lengths of games by agent, beside exact random play."""

from __future__ import annotations

from typing import Any

import polars as pl

from analytics.report import style
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.style import Panel, Picture
from analytics.sql.database import OpenArchive
from analytics.statistics.tally import wilson_bounds
from quarto.errors import RequestError
from quarto.perft import lengths as random_lengths
from quarto.rules import CELLS, SIDE

SHORTEST = SIDE  # plies: with fewer pieces there is no line
BAR = 14  # pixels
ENOUGH = 100  # games of an agent for its bars to set the scale of all: those of fewer may reach beyond it
TITLE = "Lengths of games"
HOW = "Bars are games won, lost and drawn, from the bottom. Flat strokes show exact random play."


def lengths_frame(chosen: ReportedGames) -> pl.DataFrame:
    """A row for each rules, agent that is shown, and length; forfeited games are left out.

    Columns: ``rules``, ``agent`` (String); ``plies``, ``games``, ``wins``, ``draws``, ``losses`` of the agent (Int64);
    ``share`` of its games, ``low``, ``high`` (95 %, Wilson), ``random`` (Float64). ``random`` is the share in exact
    random play, null where that is not known. All lengths from ``SHORTEST`` to 16 are there.
    """
    played = chosen.ask("lengths").filter(~pl.col("forfeited")).join(chosen.players(), on=("run_id", "pairing", "game"))
    sides = [_of_seat(played, seat) for seat in (0, 1)]
    counted = (
        pl.concat(sides)
        .filter(pl.col("agent").is_in(chosen.agents))
        .group_by("rules", "agent", "plies")
        .agg(pl.col("games", "wins", "draws", "losses").sum())
    )
    every = (
        counted.select("rules", "agent").unique().join(pl.DataFrame({"plies": range(SHORTEST, CELLS + 1)}), how="cross")
    )
    full = every.join(counted.cast({"plies": pl.Int64()}), on=("rules", "agent", "plies"), how="left").fill_null(0)
    full = chosen.by_rank(full.sort("rules", "agent", "plies"), "rules").with_columns(
        total=pl.col("games").sum().over("rules", "agent")
    )
    low, high = wilson_bounds(full["games"], full["total"])
    return full.select(
        *(pl.col(name) for name in ("rules", "agent", "plies", "games", "wins", "draws", "losses")),
        share=pl.col("games") / pl.col("total"),
        low=pl.Series(low, dtype=pl.Float64()),
        high=pl.Series(high, dtype=pl.Float64()),
        random=pl.Series(_random(chosen, full), dtype=pl.Float64()),
    ).cast(dict.fromkeys(("games", "wins", "draws", "losses"), pl.Int64()))


def _of_seat(played: pl.DataFrame, seat: int) -> pl.DataFrame:
    """The games from the view of the agent in a seat; games of an agent against itself only from seat 0."""
    if seat:
        played = played.filter(pl.col("agent_0") != pl.col("agent_1"))
    games = pl.col("games")
    return played.select(
        "rules",
        "plies",
        "games",
        agent=pl.col(f"agent_{seat}"),
        wins=games * (pl.col("winner") == seat),
        draws=games * (pl.col("winner") == -1),
        losses=games * (pl.col("winner") == 1 - seat),
    )


def _random(chosen: ReportedGames, full: pl.DataFrame) -> list[float | None]:
    known_rules = {record.rules.name: record.rules for record in chosen.records.values()}
    chances = {name: random_lengths(rules) for name, rules in known_rules.items()}
    return [
        float(known[plies]) if (known := chances[rules]) else None
        for rules, plies in full.select("rules", "plies").iter_rows()
    ]


def lengths_panels(frame: pl.DataFrame, legend: bool = False) -> list[Panel]:
    """A panel for each rules and agent, all on the same scale; with a legend of the colours if asked for."""
    import altair as alt

    frequent = frame.filter(pl.col("games").sum().over("rules", "agent") >= ENOUGH)
    scaling = frame if frequent.is_empty() else frequent
    shares = [share for name in ("high", "random") for share in scaling[name].drop_nulls()]
    height = alt.Scale(domain=[0, max(shares)], nice=False, clamp=True)
    several = frame["rules"].n_unique() > 1
    return [
        Panel(
            f"{agent}, {rules}" if several else f"{agent}",
            _bars(alt, rows, height, legend),
            str(agent),
        )
        for (rules, agent), rows in frame.group_by("rules", "agent", maintain_order=True)
    ]


def _bars(alt: Any, rows: pl.DataFrame, height: Any, legend: bool) -> Picture:
    """Shares by length, those won at the bottom, then lost, then drawn; intervals, and a mark for random play."""
    counts = zip(style.RESULTS, ("wins", "losses", "draws"), strict=True)
    totals = {result: pl.col(name) * pl.col("share") / pl.col("games") for result, name in counts}
    bars = rows.filter(pl.col("games") > 0).select("plies", **totals).unpivot(index="plies", variable_name="result")
    axis = alt.Axis(labelAngle=0, grid=False, domain=False, ticks=False)
    plies = alt.X("plies:O", title="plies", axis=axis, scale=alt.Scale(domain=[*range(SHORTEST, CELLS + 1)]))
    share = alt.Axis(format=".0%", tickCount=4, domain=False, ticks=False)
    colours = alt.Scale(domain=[*style.RESULTS], range=[light for light, _ in style.RESULTS.values()])
    shown = alt.Legend(symbolType="square", orient="top") if legend else None
    stacked = (
        alt.Chart(alt.Data(values=bars.to_dicts()))
        .mark_bar(size=BAR)
        .transform_calculate(level=f"indexof({[*style.RESULTS]}, datum.result)")
        .encode(
            x=plies,
            y=alt.Y("value:Q", title="share of games", axis=share, scale=height, stack="zero"),
            color=alt.Color("result:N", scale=colours, legend=shown),
            order=alt.Order("level:Q"),
        )
    )
    base = alt.Chart(alt.Data(values=rows.select("plies", "low", "high", "random").to_dicts())).encode(x=plies)
    reach = base.mark_rule(color=style.FAINT).encode(y="low:Q", y2="high:Q")
    layers = stacked + reach
    if rows["random"].null_count() == 0:
        layers += base.mark_tick(color=style.INK, thickness=2, size=BAR + 4, opacity=1).encode(y="random:Q")
    return layers.properties(width=style.PANEL_WIDTH, height=style.PANEL_HEIGHT)


def game_lengths(opened: OpenArchive, where: str | None = None) -> Picture:
    """The lengths of the games that ``where`` chooses, a panel for each agent, beside exact random play.

    Raises ``RequestError`` for an invalid condition or one that no game meets, and when all games were forfeited.
    """
    chosen = reported_games(opened, where)
    frame = lengths_frame(chosen)
    if frame.is_empty():
        raise RequestError("all chosen games were forfeited: there are no lengths to show")
    return style.beside(lengths_panels(frame, legend=True), TITLE, HOW)
