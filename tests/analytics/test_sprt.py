"""The sequential test, against figures of a well-known test server for chess engines and against simulation."""

from __future__ import annotations

import math
import random

import pytest

from analytics.sprt import (
    PAIR_SCORES,
    Hypotheses,
    checked_counts,
    decision,
    log_likelihood_ratio,
    strength,
)
from quarto.errors import RequestError

FIRST = (379, 10170, 21828, 10640, 343)
SECOND = (78, 2504, 5251, 2695, 95)


def test_the_ratio_is_that_of_an_independent_implementation() -> None:
    assert log_likelihood_ratio(FIRST, Hypotheses(0, 2)) == pytest.approx(2.9455, abs=1e-4)
    assert log_likelihood_ratio(SECOND, Hypotheses(0, 3)) == pytest.approx(2.8980, abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "normalised", "elo"),
    [(FIRST, (3.0505, 2.3124), (1.5946, 1.2087)), (SECOND, (6.9904, 4.6718), (3.6796, 2.4593))],
)
def test_estimates_are_those_of_an_independent_implementation(
    counts: tuple[int, ...], normalised: tuple[float, float], elo: tuple[float, float]
) -> None:
    found = strength(counts)
    for estimate, (mean, reach) in ((found.normalised_elo, normalised), (found.elo, elo)):
        assert estimate.mean == pytest.approx(mean, abs=1e-4)
        assert (estimate.high - estimate.low) / 2 == pytest.approx(reach, abs=2e-4)
    assert found.pairs == sum(counts)


def test_superiority_is_that_of_an_independent_implementation() -> None:
    assert strength(SECOND).superiority == pytest.approx(0.99832, abs=1e-5)


def test_who_is_seen_from_the_other_side_is_as_strong_with_the_other_sign() -> None:
    here, there = strength(FIRST), strength(FIRST[::-1])
    assert here.normalised_elo.mean == pytest.approx(-there.normalised_elo.mean)
    assert here.superiority == pytest.approx(1 - there.superiority)
    assert log_likelihood_ratio(FIRST, Hypotheses(0, 5)) == pytest.approx(
        -log_likelihood_ratio(FIRST[::-1], Hypotheses(-5, 0))
    )


def test_the_bounds_are_walds() -> None:
    assert Hypotheses().bounds == pytest.approx((-2.9444, 2.9444), abs=1e-4)
    assert Hypotheses(alpha=0.01, beta=0.2).bounds == pytest.approx((math.log(0.2 / 0.99), math.log(0.8 / 0.01)))


def test_a_decision_is_made_when_a_bound_is_reached() -> None:
    hypotheses = Hypotheses(0, 5)
    assert decision((0, 0, 0, 0, 0), hypotheses) is None
    assert decision((10, 20, 40, 22, 11), hypotheses) is None
    assert decision((1000, 2000, 4000, 2600, 1300), hypotheses) == "elo1"
    assert decision((1300, 2600, 4000, 2000, 1000), hypotheses) == "elo0"


@pytest.mark.parametrize("counts", [(0, 0, 10, 0, 0), (0, 0, 0, 0, 7), (5, 0, 0, 0, 5), (1, 0, 0, 0, 0)])
def test_counts_that_leave_outcomes_out_have_a_ratio(counts: tuple[int, ...]) -> None:
    assert math.isfinite(log_likelihood_ratio(counts, Hypotheses()))


@pytest.mark.slow
def test_errors_are_as_rare_as_promised() -> None:
    dice, hypotheses, tests = random.Random(1), Hypotheses(0, 60, alpha=0.1, beta=0.1), 400
    wrong = 0
    for _ in range(tests):
        counts, found = [0] * 5, None
        while found is None:
            for outcome in dice.choices(range(5), (0.1, 0.2, 0.4, 0.2, 0.1), k=20):
                counts[outcome] += 1
            found = decision(counts, hypotheses)
        wrong += found == "elo1"
    assert wrong / tests < 0.1 + 3 * math.sqrt(0.09 / tests)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"elo0": 5, "elo1": 5}, "elo0=5 and elo1=5"),
        ({"elo0": math.nan}, "elo0=nan"),
        ({"alpha": 0}, "alpha=0 and beta=0.05"),
        ({"alpha": 0.6, "beta": 0.4}, "their sum below 1"),
    ],
)
def test_hypotheses_that_make_no_sense_are_refused(arguments: dict[str, float], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        Hypotheses(**arguments)


@pytest.mark.parametrize("counts", [(1, 2, 3, 4), (1, 2, 3, 4, -5), (1, 2, 3, 4, 0.5)])
def test_what_is_not_five_counts_is_refused(counts: tuple[float, ...]) -> None:
    with pytest.raises(RequestError, match="five whole numbers"):
        checked_counts(counts)


def test_without_pairs_nothing_is_estimated() -> None:
    assert len(PAIR_SCORES) == 5
    with pytest.raises(RequestError, match="without pairs"):
        strength((0, 0, 0, 0, 0))
