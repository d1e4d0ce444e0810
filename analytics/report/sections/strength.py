"""The strength of agents: the crosstable, and the ratings from one joint fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate, pairwise
from typing import Any

import polars as pl

from analytics.questions.columns import (
    MISSING,
    Cell,
    ResultColumn,
    Table,
    format_interval,
    format_percent_tenths,
    format_percent_whole,
    format_signed,
    number_column,
    numbered_agent_columns,
    pairing_columns,
    rating_columns_without_agents,
    standing_columns_without_agents,
    superiority_over_top_agents_columns,
    text_column,
)
from analytics.questions.pairings import (
    Crosstable,
    Meeting,
    PairingResult,
    build_crosstable,
    index_meetings,
    pairings_frame,
)
from analytics.questions.ranking import RANKING_RULE
from analytics.questions.ratings import Ratings
from analytics.questions.selection import check_single_rules
from analytics.report import style
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import agent_cells, agent_table
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end
from quarto.errors import RequestError

MAX_CROSSTABLE_AGENTS = 20  # as many as fit a page of 1,400 pixels; each cell takes 200 bytes
PALEST_TINT = 0.2  # of a score whose interval excludes one half: fainter colours could be overlooked
CROSSTABLE_COLOURS = (
    "Blue is better than that opponent, orange worse; without a colour, the 95 % interval contains 50 "
    f"({MISSING} never met, hatched: itself). Resting on a score shows its interval and its games."
)
NOBODY_MET = "no two different agents played each other"
ROW_HEIGHT, LABEL_LINE = 30, 14  # pixels of a rating, and of each line of the label above it
LABEL_LETTERS = 30  # letters of a line of a label: with the number beside it as wide as the panel


def build_crosstable_section(data: ReportData) -> Result:
    """Build the section with the score of each agent against each of the others."""
    try:
        check_single_rules(data.selection.runs)
    except RequestError as error:
        return Result(missing=error.remark)
    crosstable, all_agents = build_shown_crosstable(data), len(data.games_by_agent)
    frame = crosstable.to_frame()
    if frame.is_empty():
        return Result(missing=NOBODY_MET)
    columns = [
        text_column("agent", agent_cells(data, frame["agent"], with_ranks=True)),
        *build_standing_columns(frame),
        *build_opponent_columns(frame, data.results_summed_over_runs),
    ]
    shown = f" Shown are the {MAX_CROSSTABLE_AGENTS} best of {all_agents:,} agents." if len(frame) < all_agents else ""
    note = (
        "Points in percent, a draw counting half: over all games with others, the shares of games won, drawn and lost, "
        f"and the points against each agent. {CROSSTABLE_COLOURS}"
        f" Intervals are normal, over {_describe_variance_unit(data)}.{shown}"
    )
    results = [
        result
        for result in data.results_summed_over_runs
        if {result.first, result.second} <= {*crosstable.agents} and result.first != result.second
    ]
    numbers = Table("Every two agents, as the first one sees it, in %", pairing_columns(pairings_frame(results)))
    return Result(note, Table("Scores of all agents against each other, in %", columns), numbers=numbers)


def build_standing_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build the columns of an agent's results against all others, first those that a telephone has room for.

    ``frame`` is the result of ``Crosstable.to_frame``.
    """
    score, interval, games, win, draw, loss, *forfeits = standing_columns_without_agents(frame)
    return [score, win, draw, loss, interval, games, *forfeits]


def build_opponent_columns(frame: pl.DataFrame, results: Iterable[PairingResult]) -> list[ResultColumn]:
    """Build a narrow column with the scores against each of the best agents, headed by the agent's place and name.

    A score has a colour only if its 95 % interval excludes one half. Its hint has the interval and the numbers of games
    won, drawn and lost. ``frame`` is the result of ``Crosstable.to_frame``, and ``results`` are those from which the
    crosstable was built.
    """
    meetings, agents = index_meetings(results), [*frame["agent"]]
    opponents = [name.removeprefix("v ") for name in frame.columns if name.startswith("v ")]
    return [
        ResultColumn(
            f"{place} {opponent}",
            [
                Cell("", hint="itself", is_diagonal=True)
                if agent == opponent
                else _build_meeting_cell(meetings.get((agent, opponent)))
                for agent in agents
            ],
            rotated=True,
        )
        for place, opponent in enumerate(opponents, 1)
    ]


