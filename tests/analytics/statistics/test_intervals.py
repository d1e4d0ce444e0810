import math
import random

import msgspec
import pytest

from analytics.statistics.tally import Tally, design_effect, mean_score, quantile, score, wilson, win_rate

# R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I,
# method 3.
NEWCOMBE = [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]


@pytest.mark.parametrize(("successes", "n", "low", "high"), NEWCOMBE)
def test_wilson_intervals_of_newcombe(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_quantile_is_that_of_the_tables_and_without_games_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert mean_score([0, 0, 0]) == (0.5, 0.0, 1.0)
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert quantile(0.99) == pytest.approx(2.575829, abs=1e-6)


def test_pairs_that_agree_halve_the_games() -> None:
    """Both games of each pair end alike, so the second adds no information. Kish: 1 + (2 - 1) rho = 2."""
    same = Tally(pairs=((5000, 0, 0), (0, 0, 0), (0, 0, 5000)))
    assert design_effect(same) == pytest.approx(2, rel=1e-3)
    assert win_rate(same, by_pairs=True)[1:] == pytest.approx(wilson(5000, 10_000), abs=1e-4)
    assert win_rate(same, by_pairs=False)[1:] == wilson(10_000, 20_000)


def test_games_of_identical_pairs_count_as_independent() -> None:
    alike = Tally(pairs=((0, 0, 0), (0, 0, 0), (7, 0, 0)))  # won in seat 0, lost in seat 1, seven times
    assert design_effect(alike) == 1
    assert win_rate(alike, by_pairs=True) == (0.5, *wilson(7, 14))
    assert score(alike, by_pairs=True) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("counts", [Tally(), Tally(pairs=((0, 0, 0), (0, 0, 1), (0, 0, 0)))], ids=["none", "one pair"])
def test_too_few_pairs_have_no_design_effect(counts: Tally) -> None:
    assert design_effect(counts) == 1
    low, high = win_rate(counts, by_pairs=True)[1:]
    assert 0 <= low < high <= 1


def test_intervals_by_pairs_have_the_stated_coverage() -> None:
    """Openings that decide both games in 3 of 10 cases: 95% of the intervals should hold the true rate of 0.5."""
    dice = random.Random(11)
    held = {True: 0, False: 0}
    for _ in range(400):
        pairs = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
        for _ in range(200):
            first = dice.randrange(2)
            second = first if dice.random() < 0.3 else dice.randrange(2)
            pairs[2 * first][2 * second] += 1
        counts = Tally(pairs=tuple(map(tuple, pairs)))  # type: ignore[arg-type]
        for by_pairs in held:
            _, low, high = win_rate(counts, by_pairs)
            held[by_pairs] += low <= 0.5 <= high
    assert 0.92 <= held[True] / 400 <= 0.98
    assert held[False] < held[True]


def test_scores_that_are_all_0_or_all_1_have_wilsons_interval() -> None:
    assert mean_score([0, 0, 20]) == (1.0, *wilson(20, 20))
    assert mean_score([20, 0, 0]) == (0.0, *wilson(0, 20))
    assert mean_score([0, 20, 0]) == (0.5, 0.5, 0.5)
    pairs = Tally(pairs=((0, 0, 0), (0, 0, 0), (0, 0, 7)))
    assert score(pairs, by_pairs=True) == (1.0, *wilson(7, 7))
    assert score(pairs, by_pairs=False) == (1.0, *wilson(14, 14))
    assert score(pairs + Tally(singles=((0, 0, 3), (0, 0, 0))), by_pairs=True) == (1.0, *wilson(10, 10))


def naive_ratio(units: list[list[float]], by_pairs: bool) -> tuple[float, float]:
    """The mean over games and its variance, unit by unit: L. Kish, "Survey Sampling" (1965), section 6.3."""
    games = [game for unit in units for game in unit]
    mean = sum(games) / len(games)
    clusters = units if by_pairs else [[game] for game in games]
    return mean, sum((sum(unit) - len(unit) * mean) ** 2 for unit in clusters) / len(games) ** 2


def random_units(seed: int, pairs: int, alone: int) -> tuple[list[list[float]], Tally]:
    """Games of pairs, and games that come alone, as points and as a tally."""
    dice, units, tally = random.Random(seed), [], Tally()
    for number in range(pairs + alone):
        opening = dice.choice((0, 0, 2))  # who has the better opening has it twice
        results = [dice.choice((opening, dice.randrange(3))) for _ in range(2 if number < pairs else 1)]
        units.append([result / 2 for result in results])
        cells = [[0, 0, 0] for _ in range(5)]
        if number < pairs:
            cells[results[0]][results[1]] = 1
        else:
            cells[3 + dice.randrange(2)][results[0]] = 1
        tally += msgspec.convert({"pairs": cells[:3], "singles": cells[3:]}, Tally)
    return units, tally


@pytest.mark.parametrize(("pairs", "alone"), [(40, 0), (40, 25), (1, 30), (0, 50)])
@pytest.mark.parametrize("by_pairs", [True, False])
def test_pairs_and_games_that_come_alone_are_units_of_one_sample(pairs: int, alone: int, by_pairs: bool) -> None:
    units, tally = random_units(pairs + alone, pairs, alone)
    mean, variance = naive_ratio(units, by_pairs)
    found = score(tally, by_pairs)
    assert found.mean == pytest.approx(mean)
    assert (found.high - found.low) / 2 == pytest.approx(quantile() * math.sqrt(variance))
    if not by_pairs or pairs == 1:
        return
    # The design effect is the ratio of two variances.
    rate, variance = naive_ratio([[float(game == 1) for game in unit] for unit in units], by_pairs=True)
    number = pairs + alone
    expected = variance * number / (number - 1) / (rate * (1 - rate) / tally.games)
    assert design_effect(tally) == pytest.approx(expected)
