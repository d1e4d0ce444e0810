"""Figures and tallies by hand."""

from __future__ import annotations

from dataclasses import replace

from analytics.published import PublishedFigure, Span
from analytics.published.comparison import Comparison, MeasuredFigure, measured_figure, results_in
from analytics.statistics.tally import Tally

FIGURE = PublishedFigure(
    figure="A01",
    study="A",
    player="ga5",
    opponent="rule_based",
    rules="classic",
    seat="both",
    games=1000,
    win=Span("28.2", 28.2, 28.2),
    draw=None,
    draws_for="opponent",
    version="earlier",
    where="README",
    remark="",
)

# 100 pairs; the first agent's (losses, draws, wins) are (30, 10, 60) in seat 0 and (50, 20, 30) in seat 1.
TALLY = Tally(pairs=((20, 5, 5), (5, 5, 0), (25, 10, 25)))


def figure(win: str = "28.2", games: int = 1000, seat: str = "both", draws_for: str = "opponent") -> PublishedFigure:
    """A figure that differs from ``FIGURE`` as given."""
    span = Span.read(win)
    assert span
    return replace(FIGURE, win=span, games=games, seat=seat, draws_for=draws_for)


def ours(of: PublishedFigure, tally: Tally = TALLY) -> MeasuredFigure:
    return measured_figure(of, of.player, of.opponent, results_in(tally, of.seat))


def comparison(of: PublishedFigure, text: bool = True, code: bool = False) -> Comparison:
    return Comparison(of, ours(of) if text else None, ours(of, TALLY.swapped) if code else None)
