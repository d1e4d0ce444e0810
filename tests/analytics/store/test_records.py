"""Records are the same bytes always; a file that is no record, or hides characters, is refused in one line."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs, to_builtins

from analytics.exact.tablebase import SHIPPED_FOLDER, TablebaseCard
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import render_report
from analytics.store import policy_cards, policy_store, sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.marker import Marker
from analytics.store.policy_cards import PolicyCard, PolicyFile
from analytics.store.ranges import UnitLine
from analytics.store.records import (
    LABEL,
    JsonRecord,
    RecordError,
    RunRecord,
    StoredRecord,
    SweepJob,
    compute_run_id,
    convert_values,
    encode_record,
    load_record,
    parse_record,
)
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge
from tests.analytics.naive_games import RUN_ID, build_spec, record
from tests.analytics.stored_policies import COUNTS, GENES, LEARNED, origin
from tests.marks import seldom


def test_a_run_id_follows_from_the_spec_in_any_order_of_its_keys() -> None:
    text = r'{"agents":[{"label":"\u00e9"}],"seed":7}'
    assert compute_run_id({"seed": 7, "agents": [{"label": "é"}]}) == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert compute_run_id(dict(sorted(record().spec.items(), reverse=True))) == record().run_id
    assert compute_run_id({**record().spec, "salt": "x"}) != record().run_id


def test_a_run_knows_its_line_of_units_and_where_it_ends() -> None:
    run = record(games=100)
    assert (run.unit_line, run.end_unit) == (UnitLine(3, 2), 150)
    assert (
        record(build_spec(seats="fixed"), games=7).unit_line,
        record(build_spec(seats="fixed"), games=7).end_unit,
    ) == (
        UnitLine(3, 1),
        21,
    )
    imported = record(build_spec(seats="fixed", imported={"event": "cup"}), games=5, units=12)
    assert (imported.unit_line, imported.end_unit) == (UnitLine(1, 1), 12)


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
    rules=build_spec()["rules"],
    created="2026-11-21T05:07:00.000001+00:00",
    code={},
    learned=LEARNED,
    files={"table.parquet": PolicyFile(3, 9, "cd" * 32)},
)


def test_every_record_of_the_sample_and_of_the_shipped_tablebases_is_written_again_byte_for_byte() -> None:
    kinds = {path: kind for pattern, kind in KINDS.items() for path in SAMPLE.glob(pattern)}
    assert set(kinds) == set(SAMPLE.rglob("*.json"))
    kinds |= dict.fromkeys(SHIPPED_FOLDER.glob("*.json"), TablebaseCard)
    for path, kind in kinds.items():
        assert encode_record(load_record(path, kind)) == path.read_bytes(), path


def test_the_bytes_of_a_record_are_known() -> None:
    """Check that exponents, letters and empty containers stay as Python's ``json`` writes them, as in old files."""
    job = SweepJob("s1", 3, {"a": "é"}, error='"no"\n')
    assert encode_record(job).decode() == (
        '{\n "sweep_id": "s1",\n "job": 3,\n "overrides": {\n  "a": "é"\n },\n "run_id": null,\n'
        ' "status": "complete",\n "error": "\\"no\\"\\n",\n "games": 0,\n'
        ' "objective": null,\n "value": null,\n "jobs": 0,\n "checksum": "c5367817ef9551c3"\n}\n'
    )
    assert b'"parameters": {\n  "rate": 1e-07\n },' in encode_record(CARD)
    assert encode_record({"a": 1e16, "b": [], "c": {}}) == b'{\n "a": 1e+16,\n "b": [],\n "c": {}\n}\n'


def test_a_spec_may_hold_infinities_and_large_numbers() -> None:
    agents = [{"label": "mine", "target": "outside.Player", "params": {"limit": math.inf, "seed": 1 << 90}}]
    run = record(build_spec(agents=agents) | {"pairings": [[0, 0]]})
    assert parse_record(encode_record(run), RunRecord) == run


