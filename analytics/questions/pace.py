"""The pace of runs and agents, in games a second: the one function that divides games by the time that they took."""

from __future__ import annotations

from collections.abc import Iterable

from analytics.questions.columns import MISSING
from analytics.store.records import RunRecord, is_person

SMALL_PACE = 10  # games a second: a lower pace is not shown as a whole number


def compute_pace_without_people(runs: Iterable[tuple[RunRecord, int]]) -> float | None:
    """Return how many games a second were played in all runs together, or None if no run has recorded its time.

    Runs in which a person played are left out, because the person's thinking time would be attributed to the agent.

    Args:
        runs: Runs, each with the number of its games.

    """
    timed_runs = [(run, games) for run, games in runs if run.seconds and not any(map(is_person, run.labels))]
    seconds = sum(run.seconds for run, _ in timed_runs)
    return sum(games for _, games in timed_runs) / seconds if seconds else None


def format_games_a_second(pace: float | None) -> str:
    """Format a pace in whole games a second, or with two significant digits below ten; None becomes a dash."""
    if pace is None:
        return MISSING
    return f"{pace:,.0f}" if pace >= SMALL_PACE else f"{pace:.2g}"
