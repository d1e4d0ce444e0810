"""``qarena bench --growth``: archives of the sizes that are asked for, every command on each, and how time grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import list_policy_ids
from runners.bench import growth, growth_archives
from runners.bench.growth import COMMANDS, Measurement, build_growth_table, compute_growth_exponent
from runners.bench.growth_archives import UNITS_PER_FILE, write_files, write_policies, write_runs
from runners.bench.timing import QARENA_PROGRAM, ProcessUsage
from tests.runners.conftest import Qarena


def test_archives_have_as_many_runs_and_files_as_asked_for(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", 3)
    assert len(ArchiveStore.open(tmp_path / "runs").load_runs()) == 3
    write_files(tmp_path / "files", 5)
    archive = ArchiveStore.open(tmp_path / "files")
    (record,) = archive.load_runs()
    assert record.status == "complete"
    assert [stored.units for stored in archive.list_effective_ranges(record.run_id)] == 5 * [UNITS_PER_FILE]


def test_an_archive_has_as_many_policies_as_asked_for(
    tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(arguments: Sequence[str], _folder: Path) -> None:
        assert qarena(*arguments).code == 0

    monkeypatch.setattr(growth_archives, "measure_process", run_here)
    write_policies(tmp_path / "policies", 4)
    assert len(list_policy_ids(ArchiveStore.open(tmp_path / "policies"))) == 4


def test_every_command_runs_on_every_size_and_faster_growth_stands_out(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The processes are not started; their processor time is the square of the number of runs that they would see."""
    called: list[str] = []

    def pretend(arguments: Sequence[str], folder: Path, program: str = QARENA_PROGRAM) -> ProcessUsage:
        called.append("home" if program != QARENA_PROGRAM else arguments[0])
        runs = len(ArchiveStore.open(folder / growth.ARCHIVE_NAME).load_runs())
        return ProcessUsage(seconds=2.0 * runs, peak_bytes=runs << 20, processor_seconds=float(runs**2))

    monkeypatch.setattr(growth, "find_spec", lambda name: name)  # the home page needs an extra
    monkeypatch.setattr(growth, "measure_process", pretend)
    monkeypatch.setitem(growth.AXES, "runs", replace(growth.AXES["runs"], sizes=(1, 2, 500)))
    result = qarena("bench", "--growth", "runs", "--largest", "9", "--json", "growth.json")
    assert result.code == 0, result.err
    assert called == 2 * [words[0] if words else "home" for words in COMMANDS.values()]
    assert result.out.count("2.00") >= len(COMMANDS)
    figures = json.loads((tmp_path / "growth.json").read_text())
    assert figures["runs"]["2"]["rate"] == {"seconds": 4.0, "processor_seconds": 4.0, "peak_memory_mib": 2.0}


def test_the_exponent_is_that_of_the_power_by_which_time_grows() -> None:
    small, large = (
        Measurement("games", size, "sql", ProcessUsage(1.0, 1 << 20, seconds))
        for size, seconds in ((10, 2.0), (1000, 20.0))
    )
    assert compute_growth_exponent(small, large) == pytest.approx(0.5)
    table = build_growth_table([small, large])
    assert [column.texts for column in table.columns if column.heading == "exponent"] == [["", "0.50"]]


@pytest.mark.slow
@pytest.mark.extras
def test_the_growth_of_an_axis_is_measured(qarena: Qarena) -> None:
    result = qarena("bench", "--growth", "jobs", "--largest", "1")
    assert result.code == 0, result.err
    assert "sweep (all)" in result.out
    assert "home" in result.out
