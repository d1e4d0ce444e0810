"""The sequential test, compared with figures of a test server for chess engines and with simulations."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from analytics.statistics.sprt import (
    PAIR_SCORES,
    Hypotheses,
    SequentialTest,
    check_counts,
    estimate_strength,
    find_accepted_hypothesis,
    find_hypothesis_from_counts,
    log_likelihood_ratio,
    pair_counts_at_looks,
    pair_outcomes,
)
from quarto.errors import RequestError
from tests.marks import seldom

FIRST = (379, 10170, 21828, 10640, 343)


def test_the_second_agents_strength_is_the_firsts_with_the_other_sign() -> None:
    here, there = estimate_strength(FIRST), estimate_strength(FIRST[::-1])
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
    assert find_hypothesis_from_counts((0, 0, 0, 0, 0), hypotheses) is None
    assert find_hypothesis_from_counts((10, 20, 40, 22, 11), hypotheses) is None
    assert find_hypothesis_from_counts((1000, 2000, 4000, 2600, 1300), hypotheses) == "elo1"
    assert find_hypothesis_from_counts((1300, 2600, 4000, 2000, 1000), hypotheses) == "elo0"
    lower, upper = hypotheses.bounds
    assert [find_accepted_hypothesis(bound, hypotheses) for bound in (lower, upper)] == ["elo0", "elo1"]
    assert {find_accepted_hypothesis(math.nextafter(bound, 0), hypotheses) for bound in (lower, upper)} == {None}


def unlikelihood(counts: tuple[int, ...], elo: float) -> float:
    """Find the most likely distribution of this strength by a general optimiser from several starts."""
    from scipy.optimize import minimize  # takes half a second, which processes without this test need not pay

    scores, shares = np.array(PAIR_SCORES), np.array([count or 1e-3 for count in counts])
    strength_a_pair = elo * math.log(10) / 800 * math.sqrt(2)

    def excess(at: NDArray[np.float64]) -> float:
        mean = at @ scores
        return float(mean - 0.5 - strength_a_pair * math.sqrt(max(0.0, at @ (scores - mean) ** 2)))

    minima = []
    end = np.eye(5)[-1 if elo > 0 else 0]
    for start in (*np.eye(5), np.full(5, 0.2)):
        done = minimize(
            lambda at: float(-(shares * np.log(at)).sum()),
            0.02 + 0.5 * start + 0.4 * end,
            bounds=[(1e-9, 1)] * 5,
            constraints=[{"type": "eq", "fun": lambda at: at.sum() - 1}, {"type": "eq", "fun": excess}],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-10},
        )
        minima += [done.fun] if abs(excess(done.x)) < 1e-8 and abs(done.x.sum() - 1) < 1e-8 else []
    return float(min(minima))


@pytest.mark.extras
@pytest.mark.parametrize("elo", [235, *seldom(200, 300, 500)])
@pytest.mark.parametrize(
    "counts", [(5, 20, 100, 60, 15), (1, 5, 30, 60, 100), *seldom(((10, 20, 40, 22, 11),), ((30, 1, 9, 2, 3),))]
)
def test_far_hypotheses_are_as_likely_as_scipy_finds_them(counts: tuple[int, ...], elo: float) -> None:
    expected = unlikelihood(counts, 0) - unlikelihood(counts, elo)
    assert log_likelihood_ratio(counts, Hypotheses(0, elo)) == pytest.approx(expected, abs=1e-3)
    assert log_likelihood_ratio(counts[::-1], Hypotheses(-elo, 0)) == pytest.approx(-expected, abs=1e-3)


@pytest.mark.parametrize("elo", [10, 231, 232, 233, 500])
def test_there_is_a_ratio_whatever_the_counts(elo: float) -> None:
    one_outcome = [(0, 0, 0, 0, 7), (7, 0, 0, 0, 0), (0, 0, 10, 0, 0), (1, 0, 0, 0, 0)]
    for counts in (*one_outcome, (5, 0, 0, 0, 5), (2 * 10**14,) * 5):
        for hypotheses in (Hypotheses(-elo, elo), Hypotheses(0, elo), Hypotheses(-elo, 0)):
            assert math.isfinite(log_likelihood_ratio(counts, hypotheses))


def naive_looks(most: int) -> list[int]:
    looks, pairs = [], 0
    while pairs < most:
        pairs += 32 if pairs < 1024 else pairs // 32
        looks.append(min(pairs, most))
    return looks


def test_looks_are_fixed_beforehand_and_the_last_is_at_the_end() -> None:
    for most in (1, 32, 33, 1000, 1024, 5000, 10**6):
        assert list(pair_counts_at_looks(most)) == naive_looks(most)


def test_a_pairs_outcome_is_its_first_agents_points_in_both_games() -> None:
    scores, expected = {0: (2, 0), 1: (0, 2), -1: (1, 1)}, []  # by winning seat: points in seat 0, in seat 1
    winners = [(a, b) for a in (0, 1, -1) for b in (0, 1, -1)]
    for in_game_0, in_game_1 in winners:
        expected.append(scores[in_game_0][0] + scores[in_game_1][1])
    assert pair_outcomes(np.array(winners, np.int8).ravel()).tolist() == expected


def naive_trial(outcomes: list[int], hypotheses: Hypotheses, most: int) -> tuple[str | None, int]:
    """Return the accepted hypothesis and the number of pairs, counted again at each look."""
    for look in naive_looks(most):
        if look > len(outcomes):
            return None, len(outcomes)
        accepted = find_hypothesis_from_counts([outcomes[:look].count(outcome) for outcome in range(5)], hypotheses)
        if accepted:
            return accepted, look
    return None, most


def drawn(seed: int, chances: tuple[float, ...], pairs: int) -> NDArray[np.int8]:
    return np.random.default_rng(seed).choice(5, pairs, p=chances).astype(np.int8)


@pytest.mark.parametrize("seed", [1, *seldom(0, 2, 3, 4, 5)])
@pytest.mark.parametrize("most", [50, 3000])
def test_the_decision_does_not_depend_on_the_size_of_blocks(seed: int, most: int) -> None:
    dice, hypotheses = random.Random(seed), Hypotheses(0, 40)
    outcomes = drawn(seed, (0.1, 0.2, 0.35, 0.2, 0.15), 4000)
    expected = naive_trial(outcomes.tolist(), hypotheses, most)
    for longest in (1, 7, 100, 4000):
        trial, start = SequentialTest(hypotheses, most), 0
        while start < len(outcomes):
            end = start + dice.randint(1, longest)
            trial.add_outcomes(outcomes[start:end])
            start = end
        assert (trial.accepted, trial.pairs) == expected
        assert trial.ended
        assert trial.horizon == trial.pairs
        assert trial.counts == tuple(np.bincount(outcomes[: trial.pairs], minlength=5).tolist())


def test_a_trial_without_enough_pairs_goes_on_and_one_of_equal_pairs_ends() -> None:
    trial = SequentialTest(Hypotheses(0, 40), 1000)
    trial.add_outcomes(drawn(1, (0.2, 0.2, 0.2, 0.2, 0.2), 40))
    assert (trial.pairs, trial.horizon, trial.accepted, trial.ended) == (40, 64, None, False)
    for outcome, hypothesis in enumerate(("elo0", "elo0", "elo0", "elo1", "elo1")):
        trial = SequentialTest(Hypotheses(), 10**6)
        trial.add_outcomes(np.full(10**5, outcome, np.int8))
        assert trial.accepted == hypothesis


def error_rate(chances: tuple[float, ...], wrong: str, tests: int) -> float:
    """Return the share of trials that accept a wrong hypothesis; elo0 = 0, elo1 = 60, both errors at most 0.1."""
    errors = 0
    for seed in range(tests):
        trial = SequentialTest(Hypotheses(0, 60, alpha=0.1, beta=0.1), 10**5)
        while not trial.ended:
            trial.add_outcomes(drawn(1000 * seed + trial.pairs, chances, 256))
        errors += trial.accepted == wrong
    return errors / tests


EVEN_PAIRS = (0.1, 0.2, 0.4, 0.2, 0.1)


def tilted(elo: float) -> tuple[float, ...]:
    """Tilt ``EVEN_PAIRS`` exponentially until the first agent is stronger by ``elo``, in normalised Elo."""
    low, high = 0.0, 2.0
    for _ in range(60):
        tilt = (low + high) / 2
        weights = [p * math.exp(tilt * score) for p, score in zip(EVEN_PAIRS, PAIR_SCORES, strict=True)]
        chances = tuple(weight / sum(weights) for weight in weights)
        mean = sum(p * score for p, score in zip(chances, PAIR_SCORES, strict=True))
        variance = sum(p * (score - mean) ** 2 for p, score in zip(chances, PAIR_SCORES, strict=True))
        strength = (mean - 0.5) / math.sqrt(2 * variance) * 800 / math.log(10)
        low, high = (tilt, high) if strength < elo else (low, tilt)
    return chances


@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "elo1"), (60.0, "elo0")])
def test_errors_are_as_rare_as_promised_in_sixty_tests(elo: float, wrong: str) -> None:
    assert error_rate(tilted(elo), wrong, 60) <= 0.1 + 3 * math.sqrt(0.09 / 60)


@pytest.mark.slow
@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "elo1"), (60.0, "elo0")])
def test_errors_are_as_rare_as_promised(elo: float, wrong: str) -> None:
    rate = error_rate(tilted(elo), wrong, 1500)
    assert 0.02 < rate <= 0.1 + 2 * math.sqrt(0.09 / 1500)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"elo0": 5, "elo1": 5}, "elo0=5 and elo1=5"),
        ({"elo0": math.nan}, "elo0=nan"),
        ({"elo0": -501}, "elo0=-501 and elo1=10: neither may be beyond 500"),
        ({"elo1": 501}, "elo1=501: neither may be beyond 500"),
        ({"alpha": 0}, "alpha=0 and beta=0.05"),
        ({"alpha": 0.6, "beta": 0.4}, "their sum below 1"),
    ],
)
def test_hypotheses_that_make_no_sense_are_refused(arguments: dict[str, float], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        Hypotheses(**arguments)


def test_what_is_not_five_counts_is_refused() -> None:
    for counts in ((1, 2, 3, 4), (1, 2, 3, 4, -5), (1, 2, 3, 4, 0.5)):
        with pytest.raises(RequestError, match="five whole numbers"):
            check_counts(counts)
    with pytest.raises(RequestError, match="more than 1,000,000,000,000,000 pairs"):
        check_counts((99999999999999999999, 0, 0, 0, 0))
    with pytest.raises(RequestError, match="without pairs"):
        estimate_strength((0, 0, 0, 0, 0))