def _build_meeting_cell(meeting: Meeting | None) -> Cell:
    if meeting is None:
        return Cell(MISSING, hint="never met")
    interval = format_interval(meeting.score.low, meeting.score.high)
    counts = f"{meeting.wins:,} won, {meeting.draws:,} drawn, {meeting.losses:,} lost"
    return Cell(format_percent_whole(meeting.score.mean), tint=tint_meeting(meeting), hint=f"{interval} %; {counts}")


def tint_meeting(meeting: Meeting) -> float:
    """Return the colour of a score, from -1 (worse) to 1 (better); it is 0 if the interval contains one half."""
    return 0.0 if meeting.verdict == 0 else meeting.verdict * max(PALEST_TINT, abs(2 * meeting.score.mean - 1))


def build_shown_crosstable(data: ReportData) -> Crosstable:
    """Build the crosstable of the best agents, at most ``MAX_CROSSTABLE_AGENTS``, in the order of their scores.

    Agents that are not shown have no row and no column, but games against them count in the scores of the shown agents.
    """
    agents = {*data.select_best_agents(MAX_CROSSTABLE_AGENTS)}
    ranked = build_crosstable(data.results_summed_over_runs, data.shared_openings).standings
    return Crosstable(tuple(standing for standing in ranked if standing.agent in agents and standing.games))


def _describe_variance_unit(data: ReportData) -> str:
    """Describe what the crosstable's intervals treat as one independent unit (openings, pairs or games), and why."""
    if data.shared_openings is not None:
        return "openings, since pairings of one seed share them"
    return (
        "pairs, since games of a pair share an opening"
        if any(r.by_pairs for r in data.results_summed_over_runs)
        else "games"
    )


def build_ratings_section(data: ReportData) -> Result:
    """Build the section about the ratings of the agents that are shown; the ratings are fitted to all games."""
    try:
        fit = data.rate_agents()
    except RequestError as error:
        return Result(missing=error.remark)
    frame = ratings_frame(fit, data.shown_agents)
    above = number_column("above the next, %", frame["above_next"], format_percent_tenths)
    columns = [number_column("rank", frame["rank"]), *rating_columns_without_agents(frame), above]
    table = agent_table(data, "Ratings in Elo", frame, columns)
    mover_chooses = any(record.rules.mover_chooses for record in data.records.values())
    centred_agents = "each group" if fit.group_count > 1 else "all agents"
    if not all(rating.has_finite_elo for rating in fit.ratings):
        centred_agents += ", as far as their ratings have a bound,"
    resampled_units = "openings" if data.shared_openings else "pairs"
    note = (
        "One joint fit of all results (Bradley-Terry with draws and seats, after Davidson and Beaver); the mean of "
        f"{centred_agents} is 0, intervals are from resampled {resampled_units}. Above the next: how likely an agent "
        f"is stronger than the one below it. Ranks: {RANKING_RULE}. {' '.join(fit.describe(mover_chooses))}"
    )
    numbers = Table(
        "Probability of being above the other, in %",
        [*numbered_agent_columns([*frame["agent"]])[::-1], *_number_superiority_columns(fit, frame)],
    )
    chart = build_ratings_chart(frame, data.find_colour_number)
    figure = Figure("Ratings with their 95 % intervals", chart, f"ratings-{data.rules[0]}-0-")
    return Result(note, table, [figure], numbers, side_by_side=True, frame=fit.to_frame())


def _number_superiority_columns(fit: Ratings, frame: pl.DataFrame) -> list[ResultColumn]:
    """Build a column of probabilities for each of the best agents in ``frame``.

    A column has, for each row, the probability that the row's agent is stronger than the column's agent. The heading is
    ``> n`` if the column's agent is in row n, counted from 1.
    """
    ratings = fit.to_frame().filter(pl.col("agent").is_in(frame["agent"].implode()))
    return [
        column._replace(heading=f"> {number}")
        for number, column in enumerate(superiority_over_top_agents_columns(ratings), 1)
    ]


