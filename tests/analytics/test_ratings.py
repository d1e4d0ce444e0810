"""The joint fit, against the likelihood itself, another method of maximising it, and games from known strengths."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from analytics.ratings import ELO, Ratings, rate
from analytics.tally import Tally
from quarto.errors import RequestError

Counts = tuple[int, int, int]  # losses, draws, wins of the first agent


def pairs_of(in_seat_0: Counts, in_seat_1: Counts) -> Tally:
    """A tally with these results by the first agent's seat, as games that come alone."""
    return Tally(singles=(in_seat_0, in_seat_1))


def chances(strengths: dict[str, float], seat: float, draw: float, zero: str, one: str) -> list[float]:
    """P(seat 0 loses, draws, wins) by the model's own formula."""
    a, b = strengths[zero] + seat, strengths[one]
    weights = [math.exp(b), math.exp(draw + (a + b) / 2), math.exp(a)]
    return [weight / sum(weights) for weight in weights]


def expected_meetings(
    strengths: dict[str, float], seat: float, draw: float, games: int
) -> dict[tuple[str, str], Tally]:
    """Results that are, up to rounding, exactly as likely as the model says."""
    found = {}
    for first, second in combinations(strengths, 2):
        at_zero = [round(games * chance) for chance in chances(strengths, seat, draw, first, second)]
        at_one = [round(games * chance) for chance in chances(strengths, seat, draw, second, first)][::-1]
        found[first, second] = pairs_of((at_zero[0], at_zero[1], at_zero[2]), (at_one[0], at_one[1], at_one[2]))
    return found


def elos(ratings: Ratings) -> dict[str, float]:
    return {rating.agent: rating.elo.mean for rating in ratings.ratings}


def test_strengths_seat_and_draws_are_found_again() -> None:
    strengths = {"a": 0.0, "b": 1.2, "c": -0.7, "d": 0.3}
    found = rate(expected_meetings(strengths, -0.2, -1.5, 10**6), anchor="a", samples=0)
    assert elos(found) == pytest.approx({agent: value * ELO for agent, value in strengths.items()}, abs=0.05)
    assert found.seat.mean == pytest.approx(-0.2 * ELO, abs=0.05)
    assert found.draws.mean == pytest.approx(math.exp(-1.5) / (2 + math.exp(-1.5)), abs=1e-4)
    assert [rating.agent for rating in found.ratings] == ["b", "d", "a", "c"]


def test_nothing_nearby_is_more_likely() -> None:
    dice = np.random.default_rng(3)
    agents = ["a", "b", "c"]
    meetings = {
        pair: pairs_of(*(tuple(dice.integers(1, 30, 3).tolist()) for _ in range(2))) for pair in combinations(agents, 2)
    }
    found = rate(meetings, anchor="a", samples=0)
    draw = math.log(2 * found.draws.mean / (1 - found.draws.mean))

    def likelihood(changes: dict[str, float], seat: float, draw: float) -> float:
        strengths = {agent: value / ELO + changes.get(agent, 0.0) for agent, value in elos(found).items()}
        total = 0.0
        for (first, second), tally in meetings.items():
            at_zero = chances(strengths, seat, draw, first, second)
            at_one = chances(strengths, seat, draw, second, first)[::-1]
            total += sum(n * math.log(p) for n, p in zip(tally.results(0), at_zero, strict=True))
            total += sum(n * math.log(p) for n, p in zip(tally.results(1), at_one, strict=True))
        return total

    seat, step = found.seat.mean / ELO, 1e-3
    best = likelihood({}, seat, draw)
    for sign in (-step, step):
        assert likelihood({"b": sign}, seat, draw) < best
        assert likelihood({"c": sign}, seat, draw) < best
        assert likelihood({}, seat + sign, draw) < best
        assert likelihood({}, seat, draw + sign) < best


