from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.statistics.tally import (
    Tally,
    design_effect,
    mean_score,
    normal_quantile,
    score,
    tally_by_pairing,
    wilson_interval,
    win_rate,
)
from quarto.batch import Block
from tests.analytics.naive_games import Game, pack_games, random_block, single_games

COUNT = st.integers(0, 10**6)
ROW = st.tuples(COUNT, COUNT, COUNT)
TALLIES = st.builds(
    Tally, st.tuples(ROW, ROW, ROW), st.tuples(ROW, ROW), st.tuples(COUNT, COUNT), st.tuples(COUNT, COUNT), COUNT
)


def naive_tally(block: Block) -> Tally:
    """Count a block's tally game by game."""
    pairs = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    singles = [0, 0, 0]
    forfeits = {2: [0, 0], 3: [0, 0]}
    for pair in range(block.pairs):
        results = []
        for game in (0, 1) if block.swapped else (0,):
            i = 2 * pair + game if block.swapped else pair
            seat_of_first = game
            winner = int(block.games.winner[i])
            results.append(1 if winner == -1 else 2 if winner == seat_of_first else 0)
            if block.games.ending[i] in forfeits:
                loser = "first" if winner != seat_of_first else "second"
                forfeits[int(block.games.ending[i])][("first", "second").index(loser)] += 1
        if block.swapped:
            pairs[results[0]][results[1]] += 1
        else:
            singles[results[0]] += 1
    rows, alone = tuple(tuple(row) for row in pairs), (tuple(singles), (0, 0, 0))
    plies = int(block.games.plies.sum())
    return Tally(rows, alone, tuple(forfeits[2]), tuple(forfeits[3]), plies)  # type: ignore[arg-type]


@given(seed=st.integers(0, 10**6), pairs=st.integers(1, 20))
def test_the_tally_is_that_of_counting_game_by_game(seed: int, pairs: int) -> None:
    block = random_block(seed, pairs=pairs, forfeits=0.4)
    assert tally_by_pairing([block]) == {0: naive_tally(block)}
    alone = single_games(seed, pairs=pairs)
    assert tally_by_pairing([alone]) == {0: naive_tally(alone)}
    assert (tally_by_pairing([alone])[0].games, tally_by_pairing([alone])[0].pair_count) == (pairs, pairs)


def test_blocks_of_a_pairing_add_up() -> None:
    blocks = [random_block(1, 0, 0), random_block(1, 2, 0), random_block(1, 0, 8)]
    assert tally_by_pairing(blocks) == {0: naive_tally(blocks[0]) + naive_tally(blocks[2]), 2: naive_tally(blocks[1])}


def test_seats_and_sums_by_hand() -> None:
    won, lost, drawn = (Game(plies=[], winner=winner, ending=0) for winner in (0, 1, -1))
    # The first agent holds seat 0 in the games at even places, seat 1 in the others.
    counts = tally_by_pairing([pack_games([won, lost, won, won, drawn, drawn, won, drawn])])[0]
    assert (counts.losses, counts.draws, counts.wins) == (1, 3, 4)
    assert counts.losses_draws_wins_in_game(0) == (0, 1, 3)
    assert counts.losses_draws_wins_in_game(1) == (1, 2, 1)
    assert counts.pentanomial == (0, 0, 2, 1, 1)
    assert counts.games == 8


@given(a=TALLIES, b=TALLIES)
def test_sums_and_views_agree(a: Tally, b: Tally) -> None:
    total = a + b
    assert total.games == a.games + b.games == sum(total.losses_draws_wins)
    assert sum(total.pentanomial) == total.pair_count - sum(map(sum, total.singles))
    assert total.with_agents_swapped == a.with_agents_swapped + b.with_agents_swapped
    assert total.with_agents_swapped.with_agents_swapped == total
    assert total.with_agents_swapped.losses_draws_wins == total.losses_draws_wins[::-1]
    assert total.with_agents_swapped.pentanomial == total.pentanomial[::-1]
    assert total.with_agents_swapped.losses_draws_wins_in_game(0) == total.losses_draws_wins_in_game(1)[::-1]


