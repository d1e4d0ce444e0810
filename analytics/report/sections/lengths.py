"""Lengths of games by agent, beside exact random play."""

from __future__ import annotations

import polars as pl

from analytics.questions.columns import ResultColumn, Table, column, intervals, percent, words
from analytics.report import style
from analytics.report.reported_games import ReportedGames
from analytics.report.section import ReportSection, numbered
from analytics.report.style import Figure
from analytics.report.vega import Spec, category, data, end, layer, ordered, quantity
from analytics.statistics.tally import wilson_bounds
from quarto.perft import lengths as random_lengths
from quarto.rules import CELLS, SIDE

SHORTEST = SIDE  # plies: with fewer pieces there is no line
BAR = 14  # pixels
ENOUGH = 100  # games of an agent for its bars to set the scale of all: those of fewer may reach beyond it


def game_lengths(chosen: ReportedGames) -> ReportSection:
    """The lengths of each agent's games."""
    frame = lengths_frame(chosen)
    if frame.is_empty():
        return ReportSection(missing="all games were forfeited")
    unknown = frame.filter(pl.col("random").is_null())["rules"].unique().sort().to_list()
    without = f" That is known for the classic lines only, not for {', '.join(unknown)}." if unknown else ""
    forfeits = chosen.ask("lengths").filter(pl.col("forfeited"))["games"].sum()
    left_out = f" {forfeits:,} forfeited games are left out." if forfeits else ""
    note = (
        "How many plies an agent's games take: bars are shares of its games, with 95 % intervals. Bars are games won, "
        f"lost and drawn, from the bottom. Flat strokes show exact random play.{without}{left_out}"
    )
    figures, numbers = numbered("lengths", _figures(frame, chosen)), Table("Games by length", _columns(frame))
    return ReportSection(note, figures=figures, numbers=numbers, legend=(*style.RESULTS, "random play"))


def _columns(frame: pl.DataFrame) -> list[ResultColumn]:
    rows = frame.filter((pl.col("games") > 0) | (pl.col("random") > 0))
    return [
        words("rules, agent", rows.select(pl.format("{}, {}", "rules", "agent")).to_series()),
        *(column(name, rows[name]) for name in ("plies", "games")),
        *(column(heading, rows[name]) for heading, name in (("won", "wins"), ("drawn", "draws"), ("lost", "losses"))),
        column("share, %", rows["share"], percent),
        intervals(rows["low"], rows["high"]),
        column("random play, %", rows["random"], percent),
    ]


def _mean_length(rows: pl.DataFrame) -> str:
    games, plies = (int(rows.select(each).item()) for each in (pl.col("games").sum(), pl.col("games").dot("plies")))
    text = f"{games:,} {'game' if games == 1 else 'games'}, {plies / games:.2f} plies on average"
    if rows["random"].null_count():
        return text
    return f"{text} (random {(rows['plies'] * rows['random']).sum():.2f})"


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


def _figures(frame: pl.DataFrame, chosen: ReportedGames) -> list[Figure]:
    """A figure for each rules and agent, all on the same scale."""
    frequent = frame.filter(pl.col("games").sum().over("rules", "agent") >= ENOUGH)
    scaling = frame if frequent.is_empty() else frequent
    shares = [share for name in ("high", "random") for share in scaling[name].drop_nulls()]
    several = frame["rules"].n_unique() > 1
    return [
        Figure(
            f"{agent}, {rules}" if several else f"{agent}",
            _bars(rows, max(shares)),
            note=_mean_length(rows),
            colour=chosen.colour(str(agent)),
        )
        for (rules, agent), rows in frame.group_by("rules", "agent", maintain_order=True)
    ]


def _bars(rows: pl.DataFrame, top: float) -> Spec:
    """Shares by length, those won at the bottom, then lost, then drawn; intervals, and a mark for random play."""
    counts = zip(style.RESULTS, ("wins", "losses", "draws"), strict=True)
    totals = {result: pl.col(name) * pl.col("share") / pl.col("games") for result, name in counts}
    bars = rows.filter(pl.col("games") > 0).select("plies", **totals).unpivot(index="plies", variable_name="result")
    lengths = {"domain": [*range(SHORTEST, CELLS + 1)]}
    plies = ordered("plies", title="plies", axis=style.CATEGORY_AXIS, scale=lengths)
    height = {"domain": [0, top], "nice": False, "clamp": True}
    colours = {"domain": [*style.RESULTS], "range": [light for light, _ in style.RESULTS.values()]}
    stacked = {
        "y": quantity("value", title="share of games", axis=style.SHARE_AXIS, scale=height, stack="zero"),
        "color": category("result", scale=colours, legend=None),
        "order": quantity("level"),
    }
    level = {"calculate": f"indexof({[*style.RESULTS]}, datum.result)", "as": "level"}
    layers = [
        {"data": data(bars), "transform": [level], **layer("bar", stacked, size=BAR)},
        layer("rule", {"y": quantity("low"), "y2": end("high")}, color=style.FAINT),
    ]
    if rows["random"].null_count() == 0:
        random = {"y": quantity("random")}
        layers.append(layer("tick", random, color=style.INK, thickness=2, size=BAR + 4, opacity=1))
    known = data(rows.select("plies", "low", "high", "random"))
    return {**style.PANEL, "data": known, "encoding": {"x": plies}, "layer": layers}
