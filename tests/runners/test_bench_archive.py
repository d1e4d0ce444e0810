from __future__ import annotations

import pytest

from runners import bench_archive
from runners.bench_archive import exponent
from runners.tables import bench_table


def test_the_exponent_is_that_of_the_power_that_fits() -> None:
    sizes = [10**5, 10**6, 10**7]
    for power in (0.5, 1.0, 2.0):
        assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_every_figure_has_its_target_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_archive, "GAMES", (50_000, 100_000, 10**12))
    monkeypatch.setattr(bench_archive, "ROUNDS", 1)
    figures = bench_archive.bench_archive(quick=True)
    assert figures["games"] == 100_000
    assert figures["index"]["plies_per_second"] > 0
    for name, unit in (
        ("index", "plies_per_second"),
        ("index_unchanged", "seconds"),
        ("win_rates", "seconds"),
        ("first_plies", "seconds"),
        ("explorer", "milliseconds"),
    ):
        assert figures[name][unit] > 0
        assert figures[name][f"target_{unit}"] > 0
    assert set(figures["growth"]["index"]) == {"50000_seconds", "100000_seconds", "exponent"}
    assert bench_table(figures).row_count > 15
