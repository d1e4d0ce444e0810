"""``qarena bench --executors``: the parts of the time follow from the chunks, and speeds leave starts out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quarto.errors import FailureError
from runners.arena.executors.base import THREADS
from runners.bench import executors
from runners.bench.executors import ChunkTimes, Moment
from tests.runners.conftest import Qarena

FIRST, SECOND = (1, 0), (2, 0)


def test_the_parts_of_the_time_follow_from_the_chunks() -> None:
    """Two workers: the second starts two seconds later, and waits at the end for the first one's last chunk."""
    build = [(Moment(103.0, 1.0), Moment(104.0, 1.5)), (Moment(105.0, 2.0), Moment(106.0, 2.75))]
    times = [
        # Half a second longer than usual, because it loads kernels.
        ChunkTimes(FIRST, *build[0], Moment(104.0, 1.5), Moment(106.0, 2.75), 8),
        ChunkTimes(SECOND, *build[1], Moment(106.0, 2.75), Moment(107.0, 3.25), 8),
        ChunkTimes(FIRST, *build[0], Moment(106.0, 2.75), Moment(107.0, 3.25), 8),
        ChunkTimes(FIRST, *build[0], Moment(107.0, 3.25), Moment(108.0, 3.75), 8),
    ]
    stages = executors.compute_stages(times, Moment(100.0, 0.0), 108.75)
    assert stages == {
        "first_worker_starts_and_imports": {"seconds": 3.0, "processor_seconds": 1.0},
        "last_worker_starts_and_imports": {"seconds": 5.0, "processor_seconds": 2.0},
        "worker_builds_agents": {"seconds": 1.0, "processor_seconds": 0.625},
        "worker_loads_kernels": {"seconds": 0.5, "processor_seconds": 0.375},
        "waits_for_last_chunk": {"seconds": 1.0},
        "returns_last_result": {"seconds": 0.75},
        "all": {"seconds": 8.75},
        "workers": 2,
    }
    assert executors.compute_playing_speed(times) == 2 * 8 * 2 / 1.0


def test_threads_are_measured_without_ray(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out processes, which take seconds to start."""
    monkeypatch.setattr(executors, "QUICK_GAMES", 2_000)
    monkeypatch.setattr(executors, "find_spec", lambda _name: None)
    monkeypatch.setattr(executors, "Processes", lambda: THREADS)
    result = qarena("bench", "--executors", "--quick")
    assert result.code == 0, result.err
    for name in ("join.seconds", "worker_builds_agents.seconds", "games_per_second.as_run_prints_it"):
        assert f"executor_threads.{name}" in result.out
    assert "ray" not in result.out


@pytest.mark.slow
@pytest.mark.extras
def test_a_speed_as_a_run_prints_it_leaves_the_start_of_a_cluster_out(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("bench", "--executors", "--quick", "--json", "figures.json")
    assert result.code == 0, result.err
    figures = json.loads((tmp_path / "figures.json").read_text())
    for name in ("executor_processes", "executor_ray"):
        speeds = figures[name]["games_per_second"]
        assert speeds["as_run_prints_it"] > 1.5 * speeds["start_included"]
        assert figures[name]["first_worker_starts_and_imports"]["seconds"] > 0.1
    assert figures["executor_ray"]["workers"] == executors.NODES


def test_a_cluster_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CLUSTER_PROGRAM", "print('no ports')")
    with (
        pytest.raises(FailureError, match=re.escape("Ray started no cluster on this machine")),
        executors.start_cluster(),
    ):
        raise AssertionError
