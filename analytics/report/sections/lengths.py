"""The lengths of games by agent, beside the exact lengths of games between random players."""

from __future__ import annotations

import polars as pl

from analytics.questions.columns import (
    ResultColumn,
    Table,
    format_percent,
    format_percent_tenths_below_ten,
    format_plies,
    interval_column,
    number_column,
    text_column,
)
from analytics.report import style
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import assign_figure_ids
from analytics.report.style import Figure, SvgPicture
from analytics.report.vega import Spec, inline_data, layer, nominal, ordinal, quantitative, range_end
from analytics.statistics.tally import wilson_bounds
from analytics.store.texts import format_count_with_noun
from quarto.perft import length_probabilities
from quarto.rules import CELLS, SIDE

SHORTEST = SIDE  # plies; fewer pieces make no line
BAR_WIDTH = 14  # pixels
ENOUGH_GAMES = 100  # games that an agent needs for its bars to set the common scale; other bars may exceed the scale


def build_lengths_section(data: ReportData) -> Result:
    """Build the section about the lengths of the games of each agent."""
    all_lengths = lengths_by_rules_and_agent_frame(data)
    frame = data.select_rows_of_shown_agents(all_lengths)
    if frame.is_empty():
        return Result(missing="all games were forfeited")
    unknown_rules = frame.filter(pl.col("random").is_null())["rules"].unique().sort().to_list()
    exception = (
        f" Its lengths are known for the classic lines only, not for {', '.join(unknown_rules)}."
        if unknown_rules
        else ""
    )
    forfeits = int(data.run_named_query("lengths").filter(pl.col("forfeited"))["games"].sum())
    left_out = f" Left out: {format_count_with_noun(forfeits, 'forfeited game')}." if forfeits else ""
    note = (
        "How many plies an agent's games take: bars are shares of its games, with 95 % intervals. Bars are games won, "
        f"lost and drawn, from the bottom. Flat strokes show exact random play.{exception}{left_out}"
    )
    figures, numbers = (
        assign_figure_ids("lengths", _build_figures(frame, data)),
        Table("Games by length", _build_columns(frame)),
    )
    return Result(
        note, figures=figures, numbers=numbers, legend=(*style.RESULT_COLOURS, "random play"), frame=all_lengths
    )


def build_lengths_overview(data: ReportData) -> Result:
    """Build the section about lengths with one picture for all agents that are shown.

    If the data is about one agent, the picture is that agent's own, with results and intervals.
    """
    frame = data.select_rows_of_shown_agents(lengths_by_rules_and_agent_frame(data))
    if data.agent is not None or frame.is_empty():
        return build_lengths_section(data)
    numbers = Table("Games by length", _build_columns(frame))
    note = "The share of each agent's games that took so many plies, in percent, and below them exact random play."
    figures = [
        Figure(f"Lengths of games, {rules} rules", _render_lengths_by_agent(rows), f"lengths-{number}-")
        for number, ((rules,), rows) in enumerate(frame.group_by("rules", maintain_order=True))
    ]
    return Result(note, figures=figures, numbers=numbers, frame=frame)


ROW_HEIGHT, TILE_WIDTH, LABEL_WIDTH, LABEL_LETTERS = 22, 33, 210, 30  # of the picture of all agents, in pixels; letters
MAX_SHADE = 0.55  # opacity of a tile, at most, so that its number is legible on light and on dark paper


