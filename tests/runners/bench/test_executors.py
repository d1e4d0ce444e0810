"""``qarena bench --executors``: the parts of the time follow from the chunks, and speeds leave starts out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quarto.errors import FailureError
from runners.bench import executors
from runners.bench.executors import ChunkTimes
from tests.runners.conftest import Qarena

FIRST, SECOND = (1, 0), (2, 0)


def test_the_parts_of_the_time_follow_from_the_chunks() -> None:
    """Two workers: the second starts two seconds later, and waits at the end for the first one's last chunk."""
    times = [
        ChunkTimes(FIRST, 103.0, 104.0, 104.0, 105.5, 8),  # half a second longer than usual, because it loads kernels
        ChunkTimes(SECOND, 105.0, 106.0, 106.0, 107.5, 8),
        ChunkTimes(FIRST, 103.0, 104.0, 105.5, 106.5, 8),
        ChunkTimes(FIRST, 103.0, 104.0, 106.5, 107.5, 8),
        ChunkTimes(FIRST, 103.0, 104.0, 107.5, 108.5, 8),
    ]
    stages = executors.compute_stages(times, 100.0, 108.75)
    seconds = {name: value["seconds"] for name, value in stages.items() if isinstance(value, dict)}
    assert seconds == {
        "first_worker_starts_and_imports": 3.0,
        "last_worker_starts_and_imports": 5.0,
        "worker_builds_agents": 1.0,
        "worker_loads_kernels": 0.5,
        "waits_for_last_chunk": 1.0,
        "returns_last_result": 0.25,
        "all": 8.75,
    }
    assert stages["workers"] == 2
    assert executors.compute_playing_speed(times) == 2 * 8 * 2 / 1.0


def test_threads_are_measured_without_ray(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out processes, which take seconds to start."""
    monkeypatch.setattr(executors, "QUICK_GAMES", 2_000)
    monkeypatch.setattr(executors, "find_spec", lambda _name: None)
    monkeypatch.setattr(executors, "Processes", lambda: executors.THREADS)
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
