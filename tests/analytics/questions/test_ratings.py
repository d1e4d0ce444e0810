"""The joint fit, against the likelihood itself, another method of maximising it, and games from known strengths."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from analytics import open_archive
from analytics.questions.ranking import A_PERSON, FEW_GAMES, MIN_RANKED_GAMES, WON_ALL
from analytics.questions.ratings import ELO_PER_UNIT, Ratings, compute_ratings, fit_ratings
from analytics.statistics.tally import Tally
from quarto.errors import RequestError
from tests.marks import seldom
from tests.paths import SAMPLE

Counts = tuple[int, int, int]  # losses, draws, wins of the first agent


def pairs_of(in_seat_0: Counts, in_seat_1: Counts) -> Tally:
    """Build a tally with these results by the first agent's seat, as games without a pair."""
    return Tally(singles=(in_seat_0, in_seat_1))


def chances(strengths: dict[str, float], seat: float, draw: float, zero: str, one: str) -> list[float]:
    """Compute P(seat 0 loses, draws, wins) by the model's own formula."""
    a, b = strengths[zero] + seat, strengths[one]
    weights = [math.exp(b), math.exp(draw + (a + b) / 2), math.exp(a)]
    return [weight / sum(weights) for weight in weights]


def expected_tallies(strengths: dict[str, float], seat: float, draw: float, games: int) -> dict[tuple[str, str], Tally]:
    """Build tallies whose results are, up to rounding, exactly as likely as the model says."""
    tallies = {}
    for first, second in combinations(strengths, 2):
        at_zero = [round(games * chance) for chance in chances(strengths, seat, draw, first, second)]
        at_one = [round(games * chance) for chance in chances(strengths, seat, draw, second, first)][::-1]
        tallies[first, second] = pairs_of((at_zero[0], at_zero[1], at_zero[2]), (at_one[0], at_one[1], at_one[2]))
    return tallies


def elos(ratings: Ratings) -> dict[str, float]:
    return {rating.agent: rating.elo.mean for rating in ratings.ratings}


def test_strengths_seat_and_draws_are_found_again() -> None:
    strengths = {"a": 0.0, "b": 1.2, "c": -0.7, "d": 0.3}
    ratings = fit_ratings(expected_tallies(strengths, -0.2, -1.5, 10**6), anchor="a", samples=0)
    assert elos(ratings) == pytest.approx({agent: value * ELO_PER_UNIT for agent, value in strengths.items()}, abs=0.05)
    assert ratings.seat.mean == pytest.approx(-0.2 * ELO_PER_UNIT, abs=0.05)
    assert ratings.draws.mean == pytest.approx(math.exp(-1.5) / (2 + math.exp(-1.5)), abs=1e-4)
    assert [rating.agent for rating in ratings.ratings] == ["b", "d", "a", "c"]


def random_tallies(seed: int, agents: int, draws: bool = True) -> dict[tuple[str, str], Tally]:
    """Draw counts, all of them above 0."""
    dice = np.random.default_rng(seed)

    def counts() -> Counts:
        losses, drawn, wins = dice.integers(1, 60, 3).tolist()
        return losses, drawn * draws, wins

    return {pair: pairs_of(counts(), counts()) for pair in combinations("abcdefgh"[:agents], 2)}