def _render_lengths_by_agent(rows: pl.DataFrame) -> SvgPicture:
    """Render a row of tiles for each agent: the share of its games by length, then the mean length.

    ``rows`` are those of one rule set. If the lengths under random play are known, they are the last row.
    """
    shares_by_agent = {
        str(agent): (dict(agent_rows.select("plies", "share").iter_rows()), _compute_mean_length(agent_rows))
        for (agent,), agent_rows in rows.group_by("agent", maintain_order=True)
    }
    random = dict(rows.select("plies", "random").unique("plies").iter_rows())
    if None not in random.values():
        shares_by_agent["exact random play"] = random, sum(plies * share for plies, share in random.items())
    lengths = range(SHORTEST, CELLS + 1)
    largest = max(share for shares, _ in shares_by_agent.values() for share in shares.values())
    middle, right = ' text-anchor="middle"', ' text-anchor="end"'
    width = LABEL_WIDTH + TILE_WIDTH * len(lengths) + 50
    shapes = [
        style.render_text(LABEL_WIDTH + (column + 0.5) * TILE_WIDTH, 13, str(plies), 11, style.FAINT, middle)
        for column, plies in enumerate(lengths)
    ]
    shapes += [
        style.render_text(0, 13, "plies", 11, style.FAINT),
        style.render_text(width, 13, "mean", 11, style.FAINT, right),
    ]
    for row, (agent, (shares, mean)) in enumerate(shares_by_agent.items(), 1):
        y = row * ROW_HEIGHT
        label = agent if len(agent) <= LABEL_LETTERS else f"{agent[: LABEL_LETTERS - 1]}…"
        shapes += [
            style.render_text(0, y + 15, label, 12),
            style.render_text(width, y + 15, format_plies(mean), 12, attributes=right),
        ]
        for column, plies in enumerate(lengths):
            x = LABEL_WIDTH + column * TILE_WIDTH
            opacity = MAX_SHADE * shares[plies] / largest
            shapes.append(
                f'<rect x="{x}" y="{y}" width="{TILE_WIDTH}" height="{ROW_HEIGHT}" fill="{style.FIRST_COLOUR}" '
                f'fill-opacity="{opacity:.3g}" stroke="{style.GRID}"/>'
            )
            if shares[plies] > 0:
                text = format_percent_tenths_below_ten(shares[plies])
                shapes.append(style.render_text(x + TILE_WIDTH / 2, y + 15, text, 11, attributes=middle))
    return SvgPicture("".join(shapes), width, (len(shares_by_agent) + 1) * ROW_HEIGHT)


def _build_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    rows = frame.filter((pl.col("games") > 0) | (pl.col("random") > 0))
    return [
        text_column("rules, agent", rows.select(pl.format("{}, {}", "rules", "agent")).to_series()),
        *(number_column(name, rows[name]) for name in ("plies", "games")),
        *(
            number_column(heading, rows[name])
            for heading, name in (("won", "wins"), ("drawn", "draws"), ("lost", "losses"))
        ),
        number_column("share, %", rows["share"], format_percent),
        interval_column(rows["low"], rows["high"]),
        number_column("random play, %", rows["random"], format_percent),
    ]


def _describe_count_and_mean_length(rows: pl.DataFrame) -> str:
    """Describe the number and the mean length of games and, if it is known, the mean length under random play."""
    games = int(rows["games"].sum())
    text = f"{format_count_with_noun(games, 'game')}, {format_plies(_compute_mean_length(rows))} plies on average"
    if rows["random"].null_count():
        return text
    return f"{text} (random {format_plies(float((rows['plies'] * rows['random']).sum()))})"


def _compute_mean_length(rows: pl.DataFrame) -> float:
    return float(rows.select(pl.col("games").dot("plies") / pl.col("games").sum()).item())


def lengths_by_rules_and_agent_frame(data: ReportData) -> pl.DataFrame:
    """Return a row for each rule set, agent and length of games; forfeited games are left out.

    Columns: ``rules``, ``agent`` (String); ``plies``, ``games``, ``wins``, ``draws``, ``losses`` of the agent (Int64);
    ``share`` of its games with the 95 % interval ``low`` to ``high`` (Wilson), and ``random`` (Float64). ``random`` is
    the share under random play, computed exactly, or null if it is not known. There is a row for every length from
    ``SHORTEST`` to 16.
    """
    counts_by_seat = (
        data.run_named_query("lengths")
        .filter(~pl.col("forfeited"))
        .join(data.seat_assignments_frame(), on=("run_id", "pairing", "game"))
    )
    frames_by_seat = [_count_results_of_seat(counts_by_seat, seat) for seat in (0, 1)]
    counted = (
        data.select_rows_of_requested_agents(pl.concat(frames_by_seat))
        .group_by("rules", "agent", "plies")
        .agg(pl.col("games", "wins", "draws", "losses").sum())
    )
    all_lengths = (
        counted.select("rules", "agent").unique().join(pl.DataFrame({"plies": range(SHORTEST, CELLS + 1)}), how="cross")
    )
    lengths = all_lengths.join(
        counted.cast({"plies": pl.Int64()}), on=("rules", "agent", "plies"), how="left"
    ).fill_null(0)
    lengths = data.sort_by_rank(lengths.sort("rules", "agent", "plies"), "rules").with_columns(
        total=pl.col("games").sum().over("rules", "agent")
    )
    low, high = wilson_bounds(lengths["games"], lengths["total"])
    return lengths.select(
        *(pl.col(name) for name in ("rules", "agent", "plies", "games", "wins", "draws", "losses")),
        share=pl.col("games") / pl.col("total"),
        low=pl.Series(low, dtype=pl.Float64()),
        high=pl.Series(high, dtype=pl.Float64()),
        random=pl.Series(_compute_random_shares(data, lengths), dtype=pl.Float64()),
    ).cast(dict.fromkeys(("games", "wins", "draws", "losses"), pl.Int64()))