OF_A_JOB: tuple[dict[str, Any], ...] = (
    *({"sweep_id": "../x"}, {"job": -1}, {"run_id": "x"}, {"status": "done"}, {"overrides": {"a": 1}}, {"error": 3}),
)
OF_A_RUN: tuple[dict[str, Any], ...] = (
    *({"run_id": "0123456789AB"}, {"run_id": "../../../etc"}, {"schema_version": 0}, {"units": -1}),
    *({"spec": {"pairings": [[0, 3]]}}, {"spec": {"pairings": [[0, -1]]}}, {"spec": {"pairings": [[0]]}}),
    *({"spec": {"rules": {"diagonals": "curved"}}}, {"spec": {"rules": {"colour": 1}}}, {"annotated": "all"}),
    *({"spec": {"seed": -1}}, {"spec": {"opening_plies": None}}),
    *({"code": {"extended_by": 3}}, {"code": {"same_games": ["x"]}}, {"code": {"same_games": {"x": {"a": 1}}}}),
    *({"derived": {"evaluations": -1}}, {"derived": 3}),
    {"spec": {"agents": [{"label": "red\x1b[31m"}, {"label": "b"}, {"label": "c"}]}},
)
NONSENSE: tuple[tuple[JsonRecord, tuple[dict[str, Any], ...]], ...] = (
    (JOB, OF_A_JOB),
    (record(), OF_A_RUN),
    (CARD, ()),
)


def test_a_record_that_makes_no_sense_or_with_a_key_too_few_or_too_many_is_refused() -> None:
    for kept, changes in NONSENSE:
        mapping = to_builtins(kept)
        assert convert_values(mapping, type(kept)) == kept
        for change in changes:
            spec = {"spec": {**mapping["spec"], **change.get("spec", {})}} if "spec" in mapping else {}
            with pytest.raises(RecordError):
                convert_values(mapping | change | spec, type(kept))
        for name in {field.name for field in structs.fields(kept) if field.required}:
            with pytest.raises(RecordError, match=f"missing required field {name}"):
                convert_values({key: value for key, value in mapping.items() if key != name}, type(kept))
        with pytest.raises(RecordError, match="unknown field owner"):
            convert_values(mapping | {"owner": "me"}, type(kept))


def changed(path: tuple[str | int, ...], value: Any, mapping: Any) -> Any:
    """Return a mapping with another value at a path."""
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
        (record(), ("seconds",), math.inf, "seconds inf: expected float <= 9"),
        (record(), ("created",), "yesterday", "Invalid isoformat string: 'yesterday'"),
        (record(), ("created",), "2026-11-27T10:00:00", "created '2026-11-27T10:00:00' has no time zone"),
        (CARD, ("created",), "2026-11-27", "created '2026-11-27' has no time zone"),
        (CARD, ("parameters", "rate"), math.inf, "parameters: rate is inf"),
        (record(), ("spec", "rules", "colour"), 1, "rules: Rules.__init__() got an unexpected keyword argument"),
        (record(), ("spec", "rules", "squares"), ["plain"], "rules: "),
        (record(), ("code",), None, "code None: expected object, got null"),
        (record(), ("spec", "seed"), 1 << 63, "spec.seed 9223372036854775808: expected int <= 9223372036854775807"),
        (record(), ("spec", "pairings"), [[0, 1], [0, "b"]], "spec.pairings[1][1] 'b': expected int, got str"),
        (record(), ("spec", "pairings"), [[0, 9]], "spec: a pairing has an index beyond its 3 agents"),
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
        convert_values(changed(path, value, to_builtins(kept)), type(kept))
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
        load_record(path, SweepJob)
    assert "\n" not in str(caught.value)
    with pytest.raises(FailureError, match="cannot read"):
        load_record(tmp_path / "1.json", SweepJob)


def test_what_could_not_be_read_again_is_not_written() -> None:
    for wrong in (SweepJob("../x", 3), SweepJob("s", -1), structs.replace(CARD, name="a/b")):
        with pytest.raises(RecordError, match=r"expected|does not match"):
            encode_record(wrong)


@pytest.mark.parametrize("kept", [record(), JOB, CARD], ids=lambda kept: type(kept).__name__)
def test_any_changed_letter_or_digit_of_a_stored_record_is_found(kept: StoredRecord, tmp_path: Path) -> None:
    """Change one bit in every twentieth byte; changes of spaces and line ends between the values mean nothing."""
    path, content = tmp_path / "record.json", encode_record(kept)
    for at in range(0, len(content), 20):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        if not chr(content[at]).isspace():
            with pytest.raises(FailureError, match="is damaged"):
                load_record(path, type(kept))
    path.write_bytes(json.dumps(to_builtins(kept)).encode())
    with pytest.raises(FailureError, match="its checksum is not that of its content"):
        load_record(path, type(kept))


