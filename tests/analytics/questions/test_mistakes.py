"""Mistakes over openings: the decisions of one opening are not independent, whoever decided."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pytest

from analytics import open_archive
from analytics.questions import mistakes
from analytics.questions.mistakes import (
    CANDIDATES,
    build_judged_agent_names,
    build_judged_runs_condition,
    find_worst_mistakes,
    summarise_decisions,
)
from analytics.questions.selection import read_plies
from analytics.questions.sql import lazy_rows
from analytics.statistics.tally import normal_quantile, wilson_interval
from analytics.store.archive import ArchiveStore
from quarto.canonical import canonical_position
from quarto.position import position_from_plies
from quarto.rules import CLASSIC, NONE
from tests.analytics.indexed import decide
from tests.analytics.naive_games import build_spec, random_block, record, store


@pytest.fixture(scope="module")
def judged_archive(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write two runs with the openings of one seed, and one run without imposed openings; all decisions are judged."""
    archive = ArchiveStore.open(tmp_path_factory.mktemp("judged") / "archive", create=True)
    for seed, spec in enumerate(
        (build_spec(seed=3, opening_plies=2), build_spec(seed=3, opening_plies=1), build_spec())
    ):
        run = record(spec)
        archive.write_run_and_unit_count(run)
        store(archive, run.run_id, [random_block(seed, pairing) for pairing in range(3)])
        decide(archive, run.run_id, seed)
    return archive


@pytest.mark.parametrize("by_ply", [False, True])
def test_intervals_are_over_openings(judged_archive: ArchiveStore, by_ply: bool) -> None:
    with open_archive(judged_archive.root) as opened:
        summaries = summarise_decisions(opened, "ply BETWEEN 2 AND 7", by_ply, build_judged_agent_names(opened, "true"))
        rows = opened.sql(
            "SELECT run_id, game_id, agent, kind, ply, regret FROM decisions WHERE ply BETWEEN 2 AND 7"
        ).rows()
    clusters: dict[tuple[str, str, int | None], dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    for run_id, game_id, agent, kind, ply, regret in rows:
        pair = game_id % (1 << 32) // 2
        opening = pair if judged_archive.load_run(run_id).opening_seed == 3 else (run_id, game_id // 2)
        clusters[agent, kind, ply if by_ply else None][opening].append(regret)
    assert set(summaries.select("agent", "kind", "ply").iter_rows()) == set(clusters)
    for agent, kind, ply, decisions, *estimates in summaries.iter_rows():
        regrets_by_opening = list(clusters[agent, kind, ply].values())
        values = [value for regrets in regrets_by_opening for value in regrets]
        assert decisions == len(values)
        for scored, (mean, low, high), share in (
            (lambda value: value, estimates[:3], False),
            (lambda value: value > 0, estimates[3:], True),
        ):
            expected = sum(map(scored, values)) / len(values)
            spread = sum((sum(map(scored, regrets)) - expected * len(regrets)) ** 2 for regrets in regrets_by_opening)
            variance = spread * len(regrets_by_opening) / (len(regrets_by_opening) - 1) / len(values) ** 2
            assert mean == pytest.approx(expected)
            if share:
                games = expected * (1 - expected) / variance
                assert (low, high) == pytest.approx(wilson_interval(expected * games, games))
            else:
                reach = normal_quantile() * math.sqrt(variance)
                assert (low, high) == pytest.approx((max(0, expected - reach), min(2, expected + reach)))


def test_the_worst_mistakes_are_those_of_a_search_one_by_one(judged_archive: ArchiveStore) -> None:
    with open_archive(judged_archive.root) as opened:
        mistakes = find_worst_mistakes(opened, "ply BETWEEN 3 AND 9", 10_000)
        rows = opened.sql(
            "SELECT run_id, game_id, ply, kind, regret, saving, choices FROM decisions WHERE ply BETWEEN 3 AND 9 AND "
            "regret > 0 ORDER BY regret DESC, saving / choices DESC NULLS LAST, run_id, game_id, ply, kind"
        ).rows(named=True)[:CANDIDATES]
        plies = read_plies(opened, {(row["run_id"], row["game_id"]) for row in rows})
    first: dict[tuple[str, int, int], dict[str, Any]] = {}
    missed = Counter[tuple[str, int, int]]()
    for row in rows:
        game, ply = plies[row["run_id"], row["game_id"]], row["ply"]
        hand = game[ply][0] if row["kind"] == "placement" else NONE
        position = canonical_position(position_from_plies(game[:ply], hand), CLASSIC)
        key = row["kind"], position.occupied, position.lanes
        first.setdefault(key, row)
        missed[key] += 1
    ease = {key: row["saving"] / row["choices"] if row["saving"] is not None else -1 for key, row in first.items()}
    expected = sorted(first, key=lambda key: (-first[key]["regret"], -ease[key], -missed[key], key))
    assert [(mistake.kind, mistake.position.occupied, mistake.position.lanes) for mistake in mistakes] == expected
    assert [mistake.missed for mistake in mistakes] == [missed[key] for key in expected]
    for mistake, key in zip(mistakes, expected, strict=True):
        names = ("regret", "run_id", "game_id", "ply")
        assert [getattr(mistake, name) for name in names] == [first[key][name] for name in names]


def test_positions_are_replayed_only_for_a_condition_that_reads_them(
    judged_archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay, replayed = lazy_rows.scan_boards_before_plies, []

    def record_call(*arguments: Any, **more: Any) -> Any:
        replayed.append(arguments)
        return replay(*arguments, **more)

    monkeypatch.setattr(lazy_rows, "scan_boards_before_plies", record_call)
    with open_archive(judged_archive.root) as opened:
        names = build_judged_agent_names(opened, "true")
        plain = summarise_decisions(opened, "ply > 3", True, names)
        assert not replayed
        assert summarise_decisions(opened, "ply > 3 AND board >= 0", True, names).equals(plain)
        assert replayed


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_condition_chooses_the_decisions_of_the_runs(judged_archive: ArchiveStore, runs: int) -> None:
    records = judged_archive.load_runs()[:runs]
    with open_archive(judged_archive.root) as opened:
        condition = build_judged_runs_condition(opened, records)
        counts = dict(opened.sql(f"SELECT run_id, count(*) FROM decisions WHERE {condition} GROUP BY ALL").rows())
        assert {*counts} == {record.run_id for record in records}


def test_files_of_other_runs_stay_closed_if_they_have_most_decisions(
    judged_archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mistakes, "LEAST_SHARE_OF_UNITS", 1 / 2)
    records = judged_archive.load_runs()
    with open_archive(judged_archive.root) as opened:
        assert "SELECT" not in build_judged_runs_condition(opened, records[:1])
        assert "SELECT" in build_judged_runs_condition(opened, records[:2])