@pytest.mark.extras
@pytest.mark.parametrize("seed", [1, *seldom(2, 3)])
def test_scipy_finds_the_same_maximum(seed: int) -> None:
    from scipy.optimize import minimize  # takes half a second, which processes without this test need not pay

    tallies = random_tallies(seed, 5)
    agents = sorted({agent for pair in tallies for agent in pair})

    def unlikelihood(at: NDArray[np.float64]) -> float:
        strengths = dict(zip(agents, [0.0, *at[:-2]], strict=True))
        total = 0.0
        for (first, second), tally in tallies.items():
            at_zero = chances(strengths, at[-2], at[-1], first, second)
            at_one = chances(strengths, at[-2], at[-1], second, first)[::-1]
            total -= sum(n * math.log(p) for n, p in zip(tally.losses_draws_wins_in_game(0), at_zero, strict=True))
            total -= sum(n * math.log(p) for n, p in zip(tally.losses_draws_wins_in_game(1), at_one, strict=True))
        return total

    best = minimize(unlikelihood, np.zeros(len(agents) + 1), method="BFGS", options={"gtol": 1e-4}).x
    ratings = fit_ratings(tallies, anchor="a", samples=0)
    assert elos(ratings) == pytest.approx(dict(zip(agents, [0.0, *best[:-2] * ELO_PER_UNIT], strict=True)), abs=0.01)
    assert ratings.seat.mean == pytest.approx(best[-2] * ELO_PER_UNIT, abs=0.01)
    assert ratings.draws.mean == pytest.approx(math.exp(best[-1]) / (2 + math.exp(best[-1])), abs=1e-4)


@pytest.mark.extras
@pytest.mark.slow  # as far as scipy in the test above
def test_without_draws_and_with_seats_that_even_out_choix_finds_the_same() -> None:
    import choix  # takes half a second, which processes without this test need not pay

    tallies = {
        pair: pairs_of(tally.losses_draws_wins_in_game(0), tally.losses_draws_wins_in_game(0))
        for pair, tally in random_tallies(4, 6, draws=False).items()
    }
    # Each meeting has the same results in both seats, so the likelihood is even in the seat's value. The value is 0,
    # because the likelihood is convex, too.
    agents = sorted({agent for pair in tallies for agent in pair})
    wins = []
    for (first, second), tally in tallies.items():
        numbers = agents.index(first), agents.index(second)
        wins += [numbers] * tally.wins + [numbers[::-1]] * tally.losses
    strengths = choix.opt_pairwise(len(agents), wins, alpha=0, method="Newton-CG", tol=1e-9)
    ratings = fit_ratings(tallies, anchor="a", samples=0)
    assert ratings.seat.mean == pytest.approx(0, abs=1e-6)
    assert elos(ratings) == pytest.approx(
        dict(zip(agents, (strengths - strengths[0]) * ELO_PER_UNIT, strict=True)), abs=0.01
    )


def test_ratings_of_an_archive_are_those_of_its_tallies() -> None:
    with open_archive(SAMPLE) as archive:
        ratings = compute_ratings(archive, "opening = 0", rules="classic", anchor="random", anchor_elo=1000, samples=20)
        assert ratings.to_frame()["agent"].to_list() == ["semi_random", "rule_based", "dumb", "random"]
        assert elos(ratings)["random"] == 1000
        assert (
            ratings.to_frame()["games"].sum()
            == 2 * archive.sql("SELECT count(*) FROM games WHERE opening = 0 AND rules = 'classic'").item()
        )


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    dice, strengths, inside, trials = np.random.default_rng(5), {"a": 0.0, "b": 0.5, "c": -0.4}, 0, 40
    for trial in range(trials):
        tallies = {}
        for first, second in combinations(strengths, 2):
            at_zero = dice.multinomial(150, chances(strengths, 0.1, -1.0, first, second)).tolist()
            at_one = dice.multinomial(150, chances(strengths, 0.1, -1.0, second, first)).tolist()[::-1]
            tallies[first, second] = pairs_of(tuple(at_zero), tuple(at_one))
        (rating,) = [
            rating for rating in fit_ratings(tallies, anchor="a", samples=40, seed=trial).ratings if rating.agent == "b"
        ]
        inside += rating.elo.low <= 0.5 * ELO_PER_UNIT <= rating.elo.high
    assert inside / trials > 0.8


def test_superiority_is_sure_where_the_difference_is_large() -> None:
    ratings = fit_ratings(expected_tallies({"a": 0.0, "b": 1.0, "c": 0.001}, 0, -1, 3000), samples=100)
    place = {rating.agent: i for i, rating in enumerate(ratings.ratings)}
    assert ratings.superiority[place["b"], place["a"]] == 1.0
    assert 0.1 < ratings.superiority[place["a"], place["c"]] < 0.9
    assert np.allclose(ratings.superiority + ratings.superiority.T, 1)