def _count_results_of_seat(counts: pl.DataFrame, seat: int) -> pl.DataFrame:
    """Return the counts of games as seen by the agent in ``seat``: its wins, draws and losses.

    The column ``agent`` names this agent. Games of an agent against itself count only for seat 0.
    """
    if seat:
        counts = counts.filter(pl.col("agent_0") != pl.col("agent_1"))
    games = pl.col("games")
    return counts.select(
        "rules",
        "plies",
        "games",
        agent=pl.col(f"agent_{seat}"),
        wins=games * (pl.col("winner") == seat),
        draws=games * (pl.col("winner") == -1),
        losses=games * (pl.col("winner") == 1 - seat),
    )


def _compute_random_shares(data: ReportData, frame: pl.DataFrame) -> list[float | None]:
    """Compute, for each row, the share of random games that have the row's length, or None if it is not known."""
    rules_by_name = {record.rules.name: record.rules for record in data.records.values()}
    chances = {name: length_probabilities(rules) for name, rules in rules_by_name.items()}
    return [
        float(shares[plies]) if (shares := chances[rules]) else None
        for rules, plies in frame.select("rules", "plies").iter_rows()
    ]


def _build_figures(frame: pl.DataFrame, data: ReportData) -> list[Figure]:
    """Build a figure for each rule set and agent; all figures have the same scale."""
    frequent = frame.filter(pl.col("games").sum().over("rules", "agent") >= ENOUGH_GAMES)
    scaling = frame if frequent.is_empty() else frequent
    shares = [share for name in ("high", "random") for share in scaling[name].drop_nulls()]
    has_several_rules = frame["rules"].n_unique() > 1
    return [
        Figure(
            f"{agent}, {rules}" if has_several_rules else f"{agent}",
            _build_chart(rows, max(shares)),
            note=_describe_count_and_mean_length(rows),
            colour=data.find_colour_number(str(agent)),
        )
        for (rules, agent), rows in frame.group_by("rules", "agent", maintain_order=True)
    ]


def _build_chart(rows: pl.DataFrame, max_share: float) -> Spec:
    """Build the chart of shares by length, with intervals and, if they are known, the shares under random play.

    Each bar has the games won at the bottom, then the games lost, then the draws. The scale ends at ``max_share``.
    """
    counts = zip(style.RESULT_COLOURS, ("wins", "losses", "draws"), strict=True)
    totals = {result: pl.col(name) * pl.col("share") / pl.col("games") for result, name in counts}
    bars = rows.filter(pl.col("games") > 0).select("plies", **totals).unpivot(index="plies", variable_name="result")
    lengths = {"domain": [*range(SHORTEST, CELLS + 1)]}
    plies = ordinal("plies", title="plies", axis=style.CATEGORY_AXIS, scale=lengths)
    height = {"domain": [0, max_share], "nice": False, "clamp": True}
    colours = {"domain": [*style.RESULT_COLOURS], "range": [light for light, _ in style.RESULT_COLOURS.values()]}
    stacked = {
        "y": quantitative("value", title="share of games", axis=style.SHARE_AXIS, scale=height, stack="zero"),
        "color": nominal("result", scale=colours, legend=None),
        "order": quantitative("level"),
    }
    level = {"calculate": f"indexof({[*style.RESULT_COLOURS]}, datum.result)", "as": "level"}
    layers = [
        {"data": inline_data(bars), "transform": [level], **layer("bar", stacked, size=BAR_WIDTH)},
        layer("rule", {"y": quantitative("low"), "y2": range_end("high")}, color=style.FAINT),
    ]
    if rows["random"].null_count() == 0:
        random = {"y": quantitative("random")}
        layers.append(layer("tick", random, color=style.INK, thickness=2, size=BAR_WIDTH + 4, opacity=1))
    data = inline_data(rows.select("plies", "low", "high", "random"))
    return {**style.PANEL, "data": data, "encoding": {"x": plies}, "layer": layers}
