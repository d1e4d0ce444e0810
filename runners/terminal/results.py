"""Results in the terminal: those of a run, crosstables, and ratings."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import archive_option
from analytics.results.columns import (
    ResultColumn,
    column,
    elo,
    interval,
    opponent_columns,
    pairing_columns,
    percent,
    ranked,
    rating_columns,
    standing_columns,
    superiority_columns,
)
from analytics.results.pairings import Crosstable, PairingResult, crosstable, pairings_frame
from runners.terminal.console import (
    print_line,
    print_note,
    program,
    show,
    speed,
    sql_command,
    tabulated,
)

if TYPE_CHECKING:
    import polars as pl

    from analytics.ratings.head_to_head import HeadToHead  # most runs need no more than their outcome
    from analytics.ratings.ratings import Rating, Ratings
    from runners.arena.playing import Outcome

# A run.

# What to ask about the games of a run; the condition on it goes into the braces.
QUESTIONS = (
    "SELECT agent_0, agent_1, avg((winner = 0)::int) AS seat_0_wins FROM games WHERE {} GROUP BY ALL ORDER BY ALL",
    (
        "SELECT agent, cell_name(cell) AS first_cell, sum(games) AS games, sum(wins) / sum(games) AS win_rate "
        "FROM first_plies WHERE {} GROUP BY ALL ORDER BY ALL"
    ),
    "SELECT plies, ending, count(*) AS games FROM games WHERE {} GROUP BY ALL ORDER BY ALL",
)
SEATS = ("gives the first piece", "places it")  # what each seat does first
SEATS_OF_MOVERS = ("places the second piece", "the first")  # where the mover chooses the piece


def show_outcome(outcome: Outcome, log: Path) -> None:
    """Print the tables of a run, its speed, and commands that ask about its games; ``log`` has more on misbehaviour."""
    if not outcome.results:
        print_note(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        # Intervals of agents need the games where pairings share openings; the tables of a run take tallies alone.
        shared = any(each.by_pairs for each in outcome.results)
        show_crosstable(crosstable(outcome.results), intervals=not shared)
        if shared:
            command = f"{program()} crosstable --run {outcome.run_id}{archive_option(outcome.root)}"
            print_line(f"Pairings share openings; intervals over openings: {command}")
    _show_pairings(outcome.results, outcome.mover_chooses)
    if any(each.tally.is_uniform for each in outcome.results):
        from analytics import open_archive
        from analytics.query.selection import repeated_games

        with open_archive(outcome.root) as opened:
            for note in repeated_games(opened, [outcome.run_id]):
                print_note(note)
    print_line(_summary(outcome))
    if not outcome.interrupted:
        print_line("Ask the archive:")
        for question in QUESTIONS:
            of_run = question.format(f"run_id = '{outcome.run_id}'")
            print_line(f"  {sql_command(of_run, outcome.root)}")
    _show_forfeits(outcome, log)


def _show_forfeits(outcome: Outcome, log: Path) -> None:
    """Print what agents did wrong in the games of this command, and how many games of the run are forfeits."""
    for line in outcome.misbehaviour:
        print_note(line)
    forfeits, games = (sum(sum(each.forfeits) for each in outcome.results), sum(each.games for each in outcome.results))
    told = [f"warning: {forfeits:,} of {games:,} games of this run are forfeits"] if forfeits else []
    told += [f"more in {os.path.relpath(log)}"] if outcome.misbehaviour else []
    if told:
        print_note("; ".join(told))


def _summary(outcome: Outcome) -> str:
    total = sum(result.games for result in outcome.results)
    where = f"run {outcome.run_id} in {outcome.root} holds {total:,} games, fingerprint {outcome.fingerprint:016x}"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    return f"{speed(outcome.played, outcome.seconds)}; {where}."


def _show_pairings(found: Sequence[PairingResult], mover_chooses: bool) -> None:
    seats = [
        column(
            f"win in seat {seat}",
            [row[2] / max(1, sum(row)) for row in (each.in_seat(seat) for each in found)],
            percent,
            7,
        )
        for seat in (0, 1)
    ]
    plies = column("plies", [each.mean_plies for each in found], "{:.2f}".format, 6)
    columns = [*pairing_columns(pairings_frame(found), with_scores=False), *seats, plies]
    show([tabulated(columns, "Pairings (the first agent's view, in %)")])
    print_line(_seats(mover_chooses))


def _seats(mover_chooses: bool) -> str:
    zero, one = SEATS_OF_MOVERS if mover_chooses else SEATS
    return f"Seat 0 {zero}, seat 1 {one}."


# Crosstables.


def show_crosstable(table: Crosstable, intervals: bool = True, wide: bool | None = None) -> None:
    """Print agents by score, and the mean score of each agent (row) against each other agent (column)."""
    frame, title = table.frame(), "Crosstable (score in %, win 1, draw ½)"
    agents, totals, against = ranked(table.agents), standing_columns(frame, intervals), opponent_columns(frame)
    apart = [
        [tabulated(agents + totals, title), tabulated(agents + others)] for others in (against, _numbered("v", against))
    ]
    show([tabulated(agents + totals + against, title)], *apart, wide=wide)
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
    show([tabulated(pairing_columns(met.frame(by_seat)), title)], wide=wide)
    if by_seat:
        print_line(_seats(met.mover_chooses))


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
    for line in [_common(found, met.mover_chooses), *_open_questions(found), *unrated(found)]:
        print_line(line)


def _zero(frame: pl.DataFrame, anchor: str | None, anchor_elo: float) -> str:
    """The rating to which the ratings of one group are relative."""
    if anchor in [*frame["agent"]]:
        return f"{anchor} has {anchor_elo:g}"
    return f"the mean of {'these' if frame['bounded'].all() else 'the finite'} ratings is {anchor_elo:g}"


def _show_group(frame: pl.DataFrame, title: str, wide: bool | None) -> None:
    """Print the ratings of agents that games connect, and the probability that an agent is above another."""
    agents, elos, sure = ranked([*frame["agent"]]), rating_columns(frame), superiority_columns(frame)
    show(
        [tabulated(agents + elos + sure, f"{title}; > probability of being above, in %")],
        *(
            [tabulated(agents + elos, title), tabulated(agents + others, "Probability of being above the other, in %")]
            for others in (sure, _numbered(">", sure))
        ),
        wide=wide,
    )


def unrated(found: Ratings) -> list[str]:
    """Sentences on agents that the table does not list."""
    lines = [f"Not rated, forfeited every game: {agent} ({games:,} games)." for agent, games in found.forfeited]
    if found.without_contest:
        lines.append(f"Not rated, met only these: {', '.join(found.without_contest)}.")
    return lines


def _common(found: Ratings, mover_chooses: bool) -> str:
    if math.isnan(found.seat.mean):
        return "The games do not determine the value of seat 0: no agent both won and lost points."
    seat, draws = (
        "not sampled" if math.isnan(each.low) else interval(each.low, each.high, form)
        for each, form in ((found.seat, elo), (found.draws, percent))
    )
    drawn = f"of games between equals {percent(found.draws.mean)} % are drawn ({draws})"
    first = (SEATS_OF_MOVERS if mover_chooses else SEATS)[0]
    return f"Seat 0, which {first}, is worth {elo(found.seat.mean)} Elo ({seat}); {drawn}."


def _open_questions(found: Ratings) -> list[str]:
    """Sentences on what the games do not determine."""
    lines = []
    if found.groups > 1:
        lines.append(
            f"{found.groups} groups of agents have no games between them: compare ratings within a group only."
        )
    for text, agents in (
        ("won every point against the agents below it: its rating has no upper bound", _at(found.ratings, math.inf)),
        ("lost every point to the agents above it: its rating has no lower bound", _at(found.ratings, -math.inf)),
        (
            "cannot be rated: no chain of won points connects it with the others",
            [r for r in found.ratings if math.isnan(r.elo.mean) and r.agent not in found.by_seat],
        ),
    ):
        lines += [f"{rating.agent} {text}." for rating in agents]
    if found.by_seat:
        seat, level = int(found.seat.mean < 0), ", ".join(found.by_seat)
        lines.append(f"Seat {seat} won every game between {level}: these games do not show which of them is stronger.")
    return lines


def _at(rows: Iterable[Rating], value: float) -> list[Rating]:
    return [rating for rating in rows if rating.elo.mean == value]