@given(counts=TALLIES)
def test_a_tally_survives_json(counts: Tally) -> None:
    assert msgspec.json.decode(msgspec.json.encode(counts), type=Tally) == counts


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [[0] * 3] * 2},
        {"pairs": [[0] * 2] * 3},
        {"singles": [[0] * 3]},
        {"singles": [[0, 0, -1]] * 2},
        {"illegal": [1]},
        {"errors": [0, -1]},
        {"plies": -1},
        {"plies": None},
    ],
    ids=str,
)
def test_what_is_not_a_tally_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.structs.asdict(Tally()) | change, Tally)


# Intervals.


# R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I,
# method 3.
NEWCOMBE = [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]


@pytest.mark.parametrize(("successes", "n", "low", "high"), NEWCOMBE)
def test_wilson_intervals_of_newcombe(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)
    assert wilson_interval(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_quantile_is_that_of_the_tables_and_without_games_nothing_is_known() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert mean_score([0, 0, 0]) == (0.5, 0.0, 1.0)
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert normal_quantile(0.99) == pytest.approx(2.575829, abs=1e-6)


def test_pairs_that_agree_halve_the_games() -> None:
    """Check pairs whose games end alike, so the second adds no information. Kish: 1 + (2 - 1) rho = 2."""
    same = Tally(pairs=((5000, 0, 0), (0, 0, 0), (0, 0, 5000)))
    assert design_effect(same) == pytest.approx(2, rel=1e-3)
    assert win_rate(same, by_pairs=True)[1:] == pytest.approx(wilson_interval(5000, 10_000), abs=1e-4)
    assert win_rate(same, by_pairs=False)[1:] == wilson_interval(10_000, 20_000)


def test_games_of_identical_pairs_count_as_independent() -> None:
    alike = Tally(pairs=((0, 0, 0), (0, 0, 0), (7, 0, 0)))  # won in seat 0, lost in seat 1, seven times
    assert design_effect(alike) == 1
    assert win_rate(alike, by_pairs=True) == (0.5, *wilson_interval(7, 14))
    assert score(alike, by_pairs=True) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("counts", [Tally(), Tally(pairs=((0, 0, 0), (0, 0, 1), (0, 0, 0)))], ids=["none", "one pair"])
def test_too_few_pairs_have_no_design_effect(counts: Tally) -> None:
    assert design_effect(counts) == 1
    low, high = win_rate(counts, by_pairs=True)[1:]
    assert 0 <= low < high <= 1


def test_intervals_by_pairs_have_the_stated_coverage() -> None:
    """Check that 95% of the intervals hold the true rate of 0.5, where openings decide both games in 3 of 10 cases."""
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
    assert mean_score([0, 0, 20]) == (1.0, *wilson_interval(20, 20))
    assert mean_score([20, 0, 0]) == (0.0, *wilson_interval(0, 20))
    assert mean_score([0, 20, 0]) == (0.5, 0.5, 0.5)
    pairs = Tally(pairs=((0, 0, 0), (0, 0, 0), (0, 0, 7)))
    assert score(pairs, by_pairs=True) == (1.0, *wilson_interval(7, 7))
    assert score(pairs, by_pairs=False) == (1.0, *wilson_interval(14, 14))
    assert score(pairs + Tally(singles=((0, 0, 3), (0, 0, 0))), by_pairs=True) == (1.0, *wilson_interval(10, 10))


def naive_ratio(units: list[list[float]], by_pairs: bool) -> tuple[float, float]:
    """Return the mean over games and its variance, unit by unit: L. Kish, "Survey Sampling" (1965), section 6.3."""
    games = [game for unit in units for game in unit]
    mean = sum(games) / len(games)
    clusters = units if by_pairs else [[game] for game in games]
    return mean, sum((sum(unit) - len(unit) * mean) ** 2 for unit in clusters) / len(games) ** 2


def random_units(seed: int, pairs: int, alone: int) -> tuple[list[list[float]], Tally]:
    """Draw games of pairs, and games that come alone, as points and as a tally."""
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
    estimate = score(tally, by_pairs)
    assert estimate.mean == pytest.approx(mean)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(normal_quantile() * math.sqrt(variance))
    if not by_pairs or pairs == 1:
        return
    # The design effect is the ratio of two variances.
    rate, variance = naive_ratio([[float(game == 1) for game in unit] for unit in units], by_pairs=True)
    number = pairs + alone
    expected = variance * number / (number - 1) / (rate * (1 - rate) / tally.games)
    assert design_effect(tally) == pytest.approx(expected)
