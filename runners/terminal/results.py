"""Results in the terminal: crosstables and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.questions.columns import (
    MAX_OPPONENTS,
    ResultColumn,
    describe_seat_roles,
    pairing_columns,
    rank_and_agent_columns,
    rating_columns_without_agents,
    score_by_opponent_columns,
    standing_columns_without_agents,
    superiority_columns,
)
from analytics.questions.pairings import Crosstable, build_crosstable
from runners.terminal.console import build_table, print_line, print_note, print_tables

if TYPE_CHECKING:
    import polars as pl

    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import Ratings

MAX_ROWS = 400  # agents, or pairings, of a table: 300 agents have 44,850 pairings, which fill a terminal for minutes
ALL_ROWS_HINT = "--output FILE for all"


def print_row_limit_note(row_count: int, row_noun: str, all_rows_hint: str = ALL_ROWS_HINT) -> None:
    """Say how many rows of a table are left out, and how to see them; print nothing if there are few enough."""
    if row_count > MAX_ROWS:
        print_note(f"the first {MAX_ROWS} of {row_count:,} {row_noun} are shown; {all_rows_hint}")


def _print_opponent_limit_note(agent_count: int, all_rows_hint: str = ALL_ROWS_HINT) -> None:
    """Say that a table of agents against agents has columns for the first ones only, if that is so."""
    if agent_count > MAX_OPPONENTS:
        print_note(f"columns for the first {MAX_OPPONENTS} of {agent_count:,} agents only; {all_rows_hint}")


# Crosstables.


def print_crosstable(
    crosstable: Crosstable, with_intervals: bool = True, wide: bool | None = None, all_rows_hint: str = ALL_ROWS_HINT
) -> None:
    """Print agents by score, and the mean score of each agent (row) against the best ones (columns).

    Notes say what is left out, and ``all_rows_hint`` to see it.
    """
    frame = Crosstable(crosstable.standings[:MAX_ROWS]).to_frame(MAX_OPPONENTS)
    title = "Crosstable (score in %, win 1, draw ½)"
    agents, totals, against = (
        rank_and_agent_columns([*frame["agent"]]),
        standing_columns_without_agents(frame, with_intervals),
        score_by_opponent_columns(frame),
    )
    apart = [
        [build_table(agents + totals, title), build_table(agents + others)]
        for others in (against, _number_headings("v", against))
    ]
    print_tables([build_table(agents + totals + against, title)], *apart, wide=wide)
    print_row_limit_note(len(crosstable.standings), "agents", all_rows_hint)
    _print_opponent_limit_note(len(crosstable.standings), all_rows_hint)
    if crosstable.group_count > 1:
        print_line(
            f"{crosstable.group_count} groups of agents have no games between them: compare scores within a group only."
        )


def _number_headings(prefix: str, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """The columns of agents with their ranks as headings, which are shorter than their names."""
    return [each._replace(heading=f"{prefix} {rank}") for rank, each in enumerate(columns, 1)]


def print_head_to_head(head_to_head: HeadToHead, by_seat: bool, wide: bool | None = None) -> None:
    """Print the crosstable of a tournament, then the results of every two agents that played each other."""
    others = [result for result in head_to_head.results if result.first != result.second]
    if len(others) > 1 and not by_seat:
        print_crosstable(build_crosstable(others, head_to_head.shared), wide=wide)
    title = f"Head to head ({head_to_head.rules} rules; the first agent's view, in %)"
    first = replace(head_to_head, results=head_to_head.results[:MAX_ROWS])
    print_tables([build_table(pairing_columns(first.to_frame(by_seat)), title)], wide=wide)
    print_row_limit_note(len(head_to_head.results), "pairings")
    if by_seat:
        print_line(describe_seat_roles(head_to_head.mover_chooses))


# Ratings.


def print_ratings(
    head_to_head: HeadToHead, ratings: Ratings, anchor: str | None, anchor_elo: float, wide: bool | None = None
) -> None:
    """Print the ratings of each group, the seat's value, and what stays unknown."""
    groups = ratings.to_frame().partition_by("group", maintain_order=True)
    for number, frame in enumerate(groups, 1):
        which = f", group {number} of {len(groups)}" if len(groups) > 1 else ""
        # Games of an agent against itself are not among these.
        games = f"{head_to_head.rules} rules, {int(frame['games'].sum()) // 2:,} games"
        _print_rating_group(
            frame, f"Ratings in Elo{which} ({games}; {_describe_reference_rating(frame, anchor, anchor_elo)})", wide
        )
    for line in ratings.describe(head_to_head.mover_chooses):
        print_line(line)


def _describe_reference_rating(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """The rating to which the ratings of one group are relative."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _print_rating_group(frame: pl.DataFrame, title: str, wide: bool | None) -> None:
    """Print the ratings of agents that games connect, and the probability that an agent is above another."""
    size, frame = len(frame), frame.head(MAX_ROWS)
    names, elos, sure = [*frame["agent"]], rating_columns_without_agents(frame), superiority_columns(frame)
    ranked, numbered = rank_and_agent_columns(names, frame["rank"]), rank_and_agent_columns(names)
    print_tables(
        [build_table(ranked + elos + sure, f"{title}; > probability of being above, in %")],
        *(
            [
                build_table(ranked + elos, title),
                build_table(numbered + others, "Probability of being above the other, in %"),
            ]
            for others in (sure, _number_headings(">", sure))
        ),
        wide=wide,
    )
    print_row_limit_note(size, "agents")
    _print_opponent_limit_note(size)
