"""Strength of agents: the crosstable, the ratings of one joint fit, and what each decision gives up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import polars as pl

from analytics.query.mistakes import decision_summaries
from analytics.query.selection import require_one_rules
from analytics.ratings.ratings import Ratings, rate
from analytics.report import style
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.style import Panel, Picture
from analytics.results.pairings import Crosstable
from analytics.results.pairings import crosstable as crosstable_of
from analytics.sql.database import OpenArchive
from analytics.statistics.tally import Estimate, score
from quarto.errors import RequestError
from quarto.rules import CELLS

TILE = 40  # pixels, of a crosstable
ROW, LABEL_LINE = 30, 14  # pixels of a rating, and of each line of the label above it
LABEL = 30  # letters of a line of a label: with the number beside it as wide as the panel
WIDTH_OF_LETTER = 7.5  # pixels at most, at this size: a viewer's letters may be wider than those of the renderer
ITSELF = "#8a8a8a"  # an agent against itself


def standings(chosen: ReportedGames) -> Crosstable:
    """The score of each agent against all others, best first; agents that are not shown count as opponents only."""
    ranked = crosstable_of(chosen.results, chosen.shared).standings
    return Crosstable(tuple(each for each in ranked if each.agent in chosen.agents and each.games))


def crosstable_frame(chosen: ReportedGames) -> pl.DataFrame:
    """A row for each ordered pair of agents that played: the first one's score (win 1, draw 1/2) against the second.

    ``agent``, ``opponent`` (String), ``games`` (Int64), ``score``, ``low``, ``high`` (Float64; 95 %, over games, or
    over pairs where openings were imposed, or over openings). Best agents first, their opponents in the same order.
    """
    met: dict[tuple[str, str], tuple[int, Estimate]] = {}
    for each in chosen.results:
        for agents, tally in (((each.first, each.second), each.tally), ((each.second, each.first), each.tally.swapped)):
            met[agents] = tally.games, score(tally, each.by_pairs, each.clusters)  # points vary alike from both sides
    order = standings(chosen).agents
    rows = [
        (agent, opponent, met[agent, opponent][0], *met[agent, opponent][1])
        for agent in order
        for opponent in order
        if agent != opponent and (agent, opponent) in met
    ]
    return pl.DataFrame(rows, schema=SCORES, orient="row")


SCORES = {
    **dict.fromkeys(("agent", "opponent"), pl.String()),
    "games": pl.Int64(),
    **dict.fromkeys(("score", "low", "high"), pl.Float64()),
}


def crosstable(opened: OpenArchive, where: str | None = None) -> Picture:
    """The crosstable of the games that ``where`` chooses: rows against columns, best first.

    Trainings are left out. Raises ``RequestError`` for an invalid condition or one that no game meets, for games under
    several rules, and when no two different agents played each other.
    """
    import altair as alt

    chosen = _of_one_rules(opened, where)
    frame = crosstable_frame(chosen)
    order = frame["agent"].unique(maintain_order=True).to_list()
    if not order:
        raise RequestError("there are no games between different agents: choose others, or play some")
    scores = {(agent, opponent): score for agent, opponent, _, score, _, _ in frame.iter_rows()}
    labels = [f"{rank} {agent}" for rank, agent in enumerate(order, 1)]
    rows = [
        _tile(labels[i], str(k + 1), scores.get((order[i], order[k])), i == k)
        for i, k in product(range(len(order)), repeat=2)
    ]
    extent = WIDTH_OF_LETTER * max(map(len, labels))
    band, names = alt.Scale(paddingInner=0.05), [str(rank) for rank in range(1, len(order) + 1)]
    plain = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False)
    agents = alt.Axis(labelLimit=0, minExtent=extent, domain=False, ticks=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("opponent:N", sort=names, title=None, scale=band, axis=plain),
        y=alt.Y("agent:N", sort=labels, title=None, scale=band, axis=agents),
    )
    colours = alt.Scale(domain=[0, 0.5, 1], range=[style.WORST, style.MIDDLE, style.BEST])
    met, itself = base.transform_filter("isValid(datum.score)"), base.transform_filter("datum.itself")
    tiles = met.mark_rect().encode(color=alt.Color("score:Q", scale=colours, legend=None))
    texts = met.mark_text(color=style.ON_TILE, fontSize=12).encode(text="text:N")
    unmet = base.transform_filter("!isValid(datum.score) && !datum.itself").mark_text(color=style.FAINT, fontSize=12)
    sized = (tiles + itself.mark_rect(color=ITSELF, opacity=0.35) + texts + unmet.encode(text="text:N")).properties(
        width=alt.Step(TILE), height=alt.Step(TILE * 0.7)
    )
    how = "In percent, a draw counting half; grey: itself" + (f"; {NEVER_MET}: never met" if _some_unmet(rows) else "")
    return style.styled(sized, "Score of rows against columns", style.wrap(how, style.LINE))


NEVER_MET = "–"  # noqa: RUF001  (an en dash)


def _tile(agent: str, opponent: str, score: float | None, itself: bool) -> dict[str, Any]:
    text = "" if itself else NEVER_MET if score is None else f"{100 * score:.1f}"
    return {"agent": agent, "opponent": opponent, "score": score, "itself": itself, "text": text}


def _some_unmet(rows: Sequence[dict[str, Any]]) -> bool:
    return any(row["text"] == NEVER_MET for row in rows)


def fitted(chosen: ReportedGames) -> Ratings | None:
    """The joint fit over the games between agents that are shown; None if no two of them played each other."""
    shown = {agents: tally for agents, tally in chosen.head_to_head.items() if set(agents) <= set(chosen.agents)}
    if not any(first != second for first, second in shown):
        return None
    return rate(shown, shared=chosen.shared)


def ratings_frame(chosen: ReportedGames) -> pl.DataFrame:
    """A row an agent, best first within each group of agents that met, directly or through others.

    Columns: ``agent`` (String); ``elo``, ``low``, ``high`` (Float64; over the mean of the group; 95 %, bootstrap over
    pairs); ``games``, ``group`` (Int64); ``bounded`` (Boolean); ``above_next`` (Float64). ``above_next`` is the
    probability that the agent is above the next one of its group, null for the last. No rows if no two agents played
    each other.
    """
    return frame_of(fitted(chosen))


def frame_of(fit: Ratings | None) -> pl.DataFrame:
    """The same frame from a fit that was computed before."""
    if fit is None:
        return pl.DataFrame(schema=RATINGS)
    frame = fit.frame()
    following = [*zip(frame["agent"][1:], frame["group"][1:], strict=True), ("", -1)]
    above = [
        row[f"above {agent}"] if group == row["group"] else None
        for row, (agent, group) in zip(frame.to_dicts(), following, strict=True)
    ]
    return frame.with_columns(pl.Series("above_next", above, pl.Float64())).select(*RATINGS)


RATINGS = {
    "agent": pl.String(),
    **dict.fromkeys(("elo", "low", "high"), pl.Float64()),
    **dict.fromkeys(("games", "group"), pl.Int64()),
    "bounded": pl.Boolean(),
    "above_next": pl.Float64(),
}


def ratings_panel(frame: pl.DataFrame, chosen: ReportedGames) -> Panel:
    """For each rating its label and number and, below, a dot with its interval; no dot where the games set no bound."""
    import altair as alt

    labels = [style.wrap(agent, LABEL) for agent in frame["agent"]]
    step = ROW + LABEL_LINE * max(0, *(len(lines) - 1 for lines in labels))
    rows = [
        _rated(row, lines, index, step) | {"colour": colour_of(chosen, row["agent"])}
        for index, (row, lines) in enumerate(zip(_bounded_ends(frame).to_dicts(), labels, strict=True))
    ]
    down = alt.Scale(domain=[step * len(rows), 0], nice=False)
    base = alt.Chart(alt.InlineData(values=rows))
    below, above = (alt.Y(f"{name}:Q", axis=None, scale=down) for name in ("dot", "top"))
    text = base.mark_text(baseline="top", lineHeight=LABEL_LINE, fontSize=11, color=style.INK).encode(y=above)
    names = text.mark_text(baseline="top", lineHeight=LABEL_LINE, fontSize=11, color=style.INK, align="left")
    numbers = text.mark_text(baseline="top", fontSize=11, color=style.INK, align="right")
    scale, plain = alt.Scale(zero=False, nice=False, padding=8), alt.Axis(grid=False)
    known = base.transform_filter("isValid(datum.elo)").encode(y=below, color=alt.Color("colour:N", scale=None))
    reach = known.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="Elo", scale=scale, axis=plain), x2="high:Q")
    elo = alt.X("elo:Q", title="Elo", scale=scale, axis=plain)
    dots = known.mark_point(size=60, filled=True, opacity=1).encode(x=elo)
    layers = (
        reach
        + dots
        + names.encode(x=alt.value(0), text="label:N")
        + numbers.encode(x=alt.value(style.PANEL_WIDTH), text="number:N")
    )
    sized = layers.properties(width=style.PANEL_WIDTH, height=step * len(rows))
    return Panel("Ratings with their 95 % intervals", sized)


def _bounded_ends(frame: pl.DataFrame) -> pl.DataFrame:
    """The ratings, null for those without a bound; an interval without an end reaches to the last value on its side."""
    names = ("elo", "low", "high")
    values = [value for name in names for value in frame[name].drop_nulls() if math.isfinite(value)]
    finite = pl.col("elo").is_finite()
    ends = pl.col(names).clip(min(values, default=0.0), max(values, default=0.0))
    return frame.with_columns(pl.when(finite).then(ends).otherwise(None).name.keep())


def _rated(row: dict[str, Any], lines: list[str], index: int, step: int) -> dict[str, Any]:
    """A row of the picture: its values, its texts, and where they stand from the top, in pixels."""
    number = style.signed(row["elo"], 0) if row["bounded"] and row["elo"] is not None else "no bound"
    ends = {name: row[name] for name in ("elo", "low", "high")}
    return {**ends, "label": lines, "number": number, "top": index * step + 2, "dot": (index + 1) * step - 9}


def ratings(opened: OpenArchive, where: str | None = None) -> Picture:
    """Ratings over the games that ``where`` chooses; raises as ``crosstable`` does."""
    chosen = _of_one_rules(opened, where)
    frame = ratings_frame(chosen)
    if frame.is_empty():
        raise RequestError("there are no games between different agents: choose others, or play some")
    panel = ratings_panel(frame, chosen)
    return style.styled(panel.picture, panel.title)


def _of_one_rules(opened: OpenArchive, where: str | None) -> ReportedGames:
    """The games that ``where`` chooses, without trainings. Raises as ``crosstable`` does."""
    parts = reported_games(opened, where).by_rules()
    if not parts:
        raise RequestError("all chosen games are those of trainings: choose others")
    require_one_rules([record for part in parts for record in part.records.values()])
    return parts[0]


def colour_of(chosen: ReportedGames, agent: str) -> str:
    """The colour of an agent that is shown."""
    return style.AGENTS[chosen.agents.index(agent)][0]


TITLE = "Blunders by ply"
HOW = "Solid lines with dots are gifts, dashed lines with squares placements, bands 95 % intervals."
KINDS = ("gift", "placement")
HEADROOM = 1.25  # height of the panels over the largest share; intervals are cut there


def mistakes_frame(chosen: ReportedGames, by_ply: bool) -> pl.DataFrame:
    """The agents that are shown, in the columns of ``decision_summaries``. No rows where nothing was judged."""
    found = decision_summaries(chosen.opened, chosen.selection.condition, by_ply, chosen.names)
    return chosen.by_rank(found.filter(pl.col("agent").is_in(chosen.agents)))


def mistakes_panels(frame: pl.DataFrame, chosen: ReportedGames) -> list[Panel]:
    """A panel an agent, all on the same scale: the share of blunders by ply, in the band of its interval."""
    import altair as alt

    largest = frame["blunders"].max()
    top = min(1.0, HEADROOM * float(largest)) if isinstance(largest, float) and largest > 0 else 1.0
    cut = frame.with_columns(pl.col("blunders_high").clip(upper_bound=top))
    return [
        Panel(str(agent), _lines(alt, rows, colour_of(chosen, str(agent)), top), str(agent))
        for (agent,), rows in cut.group_by("agent", maintain_order=True)
    ]


def _lines(alt: Any, rows: pl.DataFrame, colour: str, top: float) -> Picture:
    ticks = alt.Axis(labelAngle=0, grid=False, domain=False, ticks=False, values=[*range(0, CELLS, 3)])
    ply = alt.X("ply:Q", title="ply", axis=ticks, scale=alt.Scale(domain=[0, CELLS - 1], nice=False, padding=6))
    share = alt.Axis(format=".0%", tickCount=4, domain=False, ticks=False)
    height = alt.Y("blunders:Q", title="blunders", axis=share, scale=alt.Scale(domain=[0, top], nice=False))
    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(x=ply, detail="kind:N")
    band = base.mark_area(color=colour, opacity=0.16).encode(
        y=alt.Y("blunders_low:Q", title="blunders"), y2="blunders_high:Q"
    )
    dashes = alt.StrokeDash("kind:N", scale=alt.Scale(domain=[*KINDS], range=[[1, 0], [4, 3]]), legend=None)
    line = base.mark_line(color=colour, strokeWidth=2).encode(y=height, strokeDash=dashes)
    shapes = alt.Shape("kind:N", scale=alt.Scale(domain=[*KINDS], range=["circle", "square"]), legend=None)
    points = base.mark_point(color=colour, filled=True, size=26, opacity=1).encode(y=height, shape=shapes)
    return (band + line + points).properties(width=style.PANEL_WIDTH, height=style.PANEL_HEIGHT)


def mistakes_picture(frame: pl.DataFrame, chosen: ReportedGames) -> Picture:
    """All panels as one picture."""
    return style.beside(mistakes_panels(frame, chosen), TITLE, HOW)


def mistakes(opened: OpenArchive, where: str | None = None) -> Picture:
    """The share of blunders by agent and ply in the games that ``where`` chooses.

    Raises ``RequestError`` for an invalid condition or one that no game meets, and when none of their decisions is
    judged.
    """
    chosen = reported_games(opened, where)
    frame = mistakes_frame(chosen, by_ply=True)
    if frame.is_empty():
        raise RequestError(f"no decision of the games chosen is judged: run {opened.archive.hint('annotate')} first")
    return mistakes_picture(frame, chosen)
