"""Strength of agents: the crosstable, and the ratings of one joint fit."""

from __future__ import annotations

import polars as pl

from analytics.query.database import OpenArchive
from analytics.query.results import Crosstable
from analytics.query.results import crosstable as crosstable_of
from analytics.ratings.ratings import Ratings, rate
from analytics.report import style
from analytics.report.figures.chosen_games import ChosenGames, chosen_games
from analytics.report.style import Panel, Picture
from analytics.statistics.intervals import Estimate, score
from quarto.errors import RequestError

TILE = 44  # pixels, of a crosstable
ROW = 24  # pixels, of a rating
LABELS = 130  # pixels that an agent's name may take


def standings(chosen: ChosenGames) -> Crosstable:
    """The score of each agent against all others, best first; agents that are not shown count as opponents only."""
    ranked = crosstable_of(chosen.results, chosen.shared).standings
    return Crosstable(tuple(each for each in ranked if each.agent in chosen.agents and each.games))


def crosstable_frame(chosen: ChosenGames) -> pl.DataFrame:
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

    Raises ``RequestError`` for an invalid condition or one that no game meets, when no two different agents
    played each other, and without the extra ``plots``.
    """
    alt, chosen = style.altair(), chosen_games(opened, where)
    frame = crosstable_frame(chosen)
    order = frame["agent"].unique(maintain_order=True).to_list()
    if not order:
        raise RequestError("there are no games between different agents: choose others, or play some")
    base = alt.Chart(alt.Data(values=frame.to_dicts())).encode(
        x=alt.X("opponent:N", sort=order, title=None, axis=alt.Axis(orient="top", labelAngle=-40, labelLimit=LABELS)),
        y=alt.Y("agent:N", sort=order, title=None, axis=alt.Axis(labelLimit=LABELS)),
    )
    colours = alt.Scale(domain=[0, 0.5, 1], range=[style.WORST, style.MIDDLE, style.BEST])
    tiles = base.mark_rect(stroke="white").encode(color=alt.Color("score:Q", scale=colours, legend=None))
    texts = base.mark_text(color=style.ON_TILE).encode(text=alt.Text("score:Q", format=".1%"))
    sized = (tiles + texts).properties(width=alt.Step(TILE), height=alt.Step(TILE * 0.7))
    return style.styled(sized, "Score of rows against columns")


def fitted(chosen: ChosenGames) -> Ratings | None:
    """The joint fit over the games between agents that are shown; None if no two of them played each other."""
    shown = {agents: tally for agents, tally in chosen.head_to_head.items() if set(agents) <= set(chosen.agents)}
    if not any(first != second for first, second in shown):
        return None
    return rate(shown, shared=chosen.shared)


def ratings_frame(chosen: ChosenGames) -> pl.DataFrame:
    """A row an agent, best first within each group of agents that met, directly or through others.

    ``agent`` (String), ``elo``, ``low``, ``high`` (Float64; over the mean of the group; 95 %, bootstrap over pairs),
    ``games``, ``group`` (Int64), ``bounded`` (Boolean), ``above_next`` (Float64: the probability that it is above the
    next one of its group; null for the last). No rows if no two agents played each other.
    """
    return frame_of(fitted(chosen))


def frame_of(fit: Ratings | None) -> pl.DataFrame:
    """The same frame from a fit that was computed before."""
    ranked = fit.ratings if fit else ()
    rows = []
    for place, rating in enumerate(ranked):
        below = place + 1 < len(ranked) and ranked[place + 1].group == rating.group
        sure = float(fit.superiority[place, place + 1]) if fit and below else None
        rows.append((rating.agent, *rating.elo, rating.games, rating.group, rating.bounded, sure))
    return pl.DataFrame(rows, schema=RATINGS, orient="row")


RATINGS = {
    "agent": pl.String(),
    **dict.fromkeys(("elo", "low", "high"), pl.Float64()),
    **dict.fromkeys(("games", "group"), pl.Int64()),
    "bounded": pl.Boolean(),
    "above_next": pl.Float64(),
}


def ratings_panel(frame: pl.DataFrame, chosen: ChosenGames) -> Panel:
    """A dot for each rating with its interval and number; hollow where the games set no bound."""
    alt, order = style.altair(), frame["agent"].to_list()
    colours = alt.Scale(domain=chosen.agents, range=[colour_of(chosen, agent) for agent in chosen.agents])
    base = alt.Chart(alt.Data(values=frame.to_dicts())).encode(
        y=alt.Y("agent:N", sort=order, title=None, axis=alt.Axis(labelLimit=LABELS, domain=False, ticks=False)),
        color=alt.Color("agent:N", scale=colours, legend=None),
    )
    elo = alt.X("elo:Q", title="Elo", scale=alt.Scale(zero=False, nice=False, padding=26))
    reach = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="Elo"), x2="high:Q")
    dots = base.mark_point(size=60, opacity=1, strokeWidth=2).encode(x=elo)
    filled = dots.transform_filter("datum.bounded").mark_point(size=60, filled=True, opacity=1)
    texts = base.mark_text(dy=-9, fontSize=10, color=style.INK).encode(
        x=elo, text=alt.Text("elo:Q", format="+.0f"), color=alt.value(style.INK)
    )
    sized = (reach + dots + filled + texts).properties(width=style.PANEL_WIDTH - 60, height=alt.Step(ROW + 6))
    return Panel("Ratings with their 95 % intervals", sized)


def ratings(opened: OpenArchive, where: str | None = None) -> Picture:
    """Ratings over the games that ``where`` chooses; raises as ``crosstable`` does."""
    chosen = chosen_games(opened, where)
    frame = ratings_frame(chosen)
    if frame.is_empty():
        raise RequestError("there are no games between different agents: choose others, or play some")
    panel = ratings_panel(frame, chosen)
    return style.styled(panel.picture, panel.title)


def colour_of(chosen: ChosenGames, agent: str) -> str:
    """The colour of an agent that is shown."""
    return style.AGENTS[chosen.agents.index(agent)][0]