def test_the_same_seed_gives_the_same_intervals() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4}, 0.1, -1, 100)
    assert len({str(fit_ratings(tallies, samples=20, seed=seed).ratings) for seed in (3, 3, 4)}) == 2


def test_intervals_do_not_depend_on_the_order_of_pairings_or_of_their_agents() -> None:
    tallies = {pair: Tally(pairs=tally.pairs, singles=tally.singles) for pair, tally in random_tallies(6, 4).items()}
    tallies["a", "b"] += Tally(pairs=((3, 1, 4), (1, 5, 9), (2, 6, 5)))
    other = {(second, first): tally.with_agents_swapped for (first, second), tally in reversed(tallies.items())}
    apart = {**other, ("a", "b"): tallies["a", "b"]}
    del apart["b", "a"]
    here, there, elsewhere = (fit_ratings(met, anchor="a", samples=20) for met in (tallies, other, apart))
    assert here.ratings == there.ratings == elsewhere.ratings
    assert here.seat == there.seat
    assert (here.superiority == there.superiority).all()


def test_agents_that_never_met_are_in_groups_of_their_own() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4, "c": 0.2}, 0, -1, 100) | expected_tallies(
        {"x": 0, "y": 1}, 0, -1, 90
    )
    ratings = fit_ratings(tallies, anchor="a", anchor_elo=1000, samples=10)
    assert {rating.agent: rating.group for rating in ratings.ratings} == {"a": 0, "b": 0, "c": 0, "x": 1, "y": 1}
    assert ratings.group_count == 2
    assert elos(ratings)["a"] == pytest.approx(1000)
    assert (elos(ratings)["x"] + elos(ratings)["y"]) / 2 == pytest.approx(1000)
    group = np.array([rating.group for rating in ratings.ratings])
    assert (np.isnan(ratings.superiority) == (group[:, None] != group)).all()  # none is claimed between groups
    assert ratings.to_frame()["above x"].null_count() == 3
    assert ratings.to_frame()["agent"].to_list() == ["b", "c", "a", "y", "x"]


def test_ranks_are_of_agents_with_enough_games_against_agents_and_a_bound_in_each_group() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4, "c": 0.2}, 0, -1, 100) | expected_tallies(
        {"x": 0, "y": 1}, 0, -1, MIN_RANKED_GAMES // 2
    )
    tallies["a", "few"] = pairs_of((20, 5, 20), (20, 5, 20))
    tallies["a", "human:z"] = pairs_of((60, 0, 9), (60, 0, 9))
    tallies["b", "star"] = pairs_of((90, 0, 0), (90, 0, 0))
    tallies["few", "human:z"] = pairs_of((20, 5, 20), (20, 5, 20))
    ratings = fit_ratings(tallies, samples=0)
    ranked = [(rating.agent, rating.group, rating.rank) for rating in ratings.ranked]
    assert ranked == [("b", 0, 1), ("c", 0, 2), ("a", 0, 3), ("y", 1, 1), ("x", 1, 2)]
    unranked = {rating.agent: rating.unranked for rating in ratings.ratings if rating.rank is None}
    assert unranked == {"star": (WON_ALL,), "human:z": (A_PERSON,), "few": (FEW_GAMES,)}
    assert sorted(ratings.agents_ranked_first[5:]) == ["few", "human:z", "star"]
    assert ratings.to_frame()["rank"].null_count() == 3
    fewer = fit_ratings(expected_tallies({"x": 0, "y": 1}, 0, -1, MIN_RANKED_GAMES // 2 - 1), samples=0)
    assert not fewer.ranked


def test_of_two_that_won_everything_their_own_games_tell_who_is_above() -> None:
    tallies = {(best, other): pairs_of((0, 0, 50), (0, 0, 50)) for best in ("p", "q") for other in ("a", "b", "c")}
    tallies |= expected_tallies({"a": 0.0, "b": 0.4, "c": 0.2}, 0, -1, 300)
    tallies["p", "q"] = pairs_of((85, 10, 5), (85, 10, 5))
    ratings = fit_ratings(tallies, samples=40)
    place = {rating.agent: i for i, rating in enumerate(ratings.ratings)}
    assert elos(ratings)["p"] == elos(ratings)["q"] == math.inf
    assert (place["q"], place["p"]) == (0, 1)
    assert ratings.superiority[0, 1] == 1


def test_who_wins_everything_has_no_bound() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4}, 0, -1, 100)
    without = elos(fit_ratings(tallies, anchor="a", samples=0))
    tallies["a", "star"] = pairs_of((50, 0, 0), (50, 0, 0))
    tallies["b", "dud"] = pairs_of((0, 0, 50), (0, 0, 50))
    ratings = fit_ratings(tallies, anchor="a", samples=5)
    assert {rating.agent for rating in ratings.ratings if not rating.has_finite_elo} == {"star", "dud"}
    assert [rating.agent for rating in ratings.ratings] == ["star", "b", "a", "dud"]
    assert ratings.ratings[0].elo == (math.inf, math.inf, math.inf)
    assert {type(end) for rating in ratings.ratings for end in rating.elo} == {float}
    assert ratings.ratings[3].elo == (-math.inf, -math.inf, -math.inf)
    assert {agent: elo for agent, elo in elos(ratings).items() if agent in without} == without


