"""Records are stored as the same bytes always, and a file that is not what it should be is refused in one line."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs, to_builtins

from analytics.perfect.tablebase import SHIPPED, Card
from analytics.store.marker import Marker
from analytics.store.policy_cards import PolicyCard, PolicyFile
from analytics.store.ranges import UnitLine
from analytics.store.records import (
    JsonRecord,
    RecordError,
    RunRecord,
    StoredRecord,
    SweepJob,
    dump,
    load,
    parse,
    run_id_of,
    typed,
)
from quarto.errors import FailureError
from quarto.rules import Rules
from tests.analytics.naive_games import PAIRINGS, record, spec_of
from tests.analytics.stored_policies import LEARNED


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


SAMPLE = Path("data/sample")
KINDS: dict[str, type[JsonRecord]] = {
    "archive.json": Marker,
    "runs/*.json": RunRecord,
    "sweeps/*/*.json": SweepJob,
}

JOB = SweepJob("s1", 3, {"a": "é"}, "0123456789ab", jobs=4)
CARD = PolicyCard(
    policy_id="0123456789ab",
    name="mine",
    kind="counts",
    parameters={"rate": 1e-7},
    knowledge="ab" * 32,
    rules=spec_of()["rules"],
    created="2026-11-21T05:07:00.000001+00:00",
    code={},
    learned=LEARNED,
    files={"table.parquet": PolicyFile(3, 9, "cd" * 32)},
)


def test_every_record_of_the_sample_and_of_the_shipped_tablebases_is_written_again_byte_for_byte() -> None:
    found = {path: kind for pattern, kind in KINDS.items() for path in SAMPLE.glob(pattern)}
    assert set(found) == set(SAMPLE.rglob("*.json"))
    found |= dict.fromkeys(SHIPPED.glob("*.json"), Card)
    for path, kind in found.items():
        assert dump(load(path, kind)) == path.read_bytes(), path


def test_the_bytes_of_a_record_are_known() -> None:
    """Exponents, letters and empty containers are written as Python's ``json`` writes them: files that exist did so."""
    job = SweepJob("s1", 3, {"a": "é"}, error='"no"\n')
    assert dump(job).decode() == (
        '{\n "sweep_id": "s1",\n "job": 3,\n "overrides": {\n  "a": "é"\n },\n "run_id": null,\n'
        ' "status": "complete",\n "error": "\\"no\\"\\n",\n "games": 0,\n'
        ' "objective": null,\n "value": null,\n "jobs": 0,\n "checksum": "c5367817ef9551c3"\n}\n'
    )
    assert b'"parameters": {\n  "rate": 1e-07\n },' in dump(CARD)
    assert dump({"a": 1e16, "b": [], "c": {}}) == b'{\n "a": 1e+16,\n "b": [],\n "c": {}\n}\n'


def test_a_spec_may_hold_infinities_and_large_numbers() -> None:
    agents = [{"label": "mine", "target": "outside.Player", "params": {"limit": math.inf, "seed": 1 << 90}}]
    run = record(spec_of(agents=agents) | {"pairings": [[0, 0]]})
    assert parse(dump(run), RunRecord) == run


@pytest.mark.parametrize("kept", [record(), JOB, CARD], ids=lambda kept: type(kept).__name__)
def test_a_key_that_is_missing_or_unknown_is_refused(kept: JsonRecord) -> None:
    mapping = to_builtins(kept)
    assert typed(mapping, type(kept)) == kept
    optional = {each.name for each in structs.fields(kept) if not each.required}
    for name in set(mapping) - optional:
        with pytest.raises(RecordError, match=f"missing required field {name}"):
            typed({key: value for key, value in mapping.items() if key != name}, type(kept))
    with pytest.raises(RecordError, match="unknown field owner"):
        typed(mapping | {"owner": "me"}, type(kept))


def changed(path: tuple[str | int, ...], value: Any, mapping: Any) -> Any:
    """A mapping with another value at a path."""
    if not path:
        return value
    return mapping | {path[0]: changed(path[1:], value, mapping.get(path[0]))}


