"""Mistakes over openings: the decisions of one opening are not independent, whoever decided."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.query.mistakes import decision_summaries, judged_agents
from analytics.query.selection import repeated_games
from analytics.statistics.intervals import quantile, wilson
from analytics.store.archive import Archive
from tests.analytics.indexed import decide
from tests.analytics.naive_games import PAIRINGS, RUN_ID, block_of, random_block, random_game, record, spec_of, store


@pytest.fixture
def judged(tmp_path: Path) -> Archive:
    """Two runs with the openings of one seed, one run without imposed openings; all decisions are judged."""
    archive = Archive.open(tmp_path / "archive", create=True)
    for seed, spec in enumerate((spec_of(seed=3, opening_plies=2), spec_of(seed=3, opening_plies=1), spec_of())):
        run = record(spec)
        archive.save_run(run)
        store(archive, run.run_id, [random_block(seed, pairing) for pairing in range(3)])
        decide(archive, run.run_id, seed)
    return archive


@pytest.mark.parametrize("by_ply", [False, True])
def test_intervals_are_over_openings(judged: Archive, by_ply: bool) -> None:
    with open_archive(judged.root) as opened:
        found = decision_summaries(opened, "ply BETWEEN 2 AND 7", by_ply, judged_agents(opened, "true"))
        rows = opened.sql(
            "SELECT run_id, game_id, agent, kind, ply, regret FROM decisions WHERE ply BETWEEN 2 AND 7"
        ).rows()
    clusters: dict[tuple[str, str, int | None], dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    for run_id, game_id, agent, kind, ply, regret in rows:
        pair = game_id % (1 << 32) // 2
        opening = pair if judged.known_run(run_id).opening_seed == 3 else (run_id, game_id // 2)
        clusters[agent, kind, ply if by_ply else None][opening].append(regret)
    assert set(found.select("agent", "kind", "ply").iter_rows()) == set(clusters)
    for agent, kind, ply, decisions, *estimates in found.iter_rows():
        of_openings = list(clusters[agent, kind, ply].values())
        values = [value for each in of_openings for value in each]
        assert decisions == len(values)
        for scored, (mean, low, high), share in (
            (lambda value: value, estimates[:3], False),
            (lambda value: value > 0, estimates[3:], True),
        ):
            expected = sum(map(scored, values)) / len(values)
            spread = sum((sum(map(scored, each)) - expected * len(each)) ** 2 for each in of_openings)
            variance = spread * len(of_openings) / (len(of_openings) - 1) / len(values) ** 2
            assert mean == pytest.approx(expected)
            if share:
                games = expected * (1 - expected) / variance
                assert (low, high) == pytest.approx(wilson(expected * games, games))
            else:
                reach = quantile() * math.sqrt(variance)
                assert (low, high) == pytest.approx((max(0, expected - reach), min(2, expected + reach)))


def test_games_that_are_copies_are_named(archive: Archive) -> None:
    one, other = (random_game(random.Random(seed), forfeits=0) for seed in (1, 2))
    copied = record(spec_of(seed=9))
    archive.save_run(copied)
    store(archive, copied.run_id, [block_of([one, other] * 5), random_block(4, 1)])
    with open_archive(archive.root) as opened:
        (note,) = repeated_games(opened, [copied.run_id, RUN_ID])
        assert repeated_games(opened, [RUN_ID]) == []
    first, second = PAIRINGS[0]
    assert note.startswith(f"the 10 games of {first} and {second} in run {copied.run_id} are 2 over and over")
