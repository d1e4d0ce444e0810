"""``qarena bench --names``: the simulated run looks as it says, and what the store makes of it is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.store.ranges import StoredRange, parse_file_names, select_effective_derived, select_effective_slices
from quarto.errors import FailureError
from runners.bench import file_names
from runners.bench.file_names import NAMES_IN_PERIOD, PERIOD, UNITS
from tests.runners.conftest import Qarena


def test_the_simulated_run_has_gaps_duplicates_parents_and_damaged_names() -> None:
    names = [*file_names.generate_game_names(2)]
    assert len(names) == len(set(names)) == 2 * NAMES_IN_PERIOD
    assert names != sorted(names)
    files = parse_file_names(names)
    assert len(names) - len(files) == 2  # damaged
    games = [slice_.file for slice_ in select_effective_slices(files)]
    assert [*map(StoredRange.units.fget, games)].count(8 * UNITS) == 2  # type: ignore[attr-defined]  # parents
    held = {number for file in games for number in range(file.first // UNITS, file.end // UNITS)}
    assert sorted({*range(2 * PERIOD)} - held) == [20, 30, 1020, 1030]
    assert len({file[:2] for file in files}) == len(files) - 2  # duplicates


def test_what_the_store_makes_of_names_is_measured_and_grows(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("bench", "--names", "1.1e4", "--json", "figures.json")
    assert (result.code, result.err) == (0, "")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [*figures] == ["1001_names", "10010_names"]
    for stage in (
        *("list_folder", "parse", "select", "list_gaps", "prove_replaced"),
        *("match_derived", "list_missing", "list_groups_to_merge", "open"),
    ):
        assert f"10010_names.{stage}.microseconds_a_name" in result.out
    assert figures["10010_names"]["games"] == 2 * 10_000 * UNITS
    assert figures["10010_names"]["groups_to_merge"] > figures["1001_names"]["groups_to_merge"] > 0


def test_a_wrong_answer_of_the_store_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        file_names,
        "select_effective_derived",
        lambda files, games: type(games)([*select_effective_derived(files, games)][1:]),
    )
    with pytest.raises(
        FailureError, match=r"the store finds 135 derived ranges in use of the simulated run, which has 136"
    ):
        file_names.bench_file_names(1001)