def test_of_two_agents_one_of_which_always_wins_only_the_order_is_known() -> None:
    ratings = fit_ratings({("a", "b"): pairs_of((0, 0, 9), (0, 0, 9))}, anchor="b", samples=20)
    assert elos(ratings) == {"a": math.inf, "b": 0.0}
    assert ratings.superiority[0, 1] == 1
    assert math.isnan(ratings.seat.mean)
    assert math.isnan(ratings.draws.mean)
    assert ratings.to_frame().select("seat", "draws").null_count().row(0) == (2, 2)


def test_who_is_neither_above_nor_below_is_not_placed() -> None:
    """Let two agents win every game against a third and never meet: the games cannot say which of the two is better."""
    tallies = {("a", "c"): pairs_of((0, 0, 9), (0, 0, 9)), ("b", "c"): pairs_of((0, 0, 8), (0, 0, 8))}
    ratings = fit_ratings(tallies, anchor="a", samples=20)
    assert {rating.agent for rating in ratings.ratings if math.isnan(rating.elo.mean)} == {"b"}
    assert elos(ratings)["c"] == -math.inf
    frame = ratings.to_frame().filter(agent="a")
    assert frame.select("above b", "above c").row(0) == (0.5, 1.0)


def test_a_seat_that_takes_every_point_is_worth_more_than_any_number() -> None:
    first = fit_ratings({("a", "b"): pairs_of((0, 0, 9), (9, 0, 0))}, samples=10)
    assert first.seat == (math.inf, math.inf, math.inf)
    assert all(math.isnan(elo) for elo in elos(first).values())
    second = fit_ratings({("a", "b"): pairs_of((9, 0, 0), (0, 0, 9))}, samples=0)
    assert second.seat.mean == -math.inf


def test_where_the_seat_decides_every_game_nobody_is_rated_above_anybody() -> None:
    seat_0 = {("a", "b"): pairs_of((0, 0, 9), (5, 0, 0)), ("b", "c"): pairs_of((0, 0, 4), (9, 0, 0))}
    ratings = fit_ratings({**seat_0, ("star", "a"): pairs_of((0, 0, 6), (0, 0, 6))}, samples=20)
    assert ratings.undecided_by_seat == ("a", "b", "c")
    assert {agent: str(elo) for agent, elo in elos(ratings).items()} == {
        **dict.fromkeys("abc", "nan"),
        "star": "inf",
    }
    assert (ratings.superiority[1:, 1:] == 0.5).all()
    assert (ratings.superiority[0, 1:] == 1).all()
    drawn = fit_ratings(
        {("a", "b"): pairs_of((0, 1, 9), (5, 4, 0))}, samples=0
    )  # the draws tell: a gave one with seat 0
    assert (drawn.undecided_by_seat, drawn.seat.mean) == ((), math.inf)
    assert elos(drawn)["a"] > 10 > -10 > elos(drawn)["b"]


