"""Answers to questions as results: what ``analytics.questions`` computes, with the tables that people see."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from analytics.policies.listing import select_policy_columns_for_people
from analytics.questions.columns import (
    Table,
    describe_seat_roles,
    format_short_game_name,
    number_column,
    opening_columns,
    text_column,
)
from analytics.questions.head_to_head import HeadToHead
from analytics.questions.logged_games import (
    GIFT,
    ArchivedGame,
    Decision,
    Judgements,
    LoggedEvaluations,
    describe_winner,
    list_decisions,
    replay_game_after_each_ply,
)
from analytics.questions.openings import (
    OpeningsQuery,
    OpeningsResult,
    group_equivalent_choices,
    run_openings_query,
)
from analytics.questions.pairings import build_crosstable
from analytics.questions.ratings import Ratings
from analytics.questions.run_comparison import RunComparison
from analytics.questions.sql.database import OpenArchive
from analytics.questions.strength_tables import (
    build_crosstable_table,
    build_pairings_table,
    build_rating_tables,
    describe_crosstable_omissions,
    describe_omissions,
    describe_rating_omissions,
    describe_several_groups,
)
from analytics.report.board_svg import build_boards_picture
from analytics.report.report_data import MAX_AGENTS
from analytics.report.result import Result, to_sentence
from analytics.report.sections.strength import build_ratings_chart, ratings_frame
from analytics.report.style import Figure
from analytics.report.text_tables import to_table
from analytics.store.texts import format_count_with_noun
from quarto.errors import Advice
from quarto.game import Game
from quarto.notation import format_game, format_position
from quarto.rules import NONE

MAX_ROWS = 50  # rows of a table for people; the frame has all rows


def build_crosstable_result(head_to_head: HeadToHead, by_seat: bool = False) -> Result:
    """Build the result for a crosstable: the results of each pairing, and of each agent against all others.

    One table is the crosstable, and the other has a row for each pairing. With ``by_seat``, only the second table is
    built, and its rows are split by seat. The crosstable is also left out if there are fewer than two pairings of
    different agents. The frame has the columns of ``analytics.questions.pairings.pairings_frame``.
    """
    frame, pairings = head_to_head.to_frame(by_seat), build_pairings_table(head_to_head, by_seat)
    results = [result for result in head_to_head.results if result.first != result.second]
    omissions = describe_omissions(len(head_to_head.results), "pairings")
    if len(results) < 2 or by_seat:
        note = describe_seat_roles(head_to_head.mover_chooses) if by_seat else ""
        return Result(note, pairings, title="Crosstable", frame=frame, warnings=head_to_head.notes, omissions=omissions)
    crosstable = build_crosstable(results, head_to_head.shared)
    groups = crosstable.group_count
    return Result(
        describe_several_groups(groups) if groups > 1 else "",
        build_crosstable_table(crosstable),
        numbers=pairings,
        title="Crosstable",
        frame=frame,
        warnings=head_to_head.notes,
        omissions=[*describe_crosstable_omissions(crosstable), *omissions],
    )


def build_ratings_result(
    head_to_head: HeadToHead, fit: Ratings, anchor: str | None = None, anchor_elo: float = 0.0
) -> Result:
    """Build the result for ratings: a table for each group of agents that met, and a chart of the best agents.

    ``anchor`` and ``anchor_elo`` are the arguments with which ``fit`` was made; the titles of the tables name them. The
    frame is that of ``Ratings.to_frame``.
    """
    best_agents = ratings_frame(fit).head(MAX_AGENTS)
    colours = sorted(best_agents["agent"])
    figure = Figure("Ratings with their 95 % intervals", build_ratings_chart(best_agents, colours.index), "ratings-")
    first, *others = build_rating_tables(head_to_head, fit, anchor, anchor_elo)
    unrated = fit.unrated_sentences
    return Result(
        "\n".join(line for line in fit.describe(head_to_head.mover_chooses) if line not in unrated),
        first,
        [figure],
        others=others,
        title="Ratings",
        frame=fit.to_frame(),
        warnings=[*head_to_head.notes, *unrated],
        omissions=describe_rating_omissions(fit),
    )


MAX_TURNS = 16  # rows of the table that is shown beside the next decision
ORDER_DESCRIPTIONS = {"games": "most played", "score": "worst", "losses": "most often lost"}  # by sort order
DECIDERS = {"gift": "the giver", "placement": "the mover", "turn": "the mover"}


def answer_openings(opened: OpenArchive, query: OpeningsQuery, with_turns: bool = True) -> Result:
    """Answer a query about the decisions in a position.

    The first table has the decisions that the query asks for: gifts, placements or turns. By default, they are the
    decisions that come next in the position: placements if a piece is in hand, gifts if not, and turns if the mover
    chooses the piece. If the query does not say which decisions it asks for and ``with_turns`` is set, a second table
    has the first ``MAX_TURNS`` turns, in the order that the query asks for. The frame has the columns of
    ``analytics.questions.openings.explore_position``.
    """
    answer = run_openings_query(opened, query)
    other_tables = []
    if with_turns and query.by is None and answer.by != "turn":
        turns = run_openings_query(opened, replace(query, by="turn"))
        other_tables.append(_build_decisions_table(turns, query, MAX_TURNS))
    max_rows = MAX_ROWS if answer.first_free else len(answer.rows)
    table = _build_decisions_table(answer, query, max_rows)
    omissions = [f"the first {max_rows} of {len(answer.rows):,} rows are shown"] if max_rows < len(answer.rows) else []
    return Result(
        "",
        table,
        others=other_tables,
        title="Openings",
        frame=answer.rows,
        omissions=omissions,
    )


def _build_decisions_table(answer: OpeningsResult, query: OpeningsQuery, max_rows: int) -> Table:
    """Build the table of the first ``max_rows`` decisions of an answer, with their results and sample games.

    On a narrow terminal, the columns of the sample games are dropped first.
    """
    rows = answer.rows.head(max_rows)
    order, count = ORDER_DESCRIPTIONS[query.sort], len(answer.rows)
    decisions = f"{format_count_with_noun(answer.games, 'game')} by {answer.by}{_describe_deciders(query)}"
    title = f"{answer.subject}: {decisions}; in %, for {DECIDERS[answer.by]}"
    if len(rows) < count:
        title += f"; the {len(rows)} {order} of {count}"
        if answer.by != query.by and not answer.first_free:
            title = Advice(title, "all: --by turn", 'all: by="turn"')
    games = [format_short_game_name(*game) for game in rows.select("run_id", "game_id").iter_rows()]
    sample = (
        text_column("game", games)._replace(drop_priority=8),
        text_column("sample", rows["sample"])._replace(drop_priority=9),
    )
    return Table(title, [*opening_columns(rows), *sample], legend=_build_legend(answer, rows))


def _build_legend(answer: OpeningsResult, rows: pl.DataFrame) -> str:
    """Build the legend of a table of decisions: what a row stands for, followed by the answer's notes.

    If the last note is an ``Advice``, the legend is an ``Advice``, too, so that it still has both forms of the advice:
    the command and the Python call.
    """
    lines = [describe_choices_a_row_stands_for(answer, rows), *map(to_sentence, answer.notes)]
    last = answer.notes[-1] if answer.notes else ""
    if not isinstance(last, Advice):
        return "\n".join(lines)
    text = "\n".join([*lines[:-1], f"{last.text[0].upper()}{last.text[1:]}"])
    return Advice(text, last.command, last.call)


def _describe_deciders(query: OpeningsQuery) -> str:
    """Describe whose decisions a query is about, and against which opponent; return "" if it is about all agents."""
    agent, opponent = query.games.agent, query.games.opponent
    against = f" against {opponent}" if opponent else ""
    return f", decided by {agent}{against}" if agent else f", decided{against}" if opponent else ""


def describe_choices_a_row_stands_for(answer: OpeningsResult, rows: pl.DataFrame) -> str:
    """Describe the choices that one row of an answer about openings stands for.

    A row stands for all choices that are equivalent by symmetry. The description has examples from ``rows``.
    """
    if answer.first_free:
        return "Up to symmetry: a row stands for as many choices in its position as alike says"
    cells = set(rows["cell"]) if "cell" in rows.columns else set()
    groups = group_equivalent_choices(answer.position, answer.rules, "placement")
    examples = [f"{alike[0]} for {' '.join(alike)}" for alike in groups if len(alike) > 1 and alike[0] in cells]
    return "; ".join(["Up to symmetry: a row stands for as many choices as alike says", *examples])


def build_comparison_result(comparison: RunComparison) -> Result:
    """Build the result for a comparison of runs.

    The frame has the differences of scores (``RunComparison.results``).
    """
    first, *others = comparison.tables or [Table("")]
    warnings = comparison.agent_match_notes
    return Result("", first, others=others, title="Comparison of runs", frame=comparison.results, warnings=warnings)


MAX_LISTED_LETTERS = (
    100  # letters of a run's agents; if a longer list has more than two agents, only the first is named
)


def build_runs_result(frame: pl.DataFrame) -> Result:
    """Build the result that lists runs; ``frame`` has the columns of the view ``runs``."""
    agents, joined = pl.col("agents"), pl.col("agents").list.join(", ")
    is_long = (agents.list.len() > 2) & (joined.str.len_chars() > MAX_LISTED_LETTERS)
    few = pl.format("{} and {} others", agents.list.first(), agents.list.len() - 1)
    shown = frame.select(
        "run_id",
        *(["name"] if frame["name"].null_count() < frame.height else []),
        "games",
        pl.when(is_long).then(few).otherwise(joined).alias("agents"),
        *("rules", "status", pl.col("created").dt.strftime("%Y-%m-%d %H:%M"), "seed", "opening_plies", "games_asked"),
        *(pl.col("seconds").round(1), "ranges", "fingerprint"),
    )
    return Result(table=to_table(shown), title="Runs", frame=frame)


def build_policies_result(frame: pl.DataFrame) -> Result:
    """Build the result that lists policies; ``frame`` has the columns of the view ``policies``."""
    return Result(table=to_table(select_policy_columns_for_people(frame)), title="Policies", frame=frame)


def build_list_result(title: str, frame: pl.DataFrame, total: int | None = None) -> Result:
    """Build the result that lists the rows of a frame under a title; people see the first ``MAX_ROWS`` rows.

    ``total`` is the total number of rows, if ``frame`` holds only some of them.
    """
    count = frame.height if total is None else total
    first_rows = frame.head(MAX_ROWS)
    note = f"The first {first_rows.height} of {count:,} rows." if first_rows.height < count else ""
    return Result(note, replace(to_table(first_rows), title=title), title=title, frame=frame)


def build_game_result(game: ArchivedGame, judgements: Judgements, evaluations: LoggedEvaluations) -> Result:
    """Build the result for one game: a row for each decision, and a picture of the boards after each ply.

    Columns:

    - ``ply``, ``kind`` (gift or placement), ``seat`` and ``agent``;
    - ``choice``: the piece or the cell, as text, or both if the mover chooses the piece;
    - ``imposed``: whether the decision was imposed;
    - ``value_before``, ``value_after``: the exact values before and after the decision, for the agent that decides (1
      won, 0 drawn, -1 lost), or null if the decision is not judged;
    - ``regret`` (half-points), or null if the decision is not judged;
    - ``evaluation`` (-1 to 1): the value that the agent reported for its turn, or null if none is logged;
    - ``seconds``: the time that the turn took, or null if none is logged;
    - ``position``: the position before the decision, in the form that ``quarto.solve`` and ``qarena solve`` take.

    The evaluation of a turn is in the row of its placement. The first gift that an agent chooses is a turn without a
    placement. If this gift begins the game, its evaluation is in the gift's row; after imposed plies, it is in the row
    of the last imposed placement.
    """
    decisions = list_decisions(game, judgements)
    frame = pl.DataFrame(
        [_build_decision_row(game, decision, evaluations) for decision in decisions], schema=GAME_SCHEMA, orient="row"
    )
    name = f"Game {format_short_game_name(game.record.run_id, game.game_id)}, {game.record.rules.name} rules"
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
    figure = Figure("The board after each ply", build_boards_picture(replay_game_after_each_ply(game)), "boards-")
    return Result(note, Table(name, columns), [figure], title=name, frame=frame, run_id=game.record.run_id)


def _build_decision_row(
    game: ArchivedGame, decision: Decision, evaluations: LoggedEvaluations
) -> tuple[int | float | str | bool | None, ...]:
    """Return the values of one decision, in the order of ``GAME_SCHEMA``."""
    judgement, rules, is_gift = decision.judgement, game.record.rules, decision.kind == GIFT
    values = (None,) * 3 if judgement is None else (judgement.before, judgement.after, judgement.regret)
    first_gift = is_gift and decision.ply == 0
    evaluation = None if is_gift and not first_gift else evaluations.get(-1 if first_gift else decision.ply)
    hand = NONE if is_gift or rules.mover_chooses else game.plies[decision.ply][0]
    position = format_position(Game(rules, game.plies[: decision.ply], hand).position, rules.name)
    expected = (None, None) if evaluation is None else (evaluation.value, evaluation.seconds)
    named = (decision.ply, decision.kind, decision.seat, decision.agent, decision.choice, decision.imposed)
    return (*named, *values, *expected, position)


GAME_SCHEMA = {
    "ply": pl.Int64(),
    "kind": pl.String(),
    "seat": pl.Int64(),
    "agent": pl.String(),
    "choice": pl.String(),
    "imposed": pl.Boolean(),
    **dict.fromkeys(("value_before", "value_after", "regret"), pl.Int64()),
    **dict.fromkeys(("evaluation", "seconds"), pl.Float64()),
    "position": pl.String(),
}