def ratings_frame(fit: Ratings, shown: Collection[str] | None = None) -> pl.DataFrame:
    """Return a row for each agent in ``shown`` (None: all), best first within each group of agents that met.

    Columns: those of ``Ratings.to_frame`` up to and including ``unranked``; ``above_next`` (Float64), the probability
    that the agent's rating is higher than that of the agent in the next row, null for the last agent of a group. Only
    ``above_next`` depends on which agents have a row.
    """
    frame = fit.to_frame()
    if shown is not None:
        frame = frame.filter(pl.col("agent").is_in([*shown]))
    following = [*zip(frame["agent"][1:], frame["group"][1:], strict=True), ("", -1)]
    above = [
        row[f"above {agent}"] if group == row["group"] else None
        for row, (agent, group) in zip(frame.to_dicts(), following, strict=True)
    ]
    names = ("rank", "agent", "elo", "low", "high", "games", "group", "bounded", "unranked")
    return frame.select(*names, pl.Series("above_next", above, pl.Float64()))


def build_ratings_chart(frame: pl.DataFrame, find_colour: Callable[[str], int]) -> Spec:
    """Build the chart of ratings: for each agent its label, its rating as a number and, below both, a dot.

    A line through the dot shows the rating's interval. There is no dot for an infinite rating, such as that of an agent
    that won all of its games. ``find_colour`` returns the number of an agent's colour.
    """
    labels = [_wrap_label(agent) for agent in frame["agent"]]
    tops = [*accumulate((ROW_HEIGHT + LABEL_LINE * (len(lines) - 1) for lines in labels), initial=0)]
    rows = [
        _build_chart_row(row, lines, *ends) | {"colour": style.AGENT_COLOURS[find_colour(row["agent"])][0]}
        for row, lines, ends in zip(
            _clip_ends_and_drop_unbounded_ratings(frame).to_dicts(), labels, pairwise(tops), strict=True
        )
    ]
    height = tops[-1]
    below, above = (
        quantitative(name, axis=None, scale={"domain": [height, 0], "nice": False}) for name in ("dot", "top")
    )
    across = {"title": "Elo", "scale": {"zero": False, "nice": False, "padding": 8}, "axis": {"grid": False}}
    base = {"y": below, "color": nominal("colour", scale=None)}
    bounded = {"transform": [{"filter": "isValid(datum.elo)"}]}
    interval = {**base, "x": quantitative("low", **across), "x2": range_end("high")}
    text = {"baseline": "top", "fontSize": 11, "color": style.INK}
    names = {"y": above, "x": {"value": 0}, "text": nominal("label")}
    numbers = {"y": above, "x": {"value": style.PANEL_WIDTH}, "text": nominal("number")}
    return {
        "width": style.PANEL_WIDTH,
        "height": height,
        "data": inline_data(rows),
        "layer": [
            bounded | layer("rule", interval, strokeWidth=2),
            bounded | layer("point", {**base, "x": quantitative("elo", **across)}, size=60, filled=True, opacity=1),
            layer("text", names, align="left", lineHeight=LABEL_LINE, **text),
            layer("text", numbers, align="right", **text),
        ],
    }


def _clip_ends_and_drop_unbounded_ratings(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace unbounded ratings with null, and clip each infinite end of an interval to the outermost finite value."""
    names = ("elo", "low", "high")
    values = [value for name in names for value in frame[name].drop_nulls() if math.isfinite(value)]
    finite = pl.col("elo").is_finite()
    ends = pl.col(names).clip(min(values, default=0.0), max(values, default=0.0))
    return frame.with_columns(pl.when(finite).then(ends).otherwise(None).name.keep())


def _wrap_label(label: str) -> list[str]:
    """Wrap an agent's label into lines, after commas if possible."""
    return [line.replace(", ", ",") for line in style.wrap_text(label.replace(",", ", "), LABEL_LETTERS)]


def _build_chart_row(row: dict[str, Any], lines: list[str], top: int, bottom: int) -> dict[str, Any]:
    """Build a row of the chart: its values, its texts, and the distances of texts and dot from the top, in pixels.

    ``lines`` are the lines of the agent's label; ``top`` and ``bottom`` are the ends of the row in pixels.
    """
    number = format_signed(row["elo"], 0) if row["bounded"] and row["elo"] is not None else "no bound"
    ends = {name: row[name] for name in ("elo", "low", "high")}
    return {**ends, "label": lines, "number": number, "top": top + 2, "dot": bottom - 9}
