"""Results in the terminal: crosstables and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.questions.columns import (
    MAX_OPPONENTS,
    ResultColumn,
    describe_seats,
    opponent_columns,
    pairing_columns,
    ranking_columns,
    rating_columns,
    standing_columns,
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


def print_row_limit_note(rows: int, things: str, how: str = ALL_ROWS_HINT) -> None:
    """Say how many rows of a table are left out, and how to see them; print nothing if there are few enough."""
    if rows > MAX_ROWS:
        print_note(f"the first {MAX_ROWS} of {rows:,} {things} are shown; {how}")


def _print_opponent_limit_note(agents: int, how: str = ALL_ROWS_HINT) -> None:
    """Say that a table of agents against agents has columns for the first ones only, if that is so."""
    if agents > MAX_OPPONENTS:
        print_note(f"columns for the first {MAX_OPPONENTS} of {agents:,} agents only; {how}")


# Crosstables.


def print_crosstable(
    table: Crosstable, intervals: bool = True, wide: bool | None = None, how: str = ALL_ROWS_HINT
) -> None:
    """Print agents by score, and the mean score of each agent (row) against the best ones (columns).

    Notes say what is left out, and ``how`` to see it.
    """
    frame = Crosstable(table.standings[:MAX_ROWS]).to_frame(MAX_OPPONENTS)
    title = "Crosstable (score in %, win 1, draw ½)"
    agents, totals, against = (
        ranking_columns([*frame["agent"]]),
        standing_columns(frame, intervals),
        opponent_columns(frame),
    )
    apart = [
        [build_table(agents + totals, title), build_table(agents + others)]
        for others in (against, _number_headings("v", against))
    ]
    print_tables([build_table(agents + totals + against, title)], *apart, wide=wide)
    print_row_limit_note(len(table.standings), "agents", how)
    _print_opponent_limit_note(len(table.standings), how)
    if table.groups > 1:
        print_line(f"{table.groups} groups of agents have no games between them: compare scores within a group only.")


def _number_headings(word: str, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """The columns of agents with their ranks as headings, which are shorter than their names."""
    return [each._replace(heading=f"{word} {rank}") for rank, each in enumerate(columns, 1)]


def print_head_to_head(met: HeadToHead, by_seat: bool, wide: bool | None = None) -> None:
    """Print the crosstable of a tournament, then the results of every two agents that played each other."""
    others = [result for result in met.results if result.first != result.second]
    if len(others) > 1 and not by_seat:
        print_crosstable(build_crosstable(others, met.shared), wide=wide)
    title = f"Head to head ({met.rules} rules; the first agent's view, in %)"
    first = replace(met, results=met.results[:MAX_ROWS])
    print_tables([build_table(pairing_columns(first.to_frame(by_seat)), title)], wide=wide)
    print_row_limit_note(len(met.results), "pairings")
    if by_seat:
        print_line(describe_seats(met.mover_chooses))


# Ratings.


def print_ratings(
    met: HeadToHead, found: Ratings, anchor: str | None, anchor_elo: float, wide: bool | None = None
) -> None:
    """Print the ratings of each group, the seat's value, and what stays unknown."""
    groups = found.to_frame().partition_by("group", maintain_order=True)
    for number, frame in enumerate(groups, 1):
        which = f", group {number} of {len(groups)}" if len(groups) > 1 else ""
        # Games of an agent against itself are not among these.
        games = f"{met.rules} rules, {int(frame['games'].sum()) // 2:,} games"
        _print_group(frame, f"Ratings in Elo{which} ({games}; {_describe_zero(frame, anchor, anchor_elo)})", wide)
    for line in found.describe(met.mover_chooses):
        print_line(line)


def _describe_zero(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """The rating to which the ratings of one group are relative."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _print_group(frame: pl.DataFrame, title: str, wide: bool | None) -> None:
    """Print the ratings of agents that games connect, and the probability that an agent is above another."""
    size, frame = len(frame), frame.head(MAX_ROWS)
    names, elos, sure = [*frame["agent"]], rating_columns(frame), superiority_columns(frame)
    ranked, numbered = ranking_columns(names, frame["rank"]), ranking_columns(names)
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
