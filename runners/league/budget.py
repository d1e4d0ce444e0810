"""The games of each match under a budget of time: matches that are slow get fewer games."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
FIRST_GAMES = 2  # of every match, by which its pace is measured first
SHARES = (0.1, 0.4, 1.0)  # of the budget: what a match was given is corrected as its pace becomes known


def share_games(
    seconds_per_game: Mapping[K, float], played: Mapping[K, int], max_games: Mapping[K, int], budget: float
) -> dict[K, int]:
    """Share a budget of time among matches, so that each gets the same time, and no match more than its games.

    What fast matches leave over goes to the slow ones.

    Args:
        seconds_per_game: The pace of each match, in seconds a game.
        played: The number of games of each match that are played already. Their time is part of the budget.
        max_games: The greatest number of games of each match, which is even.
        budget: The time for all matches together, in seconds.

    Returns:
        The number of games of each match: even, at least ``FIRST_GAMES``, at least the games that are played already,
        and at most its ``max_games``.

    """
    limit = _find_equal_time([pace * max_games[match] for match, pace in seconds_per_game.items()], budget)
    games = dict[K, int]()
    for match, pace in seconds_per_game.items():
        affordable = max_games[match] if limit is None else min(max_games[match], int(limit / pace))
        games[match] = max(FIRST_GAMES, affordable - affordable % 2, played.get(match, 0))
    return games


def _find_equal_time(needed_seconds: Sequence[float], budget: float) -> float | None:
    """Find the time that each match may take at most, so that all together take ``budget``; None if all fit."""
    remaining = budget
    for place, seconds in enumerate(sorted(needed_seconds)):
        matches = len(needed_seconds) - place
        if seconds * matches > remaining:
            return max(0.0, remaining / matches)
        remaining -= seconds
    return None
