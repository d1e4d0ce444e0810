"""The form of agents: their score in each run, beside the score that their ratings let expect.

Scores of different runs cannot be compared by themselves, because the opponents differ. The expected score takes the
opponents into account: it is that of Davidson's model with the ratings of all games by the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from analytics.questions.head_to_head import load_chosen_results, load_shared_openings
from analytics.questions.pairings import PairingResult, build_crosstable
from analytics.questions.ratings import Ratings, compute_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from quarto.errors import RequestError

FORM_SCHEMA = {
    **dict.fromkeys(("agent", "run_id", "created"), pl.String()),
    **dict.fromkeys(("opponents", "games", "wins", "draws", "losses"), pl.Int64()),
    **dict.fromkeys(("score", "low", "high", "expected"), pl.Float64()),
}


def compute_form(opened: OpenArchive, game_filter: GameFilter, max_runs: int | None = None) -> pl.DataFrame:
    """Compute the score of each agent in each run, against all other agents of the run.

    Columns: ``agent``; ``run_id`` and ``created``, the UTC time when the run began; the number of ``opponents``;
    ``games``, ``wins``, ``draws`` and ``losses``; ``score`` (0 to 1) with its 95 % interval ``low`` to ``high``;
    ``expected`` (0 to 1), the score that the ratings let expect, null if the rating of the agent or of an opponent has
    no bound, or if the filter has a condition in SQL. The oldest run comes first.

    Args:
        opened: The archive.
        game_filter: The games, by one set of rules; with ``agent``, the only agent that has rows.
        max_runs: The number of newest runs, or None for all.

    Raises:
        RequestError: No game is chosen, or the games were played under several rule sets.
        FailureError: A file is damaged.

    """
    chosen = load_chosen_results(opened, game_filter)
    records = sorted(chosen.records, key=lambda record: record.created)[-(max_runs or len(chosen.records)) :]
    ratings = None if game_filter.where else _rate_or_none(opened, records[0].rules.name, game_filter.trainings)
    rows = []
    for record in records:
        results = {key: result for key, result in chosen.results.items() if key[0] == record.run_id}
        shared = load_shared_openings(opened, game_filter.where, [record], results) if len(results) > 1 else None
        names = {chosen.names.find_name(record.run_id, label) for label in record.labels}
        if game_filter.agent is not None:
            names = {chosen.names.find_name(record.run_id, game_filter.agent)}
        for standing in build_crosstable([*results.values()], shared).standings:
            if standing.agent in names and standing.games:
                counts = len(standing.score_by_opponent), standing.games, standing.wins, standing.draws, standing.losses
                expected = _compute_expected_score(ratings, standing.agent, results.values())
                rows.append((standing.agent, record.run_id, record.created, *counts, *standing.score, expected))
    return pl.DataFrame(rows, FORM_SCHEMA, orient="row")


def _rate_or_none(opened: OpenArchive, rules: str, trainings: bool) -> Ratings | None:
    try:
        return compute_ratings(opened, rules=rules, samples=0, trainings=trainings)
    except RequestError:
        return None  # no game counts for a rating


def _compute_expected_score(ratings: Ratings | None, agent: str, results: Collection[PairingResult]) -> float | None:
    """Compute the mean expected score of an agent over its games in ``results``; return None if one is not known."""
    points, games = 0.0, 0
    for opponent, games_by_seat in _count_games_by_opponent_and_seat(agent, results):
        for seat, count in enumerate(games_by_seat):
            expected = ratings.expect_score(agent, opponent, seat) if ratings is not None and count else 0.0
            if ratings is None or expected is None:
                return None
            points, games = points + count * expected, games + count
    return points / games if games else None


def _count_games_by_opponent_and_seat(
    agent: str, results: Collection[PairingResult]
) -> Sequence[tuple[str, tuple[int, int]]]:
    own_view = [result if result.first == agent else result.with_agents_swapped for result in results]
    return [
        (result.second, (sum(result.losses_draws_wins_in_seat(0)), sum(result.losses_draws_wins_in_seat(1))))
        for result in own_view
        if result.first == agent != result.second
    ]
