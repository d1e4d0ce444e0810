"""Tables of the strength of agents: crosstables, pairings and ratings, and what they say where there is little room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analytics.questions.columns import (
    MAX_OPPONENTS,
    ResultColumn,
    Table,
    pairing_columns,
    rank_and_agent_columns,
    rating_columns_without_agents,
    score_by_opponent_columns,
    standing_columns_without_agents,
    superiority_columns,
)
from analytics.questions.pairings import Crosstable

if TYPE_CHECKING:
    import polars as pl

    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import Ratings

MAX_ROWS = 400  # agents, or pairings, of a table: 300 agents have 44,850 pairings, which fill a terminal for minutes


def describe_omissions(row_count: int, row_noun: str, opponent_count: int = 0) -> list[str]:
    """Say how many rows, and columns of opponents, a table leaves out; nothing if it has all."""
    omissions = []
    if row_count > MAX_ROWS:
        omissions.append(f"the first {MAX_ROWS} of {row_count:,} {row_noun} are shown")
    if opponent_count > MAX_OPPONENTS:
        omissions.append(f"columns for the first {MAX_OPPONENTS} of {opponent_count:,} agents only")
    return omissions


def describe_crosstable_omissions(crosstable: Crosstable) -> list[str]:
    """Say what ``build_crosstable_table`` leaves out."""
    agents = len(crosstable.standings)
    return describe_omissions(agents, "agents", agents)


def describe_groups(group_count: int) -> str:
    """Say that some agents never met, not even through others."""
    return f"{group_count} groups of agents have no games between them: compare scores within a group only."


def build_crosstable_table(crosstable: Crosstable, with_intervals: bool = True) -> Table:
    """Build the table of agents by score, and the mean score of each (row) against the best ones (columns)."""
    frame = Crosstable(crosstable.standings[:MAX_ROWS]).to_frame(MAX_OPPONENTS)
    title = "Crosstable (score in %, win 1, draw ½)"
    agents = rank_and_agent_columns([*frame["agent"]])
    totals, against = standing_columns_without_agents(frame, with_intervals), score_by_opponent_columns(frame)
    splits = [
        [Table(title, agents + totals), Table("", agents + others)]
        for others in (against, _number_headings("v", against))
    ]
    return Table(title, agents + totals + against, splits)


def build_pairings_table(met: HeadToHead, by_seat: bool = False) -> Table:
    """Build the table of the results of every two agents."""
    title = f"Head to head ({met.rules} rules; the first agent's view, in %)"
    rows = len(met.results[:MAX_ROWS]) * (2 if by_seat else 1)
    return Table(title, pairing_columns(met.to_frame(by_seat).head(rows)))


def build_rating_tables(met: HeadToHead, ratings: Ratings, anchor: str | None, anchor_elo: float) -> list[Table]:
    """Build a table for each group of agents that games connect."""
    groups = ratings.to_frame().partition_by("group", maintain_order=True)
    tables = []
    for number, frame in enumerate(groups, 1):
        group = f", group {number} of {len(groups)}" if len(groups) > 1 else ""
        # Games of an agent against itself are not among these.
        games = f"{met.rules} rules, {int(frame['games'].sum()) // 2:,} games"
        title = f"Ratings in Elo{group} ({games}; {_describe_reference_rating(frame, anchor, anchor_elo)})"
        tables.append(_build_rating_table(frame.head(MAX_ROWS), title))
    return tables


def describe_rating_omissions(ratings: Ratings) -> list[str]:
    """Say what ``build_rating_tables`` leaves out."""
    sizes = ratings.to_frame()["group"].value_counts()["count"]
    return list(dict.fromkeys(text for size in sizes for text in describe_omissions(size, "agents", size)))


def _build_rating_table(frame: pl.DataFrame, title: str) -> Table:
    """Build the ratings of agents that games connect, and the probability that an agent is above another."""
    names, elos, sure = [*frame["agent"]], rating_columns_without_agents(frame), superiority_columns(frame)
    ranked, numbered = rank_and_agent_columns(names, frame["rank"]), rank_and_agent_columns(names)
    splits = [
        [Table(title, ranked + elos), Table("Probability of being above the other, in %", numbered + others)]
        for others in (sure, _number_headings(">", sure))
    ]
    return Table(f"{title}; > probability of being above, in %", ranked + elos + sure, splits)


def _describe_reference_rating(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """The rating to which the ratings of one group are relative."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _number_headings(prefix: str, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """The columns of agents with their ranks as headings, which are shorter than their names."""
    return [column._replace(heading=f"{prefix} {rank}") for rank, column in enumerate(columns, 1)]
