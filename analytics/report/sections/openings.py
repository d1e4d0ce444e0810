"""The first plies of games: the cells of placements, the pieces given, and the score of the agent that chose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import (
    Cell,
    ResultColumn,
    Table,
    format_percent,
    format_percent_tenths,
    interval_column,
    number_column,
    text_column,
)
from analytics.questions.openings import describe_first_plies
from analytics.report import style
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import assign_figure_ids
from analytics.report.style import Figure, SvgPicture
from analytics.statistics.tally import normal_quantile
from quarto.notation import format_cell, format_piece
from quarto.rules import SIDE

PLIES = 3  # first free plies; later, positions differ too much to compare a cell or a piece alone
TILE_SIZE = 38  # pixels; the widest number, five characters, leaves a margin
PIECE_SIZE = 20  # pixels of its picture
GAP, HEADING = 0.4, 0.6  # tiles between two boards and above them
MAX_SHADE = 0.5  # opacity of a tile, on which its number is legible, on light and on dark paper
ENOUGH_GAMES = 100  # games that a tile needs for its score to set the scale of the colours
FULL_COLOUR_SHARE = 0.25  # the share with the full colour, unless a tile has more, so that equal shares stay pale
ALL_AGENTS = ""  # stands for all agents together
NO_FREE_PLY = "no ply of these games was free, or none was played"


class DecisionKind(NamedTuple):
    """The kind of decision that a section is about: placements on cells, or gifts of pieces."""

    query_name: str
    column: str
    noun: str
    format_choice: Callable[[int], str]  # formats a cell or a piece


PLACEMENTS = DecisionKind("first_placements", "cell", "placement", format_cell)
GIFTS = DecisionKind("first_gifts", "piece", "gift", format_piece)


def build_first_placements_section(data: ReportData) -> Result:
    """Build the section about the cells of the first placements in games."""
    note = (
        "Where the first pieces are placed, and the score of the mover against all its opponents, both in percent; a "
        "draw counts half. First all agents together, by ply; then the first placement of each agent."
    )
    return _build_section(data, PLACEMENTS, note)


def build_first_gifts_section(data: ReportData) -> Result:
    """Build the section about the pieces that are given first in games."""
    note = (
        "Which pieces are given first, and the score of the giver, both in percent. A piece is a hexadecimal digit, "
        "8 high, 4 coloured, 2 solid, 1 square: coloured pieces are purple with light bands, those that are not solid "
        "have a hole. "
        "By symmetry no gift of ply 0 is better than another: what differs is how agents answer it."
    )
    return _build_section(data, GIFTS, note)


def build_first_placements_overview(data: ReportData) -> Result:
    """Build the section about first placements with one picture, of all agents together or of the requested agent."""
    note = "Where the first piece is placed, and the score of the mover, both in percent; a draw counts half."
    return _build_overview(data, PLACEMENTS, note)


def build_first_gifts_overview(data: ReportData) -> Result:
    """Build the section about first gifts with one picture, of all agents together or of the requested agent."""
    note = (
        "Which piece is given first, and the score of the giver, both in percent. By symmetry no first gift is better "
        "than another: what differs is how agents answer it."
    )
    return _build_overview(data, GIFTS, note)


def _build_overview(data: ReportData, kind: DecisionKind, note: str) -> Result:
    all_choices = openings_frame(data, kind)
    is_subject = pl.col("agent") == ALL_AGENTS if data.agent is None else pl.col("agent") != ALL_AGENTS
    rows = all_choices.filter(is_subject)
    if rows.is_empty():
        return Result(missing=NO_FREE_PLY)
    first_ply = rows.filter(pl.col("ply") == pl.min("ply").over("rules", "agent"))
    figures = assign_figure_ids(kind.column, _build_figures_of_all_and_each(first_ply, kind, data))
    return Result(
        note + _describe_first_free_plies(data), figures=figures, numbers=_build_numbers(rows, kind), frame=all_choices
    )


def _build_section(data: ReportData, kind: DecisionKind, note: str) -> Result:
    """Build the section about one kind of decision; ``note`` says how to read it."""
    all_choices = openings_frame(data, kind)
    frame = data.select_rows_of_shown_agents(all_choices, ALL_AGENTS)
    if frame.is_empty():
        return Result(missing=NO_FREE_PLY)
    figures = assign_figure_ids(kind.column, _build_figures_of_all_and_each(frame, kind, data))
    return Result(
        note + _describe_first_free_plies(data), figures=figures, numbers=_build_numbers(frame, kind), frame=all_choices
    )


def _build_numbers(frame: pl.DataFrame, kind: DecisionKind) -> Table:
    agents = frame.select(pl.format("{}, {}", "rules", pl.col("agent").replace(ALL_AGENTS, "all agents"))).to_series()
    choices = [
        Cell(kind.format_choice(choice), piece=choice if kind is GIFTS else None) for choice in frame[kind.column]
    ]
    columns = [
        text_column("rules, agent", agents),
        number_column("ply", frame["ply"]),
        ResultColumn(kind.column, choices),
        number_column("games", frame["games"]),
        number_column("share, %", frame["share"], format_percent),
        number_column("score, %", frame["score"], format_percent),
        interval_column(frame["low"], frame["high"]),
    ]
    return Table(f"First {kind.noun}s", columns)


def _describe_first_free_plies(data: ReportData) -> str:
    """Describe at which plies the games have their first free decision; return "" if no openings were imposed."""
    games_by_ply: dict[int, int] = {}
    for record in data.records.values():
        ply = record.spec["opening_plies"]
        games_by_ply[ply] = games_by_ply.get(ply, 0) + data.selection.games_by_run[record.run_id]
    if not any(games_by_ply):
        return ""
    text = describe_first_plies(dict(sorted(games_by_ply.items())), "from")
    return f" {text[0].upper()}{text[1:]}."


def openings_frame(data: ReportData, kind: DecisionKind) -> pl.DataFrame:
    """Return the choices at the first free plies of games, with the results for the agent that chose.

    There is a row for each rule set, agent, ply and choice. The first free plies are the ``PLIES`` plies that follow
    the imposed plies of a run: plies 0 to 2 without imposed openings. The agent ``ALL_AGENTS`` stands for all agents
    together. Columns: ``rules``, ``agent`` (String); ``ply``, ``cell`` or ``piece``, ``games``, ``wins``, ``draws``,
    ``losses`` of the agent that chose (Int64); ``share`` of the choices at that ply (Float64); ``score`` (1 won, 1/2
    drawn, 0 lost) with the 95 % interval ``low`` to ``high``, as in ``mean_score`` (Float64).
    """
    players = data.seat_assignments_frame()
    imposed = [record.spec["opening_plies"] for record in data.records.values()]
    counts = data.run_named_query(kind.query_name, range(min(imposed), max(imposed) + PLIES)).join(
        players, on=("run_id", "pairing", "game")
    )
    placer_seat = (pl.col("ply") + 1) % 2
    is_giver = pl.col("mover_chooses").not_() if kind is GIFTS else pl.lit(value=False)
    chooser_seat = pl.when(is_giver).then(1 - placer_seat).otherwise(placer_seat)
    choices = counts.filter((pl.col("ply") - pl.col("imposed")).is_between(0, PLIES - 1)).select(
        "rules",
        "ply",
        kind.column,
        "games",
        "draws",
        agent=pl.when(chooser_seat == 0).then("agent_0").otherwise("agent_1"),
        wins=pl.when(is_giver).then("losses").otherwise("wins"),
        losses=pl.when(is_giver).then("wins").otherwise("losses"),
    )
    agent_choices = data.select_rows_of_requested_agents(choices)
    all_choices = agent_choices.with_columns(agent=pl.lit(ALL_AGENTS)).select(agent_choices.columns)
    counted = (
        pl.concat([all_choices, agent_choices])
        .group_by("rules", "agent", "ply", kind.column)
        .agg(pl.col("games", "wins", "draws", "losses").sum())
        .cast(dict.fromkeys(("ply", kind.column, "games", "wins", "draws", "losses"), pl.Int64()))
        .sort("rules", "agent", "ply", kind.column)
    )
    return _add_shares_scores_and_intervals(data.sort_by_rank(counted, "rules"))


def _add_shares_scores_and_intervals(counts: pl.DataFrame) -> pl.DataFrame:
    """Add the columns ``share``, ``score``, ``low`` and ``high`` of ``openings_frame``."""
    mean = (pl.col("wins") - pl.col("losses")) / pl.col("games")
    spread = ((pl.col("wins") + pl.col("losses")) / pl.col("games") - mean**2).clip(0)
    reach = normal_quantile() * (spread / pl.col("games")).sqrt()
    wilson = (
        2 * normal_quantile() ** 2 / (pl.col("games") + normal_quantile() ** 2)
    )  # half-width if all games were won or all lost, as in mean_score
    reach = pl.when(mean.abs() == 1).then(wilson).otherwise(reach)
    return counts.with_columns(
        share=pl.col("games") / pl.col("games").sum().over("rules", "agent", "ply"),
        score=(mean + 1) / 2,
        low=((mean - reach + 1) / 2).clip(0),
        high=((mean + reach + 1) / 2).clip(upper_bound=1),
    )


def _build_figures_of_all_and_each(frame: pl.DataFrame, kind: DecisionKind, data: ReportData) -> list[Figure]:
    """Build the figures, each of which has two 4 x 4 boards: the shares and the scores of the choices.

    There is a figure for each of the first free plies, about all agents together, and a figure for each agent, about
    its first free ply.
    """
    frequent = (2 * frame.filter(pl.col("games") >= ENOUGH_GAMES)["score"] - 1).abs().max()
    reach = float(frequent) if isinstance(frequent, float) and frequent > 0 else 1.0
    has_several_rules = frame["rules"].n_unique() > 1
    figures = []
    marked = frame.with_columns(first=pl.min("ply").over("rules", "agent"))
    for (rules, agent, ply), rows in marked.group_by("rules", "agent", "ply", maintain_order=True):
        if agent == ALL_AGENTS or ply == rows["first"][0]:
            agent_title = f"{agent}, ply {ply}" if ply else f"{agent}"
            subject = f"all agents, {kind.noun} of ply {ply}" if agent == ALL_AGENTS else agent_title
            title = f"{subject}, {rules}" if has_several_rules else subject
            colour = None if agent == ALL_AGENTS else data.find_colour_number(str(agent))
            figures.append(Figure(title, _render_share_and_score_boards(rows, kind, reach), colour=colour))
    return figures


def _render_share_and_score_boards(rows: pl.DataFrame, kind: DecisionKind, max_score_deviation: float) -> SvgPicture:
    """Render two boards side by side: the shares of the cells or pieces that agents chose, and the scores.

    The colour of a score shows ``2 * score - 1``, and is strongest where the absolute value of that is at least
    ``max_score_deviation``.
    """
    rows_by_choice = {row[kind.column]: row for row in rows.iter_rows(named=True)}
    max_share = max(FULL_COLOUR_SHARE, *(row["share"] for row in rows_by_choice.values()))
    shapes, right = [], (SIDE + GAP) * TILE_SIZE
    for left, heading in ((0, "how often, %; bluer: more"), (right, "score, %; blue: over half")):
        shapes.append(style.render_text(left, HEADING * TILE_SIZE / 2 + 3, heading, 10))
    for choice in range(SIDE * SIDE):
        choice_row = rows_by_choice.get(choice)
        share, score = (choice_row["share"], choice_row["score"]) if choice_row else (0.0, None)
        shapes.append(
            _render_tile(kind, choice, 0, format_percent_tenths(share) if choice_row else "0", share / max_share)
        )
        deviation = 0.0 if score is None else (2 * score - 1) / max_score_deviation
        shapes.append(
            _render_tile(kind, choice, right, "" if score is None else format_percent_tenths(score), deviation)
        )
    return SvgPicture("".join(shapes), (2 * SIDE + GAP) * TILE_SIZE, (SIDE + HEADING) * TILE_SIZE)


def _render_tile(kind: DecisionKind, index: int, left: float, text: str, shade: float) -> str:
    """Render the tile of a cell or a piece, with its name and ``text``, on a board that begins at x = ``left`` pixels.

    ``shade`` is the background colour, from orange (-1) to blue (1).
    """
    x, y = left + index % SIDE * TILE_SIZE, (HEADING + index // SIDE) * TILE_SIZE
    colour, opacity = style.SECOND_COLOUR if shade < 0 else style.FIRST_COLOUR, MAX_SHADE * min(1.0, abs(shade))
    fill = f'fill="{colour}" fill-opacity="{opacity:.3g}" stroke="{style.FAINT}" stroke-width="0.5"'
    shapes = [f'<rect x="{x:g}" y="{y:g}" width="{TILE_SIZE}" height="{TILE_SIZE}" {fill}/>']
    if kind is GIFTS:
        corner = f'x="{x + 0.72 * TILE_SIZE - PIECE_SIZE / 2:g}" y="{y + 0.28 * TILE_SIZE - PIECE_SIZE / 2:g}"'
        shapes.append(f'<use href="#piece-{index}" {corner} width="{PIECE_SIZE}" height="{PIECE_SIZE}"/>')
    shapes.append(style.render_text(x + 3, y + 10.7, kind.format_choice(index), 9))
    if text:
        shapes.append(
            style.render_text(x + TILE_SIZE / 2, y + 0.8 * TILE_SIZE, text, 10, attributes=' text-anchor="middle"')
        )
    return "".join(shapes)
