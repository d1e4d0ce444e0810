"""The rule of agreement, on tallies made by hand."""

from __future__ import annotations

import pytest

from analytics.published.comparison import agrees, measured_rate, published_rate, results_in
from analytics.statistics.intervals import Estimate, wilson
from analytics.statistics.tally import Tally
from tests.analytics.published.experiments import TALLY, figure


@pytest.mark.parametrize(
    ("seat", "expected"),
    [
        ("0", (30, 10, 60)),
        ("1", (50, 20, 30)),
        ("first", (50, 20, 30)),  # seat 1 places first
        ("second", (30, 10, 60)),
        ("both", (80, 30, 90)),
    ],
)
def test_results_in_the_published_seat(seat: str, expected: tuple[int, int, int]) -> None:
    assert results_in(TALLY, seat) == expected


def test_results_of_games_that_come_alone() -> None:
    alone = Tally(singles=((0, 0, 0), (4, 1, 5)))
    assert results_in(alone, "1") == results_in(alone, "both") == (4, 1, 5)
    assert results_in(alone, "0") == (0, 0, 0)


@pytest.mark.parametrize(("draws_for", "won"), [("player", 120), ("opponent", 90), ("nobody", 90)])
def test_a_draw_counts_for_whom_the_study_counted_it(draws_for: str, won: int) -> None:
    found = measured_rate((80, 30, 90), draws_for)
    assert found.mean == won / 200
    assert (found.low, found.high) == wilson(won, 200)


def test_the_two_sides_of_a_pairing_measure_the_same_when_one_of_them_is_given_the_draws() -> None:
    ours = measured_rate(results_in(TALLY, "both"), "opponent")
    theirs = measured_rate(results_in(TALLY.swapped, "both"), "player")
    assert theirs.mean == pytest.approx(1 - ours.mean)
    assert (theirs.low, theirs.high) == pytest.approx((1 - ours.high, 1 - ours.low))


def test_without_games_nothing_is_known() -> None:
    assert measured_rate((0, 0, 0), "player") == Estimate(0.0, 0.0, 1.0)


def test_a_published_figure_has_the_interval_of_its_games() -> None:
    found = published_rate(figure("28.2", games=1000))
    assert found.mean == pytest.approx(0.282)
    assert (found.low, found.high) == pytest.approx((0.2550, 0.3107), abs=5e-4)  # Wilson's, by hand
    few = published_rate(figure("60.0", games=10))
    assert (few.low, few.high) == pytest.approx((0.3127, 0.8318), abs=5e-4)


def test_a_published_range_reaches_from_the_lower_end_of_one_interval_to_the_upper_end_of_the_other() -> None:
    found, one, two = (published_rate(figure(win)) for win in ("80-84", "80", "84"))
    assert found.mean == pytest.approx(0.82)
    assert (found.low, found.high) == (one.low, two.high)


@pytest.mark.parametrize(
    ("win", "games", "rate", "reach", "expected"),
    [
        ("50", 1_000_000, 0.5299, 0.0, True),  # within three points
        ("50", 1_000_000, 0.5301, 0.0, False),
        ("50", 1_000_000, 0.4701, 0.0, True),
        ("50", 1_000_000, 0.4699, 0.0, False),
        ("50", 1_000_000, 0.54, 0.045, True),  # our interval reaches theirs
        ("50", 100, 0.59, 0.0, True),  # theirs reaches us: 40.4 to 59.6
        ("50", 100, 0.60, 0.0, False),
        ("50", 100, 0.39, 0.02, True),
        ("40-60", 1_000_000, 0.62, 0.0, True),  # of a range, the nearer end counts
        ("40-60", 1_000_000, 0.50, 0.0, True),
        ("40-60", 1_000_000, 0.38, 0.0, True),
        ("40-60", 1_000_000, 0.64, 0.0, False),
        ("40-60", 1_000_000, 0.36, 0.0, False),
        ("100", 1_000_000, 0.97, 0.0, True),
        ("0", 1_000_000, 0.04, 0.0, False),
    ],
)
def test_rates_agree_within_three_points_or_their_intervals(
    win: str, games: int, rate: float, reach: float, expected: bool
) -> None:
    assert agrees(figure(win, games), Estimate(rate, rate - reach, rate + reach)) is expected
