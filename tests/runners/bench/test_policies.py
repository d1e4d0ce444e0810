"""Deriving is measured in processes of its own, and the archive that it is measured on stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.store.archive import Archive
from quarto.errors import RequestError
from runners.bench.archive import KINDS, policy_figures
from tests.analytics.folders import snapshot
from tests.runners.experiments import play


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


def test_an_archive_without_games_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="has no games"):
        policy_figures(Path(Archive.open(tmp_path / "archive", create=True).root))
