"""Runs compared: only what differs is shown, and differences are those that plain Python finds pair by pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import polars as pl
import pytest
from msgspec import structs

from analytics import open_archive
from analytics.questions.run_comparison import compare_runs
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.records import RunRecord
from quarto.errors import RequestError
from quarto.rules import CLASSIC, Rules
from tests.analytics.naive_games import PAIRINGS, build_spec, record
from tests.analytics.questions.test_head_to_head import TURNED, add

CODE = {"version": "1", "fingerprint": "f", "modules": {"quarto.rng": "aa", "agents.mcts": "bb"}}
OTHER = {"version": "1", "fingerprint": "g", "modules": {"quarto.rng": "aa", "agents.mcts": "cc", "agents.gifts": "d"}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchiveStore, list[RunRecord]]:
    """Write a run, the same with other code and swapped agents, one without openings, and one with other rules."""
    archive = ArchiveStore.open(tmp_path_factory.mktemp("compared") / "archive", create=True)
    first = structs.replace(record(build_spec(seed=3, opening_plies=2)), code=CODE, seconds=2.0)
    turned = structs.replace(record(build_spec(seed=3, pairings=TURNED, opening_plies=2)), code=OTHER)
    plain = record(build_spec(seed=3))
    square = record(build_spec(rules=Rules("square", squares="plain"), seed=3, opening_plies=2))
    for number, (run, pairings) in enumerate(
        [(first, PAIRINGS), (turned, TURNED), (plain, PAIRINGS), (square, PAIRINGS)]
    ):
        add(archive, run, number, pairings, square.rules if run is square else CLASSIC)
    return archive, [first, turned, plain, square]


@pytest.fixture(scope="module")
def opened(runs: tuple[ArchiveStore, list[RunRecord]]) -> Iterator[OpenArchive]:
    with open_archive(runs[0].root) as opened:
        yield opened


def scores(opened: OpenArchive, run: RunRecord, first: str, second: str) -> dict[int, float]:
    """Return the score of ``first`` in each pair of games with ``second``, by the number of the pair."""
    pairs: dict[int, list[float]] = {}
    games = f"SELECT * FROM games WHERE run_id = '{run.run_id}'"
    for game in opened.sql(games).iter_rows(named=True):
        agents = game["agent_0"], game["agent_1"]
        if {*agents} == {first, second}:
            won = 0.5 if game["winner"] < 0 else float(agents[game["winner"]] == first)
            pairs.setdefault(game["pair_id"] % (1 << 31), []).append(won)
    return {number: statistics.mean(pair_scores) for number, pair_scores in pairs.items()}


def test_pairs_with_one_opening_are_compared_one_by_one(
    opened: OpenArchive, runs: tuple[ArchiveStore, list[RunRecord]]
) -> None:
    first, turned, *_ = runs[1]
    results = compare_runs(opened, [first.run_id, turned.run_id]).results
    assert results.height == 2 * len(PAIRINGS)
    for row in results.filter(pl.col("run") == turned.run_id).iter_rows(named=True):
        one, two = (scores(opened, run, row["first"], row["second"]) for run in (first, turned))
        gains = [two[number] - one[number] for number in one]
        reach = 1.959964 * statistics.stdev(gains) / math.sqrt(len(gains))
        assert row["shared_pairs"] == len(gains)
        assert row["score"] == pytest.approx(statistics.mean(two.values()))
        assert row["difference"] == pytest.approx(statistics.mean(gains))
        assert row["difference_high"] - row["difference"] == pytest.approx(reach, abs=1e-6)
        assert (row["p"] < 0.05) == (abs(row["difference"]) > reach)


def test_other_runs_are_independent_samples(opened: OpenArchive, runs: tuple[ArchiveStore, list[RunRecord]]) -> None:
    first, _, plain, square = runs[1]
    results = compare_runs(opened, [first.run_id, plain.run_id, square.run_id]).results
    base = {(row["first"], row["second"]): row for row in results.iter_rows(named=True) if row["run"] == first.run_id}
    for row in results.filter(pl.col("run") != first.run_id).iter_rows(named=True):
        other = base[row["first"], row["second"]]
        assert row["shared_pairs"] == 0
        assert row["difference"] == pytest.approx(row["score"] - other["score"])
        low = math.hypot(row["score"] - row["score_low"], other["score_high"] - other["score"])
        assert row["difference_low"] == pytest.approx(row["difference"] - low)
    assert all(row["difference"] is None and row["p"] is None for row in base.values())


def test_only_settings_and_modules_that_differ_are_named(
    opened: OpenArchive, runs: tuple[ArchiveStore, list[RunRecord]]
) -> None:
    first, turned, plain, square = runs[1]
    by_run = compare_runs(opened, [first.run_id, turned.run_id])
    assert by_run.settings.rows() == [("module agents.mcts", "bb", "cc")]
    assert by_run.tables[0].title == "Settings and code that differ"
    names = compare_runs(opened, [first.run_id, square.run_id]).settings["setting"].to_list()
    assert {"rules: name", "rules: squares"} <= {*names}
    assert not [name for name in names if name.startswith(("module", "rules: diagonals", "seed"))]
    assert compare_runs(opened, [first.run_id, plain.run_id]).settings.row(0) == ("opening_plies", "2", "0")
    assert by_run.speeds.rows()[0][2:] == (2.0, by_run.speeds["games"][0] / 2)


def test_wrong_requests_are_refused(opened: OpenArchive, runs: tuple[ArchiveStore, list[RunRecord]]) -> None:
    run_id = runs[1][0].run_id
    for run_ids, expected in (
        ([run_id], "name two runs or more"),
        ([run_id, run_id], "each once"),
        ([run_id, "0" * 12], "is not in archive"),
    ):
        with pytest.raises(RequestError, match=expected):
            compare_runs(opened, run_ids)
