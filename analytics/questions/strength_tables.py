"""Tables of the strength of agents: crosstables, pairings and ratings, and what they leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analytics.questions.columns import (
    MAX_OPPONENTS,
    ResultColumn,
    Table,
    numbered_agent_columns,
    pairing_columns,
    rating_columns_without_agents,
    score_against_top_opponents_columns,
    standing_columns_without_agents,
    superiority_over_top_agents_columns,
)
from analytics.questions.pairings import Crosstable
from analytics.store.texts import format_count_with_noun

if TYPE_CHECKING:
    import polars as pl

    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import Ratings

MAX_ROWS = 400  # agents or pairings in a table: 44,850 pairings of 300 agents would scroll for minutes


def describe_omissions(row_count: int, row_noun: str, opponent_count: int = 0) -> list[str]:
    """Describe how many rows, and how many columns for opponents, a table leaves out; the result is empty if none are.

    ``row_count`` is the number of all rows, and ``opponent_count`` the number of all columns for opponents.
    ``row_noun`` says what the rows are, such as ``agents``.
    """
    omissions = []
    if row_count > MAX_ROWS:
        omissions.append(f"the first {MAX_ROWS} of {row_count:,} {row_noun} are shown")
    if opponent_count > MAX_OPPONENTS:
        omissions.append(f"columns for the first {MAX_OPPONENTS} of {opponent_count:,} agents only")
    return omissions


def describe_crosstable_omissions(crosstable: Crosstable) -> list[str]:
    """Describe which rows and columns ``build_crosstable_table`` leaves out; the result is empty if there are none."""
    agents = len(crosstable.standings)
    return describe_omissions(agents, "agents", agents)


def describe_several_groups(group_count: int) -> str:
    """Return a sentence that says that the agents form ``group_count`` groups without games between the groups."""
    return (
        f"{format_count_with_noun(group_count, 'group')} of agents have no games "
        "between them: compare scores within a group only."
    )


def build_crosstable_table(crosstable: Crosstable, with_intervals: bool = True) -> Table:
    """Build the table of agents, sorted by score, with a column for the mean score against each of the best agents."""
    frame = Crosstable(crosstable.standings[:MAX_ROWS]).to_frame(MAX_OPPONENTS)
    title = "Crosstable (score in %, win 1, draw ½)"
    agents = numbered_agent_columns([*frame["agent"]])
    totals, opponent_columns = (
        standing_columns_without_agents(frame, with_intervals),
        score_against_top_opponents_columns(frame),
    )
    splits = [
        [Table(title, agents + totals), Table("", agents + opponents)]
        for opponents in (opponent_columns, _replace_headings_by_ranks("v", opponent_columns))
    ]
    return Table(title, agents + totals + opponent_columns, splits)


def build_pairings_table(head_to_head: HeadToHead, by_seat: bool = False) -> Table:
    """Build the table of results, with a row for each pair of agents.

    With ``by_seat``, each pair of agents has a row for each seat of its first agent.
    """
    title = f"Head to head ({head_to_head.rules} rules; the first agent's view, in %)"
    rows = len(head_to_head.results[:MAX_ROWS]) * (2 if by_seat else 1)
    return Table(title, pairing_columns(head_to_head.to_frame(by_seat).head(rows)))


def build_rating_tables(
    head_to_head: HeadToHead, ratings: Ratings, anchor: str | None, anchor_elo: float
) -> list[Table]:
    """Build the tables of ratings, one for each group of agents that games connect."""
    groups = ratings.to_frame().partition_by("group", maintain_order=True)
    tables = []
    for number, frame in enumerate(groups, 1):
        group = f", group {number} of {len(groups)}" if len(groups) > 1 else ""
        # Games of an agent against itself are not among these.
        games = f"{head_to_head.rules} rules, {format_count_with_noun(int(frame['games'].sum()) // 2, 'game')}"
        title = f"Ratings in Elo{group} ({games}; {_describe_reference_rating(frame, anchor, anchor_elo)})"
        tables.append(_build_rating_table(frame.head(MAX_ROWS), title))
    return tables


def describe_rating_omissions(ratings: Ratings) -> list[str]:
    """Describe which rows and columns ``build_rating_tables`` leaves out; the result is empty if there are none."""
    sizes = ratings.to_frame()["group"].value_counts()["count"]
    return list(dict.fromkeys(text for size in sizes for text in describe_omissions(size, "agents", size)))


def _build_rating_table(frame: pl.DataFrame, title: str) -> Table:
    """Build the table of one group's ratings, with the probability that each agent is stronger than each top agent."""
    names, elos, superiority = (
        [*frame["agent"]],
        rating_columns_without_agents(frame),
        superiority_over_top_agents_columns(frame),
    )
    ranked, numbered = numbered_agent_columns(names, frame["rank"]), numbered_agent_columns(names)
    splits = [
        [Table(title, ranked + elos), Table("Probability of being above the other, in %", numbered + opponents)]
        for opponents in (superiority, _replace_headings_by_ranks(">", superiority))
    ]
    return Table(f"{title}; > probability of being above, in %", ranked + elos + superiority, splits)


def _describe_reference_rating(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """Describe the rating to which the ratings of one group are relative: the anchor's, or a mean."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _replace_headings_by_ranks(prefix: str, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """Replace the headings with ``prefix`` and the ranks of the agents, because ranks are shorter than labels."""
    return [column._replace(heading=f"{prefix} {rank}") for rank, column in enumerate(columns, 1)]
