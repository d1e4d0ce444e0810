import hashlib
from typing import Any

import pytest
from msgspec import to_builtins

from analytics.store.json_records import RecordError, typed
from analytics.store.ranges import UnitLine
from analytics.store.records import RunRecord, SweepJob, run_id_of
from quarto.rules import Rules
from tests.analytics.naive_games import PAIRINGS, record, spec_of


def test_a_run_id_follows_from_the_spec_in_any_order_of_its_keys() -> None:
    text = r'{"agents":[{"label":"\u00e9"}],"seed":7}'
    assert run_id_of({"seed": 7, "agents": [{"label": "é"}]}) == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert run_id_of(dict(sorted(record().spec.items(), reverse=True))) == record().run_id
    assert run_id_of({**record().spec, "salt": "x"}) != record().run_id


def test_a_run_names_its_pairings_by_label() -> None:
    assert record().pairings == tuple(PAIRINGS)
    assert record().rules == Rules()


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "0123456789AB"},
        {"run_id": "../../../etc"},
        {"schema_version": 0},
        {"units": -1},
        {"annotated": "all"},
        {"spec": {"pairings": [[0, 3]]}},
        {"spec": {"pairings": [[0, -1]]}},
        {"spec": {"pairings": [[0]]}},
        {"spec": {"rules": {"diagonals": "curved"}}},
        {"spec": {"rules": {"colour": 1}}},
        {"spec": {"seed": -1}},
        {"spec": {"opening_plies": None}},
        {"spec": {"agents": [{"label": "red\x1b[31m"}, {"label": "b"}, {"label": "c"}]}},
    ],
    ids=str,
)
def test_a_run_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        typed(to_builtins(record()) | change | {"spec": {**record().spec, **change.get("spec", {})}}, RunRecord)


def test_a_run_knows_its_line_of_units_and_where_it_ends() -> None:
    run = record(games=100)
    assert (run.line, run.end_unit) == (UnitLine(3, 2), 150)
    assert (record(spec_of(seats="fixed"), games=7).line, record(spec_of(seats="fixed"), games=7).end_unit) == (
        UnitLine(3, 1),
        21,
    )
    imported = record(spec_of(seats="fixed", imported={"event": "cup"}), games=5, units=12)
    assert (imported.line, imported.end_unit) == (UnitLine(1, 1), 12)


@pytest.mark.parametrize(
    "change",
    [{"sweep_id": "../x"}, {"job": -1}, {"run_id": "x"}, {"status": "done"}, {"overrides": {"a": 1}}, {"error": 3}],
    ids=str,
)
def test_a_job_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        typed(to_builtins(SweepJob("s1", 3)) | change, SweepJob)
