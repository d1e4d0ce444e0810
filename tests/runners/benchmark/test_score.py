"""`qarena benchmark score`: perfect play has no regret and a score of 1, random play one of 0."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

import polars as pl
import pytest

from analytics.statistics.tally import Estimate, Tally, wilson
from runners.benchmark import score
from runners.benchmark.score import References, ScoreRequest, carry_out, mean_return
from runners.judge.judging import JudgeOptions
from tests.runners.conftest import Qarena


@pytest.fixture(autouse=True)
def few_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference scores from fewer games."""
    monkeypatch.setattr(score, "REFERENCE_GAMES", 200)


def test_returns_are_normalised_between_the_references() -> None:
    games = Tally(pairs=((1, 0, 1), (0, 2, 0), (0, 2, 4)))  # of 20 games 10 won, 6 drawn, 4 lost: (10 - 4) / 20
    returns = mean_return(games)
    assert returns.mean == pytest.approx((games.wins - games.losses) / games.games)
    assert returns.low < returns.mean < returns.high
    alike = mean_return(Tally(pairs=((0, 0, 0), (0, 0, 0), (2, 0, 0))))  # one game of each pair was won, one lost
    assert alike.mean == 0
    low, high = wilson(1, 2)
    assert (alike.low, alike.high) == (2 * low - 1, 2 * high - 1)
    assert alike.high - alike.low > 1.6
    lost = mean_return(Tally(pairs=((1, 0, 0), (0, 0, 0), (0, 0, 0))))
    assert (lost.mean, lost.low) == (-1, -1)
    assert lost.high > 0.5
    found = References(-0.5, 0.5).normalised(Estimate(0.25, 0.0, 0.5))
    assert found == (0.75, 0.5, 1.0)


def test_perfect_play_scores_one_without_regret_and_random_play_nothing(qarena: Qarena, small: Path) -> None:
    typed = ("benchmark", "score", "random", "oracle", "semi_random", "--positions", str(small), "--games", "200")
    found = qarena(*typed, "--format", "csv")
    assert found.code == 0, found.err
    rows = {row["agent"]: row for row in pl.read_csv(io.StringIO(found.out)).iter_rows(named=True)}
    assert rows["oracle"]["regret"] == 0
    assert rows["oracle"]["score"] == pytest.approx(1, abs=0.03)
    assert rows["random"]["score"] == pytest.approx(0, abs=0.03)
    assert rows["random"]["regret"] > rows["semi_random"]["regret"] > 0
    assert (
        0.3 < rows["semi_random"]["score_low"] < rows["semi_random"]["score"] < rows["semi_random"]["score_high"] < 0.7
    )
    for row in rows.values():
        assert row["mean_return"] == pytest.approx((row["wins"] - row["losses"]) / row["games"])
        width = row["ref_max_score"] - row["ref_min_score"]
        assert row["score"] == pytest.approx((row["mean_return"] - row["ref_min_score"]) / width)
    shown = qarena(*typed, "--wide").out
    assert re.search(r"1 │ oracle +│ +(1\.0|0\.9)", shown)
    assert "v semi_random (random" in shown


@pytest.mark.slow
def test_policies_are_scored_by_name_against_any_opponent(qarena: Qarena, small: Path) -> None:
    assert qarena("train", "trainer=rl_encoded", "trainer.games=300", "policy.name=mine").code == 0
    typed = ("benchmark", "score", "mine", "--opponent", "rule_based", "--positions", str(small), "--games", "20")
    found = qarena(*typed, "--output", "scores.csv")
    assert found.code == 0, found.err
    assert qarena(*typed, "--output", "scores.csv").code == 2  # it exists
    (row,) = pl.read_csv("scores.csv").iter_rows(named=True)
    assert (row["agent"], row["opponent"], row["games"]) == ("policy(policy=mine)", "rule_based", 20)


def test_a_score_that_is_stopped_says_nothing(small: Path) -> None:
    stop = threading.Event()
    stop.set()
    request = ScoreRequest(["random"], "semi_random", Path("data/archive"), small)
    assert carry_out(request, JudgeOptions(draws=1, games=20), stop) is None


def test_a_set_that_is_not_there_costs_one_line(qarena: Qarena) -> None:
    found = qarena("benchmark", "score", "random", "--positions", "none.parquet")
    assert re.fullmatch(r"[^\n]*none.parquet[^\n]*\n", found.err)
