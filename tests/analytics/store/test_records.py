import hashlib
from typing import Any

import pytest
from msgspec import to_builtins

from analytics.statistics.tally import Tally
from analytics.store.json_records import RecordError, dump, parse, typed
from analytics.store.records import Commit, RunRecord, Slice, StoredFile, SweepJob, run_id_of
from analytics.store.schema import MAX_PAIRS
from quarto.rules import Rules
from tests.analytics.naive_games import PAIRINGS, record, spec_of

FILE: dict[str, Any] = {"file": f"part-000000-{'0' * 32}.parquet", "rows": 1, "bytes": 2, "sha256": "0" * 64}
ONE_PAIR = Tally(pairs=((0, 0, 0), (0, 1, 0), (0, 0, 0)))
COMMIT = Commit(0, StoredFile(**FILE), StoredFile(**FILE), (Slice(0, 5, 1, ONE_PAIR),), "2026-11-21T05:07:00+00:00")


def test_records_survive_json() -> None:
    run = record(spec_of(Rules("square", squares="plain")), status="complete", seconds=1.5)
    assert parse(dump(run), RunRecord) == run
    assert parse(dump(COMMIT), Commit) == COMMIT
    job = SweepJob("s1", 3, {"rules": "square"}, "0123456789ab", "failed", "ValueError: no", 20)
    assert parse(dump(job), SweepJob) == job


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
        {"games": -1},
        {"games": True},
        {"games": "many"},
        {"status": "fine"},
        {"created": "yesterday"},
        {"seconds": float("nan")},
        {"schema_version": 0},
        {"spec": {"pairings": [[0, 3]]}},
        {"spec": {"pairings": [[0, -1]]}},
        {"spec": {"pairings": [[0]]}},
        {"spec": {"rules": {"diagonals": "curved"}}},
        {"spec": {"rules": {"colour": 1}}},
        {"spec": {"seed": -1}},
        {"spec": {"seed": 1 << 63}},
        {"spec": {"opening_plies": None}},
        {"spec": {"agents": [{}]}},
    ],
    ids=str,
)
def test_a_run_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        typed(to_builtins(record()) | change | {"spec": {**record().spec, **change.get("spec", {})}}, RunRecord)


@pytest.mark.parametrize(
    "name",
    ["../part-000000-" + "0" * 32 + ".parquet", "/etc/passwd", FILE["file"] + "\n", "part-0-00.parquet", "", None, 7],
    ids=repr,
)
def test_a_file_name_cannot_leave_its_folder(name: Any) -> None:
    with pytest.raises(RecordError):
        typed(FILE | {"file": name}, StoredFile)


@pytest.mark.parametrize(
    "change",
    [
        {"shard": -1},
        {"games": FILE | {"sha256": "x"}},
        {"plies": FILE | {"rows": -1}},
        {"plies": FILE | {"owner": "me"}},
        {"created": "now"},
        {"slices": [{"pairing": 0, "first_pair": 0, "pairs": 2, "tally": to_builtins(ONE_PAIR)}]},
        {"slices": [{"pairing": 0, "first_pair": 0, "pairs": 0, "tally": to_builtins(Tally())}]},
        {"slices": [{"pairing": 0, "first_pair": MAX_PAIRS, "pairs": 1, "tally": to_builtins(ONE_PAIR)}]},
        {"slices": [{"pairing": 1 << 31, "first_pair": 0, "pairs": 1, "tally": to_builtins(ONE_PAIR)}]},
        {"slices": None},
    ],
    ids=str,
)
def test_a_commit_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        typed(to_builtins(COMMIT) | change, Commit)


@pytest.mark.parametrize(
    "change",
    [{"sweep_id": "../x"}, {"job": -1}, {"run_id": "x"}, {"status": "done"}, {"overrides": {"a": 1}}, {"error": 3}],
    ids=str,
)
def test_a_job_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        typed(to_builtins(SweepJob("s1", 3)) | change, SweepJob)
