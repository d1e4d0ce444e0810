"""Where pairings and runs share openings, the openings are the evidence: intervals against counts game by game."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from analytics import open_archive
from analytics.questions.head_to_head import compute_head_to_head, split_by_seat
from analytics.questions.pairings import (
    Crosstable,
    PairingResult,
    SharedOpenings,
    build_crosstable,
    load_results,
    numbered_seed_hashes_frame,
    shared_opening_counts_sql,
)
from analytics.questions.rating_bootstrap import Tallies
from analytics.questions.ratings import Ratings, fit_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.lazy_rows import ArrowStream
from analytics.statistics.davidson import transitive_closure
from analytics.statistics.tally import Tally, normal_quantile, sum_tallies_by_key, wilson_interval, win_rate
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    Pairings,
    build_spec,
    naive_rows,
    random_block,
    record,
    store,
)

COLUMNS = ("id", "pair", "pairing", "a0", "a1", "winner", "plies", "opening", "ending")


def test_results_are_what_the_rows_say(archive: ArchiveStore) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    for result in load_results(archive, RUN_ID):
        first, second = PAIRINGS[result.pairing]
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in games]
        rows = [row for row in rows if row["pairing"] == result.pairing]
        points = [0 if row["winner"] == -1 else 1 if row[f"a{row['winner']}"] == first else -1 for row in rows]
        forfeits = [row[f"a{1 - row['winner']}"] for row in rows if row["ending"].startswith("forfeit")]
        assert (result.first, result.second) == (first, second)
        assert (result.losses, result.draws, result.wins) == tuple(map(points.count, (-1, 0, 1)))
        assert result.games == len(rows)
        assert result.forfeits == (forfeits.count(first), forfeits.count(second))
        assert result.mean_plies == sum(row[1] == result.pairing for row in plies) / len(rows)
        for seat in (0, 1):
            held = [point for point, row in zip(points, rows, strict=True) if row[f"a{seat}"] == first]
            assert result.losses_draws_wins_in_seat(seat) == tuple(map(held.count, (-1, 0, 1)))
        assert result.win_rate == (points.count(1) / len(rows), *wilson_interval(points.count(1), len(rows)))


def test_pairs_are_the_unit_where_openings_are_shared(archive: ArchiveStore) -> None:
    plain = load_results(archive, RUN_ID)
    archive.write_run_and_unit_count(record(build_spec(opening_plies=2), run_id=RUN_ID))
    shared = load_results(archive, RUN_ID)
    assert not any(result.by_pairs for result in plain)
    assert all(result.by_pairs for result in shared)
    assert [result.win_rate for result in shared] == [win_rate(result.tally, by_pairs=True) for result in plain]
    assert [result.win_rate for result in shared] != [result.win_rate for result in plain]


def test_an_unknown_run_is_refused(archive: ArchiveStore) -> None:
    with pytest.raises(RequestError, match="run 'ffffffffffff' is not in archive"):
        load_results(archive, "ffffffffffff")


FIXED = ("agent", "score", "low", "high", "games", "wins", "draws", "losses", "forfeits")


def result(pairing: int, first: str, second: str, losses: int, draws: int, wins: int) -> PairingResult:
    pairs = ((losses, 0, 0), (0, draws, 0), (0, 0, wins))
    return PairingResult(pairing, first, second, Tally(pairs=pairs, illegal=(1, 2)), by_pairs=False)


def test_the_crosstable_sorts_by_score_and_shows_each_pairing_from_both_sides() -> None:
    table = build_crosstable([result(0, "a", "b", 1, 0, 3), result(1, "c", "a", 4, 0, 0), result(2, "b", "c", 1, 2, 1)])
    assert table.agents == ("a", "b", "c")
    best, middle, last = table.standings
    assert best.score_by_opponent == {"b": 0.75, "c": 1.0}
    assert (best.games, best.wins, best.losses, best.score.mean, best.forfeits) == (16, 14, 2, 14 / 16, 3)
    assert best.score.low < 14 / 16 < best.score.high
    assert (middle.draws, middle.score.mean) == (4, 6 / 16)
    assert last.score_by_opponent == {"a": 0.0, "b": 0.5}
    frame = table.to_frame()
    assert frame.columns == [*FIXED, "v a", "v b", "v c"]
    assert frame["v a"].to_list() == [None, 0.25, 0.0]


def test_games_against_oneself_do_not_count() -> None:
    alone = build_crosstable([result(0, "a", "a", 5, 0, 5)])
    assert alone.agents == ("a",)
    assert alone.standings[0].games == 0


def test_no_results_make_an_empty_crosstable() -> None:
    assert build_crosstable([]) == Crosstable(())
    assert build_crosstable([]).to_frame().is_empty()


TURNED = [(second, first) for first, second in PAIRINGS]
ONE = PAIRINGS[:1]


def add(archive: ArchiveStore, games: int, pairings: Pairings = PAIRINGS, **spec: Any) -> str:
    """Add a run with random games; ``games`` is their seed."""
    run = record(build_spec(pairings=pairings, **spec))
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(games, number) for number in range(len(pairings))], pairings)
    return run.run_id


@pytest.fixture
def sharing(tmp_path: Path) -> ArchiveStore:
    """Write two tournaments of one seed with openings, a run of another seed with openings, and one without."""
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    add(archive, 1, opening_plies=2, seed=5)
    add(archive, 2, TURNED, opening_plies=3, seed=5)
    add(archive, 3, ONE, opening_plies=2, seed=6)
    add(archive, 4, ONE, seed=5)
    return archive


Units = dict[object, list[tuple[float, int]]]  # points and seat of an agent in each game, by what it shares


def naive_units(opened: OpenArchive, where: str, agent: str, opponent: str | None) -> Units:
    """Group an agent's games against one opponent, or all others, by opening.

    A pair without an opening is a group of its own.
    """
    runs = {record.run_id: record.spec for record in opened.archive.load_runs()}
    units: Units = defaultdict(list)
    for game in opened.sql(f"SELECT * FROM games WHERE {where}").to_dicts():
        agents = [game["agent_0"], game["agent_1"]]
        if agent not in agents or (opponent or agents[1 - agents.index(agent)]) not in agents:
            continue
        seat, spec = agents.index(agent), runs[game["run_id"]]
        number = game["pair_id"] % (1 << 31)
        unit = (spec["seed"], number) if spec["opening_plies"] else (game["run_id"], game["pair_id"])
        units[unit].append((0.5 if game["winner"] == -1 else float(game["winner"] == seat), seat))
    return units


def naive_score(units: Units) -> tuple[float, float, float]:
    """Compute the mean score and its interval: L. Kish, "Survey Sampling" (1965), section 6.3."""
    games = [points for unit in units.values() for points, _ in unit]
    mean = sum(games) / len(games)
    spread = sum((sum(points for points, _ in unit) - len(unit) * mean) ** 2 for unit in units.values())
    reach = normal_quantile() * math.sqrt(len(units) / (len(units) - 1) * spread) / len(games)
    return mean, max(0.0, mean - reach), min(1.0, mean + reach)


@pytest.mark.parametrize("where", [None, "true", "game_id % 5 > 0", "game_id % 3 > 0"])
def test_intervals_are_those_of_a_count_by_opening(sharing: ArchiveStore, where: str | None) -> None:
    with open_archive(sharing.root) as opened:
        met = compute_head_to_head(opened, GameFilter(where))
        for result in met.results:
            units = naive_units(opened, where or "true", result.first, result.second)
            assert result.score == pytest.approx(naive_score(units))
        for standing in build_crosstable(met.results, met.shared).standings:
            units = naive_units(opened, where or "true", standing.agent, None)
            assert standing.score == pytest.approx(naive_score(units))
        for seat, result in split_by_seat(met.results, met.shared):
            all_games = naive_units(opened, where or "true", result.first, result.second)
            units = {unit: kept for unit, games in all_games.items() if (kept := [g for g in games if g[1] == seat])}
            assert result.score == pytest.approx(naive_score(units))


def test_tallies_are_enough_where_no_opening_is_shared(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    for seed in (5, 6):
        add(archive, seed, ONE, opening_plies=2, seed=seed)
    add(archive, 7, opening_plies=0, seed=5)
    for file in Path(archive.root / "games").rglob("*.parquet"):
        file.write_bytes(b"")  # which nobody reads
    with open_archive(archive.root) as opened:
        met = compute_head_to_head(opened)
    assert met.shared is None
    assert all(result.clusters is None for result in met.results)


def test_two_deterministic_agents_that_met_twice_on_the_same_openings_met_once(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    once = add(archive, 1, ONE, opening_plies=2, seed=5)
    add(archive, 1, ONE, opening_plies=2, seed=5, note="another run of the same two and the same openings")
    with open_archive(archive.root) as opened:
        alone, both = compute_head_to_head(opened, GameFilter(runs=(once,))), compute_head_to_head(opened)
    (one,), (two,) = alone.results, both.results
    assert two.games == 2 * one.games
    assert two.clusters is not None
    assert two.clusters.points.clusters == one.tally.pair_count == 8
    small = math.sqrt(8 / 7)  # the sample's variance, over n or over n - 1
    assert two.score.high - two.score.mean == pytest.approx(small * (one.score.high - one.score.mean))
    assert two.win_rate == pytest.approx(one.win_rate)
    reach = [
        elo_of(fit_ratings(met.tallies, "random", samples=400, shared=met.shared), "rule_based")
        for met in (alone, both)
    ]
    assert width(reach[1]) == pytest.approx(width(reach[0]), rel=0.15)


@pytest.mark.parametrize("agents", [1, 7, 8, 20])
def test_who_is_reached_by_a_path_of_edges(agents: int) -> None:
    dice = np.random.default_rng(agents)
    for share in (0.02, 0.05, 0.1, 0.3):
        edges = dice.random((agents, agents)) < share
        expected = np.eye(agents, dtype=np.bool_)
        for _ in range(agents):
            expected |= expected @ edges
        assert np.array_equal(transitive_closure(edges), expected)


def test_the_frame_of_a_crosstable_has_as_many_opponents_as_are_wanted() -> None:
    tallies = {pair: Tally(pairs=((0, 0, 1), (0, 0, 0), (0, 0, 2))) for pair in combinations("abcd", 2)}
    table = build_crosstable([PairingResult(0, *pair, tally, False) for pair, tally in tallies.items()])
    assert [name for name in table.to_frame(2).columns if name.startswith("v ")] == ["v a", "v b"]
    assert table.to_frame(2).equals(table.to_frame().drop("v c", "v d"))
    assert Crosstable(()).to_frame().is_empty()


def test_groups_are_few_even_and_whole() -> None:
    agents, seeds = {("abc", 0): ("a", "b")}, {("abc", 0): 7}
    columns = "'abc' AS run_id, 0 AS pairing, i >> 1 AS pair_id, i AS game_id, i % 3 - 1 AS winner"
    rows = f"SELECT {columns} FROM range({{}}) AS numbers(i)"
    query = f"SELECT openings, sum(pairs)::INTEGER FROM ({shared_opening_counts_sql(agents, seeds)}) GROUP BY ALL"
    with duckdb.connect() as connection:
        connection.register("_sharing", ArrowStream(numbered_seed_hashes_frame(seeds)))
        many = dict(connection.execute(f"WITH games AS ({rows.format(200_000)}) {query}").fetchall())
        assert set(many) == set(range(1024))
        assert 90 <= min(many.values()) <= max(many.values()) <= 105
        every = rows.format(1 << 25) + " WHERE i % 65536 < 2"
        assert len(connection.execute(f"WITH games AS ({every}) {query}").fetchall()) > 300
        crowd = {("abc", number): (f"a{number}", "b") for number in range(3000)}
        connection.register("_sharing", ArrowStream(numbered_seed_hashes_frame(dict.fromkeys(crowd, 7))))
        few = f"SELECT DISTINCT openings FROM ({shared_opening_counts_sql(crowd, dict.fromkeys(crowd, 7))})"
        assert len(connection.execute(f"WITH games AS ({rows.format(20_000)}) {few}").fetchall()) == 256


# Simulated tournaments in which an opening suits some agents, whoever the opponent is.

AGENTS = ("a", "b", "c")


def tournament(dice: np.random.Generator, openings: int, times: int = 1) -> tuple[Tallies, SharedOpenings]:
    """Simulate a tournament of agents that are equal on average.

    Each two meet ``times`` times with the same results, as deterministic agents do.
    """
    meetings = list(combinations(AGENTS, 2))
    cells = np.zeros((openings, len(meetings), 15), np.int64)
    suits = dict(zip(AGENTS, dice.normal(0, 2, (len(AGENTS), openings)), strict=True))
    for number, (first, second) in enumerate(meetings):
        won = dice.random((2, openings)) < 1 / (1 + np.exp(suits[second] - suits[first]))
        cells[np.arange(openings), number, 6 * won[0] + 2 * won[1]] = times
    shared = SharedOpenings(tuple(meetings), cells, frozenset(meetings if times > 1 else ()))
    return tallies_of(cells.sum(axis=0)), shared


def tallies_of(cells: NDArray[np.int64]) -> Tallies:
    pairs = cells[:, :9].reshape(-1, 3, 3).tolist()
    return {
        both: msgspec.convert({"pairs": rows}, Tally) for both, rows in zip(combinations(AGENTS, 2), pairs, strict=True)
    }


def elo_of(ratings: Ratings, agent: str) -> tuple[float, float, float]:
    (rating,) = (rating for rating in ratings.ratings if rating.agent == agent)
    return rating.elo


def width(interval: tuple[float, float, float]) -> float:
    return interval[2] - interval[1]


def test_the_bootstrap_draws_openings_as_a_loop_over_openings_does() -> None:
    dice = np.random.default_rng(1)
    tallies, shared = tournament(dice, 60, times=2)
    drawn = []
    for _ in range(300):
        sample = tallies_of(shared.cells[dice.integers(0, 60, 60)].sum(axis=0))
        drawn.append(elo_of(fit_ratings(sample, "a", samples=0), "b")[0])
    low, high = np.quantile(drawn, [0.025, 0.975])
    by_openings = elo_of(fit_ratings(tallies, "a", samples=300, shared=shared), "b")
    assert width(by_openings) == pytest.approx(high - low, rel=0.15)
    by_pairs = elo_of(fit_ratings(tallies, "a", samples=300), "b")
    assert width(by_pairs) < 0.8 * width(by_openings)  # about the square root of 2


def test_pairs_whose_openings_nobody_shares_are_drawn_beside_them() -> None:
    dice = np.random.default_rng(2)
    tallies, shared = tournament(dice, 40)
    alone, _ = tournament(dice, 400)
    both = sum_tallies_by_key([*tallies.items(), *alone.items()])
    many, few = (elo_of(fit_ratings(met, "a", samples=200, shared=shared), "b") for met in (both, tallies))
    assert width(many) < width(few) / 2


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say_where_openings_are_shared() -> None:
    dice, trials = np.random.default_rng(3), 200
    held = {"openings": 0, "pairs": 0, "score": 0}
    for trial in range(trials):
        tallies, shared = tournament(dice, 100, times=2)
        for unit, shared_openings in (("openings", shared), ("pairs", None)):
            elo = elo_of(fit_ratings(tallies, "a", samples=100, seed=trial, shared=shared_openings), "b")
            held[unit] += elo[1] <= 0 <= elo[2]
        total = tallies["a", "b"] + tallies["a", "c"]
        clusters = shared.build_agent_clusters("a", total)
        assert clusters is not None
        mean = total.wins / total.games
        reach = normal_quantile() * math.sqrt(clusters.points.variance)
        held["score"] += mean - reach <= 0.5 <= mean + reach
    assert 0.9 <= held["openings"] / trials <= 0.98
    assert 0.9 <= held["score"] / trials <= 0.98
    assert held["pairs"] / trials < 0.85