@pytest.mark.parametrize(
    ("kept", "path", "value", "complaint"),
    [
        (record(), ("games",), -1, "games -1: expected int >= 0"),
        (record(), ("games",), True, "games True: expected int, got bool"),
        (record(), ("games",), 1.0, "games 1.0: expected int, got float"),
        (record(), ("seconds",), math.nan, "seconds nan: expected float >= 0.0"),
        (
            record(),
            ("status",),
            "fine",
            "status 'fine': does not match running|interrupted|complete",
        ),
        (record(), ("created",), "yesterday", "Invalid isoformat string: 'yesterday'"),
        (record(), ("code",), None, "code None: expected object, got null"),
        (record(), ("spec", "seed"), 1 << 63, "spec.seed 9223372036854775808: expected int <= 9223372036854775807"),
        (record(), ("spec", "pairings"), [[0, 1], [0, "b"]], "spec.pairings[1][1] 'b': expected int, got str"),
        (record(), ("spec", "pairings"), [[0, 9]], "spec: a pairing has an index beyond the 3 agents"),
        (record(), ("spec", "agents"), [{}], "spec.agents[0]: object missing required field label"),
        (record(), ("spec", "rules", "squares"), "round", "spec: rules 'classic': squares='round' is not one of"),
        (JOB, ("x - at `$.y.z",), 1, "object contains unknown field x"),
        (CARD, ("knowledge",), "x", "knowledge 'x': does not match [0-9a-f]{64}"),
        (CARD, ("parameters", "rate"), "x", "parameters[...]: expected float, got str"),
        (CARD, ("learned", "run_ids"), ["../x"], "learned.run_ids[0] '../x': does not match [0-9a-f]{12}"),
        (CARD, ("files", "../x"), None, "key in files: does not match (?!card\\.json$)"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_wrong_value_is_named_with_its_field(
    kept: JsonRecord, path: tuple[str | int, ...], value: Any, complaint: str
) -> None:
    with pytest.raises(RecordError) as caught:
        typed(changed(path, value, to_builtins(kept)), type(kept))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b'{"sweep_id": "s', "Unterminated string"),
        (b"\xff", "can't decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "Expected object, got array"),
        (b'{"sweep_id": "s"}', "Object missing required field job"),
    ],
)
def test_a_file_that_is_no_record_is_named_with_the_reason_and_what_to_do(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "0.json"
    path.write_bytes(content)
    with pytest.raises(FailureError, match=f"{path} is damaged .*{reason}.*: restore it from a copy") as caught:
        load(path, SweepJob)
    assert "\n" not in str(caught.value)
    with pytest.raises(FailureError, match="cannot read"):
        load(tmp_path / "1.json", SweepJob)


def test_what_could_not_be_read_again_is_not_written() -> None:
    for wrong in (SweepJob("../x", 3), SweepJob("s", -1), structs.replace(CARD, name="a/b")):
        with pytest.raises(RecordError, match=r"expected|does not match"):
            dump(wrong)


@pytest.mark.parametrize("kept", [record(), JOB, CARD], ids=lambda kept: type(kept).__name__)
def test_any_changed_letter_or_digit_of_a_stored_record_is_found(kept: StoredRecord, tmp_path: Path) -> None:
    """One bit in every twentieth byte; changes between the values, of spaces and line ends, mean nothing."""
    path, content = tmp_path / "record.json", dump(kept)
    for at in range(0, len(content), 20):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        if not chr(content[at]).isspace():
            with pytest.raises(FailureError, match="is damaged"):
                load(path, type(kept))


def test_a_stored_record_without_a_checksum_is_damaged(tmp_path: Path) -> None:
    values = json.loads(dump(JOB))
    del values["checksum"]
    with pytest.raises(RecordError, match="its checksum is not that of its content"):
        parse(json.dumps(values).encode(), SweepJob)