def test_without_draws_and_seats_it_is_bradley_terry() -> None:
    wins = {("a", "b"): (30, 20), ("a", "c"): (45, 5), ("b", "c"): (35, 15)}
    meetings = {pair: pairs_of((lost, 0, won), (lost, 0, won)) for pair, (won, lost) in wins.items()}
    strengths = dict.fromkeys("abc", 1.0)
    for _ in range(2000):  # D. R. Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics 32
        for agent in strengths:
            won = sum(counts[pair.index(agent)] for pair, counts in wins.items() if agent in pair)
            against = sum(
                sum(counts) / (strengths[pair[0]] + strengths[pair[1]])
                for pair, counts in wins.items()
                if agent in pair
            )
            strengths[agent] = won / against
    expected = {agent: ELO * math.log(value / strengths["c"]) for agent, value in strengths.items()}
    assert elos(rate(meetings, anchor="c", anchor_elo=0.0, samples=0)) == pytest.approx(expected, abs=1e-3)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    dice, strengths, inside, trials = np.random.default_rng(5), {"a": 0.0, "b": 0.5, "c": -0.4}, 0, 60
    for trial in range(trials):
        meetings = {}
        for first, second in combinations(strengths, 2):
            at_zero = dice.multinomial(150, chances(strengths, 0.1, -1.0, first, second)).tolist()
            at_one = dice.multinomial(150, chances(strengths, 0.1, -1.0, second, first)).tolist()[::-1]
            meetings[first, second] = pairs_of(tuple(at_zero), tuple(at_one))
        (rating,) = [each for each in rate(meetings, anchor="a", samples=60, seed=trial).ratings if each.agent == "b"]
        inside += rating.elo.low <= 0.5 * ELO <= rating.elo.high
    assert inside / trials > 0.8


def test_superiority_is_sure_where_the_difference_is_large() -> None:
    found = rate(expected_meetings({"a": 0.0, "b": 1.0, "c": 0.001}, 0, -1, 3000), samples=100)
    place = {rating.agent: i for i, rating in enumerate(found.ratings)}
    assert found.superiority[place["b"], place["a"]] == 1.0
    assert 0.1 < found.superiority[place["a"], place["c"]] < 0.9
    assert np.allclose(found.superiority + found.superiority.T, 1)


def test_the_same_seed_gives_the_same_intervals() -> None:
    meetings = expected_meetings({"a": 0.0, "b": 0.4}, 0.1, -1, 100)
    assert rate(meetings, seed=3).ratings == rate(meetings, seed=3).ratings != rate(meetings, seed=4).ratings


def test_agents_that_never_met_are_in_groups_of_their_own() -> None:
    meetings = expected_meetings({"a": 0.0, "b": 0.4, "c": 0.2}, 0, -1, 100) | expected_meetings(
        {"x": 0, "y": 1}, 0, -1, 90
    )
    found = rate(meetings, anchor="a", anchor_elo=1000, samples=10)
    assert {rating.agent: rating.group for rating in found.ratings} == {"a": 0, "b": 0, "c": 0, "x": 1, "y": 1}
    assert found.groups == 2
    assert elos(found)["a"] == pytest.approx(1000)
    assert (elos(found)["x"] + elos(found)["y"]) / 2 == pytest.approx(1000)


def test_who_wins_everything_has_no_bound() -> None:
    meetings = expected_meetings({"a": 0.0, "b": 0.4}, 0, -1, 100)
    meetings["a", "star"] = pairs_of((50, 0, 0), (50, 0, 0))
    found = rate(meetings, anchor="a", samples=5)
    assert {rating.agent for rating in found.ratings if not rating.bounded} == {"star"}
    assert found.ratings[0].agent == "star"
    assert found.ratings[0].elo == (math.inf, math.inf, math.inf)


def test_pairs_count_as_their_two_games() -> None:
    as_pairs = {("a", "b"): Tally(pairs=((1, 2, 3), (0, 4, 5), (6, 7, 8)))}
    tally = as_pairs["a", "b"]
    as_games = {("a", "b"): pairs_of(tally.results(0), tally.results(1))}
    assert elos(rate(as_pairs, samples=0)) == pytest.approx(elos(rate(as_games, samples=0)))


def test_requests_that_make_no_sense_are_refused() -> None:
    meetings = expected_meetings({"a": 0.0, "b": 0.4}, 0, -1, 100)
    with pytest.raises(RequestError, match="anchor 'z' played none of the games chosen: name one of a, b"):
        rate(meetings, anchor="z")
    with pytest.raises(RequestError, match="no games between different agents"):
        rate({("a", "a"): meetings["a", "b"]})
