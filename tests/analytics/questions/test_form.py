"""The form of agents: scores by run are those of the games, and expected scores are those of the fitted model."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.form import FORM_SCHEMA, compute_form
from analytics.questions.ratings import ELO_PER_UNIT, compute_ratings
from analytics.questions.selection import GameFilter
from analytics.report.sections.form import build_form_result
from quarto.errors import RequestError
from tests.analytics.uneven_games import STAR, write_uneven_archive
from tests.paths import SAMPLE

CLASSIC = GameFilter(rules="classic", trainings=False)


def test_the_score_of_a_run_is_that_of_its_games() -> None:
    with open_archive(SAMPLE) as opened:
        form = compute_form(opened, CLASSIC)
        scores = opened.sql(
            "SELECT agent, run_id, avg(score) AS score, count(*) AS games, count(DISTINCT opponent) AS opponents "
            "FROM seats WHERE rules = 'classic' GROUP BY ALL ORDER BY ALL"
        )
        newest = compute_form(opened, CLASSIC, max_runs=1)
    assert form.schema == pl.Schema(FORM_SCHEMA)
    assert form.select("agent", "run_id", "games", "opponents").sort("agent", "run_id").rows() == (
        scores.select("agent", "run_id", "games", "opponents").rows()
    )
    assert form.sort("agent", "run_id")["score"].to_list() == pytest.approx(scores["score"].to_list())
    assert form["created"].is_sorted()
    assert {*newest["run_id"]} == {form["run_id"][-1]}


def test_over_all_games_agents_score_what_is_expected_of_them() -> None:
    """Check the likelihood equations of the model: each agent's expected points are the points that it won."""
    with open_archive(SAMPLE) as opened:
        form = compute_form(opened, CLASSIC)
    games = pl.col("games").cast(pl.Float64)
    sums = form.group_by("agent").agg(won=games.dot("score"), expected=games.dot("expected"))
    assert sums["expected"].to_list() == pytest.approx(sums["won"].to_list(), rel=1e-6)
    assert (form["expected"] - form["score"]).abs().max() > 0.001  # type: ignore[operator]


@pytest.mark.parametrize("seat", [0, 1])
def test_an_expected_score_is_that_of_davidsons_model(seat: int) -> None:
    with open_archive(SAMPLE) as opened:
        ratings = compute_ratings(opened, rules="classic", samples=0)
    best, worst = ratings.ratings[0], ratings.ratings[-1]
    advantage = ratings.seat.mean / ELO_PER_UNIT
    strengths = [rating.elo.mean / ELO_PER_UNIT for rating in (best, worst)]
    zero, one = strengths if seat == 0 else strengths[::-1]
    draw = 2 * ratings.draws.mean / (1 - ratings.draws.mean)  # of two equals without an advantage
    wins, draws, losses = math.exp(zero + advantage), draw * math.exp((zero + advantage + one) / 2), math.exp(one)
    score = (wins + draws / 2) / (wins + draws + losses)
    expected = ratings.expect_score(best.agent, worst.agent, seat)
    assert expected == pytest.approx(score if seat == 0 else 1 - score)
    assert ratings.expect_score(best.agent, "nobody", seat) is None


def test_without_a_bound_or_with_a_condition_no_score_is_expected(tmp_path: Path) -> None:
    write_uneven_archive(tmp_path / "games")
    with open_archive(tmp_path / "games") as opened:
        star = compute_form(opened, GameFilter(rules="classic", agent=STAR, trainings=False))
        chosen = compute_form(opened, GameFilter("plies < 12", rules="classic", trainings=False))
        with pytest.raises(RequestError):
            compute_form(opened, GameFilter(trainings=False))  # by several rules
    assert star.height
    assert star["expected"].null_count() == star.height
    assert chosen.height
    assert chosen["expected"].null_count() == chosen.height


def test_versions_of_one_agent_share_a_picture_and_agents_that_met_have_none() -> None:
    with open_archive(SAMPLE) as opened:
        both = compute_form(opened, CLASSIC)
        random = compute_form(opened, GameFilter(rules="classic", agent="random", trainings=False))
    versions = random.with_columns(agent=pl.Series([f"random@{place % 2}" for place in range(len(random))]))
    (picture,) = build_form_result(versions).figures
    assert all(picture.svg.count(f">random@{number}<") == 1 for number in (0, 1))  # in the legend
    assert ">random<" not in build_form_result(random).figures[0].svg
    assert not build_form_result(both).figures
