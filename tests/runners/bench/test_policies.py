"""Deriving is measured in processes of its own, and the archive that it is measured on stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.learning.policy import Policy
from analytics.store.archive import Archive
from quarto.errors import RequestError
from runners.arena.config_groups import names
from runners.bench.archive import KINDS, policy_figures
from runners.bench.policies import OUTCOMES, policy_speeds, turns_per_second
from tests.analytics.folders import snapshot
from tests.runners.experiments import play

COLUMNS = {"lanes": np.int64, "occupied": np.int32, "count": np.int64, "mean": np.float64}


@pytest.mark.slow
def test_figures_tell_seconds_and_memory_and_leave_nothing_behind(tmp_path: Path) -> None:
    play(tmp_path / "archive", "agent@a=random", "agent@b=random", "games=200")
    before = snapshot(tmp_path)
    figures = policy_figures(tmp_path / "archive")
    assert figures.pop("games") == 200
    assert set(figures) == set(KINDS)
    for kind in KINDS:
        assert figures[kind]["seconds"] > 0.1
        assert 50 < figures[kind]["peak_memory_mib"] < 4096
        assert figures[kind]["games_per_second"] == 200 / figures[kind]["seconds"]
    assert snapshot(tmp_path) == before


@pytest.mark.slow
def test_each_kind_has_the_speed_of_deriving_and_of_playing() -> None:
    figures = policy_speeds(quick=True)
    assert figures["games"] == 1000
    for kind in (*names("kind"), OUTCOMES):
        assert figures[kind]["games_per_second"] == 1000 / figures[kind]["seconds"]
        assert figures[kind]["turns_per_second"] > 100
    assert figures["line_values"]["target_turns_per_second"] == 80_000
    assert figures[OUTCOMES]["positions_per_second"] > 4 * figures[OUTCOMES]["games_per_second"]  # as a game has


def test_turns_are_counted_by_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.0])
    monkeypatch.setattr("runners.bench.policies.time.process_time", lambda: next(clock))
    policy = Policy("mc_afterstate", table={name: np.zeros(0, kind) for name, kind in COLUMNS.items()})
    turns = 2 * turns_per_second(policy, 4)
    assert turns == int(turns)
    assert 4 * 4 < turns <= 4 * 15


def test_an_archive_without_games_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="has no games"):
        policy_figures(Path(Archive.open(tmp_path / "archive", create=True).root))