OBEYED = ["\x1b", "\x00", "\r", "\x7f", "\x85", "\x9b", "\u061c", "\u200e", "\u2028", "\u2029", "\u202e", "\u2067"]


def put(*keys: str | int, name: bool = False) -> Callable[[str], Callable[[dict[str, Any]], None]]:
    """Return the change that adds a text to the value at these keys, or with ``name`` a key beside it."""

    def change(text: str) -> Callable[[dict[str, Any]], None]:
        def changed(values: Any) -> None:
            for key in keys[:-1]:
                values = values[key]
            values[f"a{text}b" if name else keys[-1]] = values[keys[-1]] if name else f"a{text}b"

        return changed

    return change


RECORDS = {
    "label": ("runs/*.json", put("spec", "agents", 0, "label")),
    "parameter": ("runs/*.json", put("spec", "agents", 0, "target")),
    "name of a parameter": ("runs/*.json", put("spec", "agents", name=True)),
    "rules": ("runs/*.json", put("spec", "rules", "name")),
    "code": ("runs/*.json", put("code", "version")),
    "code of an agent": ("runs/*.json", put("code", "version", name=True)),
    "date": ("runs/*.json", put("created")),
    "command": ("runs/*.json", put("command")),
    "setting": ("sweeps/sweep/0.json", put("overrides", "games")),
    "name of a setting": ("sweeps/sweep/0.json", put("overrides", "games", name=True)),
    "error": ("sweeps/sweep/0.json", put("error")),
    "policy": ("policies/*/card.json", put("name")),
    "kind": ("policies/*/card.json", put("kind")),
    "trainer": ("policies/*/card.json", put("learned", "trainer")),
    "gene": ("policies/*/card.json", put("parameters", "rate", name=True)),
    "verdict": ("verdicts/*/*.json", put("command")),
}


SEVERAL_LINES = ("command", "error", "verdict")  # places of texts that were typed or raised


@pytest.mark.parametrize("every", [False, *seldom(True)], ids=["one of each", "every"])
def test_a_record_with_a_text_that_is_not_shown_is_refused_in_one_line(full_archive: ArchiveStore, every: bool) -> None:
    """Check each text in the place of a label and each place with one text, or all combinations."""
    for place, (pattern, change) in RECORDS.items():
        (path,) = Path(full_archive.root).glob(pattern)
        read: dict[str, Callable[[], object]] = {
            "runs": full_archive.load_runs,
            "sweeps": full_archive.load_sweep_jobs,
            "policies": partial(policy_cards.load_cards, full_archive),
            "verdicts": partial(sprt_verdicts.load_verdict, full_archive, path),
        }
        sound = path.read_bytes()
        lines = [] if place in SEVERAL_LINES else ["\n", "\t", "x" * 70_000]
        for text in [*lines, *(OBEYED if every or place == "label" else OBEYED[:1])]:
            forge(path, change(text))
            with pytest.raises(FailureError) as refused:
                read[pattern.partition("/")[0]]()
            assert str(refused.value).startswith(f"{path} is damaged (")
            assert str(refused.value).isprintable()
            assert len(str(refused.value)) < 500
            path.write_bytes(sound)
        forge(path, change(OBEYED[0]))
        assert any(problem.file == path for problem in verify_archive(full_archive).problems)
        path.write_bytes(sound)


def test_a_report_about_such_a_label_is_refused_and_aborts_nothing(archive: ArchiveStore) -> None:
    """Check a label with ESC, at which a renderer of pictures once ended the process."""
    forge(Path(archive.run_record_path(RUN_ID)), put("spec", "agents", 0, "label")("\x1b[31m"))
    with OpenArchive(archive.root) as opened, pytest.raises(FailureError, match="is damaged"):
        render_report(opened)


def test_the_bytes_of_a_record_are_utf_8_without_a_mark(tmp_path: Path) -> None:
    """Check encodings that ``json`` would accept: a byte order mark, UTF-16 and UTF-32."""
    content = encode_record(JOB)
    for other in (b"\xef\xbb\xbf" + content, *(content.decode().encode(name) for name in ("utf-16", "utf-32-le"))):
        with pytest.raises(RecordError):
            parse_record(other, SweepJob)
    assert parse_record(content, SweepJob) == JOB


