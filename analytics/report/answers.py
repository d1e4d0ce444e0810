"""Answers to questions as results: what is computed in ``analytics.questions``, with the tables that people see."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from analytics.questions.columns import (
    Table,
    describe_seat_roles,
    format_count_with_noun,
    format_game_name,
    number_column,
    opening_columns,
    text_column,
)
from analytics.questions.head_to_head import HeadToHead
from analytics.questions.logged_games import (
    ArchivedGame,
    Judgements,
    describe_winner,
    list_decisions,
)
from analytics.questions.openings import OpeningsResult, group_equivalent_choices
from analytics.questions.pairings import build_crosstable
from analytics.questions.ratings import Ratings
from analytics.questions.run_comparison import RunComparison
from analytics.questions.strength_tables import (
    build_crosstable_table,
    build_pairings_table,
    build_rating_tables,
    describe_crosstable_omissions,
    describe_groups,
    describe_omissions,
    describe_rating_omissions,
)
from analytics.questions.text_tables import to_table
from analytics.report.report_data import MAX_AGENTS
from analytics.report.result import Result
from analytics.report.sections.strength import build_ratings_chart, ratings_frame
from analytics.report.style import Figure
from quarto.notation import format_game, format_position

MAX_ROWS = 50  # of a table for people; the frame has all


def build_crosstable_result(met: HeadToHead, by_seat: bool = False) -> Result:
    """The results of every two agents, and of each agent against all others.

    The frame has the columns of ``analytics.questions.pairings.pairings_frame``.
    """
    frame, pairings = met.to_frame(by_seat), build_pairings_table(met, by_seat)
    others = [result for result in met.results if result.first != result.second]
    omissions = describe_omissions(len(met.results), "pairings")
    if len(others) < 2 or by_seat:
        note = describe_seat_roles(met.mover_chooses) if by_seat else ""
        return Result(note, pairings, title="Crosstable", frame=frame, warnings=met.notes, omissions=omissions)
    crosstable = build_crosstable(others, met.shared)
    groups = crosstable.group_count
    return Result(
        describe_groups(groups) if groups > 1 else "",
        build_crosstable_table(crosstable),
        numbers=pairings,
        title="Crosstable",
        frame=frame,
        warnings=met.notes,
        omissions=[*describe_crosstable_omissions(crosstable), *omissions],
    )


def build_ratings_result(met: HeadToHead, fit: Ratings, anchor: str | None = None, anchor_elo: float = 0.0) -> Result:
    """The ratings of all agents in Elo, a table for each group of agents that met, and the picture of the best.

    The frame is that of ``Ratings.to_frame``.
    """
    shown = ratings_frame(fit).head(MAX_AGENTS)
    colours = sorted(shown["agent"])
    figure = Figure("Ratings with their 95 % intervals", build_ratings_chart(shown, colours.index), "ratings-")
    first, *others = build_rating_tables(met, fit, anchor, anchor_elo)
    unrated = fit.unrated_sentences
    return Result(
        "\n".join(line for line in fit.describe(met.mover_chooses) if line not in unrated),
        first,
        [figure],
        others=others,
        title="Ratings",
        frame=fit.to_frame(),
        warnings=[*met.notes, *unrated],
        omissions=describe_rating_omissions(fit),
    )


def build_openings_result(found: OpeningsResult) -> Result:
    """The decisions in a position; the frame is that of ``analytics.questions.openings.explore_position``."""
    rows, shown = found.rows, found.rows.head(MAX_ROWS)
    games = format_count_with_noun(found.games, "game")
    title = f"{format_position(found.position, found.rules.name)}: {games} by {found.by}, in %"
    names = [format_game_name(*game) for game in shown.select("run_id", "game_id").iter_rows()]
    sample = [text_column("game", names)._replace(drop_priority=8)]
    if "sample" in shown.columns:
        sample.append(text_column("sample", shown["sample"])._replace(drop_priority=9))
    table = Table(title, [*opening_columns(shown), *sample])
    return Result(describe_alike_choices(found, shown), table, title="Openings", frame=rows)


def describe_alike_choices(found: OpeningsResult, rows: pl.DataFrame) -> str:
    """Describe the choices that a row of an answer about openings stands for."""
    cells = set(rows["cell"]) if "cell" in rows.columns else set()
    groups = group_equivalent_choices(found.position, found.rules, "placement")
    named = [f"{alike[0]} for {' '.join(alike)}" for alike in groups if len(alike) > 1 and alike[0] in cells]
    return "; ".join(["Up to symmetry: a row stands for as many choices as alike says", *named])


def build_comparison_result(found: RunComparison) -> Result:
    """Runs compared with the first; the frame has the differences of scores (``RunComparison.results``)."""
    first, *others = found.tables or [Table("")]
    warnings = found.agent_match_notes
    return Result("", first, others=others, title="Comparison of runs", frame=found.results, warnings=warnings)


def build_list_result(title: str, frame: pl.DataFrame, total: int | None = None) -> Result:
    """Rows of a view, of which people see the first; ``total`` rows there are in all."""
    count = frame.height if total is None else total
    shown = frame.head(MAX_ROWS)
    note = f"The first {shown.height} of {count:,} rows." if shown.height < count else ""
    return Result(note, replace(to_table(shown), title=title), title=title, frame=frame)


def build_game_result(game: ArchivedGame, judged: Judgements) -> Result:
    """One game, a row for each decision.

    Columns: ``ply``, ``kind`` (gift or placement), ``seat``, ``agent``, ``choice`` (piece or cell as text),
    ``imposed``; ``value_before``, ``value_after`` (exact, 1 won, 0 drawn, -1 lost for the agent that decides) and
    ``regret`` (half-points), null where the decision is not judged.
    """
    decisions = list_decisions(game, judged)
    frame = pl.DataFrame(
        [
            (each.ply, each.kind, each.seat, each.agent, each.choice, each.imposed)
            + ((None,) * 3 if (of := each.judgement) is None else (of.before, of.after, of.regret))
            for each in decisions
        ],
        schema=GAME_SCHEMA,
        orient="row",
    )
    name = f"Game {format_game_name(game.record.run_id, game.game_id)}, {game.record.rules.name} rules"
    columns = [
        number_column("ply", frame["ply"]),
        *(text_column(heading, frame[heading]) for heading in ("kind", "agent", "choice")),
        text_column("imposed", ["yes" if imposed else "" for imposed in frame["imposed"]]),
        *(
            number_column(heading, frame[column], str)
            for heading, column in (("value before", "value_before"), ("after", "value_after"), ("regret", "regret"))
        ),
    ]
    winner = f"Winner: {describe_winner(game.winner, game.agents)}" if game.winner >= 0 else "A draw"
    note = f"{format_game(game.plies)}\n{winner} ({game.ending.replace('_', ' ')})."
    return Result(note, Table(name, columns), title=name, frame=frame, run_id=game.record.run_id)


GAME_SCHEMA = {
    "ply": pl.Int64(),
    "kind": pl.String(),
    "seat": pl.Int64(),
    "agent": pl.String(),
    "choice": pl.String(),
    "imposed": pl.Boolean(),
    **dict.fromkeys(("value_before", "value_after", "regret"), pl.Int64()),
}
