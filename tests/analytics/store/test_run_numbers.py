"""Runs are numbered in the order in which they begin, whatever clocks say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from analytics.store.archive import Archive
from tests.analytics.naive_games import record, spec_of


def test_a_run_that_begins_later_has_a_greater_number_and_is_listed_later(tmp_path: Path) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    begun = []
    for seed in range(5):  # on machines whose clocks go backwards
        number = archive.next_number()
        run = record(spec_of(seed=seed), created=f"2026-01-{9 - seed:02}T00:00:00+00:00", number=number)
        archive.save_run(run)
        begun.append(run.run_id)
    assert [run.number for run in archive.runs()] == [1, 2, 3, 4, 5]
    assert [run.run_id for run in archive.runs()] == begun != sorted(begun)
    archive.save_run(structs.replace(archive.runs()[0], status="complete"))  # which changes no number
    assert Archive.open(tmp_path / "archive").next_number() == 6


@pytest.mark.parametrize("number", ["7", 1 << 70, -3, True, None, [7], 2.5])
def test_a_record_that_cannot_be_read_has_no_number(number: object, tmp_path: Path) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    archive.save_run(record(number=2))
    hostile = record(spec_of(seed=9))
    archive.save_run(hostile)
    path = archive.root / "runs" / f"{hostile.run_id}.json"
    Path(path).write_text(json.dumps(json.loads(Path(path).read_text()) | {"number": number}))
    assert archive.next_number() == 3
    Path(path).write_text("[]")
    assert archive.next_number() == 3


def test_a_record_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    archive.save_run(record(number=2))
    assert archive.next_number() == 3
    archive.save_run(record(number=8))
    assert archive.next_number() == 9
