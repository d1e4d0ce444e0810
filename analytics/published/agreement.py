"""The agreement of our results with published ones: rates by the study's convention, and their intervals."""

from __future__ import annotations

from analytics.published import SEATS, PublishedFigure
from analytics.statistics.intervals import CONFIDENCE, Estimate, wilson
from analytics.statistics.tally import DRAW, WIN, Row, Tally

NEAR = 0.03  # rates that differ by at most this agree, even if their intervals do not overlap


def results_in(tally: Tally, seat: str) -> Row:
    """The first agent's (losses, draws, wins) in the games where it had ``seat``, a key of ``published.SEATS``."""
    losses, draws, wins = (sum(counts) for counts in zip(*(tally.results(each) for each in SEATS[seat]), strict=True))
    return losses, draws, wins


def measured_rate(results: Row, draws_for: str, confidence: float = CONFIDENCE) -> Estimate:
    """The share of games that (losses, draws, wins) count as won, with Wilson's interval; (0, 0, 1) without games.

    ``draws_for='player'``: drawn games count as won, as in a study that counts them for the player.
    """
    games, won = sum(results), results[WIN] + (results[DRAW] if draws_for == "player" else 0)
    return Estimate(won / games if games else 0.0, *wilson(won, games, confidence))


def published_rate(figure: PublishedFigure, confidence: float = CONFIDENCE) -> Estimate:
    """The published share of games won with Wilson's interval for as many games.

    For a range: its middle, and an interval that covers those of both ends.
    """
    least, most = figure.win.least / 100, figure.win.most / 100
    low, _ = wilson(least * figure.games, figure.games, confidence)
    _, high = wilson(most * figure.games, figure.games, confidence)
    return Estimate((least + most) / 2, low, high)


def agrees(figure: PublishedFigure, ours: Estimate, confidence: float = CONFIDENCE) -> bool:
    """Whether our rate is within three points of the published figure or range, or the two intervals overlap."""
    theirs = published_rate(figure, confidence)
    away = max(figure.win.least / 100 - ours.mean, ours.mean - figure.win.most / 100, 0.0)
    return away <= NEAR + 1e-12 or (ours.low <= theirs.high and theirs.low <= ours.high)