def test_values_that_are_nested_deeply_are_refused() -> None:
    inner: Any = 1
    for _ in range(100):
        inner = {"below": [inner]}
    values = to_builtins(record()) | {"code": inner}
    with pytest.raises(RecordError, match="it is nested too deeply: more than 64 levels"):
        parse_record(json.dumps(values).encode(), RunRecord)


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        *((name, True) for name in ("classic", "own_piece", "a-b.c", "classic(diagonals=none,squares=plain)")),
        *((name, False) for name in ("", "a b", "a[/bold]b", "[link=http://x]classic[/link]", "a\nerror: b", "größer")),
        *((name, False) for name in ("a()", "a(b)", "a(b=c", "a(b=[x])", "a" * 201, "a\n", 7, None, ["a"])),
    ],
)
def test_rules_of_a_record_have_a_name_of_letters_and_digits(name: Any, is_valid: bool) -> None:
    for kept, path in ((record(), ("spec", "rules", "name")), (CARD, ("rules", "name"))):
        values = changed(path, name, to_builtins(kept))
        if is_valid:
            assert convert_values(values, type(kept))
            continue
        with pytest.raises(RecordError, match=r"is not a name: letters, digits|rules: "):
            convert_values(values, type(kept))


def test_a_label_is_refused_by_the_same_rule_when_it_is_typed() -> None:
    assert not [text for text in OBEYED if LABEL.fullmatch(f"a{text}b")]
    assert LABEL.fullmatch("größer(日本, depth=2) שלום ✓")


def test_texts_that_were_typed_or_raised_are_kept_so_that_they_are_shown(archive: ArchiveStore) -> None:
    archive.update_run_and_unit_count(
        RUN_ID, lambda run: run and structs.replace(run, command="qarena run 'a\n\tb\x1b[2J'")
    )
    assert archive.load_run(RUN_ID).command == "qarena run 'a\n\tb\\x1b[2J'"
    archive.write_sweep_job(SweepJob("s", 0, {}, None, "failed", "ValueError: \x1b[31mred\u202e"))
    assert archive.load_sweep_jobs()[0].error == "ValueError: \\x1b[31mred\\u202e"
    learned = {**origin().learned, "command": "qarena train \x9b", "where": "plies > 3\nAND winner = 0"}
    policy_store.save(archive, COUNTS, origin(learned=learned))
    assert policy_store.find(archive, "mine").learned["command"] == "qarena train \\x9b"


def test_other_texts_are_refused_before_anything_is_written(archive: ArchiveStore) -> None:
    with pytest.raises(RequestError, match=r"this cannot be recorded: 'red\\x1b\[31m' has characters that are not"):
        archive.write_sweep_job(SweepJob("s", 0, {"agent": "red\x1b[31m"}))
    assert archive.load_sweep_jobs() == []


def test_a_gene_that_is_not_on_the_card_is_refused(archive: ArchiveStore) -> None:
    card = policy_store.save(archive, GENES, origin())
    folder = Path(archive.root) / "policies" / card.policy_id
    forge(folder / "card.json", lambda values: values["parameters"].pop("beta"))
    with pytest.raises(RequestError, match=r"gene 'beta' is not on its card"):
        policy_store.read(archive, "mine")


# In a process of its own: a race in msgspec ends it.
RACING = """
import sys
import threading
from typing import Annotated
import msgspec
from analytics.store.records import preload_msgspec_type
sys.setswitchinterval(1e-6)
SMALL = Annotated[int, msgspec.Meta(ge=0)]
for number in range(200):
    fields = [(f"f{i}", tuple[SMALL, Annotated[int, msgspec.Meta(le=1000 * number + i)]]) for i in range(8)]
    kind, values = msgspec.defstruct(f"Kind{number}", fields), {f"f{i}": [1, i] for i in range(8)}
    around, barrier, found = msgspec.defstruct(f"Around{number}", [("kind", kind)]), threading.Barrier(4), []
    def convert(turn):
        barrier.wait()
        if turn % 2:
            found.append(msgspec.convert(values, preload_msgspec_type(kind)))
        else:
            text = msgspec.json.encode({"kind": values})
            found.append(msgspec.json.decode(text, type=preload_msgspec_type(around)).kind)
    threads = [threading.Thread(target=convert, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [kind(**{name: tuple(pair) for name, pair in values.items()})] * 4, found
"""


def test_threads_may_be_the_first_to_use_a_type_all_at_once() -> None:
    subprocess.run([sys.executable, "-c", RACING], check=True, timeout=120)