def test_only_draws_and_no_draws_at_all() -> None:
    drawn = fit_ratings({("a", "b"): pairs_of((0, 9, 0), (0, 9, 0))}, samples=10)
    assert elos(drawn) == pytest.approx({"a": 0, "b": 0})
    assert drawn.draws == (1.0, 1.0, 1.0)
    decided = fit_ratings({("a", "b"): pairs_of((4, 0, 5), (3, 0, 6))}, samples=10)
    assert decided.draws == (0.0, 0.0, 0.0)


def test_without_samples_nothing_is_said_about_certainty() -> None:
    ratings = fit_ratings({("a", "b"): pairs_of((4, 1, 5), (3, 0, 6))}, samples=0)
    assert all(math.isnan(end) for rating in ratings.ratings for end in rating.elo[1:])
    assert math.isnan(ratings.seat.low)
    assert ratings.to_frame().select("low", "high", "above a").null_count().row(0) == (2, 2, 2)


def test_samples_in_which_somebody_has_no_bound_widen_the_interval_without_end() -> None:
    ratings = fit_ratings({("a", "b"): pairs_of((1, 0, 19), (0, 0, 20))}, anchor="b", samples=50)
    (rating,) = [rating for rating in ratings.ratings if rating.agent == "a"]
    assert math.isfinite(rating.elo.mean)
    assert rating.elo.low < rating.elo.mean < rating.elo.high == math.inf


def test_pairs_count_as_their_two_games() -> None:
    as_pairs = {("a", "b"): Tally(pairs=((1, 2, 3), (0, 4, 5), (6, 7, 8)))}
    tally = as_pairs["a", "b"]
    as_games = {("a", "b"): pairs_of(tally.losses_draws_wins_in_game(0), tally.losses_draws_wins_in_game(1))}
    assert elos(fit_ratings(as_pairs, samples=0)) == pytest.approx(elos(fit_ratings(as_games, samples=0)))


def test_who_forfeited_every_game_is_listed_apart() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4}, 0, -1, 100)
    plain = fit_ratings(tallies, anchor="a", samples=20)
    broken = Tally(singles=((0, 0, 4), (0, 0, 5)), illegal=(0, 3), errors=(0, 4), late=(0, 2))
    ratings = fit_ratings({**tallies, ("a", "broken"): broken, ("late", "broken"): broken}, anchor="a", samples=20)
    assert ratings.ratings == plain.ratings
    assert ratings.forfeited == (("broken", 18),)
    assert ratings.met_only_forfeiting == ("late",)
    with pytest.raises(RequestError, match="no games between different agents: broken forfeited every game"):
        fit_ratings({("a", "broken"): broken})
    with pytest.raises(RequestError, match="anchor 'broken' forfeited every game: name one of a, b"):
        fit_ratings({**tallies, ("a", "broken"): broken}, anchor="broken")
    nearly = Tally(singles=((0, 0, 5), (0, 0, 5)), illegal=(0, 9))
    assert elos(fit_ratings({**tallies, ("a", "nearly"): nearly}, samples=0)).keys() == {"a", "b", "nearly"}


def test_requests_that_make_no_sense_are_refused() -> None:
    tallies = expected_tallies({"a": 0.0, "b": 0.4}, 0, -1, 100)
    with pytest.raises(RequestError, match="anchor 'z' played none of the games chosen: name one of a, b"):
        fit_ratings(tallies, anchor="z")
    with pytest.raises(RequestError, match="anchor_elo=nan and samples=200"):
        fit_ratings(tallies, anchor_elo=math.nan)
    with pytest.raises(RequestError, match="no games between different agents"):
        fit_ratings({("a", "a"): tallies["a", "b"]})
