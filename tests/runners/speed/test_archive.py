from __future__ import annotations

import pytest

from runners.speed import archive
from runners.speed.archive import KINDS, exponent
from runners.speed.tables import bench_table
from tests.marks import seldom


def test_the_exponent_is_that_of_the_power_that_fits() -> None:
    sizes = [10**5, 10**6, 10**7]
    for power in (0.5, 1.0, 2.0):
        assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize("kinds", [(), *seldom((KINDS,))], ids=str)
def test_every_figure_has_its_target_beside_it(kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies, each in two processes of its own, take most of the time."""
    monkeypatch.setattr(archive, "QUICK_GAMES", (5_000, 10_000))
    monkeypatch.setattr(archive, "POSITIONS", archive.POSITIONS[:3])  # which so few games meet
    monkeypatch.setattr(archive, "ROUNDS", 1)
    monkeypatch.setattr(archive, "KINDS", kinds)
    if not kinds:
        monkeypatch.setattr(archive, "MEASURES", archive.MEASURES[:-1])
    figures = archive.bench_archive(quick=True)
    assert figures["games"] == 10_000
    assert figures["index"]["games_per_second"] > 0
    for name, unit in (
        ("index", "games_per_second"),
        ("index_unchanged", "seconds"),
        ("win_rates", "seconds"),
        ("first_plies", "seconds"),
        ("explorer", "milliseconds"),
    ):
        assert figures[name][unit] > 0
        assert figures[name][f"target_{unit}"] > 0
    assert set(figures["growth"]["index"]) == {"5000_seconds", "10000_seconds", "exponent"}
    assert {name for name in figures if name.startswith("policy_")} == {f"policy_{kind}" for kind in kinds}
    assert len(bench_table(figures).columns[0].texts) > 15
