"""Results in the terminal: crosstables and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.questions.columns import (
    MOST_OPPONENTS,
    ResultColumn,
    opponent_columns,
    pairing_columns,
    ranked,
    rating_columns,
    seats_explained,
    standing_columns,
    superiority_columns,
)
from analytics.questions.pairings import Crosstable, crosstable
from runners.terminal.console import print_line, print_note, show, tabulated

if TYPE_CHECKING:
    import polars as pl

    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import Ratings

MOST_ROWS = 400  # agents, or pairings, of a table: 300 agents have 44,850 pairings, which fill a terminal for minutes
ALL = "--output FILE for all"


def note_left_out(rows: int, things: str, how: str = ALL) -> None:
    """Say how many rows of a table are left out, and how to see them; print nothing if there are few enough."""
    if rows > MOST_ROWS:
        print_note(f"the first {MOST_ROWS} of {rows:,} {things} are shown; {how}")


def _note_opponents(agents: int, how: str = ALL) -> None:
    """Say that a table of agents against agents has columns for the first ones only, if that is so."""
    if agents > MOST_OPPONENTS:
        print_note(f"columns for the first {MOST_OPPONENTS} of {agents:,} agents only; {how}")


# Crosstables.


def show_crosstable(table: Crosstable, intervals: bool = True, wide: bool | None = None, how: str = ALL) -> None:
    """Print agents by score, and the mean score of each agent (row) against the best ones (columns).

    Notes say what is left out, and ``how`` to see it.
    """
    frame = Crosstable(table.standings[:MOST_ROWS]).frame(MOST_OPPONENTS)
    title = "Crosstable (score in %, win 1, draw ½)"
    agents, totals, against = ranked([*frame["agent"]]), standing_columns(frame, intervals), opponent_columns(frame)
    apart = [
        [tabulated(agents + totals, title), tabulated(agents + others)] for others in (against, _numbered("v", against))
    ]
    show([tabulated(agents + totals + against, title)], *apart, wide=wide)
    note_left_out(len(table.standings), "agents", how)
    _note_opponents(len(table.standings), how)
    if table.groups > 1:
        print_line(f"{table.groups} groups of agents have no games between them: compare scores within a group only.")


def _numbered(word: str, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """The columns of agents with their ranks as headings, which are shorter than their names."""
    return [each._replace(heading=f"{word} {rank}") for rank, each in enumerate(columns, 1)]


def show_head_to_head(met: HeadToHead, by_seat: bool, wide: bool | None = None) -> None:
    """Print the crosstable of a tournament, then the results of every two agents that played each other."""
    others = [result for result in met.results if result.first != result.second]
    if len(others) > 1 and not by_seat:
        show_crosstable(crosstable(others, met.shared), wide=wide)
    title = f"Head to head ({met.rules} rules; the first agent's view, in %)"
    first = replace(met, results=met.results[:MOST_ROWS])
    show([tabulated(pairing_columns(first.frame(by_seat)), title)], wide=wide)
    note_left_out(len(met.results), "pairings")
    if by_seat:
        print_line(seats_explained(met.mover_chooses))


# Ratings.


def show_ratings(
    met: HeadToHead, found: Ratings, anchor: str | None, anchor_elo: float, wide: bool | None = None
) -> None:
    """Print the ratings of each group, the seat's value, and what stays unknown."""
    groups = found.frame().partition_by("group", maintain_order=True)
    for number, frame in enumerate(groups, 1):
        which = f", group {number} of {len(groups)}" if len(groups) > 1 else ""
        # Games of an agent against itself are not among these.
        games = f"{met.rules} rules, {int(frame['games'].sum()) // 2:,} games"
        _show_group(frame, f"Ratings in Elo{which} ({games}; {_zero(frame, anchor, anchor_elo)})", wide)
    for line in found.sentences(met.mover_chooses):
        print_line(line)


def _zero(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """The rating to which the ratings of one group are relative."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _show_group(frame: pl.DataFrame, title: str, wide: bool | None) -> None:
    """Print the ratings of agents that games connect, and the probability that an agent is above another."""
    size, frame = len(frame), frame.head(MOST_ROWS)
    agents, elos, sure = ranked([*frame["agent"]]), rating_columns(frame), superiority_columns(frame)
    show(
        [tabulated(agents + elos + sure, f"{title}; > probability of being above, in %")],
        *(
            [tabulated(agents + elos, title), tabulated(agents + others, "Probability of being above the other, in %")]
            for others in (sure, _numbered(">", sure))
        ),
        wide=wide,
    )
    note_left_out(size, "agents")
    _note_opponents(size)
